"""Settings: where a value comes from, and one clear line for each that cannot be."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated

import msgspec
import pytest
from msgspec import Meta

from agent.config import AgentSettings
from bridge.config import BridgeSettings
from nodecast.errors import SettingsError
from nodecast.settings import PositiveSeconds, Seconds, describe, load, sample
from nodecast.settings_errors import unknown_variables


class Link(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: Annotated[str, Meta(description="Where.")] = "here"
    retries: Annotated[int, Meta(description="How often.", ge=0)] = 3


class Sample(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(description="Who.\nIn two lines.")]
    wait: Annotated[Seconds, Meta(description="How long.")] = 1.5
    quiet: Annotated[bool, Meta(description="Whether.")] = False
    place: Annotated[str | None, Meta(description="Where to.")] = None
    tags: Annotated[list[str], Meta(description="What.")] = []
    link: Link = msgspec.field(default_factory=Link)

    def __post_init__(self) -> None:
        if self.name == "nobody":
            raise SettingsError("name: nobody is nobody")
        if self.link.url == "nowhere":
            raise SettingsError("link.url 'nowhere' is nowhere")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "settings.toml"


def refused(*arguments: object) -> str:
    with pytest.raises(SettingsError) as error:
        load(Sample, *arguments)  # type: ignore[arg-type]
    assert error.value.exit_code == 78
    assert "\n" not in str(error.value)
    return str(error.value)


def in_file(file: Path, text: str) -> str:
    """What is said of a file, without its name, which must be there."""
    file.write_text(text)
    said = refused(file)
    assert said.startswith(f"settings file {file}")
    return said.removeprefix(f"settings file {file}").lstrip(": ")


def test_a_flag_counts_before_a_variable_before_the_file_before_the_default(file: Path) -> None:
    file.write_text('name = "file"\nwait = 2\n[link]\nretries = 4\nurl = "file"\n')
    environ = {"NODECAST_NAME": "variable", "NODECAST_LINK_URL": "variable"}
    seen = load(Sample, file, environ, {"name": "flag", "wait": None})
    assert (seen.name, seen.link.url, seen.link.retries) == ("flag", "variable", 4)
    assert (seen.wait, seen.quiet, seen.tags) == (2.0, False, [])


def test_variables_are_read_as_the_type_of_their_setting() -> None:
    environ = {
        "NODECAST_NAME": "5",
        "NODECAST_WAIT": "2.5",
        "NODECAST_QUIET": "true",
        "NODECAST_PLACE": "x",
        "NODECAST_LINK_RETRIES": "9",
        "NODECAST_TAGS": "[]",
        "OTHER": "1",
    }
    seen = load(Sample, None, environ)
    assert (seen.name, seen.wait, seen.quiet, seen.place) == ("5", 2.5, True, "x")
    assert (seen.link.retries, seen.tags) == (9, [])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = 5", "name: must be text, not a whole number"),
        ('name = "a"\nwait = -1', "wait: must be a number of at least 0"),
        ('name = "a"\nwait = nan', "wait: must be a number of at least 0"),
        ('name = "a"\nwait = inf', "wait: must be a number of at most 604800"),
        ('name = "a"\nwait = "1"', "wait: must be a number, not text"),
        ('name = "a"\ntags = [1]', "tags[0]: must be text, not a whole number"),
        ('name = "a"\nlink = 5', "link: must be a table, not a whole number"),
        ('name = "a"\n[link]\nretries = -1', "link.retries: must be a whole number of at least 0"),
        ('name = "a"\nqiet = true', "qiet is no setting; did you mean quiet?"),
        ('name = "a"\nzzz = true', "zzz is no setting"),
        ('name = "a"\nurl = "x"', "url is no setting; url belongs below [link]"),
        (
            'name = "a"\n[link]\nwait = 1',
            "link.wait is no setting; wait belongs above [link]",
        ),
        ('name = "a"\n[link]\nretrys = 1', "link.retrys is no setting; did you mean retries?"),
        ("", "name is not set; give it in the file, or as NODECAST_NAME"),
        ('name = "nobody"', "name: nobody is nobody"),
        ('name = "a"\n[link]\nurl = "nowhere"', "link.url 'nowhere' is nowhere"),
    ],
)
def test_a_wrong_value_in_the_file_is_named_with_its_key(file: Path, text: str, said: str) -> None:
    assert in_file(file, text) == said


def test_what_is_no_toml_says_the_line(file: Path) -> None:
    assert "line 2" in in_file(file, 'name = "a"\nwait = = 1')


def test_what_is_no_text_is_said(file: Path) -> None:
    file.write_bytes(b'name = "\xff"')
    assert "is not TOML" in refused(file)


@pytest.mark.parametrize(
    ("text", "said"),
    [("wait = " + "[" * 5000, "nested too deeply"), ("wait = " + "9" * 5000, "is not TOML")],
    ids=["nesting", "a number of very many digits"],
)
def test_what_the_parser_cannot_hold_is_said(file: Path, text: str, said: str) -> None:
    file.write_text(text)
    assert said in refused(file)


def test_a_variable_of_bytes_that_are_no_text_is_said() -> None:
    said = refused(None, {"NODECAST_WAIT": "\udcff5"})
    assert said == "variable NODECAST_WAIT (wait): holds bytes that are no text"


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    assert "No such file" in refused(tmp_path / "none.toml")
    assert "Is a directory" in refused(tmp_path)


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("NODECAST_WAIT", "soon", "variable NODECAST_WAIT (wait): must be a number, not text"),
        ("NODECAST_WAIT", "-1", "variable NODECAST_WAIT (wait): must be a number of at least 0"),
        ("NODECAST_WAIT", "nan", "variable NODECAST_WAIT (wait): must be a number of at least 0"),
        ("NODECAST_WAIT", "", "variable NODECAST_WAIT (wait): must be a number, not text"),
        (
            "NODECAST_QUIET",
            "yes",
            "variable NODECAST_QUIET (quiet): must be true or false",
        ),
        ("NODECAST_NAME", "nobody", "variable NODECAST_NAME: name: nobody is nobody"),
        (
            "NODECAST_LINK_URL",
            "nowhere",
            "variable NODECAST_LINK_URL: link.url 'nowhere' is nowhere",
        ),
    ],
)
def test_a_wrong_variable_is_named(file: Path, variable: str, value: str, said: str) -> None:
    file.write_text('name = "a"')
    assert refused(file, {variable: value}) == said


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("wait", -1.0, "flag --wait: wait: must be a number of at least 0"),
        ("name", "nobody", "flag --name: name: nobody is nobody"),
        ("link.url", "nowhere", "flag --link-url: link.url 'nowhere' is nowhere"),
    ],
)
def test_a_wrong_flag_is_named(key: str, value: object, said: str) -> None:
    assert refused(None, None, {"name": "a"} | {key: value}) == said


def test_the_sample_shows_every_setting_with_its_default_and_reads_as_the_defaults() -> None:
    text = sample(Sample, "Settings of a sample.")
    for setting in describe(Sample):
        assert setting.description.splitlines()[0] in text
    assert "# name = …    (must be given)" in text
    assert "# place = …    (not set)" in text
    assert "\n[link]\n" in text
    assert "# Variable: NODECAST_LINK_RETRIES" in text
    assert "NODECAST_TAGS" not in text
    assert tomllib.loads(text) == {"link": {}}


def test_the_lines_of_the_sample_are_settings_once_the_comment_sign_is_taken_off() -> None:
    lines = sample(BridgeSettings, "x").splitlines()
    example = lines.index("# [[rules]]")
    lines[example : example + 5] = []
    text = "\n".join(
        line.removeprefix("# ")
        for line in lines
        if line.startswith("[") or (" = " in line and "…" not in line)
    )
    assert msgspec.convert(tomllib.loads(text), BridgeSettings) == BridgeSettings()


def test_kinds_that_are_named_are_served_with_those_that_they_refer_to_and_no_others() -> None:
    kind = "JointInferenceService.sedna.io"
    assert BridgeSettings(kinds=[kind]).placement().kinds == (kind, "Model.sedna.io")
    assert len(BridgeSettings().placement().kinds) == 6


def test_every_setting_of_the_bridge_is_described() -> None:
    assert [s.key for s in describe(BridgeSettings) if not s.description] == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('bridge = "A"', "bridge: bridge name 'A' is not a DNS-1123 subdomain"),
        ('source = ""', "source: must be 1 to 253 characters"),
        ('manifests = ""', "manifests is empty: give a directory"),
        ('group = "x.io"', "group: 'x.io' is none of sedna.io, neptune.io"),
        ('kinds = ["Site.x.io"]', "kinds: Site.x.io has no rule"),
        (
            'kinds = ["dataset"]',
            "kinds: dataset has no rule; did you mean Dataset.sedna.io?",
        ),
        (
            '[kubernetes.selectors]\n"Models.sedna.io" = "a=b"',
            "kubernetes.selectors: Models.sedna.io has no rule; did you mean Model.sedna.io?",
        ),
        (
            '[[rules]]\nkind = "A.x"\ncarries = [{kind = "Lense", path = "b"}]\n'
            '[[rules]]\nkind = "Lens.x"',
            "rules: rule for A.x refers to Lense.x, which has no rule: add one for it;"
            " did you mean Lens.x?",
        ),
        ("kinds = []", "kinds: name one at least, or leave it out"),
        ("repair_rate = 0", "repair_rate: must be a number above 0"),
        ("manifests_poll = 0", "manifests_poll: must be a number above 0"),
        ('log_level = "loud"', "log_level: 'loud' is none of debug, info, warning, error"),
        ('[[rules]]\nkind = "a/b"', "rules: rule for 'a/b': kind 'a/b' is not a Kubernetes kind"),
        ('[[rules]]\nnodes = ["a"]', "rules[0].kind is not set"),
        ('[[rules]]\nkind = "A.x"\nnodes = ["a["]', "rules: rule for 'A.x': field path 'a['"),
        ('[[rules]]\nkind = "A.x"\nnode = []', "rules[0].node is no setting"),
        (
            '[[rules]]\nkind = "A.x"\nfollows = [{kind = "B", path = "b"}]',
            "rules: rule for A.x refers to B.x, which has no rule",
        ),
        ('[mqtt]\nurl = "http://x"', "mqtt.url 'http://x' is not mqtt:// and a host"),
        ('[mqtt]\nprefix = "a/+"', "mqtt.prefix: topic prefix 'a/+' is not levels"),
    ],
)
def test_a_wrong_setting_of_the_bridge_is_one_line(file: Path, text: str, said: str) -> None:
    file.write_text(text)
    with pytest.raises(SettingsError) as error:
        load(BridgeSettings, file)
    assert str(error.value).startswith(f"settings file {file}: {said}")
    assert "\n" not in str(error.value)


def test_positive_seconds_are_above_zero() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(0.0, PositiveSeconds)


def test_a_variable_that_looks_like_a_settings_is_told() -> None:
    settings = list(describe(Sample))
    environ = ["NODECAST_LINK_URLS", "NODECAST_WAIT", "NODECAST_TEST_OTHER", "PATH"]
    assert unknown_variables(environ, settings) == [
        "variable NODECAST_LINK_URLS is no setting; did you mean NODECAST_LINK_URL?"
    ]


@pytest.mark.parametrize("value", ["/state\udcff", "/sta\nte"])
def test_a_directory_that_reports_could_not_name_is_refused(value: str) -> None:
    with pytest.raises(SettingsError, match="is no printable text"):
        load(AgentSettings, None, {}, {"node": "n", "state_dir": value})
