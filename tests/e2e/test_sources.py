"""The bridge's directory is not what it was: empty, gone, broken, or another one."""

from __future__ import annotations

import json

import pytest

from tests.support.fleet import BRIDGE_SETTINGS, Fleet, Mark
from tests.support.objects import dataset, federated, inference, model
from tests.support.process import run_to_end
from tests.support.wait import eventually

pytestmark = pytest.mark.broker

ONE = dataset("one", "edge0")
MODEL = model("detector")
SERVICE = inference("service", "edge0", "detector")
JOB = federated("job", "edge0", "edge1")
PLACED = {"edge0": (ONE, MODEL, SERVICE, JOB), "edge1": (JOB,)}


BAD_FILES = (b"kind: [unclosed", b"\tkind: tab", b"\xff\xfe\x00", b'{"a": ')


def _begin(fleet: Fleet) -> dict[str, Mark]:
    fleet.put(ONE, MODEL, SERVICE, JOB)
    fleet.start()
    fleet.should_be(PLACED)
    return {node: agent.mark() for node, agent in fleet.agents.items()}


def _nothing_left(fleet: Fleet, marks: dict[str, Mark]) -> bool:
    return all(agent.untouched(marks[node]) for node, agent in fleet.agents.items())


def _all_accepted_anew(fleet: Fleet) -> None:
    """Wait until each agent has a snapshot of the bridge that runs now, with all kinds held."""
    with fleet.look() as look:

        def there() -> bool:
            for node in PLACED:
                snapshot, report = look.snapshot(node), look.report(node)
                if snapshot is None or report is None or len(snapshot.held_kinds) < 6:
                    return False
                if report.version != snapshot.version or snapshot.resources:
                    return False
            return True

        eventually(there, 20, what="the snapshots that hold every kind")


@pytest.mark.parametrize("how", ["empty", "gone"])
def test_e11_a_bridge_that_starts_on_an_empty_or_missing_directory_takes_nothing_away(
    fleet: Fleet, how: str
) -> None:
    marks = _begin(fleet)
    if how == "empty":
        with fleet.look() as look:
            eventually(lambda: (found := look.ledger()) and found.kinds, what="the ledger counts")
    fleet.bridge.stop()
    aside = fleet.manifests.rename(fleet.root / "aside")
    if how == "empty":
        fleet.manifests.mkdir()
        fleet.bridge.settings["hold"] = 600
    fleet.bridge.start()
    if how == "gone":
        _all_accepted_anew(fleet)
    else:
        for said in ("serving  objects=0 ", "nothing is placed any more", "held kinds"):
            fleet.bridge.says(said, since=fleet.bridge.started_at)
        with fleet.look() as look:
            eventually(lambda: (s := look.snapshot("edge1")) and not s.resources)
            eventually(
                lambda: (r := look.report("edge1")) and r.version == look.snapshot("edge1").version
            )
    assert _nothing_left(fleet, marks)

    fleet.bridge.stop()
    fleet.bridge.settings["hold"] = BRIDGE_SETTINGS["hold"]
    if how == "empty":
        fleet.manifests.rmdir()
    aside.rename(fleet.manifests)
    fleet.bridge.start()
    fleet.should_be(PLACED)
    assert _nothing_left(fleet, marks)


def test_e11_a_directory_that_vanishes_under_the_bridge_takes_nothing_away(fleet: Fleet) -> None:
    marks = _begin(fleet)
    aside = fleet.manifests.rename(fleet.root / "aside")
    with fleet.look() as look:
        for node in PLACED:
            eventually(
                lambda each=node: (s := look.snapshot(each)) and len(s.held_kinds) == 6,
                20,
                what="every kind is held",
            )
    aside.rename(fleet.manifests)
    fleet.should_be(PLACED)

    assert _nothing_left(fleet, marks)


def test_e11_a_bridge_of_another_source_ends_with_78_unless_it_adopts(fleet: Fleet) -> None:
    marks = _begin(fleet)
    fleet.bridge.stop()
    other = fleet.another_bridge("other")
    other.settings["source"] = "another-cluster"
    fleet.drop(ONE)
    other.start()
    assert other.wait(20) == 78
    assert other.logged("belongs to source 'manifests'") == 1
    assert _nothing_left(fleet, marks)

    other.start("--adopt")
    fleet.bridge = other
    fleet.should_be({"edge0": (MODEL, SERVICE, JOB), "edge1": (JOB,)})
    assert other.stop() == 0
    other.start()
    fleet.should_be({"edge0": (MODEL, SERVICE, JOB), "edge1": (JOB,)})


def test_one_bad_file_or_object_stops_no_other(fleet: Fleet) -> None:
    marks = _begin(fleet)
    # In a file that parses each object stands for itself.
    good, beside = dataset("good", "edge1"), dataset("beside", "edge1")
    fleet.put(good)
    documents = [{"kind": 7}, beside, {}, dataset("bad", "a/b"), dataset("No Name", "edge1")]
    fleet.write("mixed.yaml", "\n---\n".join(map(json.dumps, documents)))
    fleet.should_be({"edge0": PLACED["edge0"], "edge1": (JOB, good, beside)})

    # What was good and is not any more keeps its last good content.
    fleet.write("mixed.yaml", "kind: [unclosed")
    (fleet.manifests / _file_of(fleet, "good")).write_text('{"apiVersion": "sedna.io/')
    later = dataset("later", "edge1")
    fleet.put(later)
    fleet.should_be({"edge0": PLACED["edge0"], "edge1": (JOB, good, beside, later)})

    # Of what never was good nobody knows what it holds: nothing goes until it is.
    for number, content in enumerate(BAD_FILES):
        (fleet.manifests / f"bad-{number}.yaml").write_bytes(content)
    fleet.drop(later)
    last = dataset("last", "edge1")
    fleet.put(last)
    with fleet.look() as look:
        eventually(
            lambda: (
                (s := look.snapshot("edge1")) and len(s.held_kinds) == 6 and len(s.resources) == 4
            ),
            20,
            what="every kind is held, and what came is there",
        )
    fleet.disks_should_be({"edge1": (JOB, good, beside, later, last)})
    for number in range(len(BAD_FILES)):
        assert fleet.bridge.logged(f"manifest refused  place=bad-{number}.yaml") == 1
        (fleet.manifests / f"bad-{number}.yaml").unlink()
    fleet.should_be({"edge0": PLACED["edge0"], "edge1": (JOB, good, beside, last)})
    assert fleet.agents["edge0"].untouched(marks["edge0"])


def _file_of(fleet: Fleet, name: str) -> str:
    (path,) = (p for p in fleet.manifests.iterdir() if f"__{name}-" in p.name)
    return path.name


def test_commands_say_by_their_exit_code_how_it_is(fleet: Fleet) -> None:
    _begin(fleet)
    agent = fleet.agents["edge0"]
    bridge = ("--manifests", str(fleet.manifests), "--mqtt-url", fleet.broker.url)
    agent.models({"one": "s3://one"})

    assert run_to_end("nodecast-bridge", "check", *bridge).returncode == 0
    assert run_to_end("nodecast-bridge", "render", *bridge).returncode == 0
    for command in ("check", "status", "resources", "models"):
        code, output = agent.command(command)
        assert code == 0, output
    assert agent.command("resources", "Dataset.sedna.io/default/one")[0] == 0
    assert agent.command("resources", "Dataset.sedna.io/default/none")[0] == 1
    assert agent.command("resources", "no-key")[0] == 64

    fleet.write("bad.yaml", "kind: [unclosed")
    agent.write_config("{}")
    checked = run_to_end("nodecast-bridge", "check", *bridge)
    assert checked.returncode == 1
    assert "bad.yaml" in checked.stdout
    assert agent.command("check")[0] == 1
    agent.stop()
    code, output = agent.command("status")
    assert code == 1
    assert "not running" in output


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("nodecast-bridge", "run"), 78),
        (("nodecast-bridge", "run", "--manifests", "x", "--mqtt-url", "ftp://x"), 78),
        (("nodecast-bridge", "run", "--manifests", "x", "--bridge", "a/b"), 78),
        (("nodecast-bridge", "run", "--hold", "soon"), 64),
        (("nodecast-bridge", "walk"), 64),
        (("nodecast-agent", "run"), 78),
        (("nodecast-agent", "run", "--node", "a+b"), 78),
        (("nodecast-agent", "run", "--config", "/nowhere/agent.toml"), 78),
        (("nodecast-agent", "status", "--state-dir", "/nowhere"), 1),
        (("nodecast-agent", "run", "--colour"), 64),
    ],
)
def test_a_bad_setting_ends_a_command_at_once_with_one_line(
    arguments: tuple[str, ...], code: int
) -> None:
    done = run_to_end(*arguments)

    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    if code != 64:
        assert len(done.stderr.splitlines()) == 1, done.stderr
