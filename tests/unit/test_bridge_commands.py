"""`nodecast-bridge` as a person runs it: what it prints, and its exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nodecast import __version__
from tests.support.bridge_commands import GOOD, Output, errors, run
from tests.support.mosquitto import free_port
from tests.support.objects import dataset, inference, made, model

NOWHERE = "mqtt://127.0.0.1:1"
"""No broker is there."""

# -- usage and settings


@pytest.mark.parametrize(
    "arguments",
    [
        ["no-such-command"],
        ["run", "--no-such-option"],
        ["run", "extra"],
        ["run", "--hold", "soon"],
        ["run", "--log-format", "xml"],
        ["render", "--node", "A/b", "--manifests", "."],
        [],
    ],
)
def test_a_wrong_command_line_ends_with_64(arguments: list[str], capsys: Output) -> None:
    assert run(*arguments) == 64
    assert errors(capsys)


@pytest.mark.parametrize("arguments", [["--help"], ["run", "-h"], ["--version"]])
def test_help_and_version_end_with_0(arguments: list[str], capsys: Output) -> None:
    assert run(*arguments) == 0
    assert capsys.readouterr().out


def test_the_version_is_printed_alone(capsys: Output) -> None:
    run("--version")
    assert capsys.readouterr().out == f"{__version__}\n"


@pytest.mark.parametrize("command", ["run", "check", "render"])
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no source: give --manifests DIR, or --kubeconfig FILE,"),
        (["--manifests", "m", "--mqtt-url", "http://x"], "flag --mqtt-url: mqtt.url 'http://x'"),
        (["--manifests", "m", "--bridge", "A"], "flag --bridge: bridge: bridge name 'A'"),
        (["--manifests", ""], "flag --manifests: manifests is empty"),
        (["--config", "/no/such.toml"], "settings file /no/such.toml: No such file or directory"),
    ],
)
def test_a_wrong_setting_ends_with_78_and_one_line(
    command: str, arguments: list[str], said: str, capsys: Output
) -> None:
    assert run(command, *arguments) == 78
    (line,) = errors(capsys)
    assert line.startswith(f"nodecast-bridge: {said}")


def test_a_setting_with_a_line_end_is_still_one_line(
    tmp_path: Path, manifests: Path, capsys: Output
) -> None:
    config = tmp_path / "no\nsuch.toml"
    assert run("render", "--manifests", manifests, "--config", config) == 78
    assert len(errors(capsys)) == 1


def test_the_sample_of_the_settings_is_printed(capsys: Output) -> None:
    assert run("config") == 0
    seen = capsys.readouterr().out
    assert seen.startswith("# Settings of nodecast-bridge.\n")
    assert "# hold = 60.0" in seen


def test_a_file_name_with_a_line_end_starts_no_line(manifests: Path, capsys: Output) -> None:
    (manifests / "x\nserved  everything.json").write_text(json.dumps(dataset("bad", "+")))
    assert run("render", "--manifests", manifests) == 0
    (line,) = errors(capsys)
    assert line.startswith("refused    x\\nserved  everything.json")


# -- render


def test_render_shows_each_node_and_what_it_would_have(manifests: Path, capsys: Output) -> None:
    assert run("render", "--manifests", manifests) == 0
    seen = capsys.readouterr()
    lines = seen.out.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == ["crane-1", "gate-2", "hall-1"]
    at = lines.index("gate-2")
    assert [line.split()[0] for line in lines[at + 1 : at + 3]] == [
        "JointInferenceService.sedna.io/default/plates",
        "Model.sedna.io/default/small",
    ]
    assert seen.err == ""


def test_render_as_json_gives_whole_snapshots(manifests: Path, capsys: Output) -> None:
    assert run("render", "--json", "--manifests", manifests, "--bridge", "b2") == 0
    seen = json.loads(capsys.readouterr().out)
    assert seen.keys() == {"nodes", "skipped", "refused", "dangling"}
    assert sorted(seen["nodes"]) == ["crane-1", "gate-2", "hall-1"]
    snapshot = seen["nodes"]["hall-1"]
    assert (snapshot["bridge"], snapshot["node"], snapshot["schema"]) == ("b2", "hall-1", 1)
    assert [each["metadata"]["name"] for each in snapshot["resources"]] == ["shelf", "wear"]


def test_render_of_one_node_shows_that_node_only(manifests: Path, capsys: Output) -> None:
    assert run("render", "--json", "--manifests", manifests, "--node", "gate-2") == 0
    assert list(json.loads(capsys.readouterr().out)["nodes"]) == ["gate-2"]
    assert run("render", "--json", "--manifests", manifests, "--node", "unheard-of") == 0
    snapshot = json.loads(capsys.readouterr().out)["nodes"]["unheard-of"]
    assert snapshot["resources"] == []


def test_render_says_what_is_wrong_beside_what_is_right(manifests: Path, capsys: Output) -> None:
    (manifests / "x.json").write_text(json.dumps(dataset("bad", "A/b")))
    (manifests / "y.json").write_text(json.dumps(made("Widget", "w", {})))
    (manifests / "z.json").write_text(json.dumps(inference("lost", "gate-2", "missing")))
    assert run("render", "--json", "--manifests", manifests) == 0
    seen = json.loads(capsys.readouterr().out)
    assert seen["skipped"] == {"Widget.sedna.io": 1}
    ((refused,), (dangling,)) = seen["refused"], seen["dangling"]
    assert refused["key"] == "Dataset.sedna.io/default/bad"
    assert "x.json" in refused["place"]
    assert refused["reason"].startswith("spec.nodeName: node name 'A/b'")
    assert dangling == {
        "owner": "JointInferenceService.sedna.io/default/lost",
        "target": "Model.sedna.io/default/missing",
    }
    assert sorted(seen["nodes"]) == ["crane-1", "gate-2", "hall-1"]


def test_the_order_of_files_and_documents_does_not_change_a_snapshot(
    tmp_path: Path, manifests: Path, capsys: Output
) -> None:
    run("render", "--json", "--manifests", manifests)
    one_each = json.loads(capsys.readouterr().out)
    together = tmp_path / "together"
    together.mkdir()
    documents = [json.dumps(dict(reversed(thing.items()))) for thing in reversed(GOOD)]
    (together / "all.yaml").write_text("\n---\n".join(documents))
    run("render", "--json", "--manifests", together)
    assert json.loads(capsys.readouterr().out) == one_each


def test_check_ends_with_1_where_no_broker_answers(manifests: Path, capsys: Output) -> None:
    assert (
        run("check", "--manifests", manifests, "--mqtt-url", f"mqtt://127.0.0.1:{free_port()}") == 1
    )
    assert capsys.readouterr().out.splitlines()[-1].startswith("broker     ")


def test_without_the_bridges_packages_one_line_says_what_to_install() -> None:
    code = "import sys; sys.modules['yaml'] = None; from bridge.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 69
    assert done.stderr == "nodecast-bridge: yaml is missing: pip install 'nodecast[bridge]'\n"


def test_a_node_that_nothing_names_is_said_so(manifests: Path, capsys: Output) -> None:
    assert run("render", "--manifests", manifests, "--node", "nobody") == 0
    assert capsys.readouterr().out == "nobody: nothing names this node\n"


def test_check_says_that_nothing_was_found_and_where_it_looked(
    tmp_path: Path, capsys: Output
) -> None:
    run("check", "--manifests", tmp_path, "--mqtt-url", NOWHERE)
    lines = capsys.readouterr().out.splitlines()
    assert f"nothing    no object found in manifests {tmp_path}" in lines


def test_what_is_held_comes_first_and_is_not_said_to_be_served(
    manifests: Path, capsys: Output
) -> None:
    (manifests / "x.json").write_text("{")
    (manifests / "y.json").write_text(json.dumps(model("spare")))
    run("check", "--manifests", manifests, "--mqtt-url", NOWHERE)
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("incomplete x.json: ")
    assert lines[2].endswith(": every kind is held (5 objects known)")
    assert not [line for line in lines if line.startswith(("served", "nowhere", "nothing"))]


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        (None, "which is not there"),
        ({"labels": 5}, "which was refused"),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, "which is being deleted"),
    ],
)
def test_a_reference_that_leads_nowhere_says_why(
    metadata: dict[str, object] | None, why: str, tmp_path: Path, capsys: Output
) -> None:
    (tmp_path / "i.json").write_text(json.dumps(inference("i", "gate-2", "m")))
    if metadata is not None:
        thing = model("m")
        thing["metadata"] |= metadata
        (tmp_path / "m.json").write_text(json.dumps(thing))
    run("render", "--manifests", tmp_path)
    line = next(line for line in errors(capsys) if line.startswith("dangling"))
    assert line == (
        "dangling   JointInferenceService.sedna.io/default/i refers to"
        f" Model.sedna.io/default/m, {why}"
    )


def test_a_reference_to_what_cannot_be_seen_is_not_said_to_lead_nowhere(
    tmp_path: Path, capsys: Output
) -> None:
    (tmp_path / "i.json").write_text(json.dumps(inference("i", "gate-2", "m")))
    (tmp_path / "x.json").write_text("{")
    run("render", "--manifests", tmp_path)
    (line,) = (line for line in errors(capsys) if line.startswith("dangling"))
    assert line.endswith("which cannot be seen now")


def test_a_rule_without_its_group_is_told(manifests: Path, tmp_path: Path, capsys: Output) -> None:
    camera = {"apiVersion": "example.com/v1", "kind": "Camera", "metadata": {"name": "c"}}
    (manifests / "camera.json").write_text(json.dumps(camera))
    config = tmp_path / "bridge.toml"
    config.write_text('[[rules]]\nkind = "Camera"\n')
    run("check", "--manifests", manifests, "--config", config)
    assert (
        "skipped    Camera.example.com: 1 object, no placement rule:"
        " the rule for 'Camera' has no group\n" in capsys.readouterr().out
    )


def test_the_readmes_rules_can_be_used_as_they_stand(tmp_path: Path, manifests: Path) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    config = tmp_path / "bridge.toml"
    config.write_text(readme.partition("```toml\n")[2].partition("```")[0])
    assert "[[rules]]" in config.read_text()
    assert run("render", "--manifests", manifests, "--config", config) == 0


def test_an_error_that_nobody_foresaw_is_logged_with_its_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("bridge.cli.origin_of", fail)
    assert run("check", "--manifests", "here") == 1
    said = errors(capsys)
    assert "unexpected error  command=nodecast-bridge" in said[0]
    assert "ZeroDivisionError: a bug" in said[-1]
