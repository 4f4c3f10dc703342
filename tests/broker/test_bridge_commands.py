"""`nodecast-bridge` beside a real broker: what `check` says of it, and what ends `run`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bridge.sources.manifest_files import ManifestDirectory, Reading
from nodecast.messages import Ledger, encode
from tests.support.bridge_commands import Output, errors, run
from tests.support.mosquitto import Broker
from tests.support.mqtt import Observer
from tests.support.objects import dataset, inference, made, model
from tests.support.process import run_to_end
from tests.support.wait import eventually


def test_check_is_content_with_good_manifests_and_a_broker_that_answers(
    manifests: Path, broker: Broker, capsys: Output
) -> None:
    assert run("check", "--manifests", manifests, "--mqtt-url", broker.url) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "served     Dataset.sedna.io: 1 object, 1 on nodes" in lines
    assert "node       hall-1: 2 objects" in lines
    assert f"broker     {broker.url}: reached (login only; topics and ledger not tried)" in lines


@pytest.mark.parametrize(
    ("thing", "line"),
    [
        (dataset("bad", "+"), "refused    x.json"),
        (inference("lost", "gate-2", "missing"), "dangling   JointInferenceService.sedna.io/"),
        ("{", "refused    x.json"),
    ],
)
def test_check_ends_with_1_and_a_line_for_what_is_to_be_put_right(
    thing: object, line: str, manifests: Path, broker: Broker, capsys: Output
) -> None:
    text = thing if isinstance(thing, str) else json.dumps(thing)
    (manifests / "x.json").write_text(text)
    assert run("check", "--manifests", manifests, "--mqtt-url", broker.url) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(each.startswith(line) for each in lines)
    assert not any(each.startswith("nowhere") for each in lines)


def test_check_names_what_is_nowhere_and_kinds_without_a_rule_which_are_no_problem(
    manifests: Path, broker: Broker, capsys: Output
) -> None:
    (manifests / "x.json").write_text(json.dumps(model("spare")))
    (manifests / "y.json").write_text(json.dumps(made("Widget", "w", {})))
    assert run("check", "--manifests", manifests, "--mqtt-url", broker.url) == 0
    seen = capsys.readouterr().out
    assert "nowhere    Model.sedna.io/default/spare (x.json" in seen
    assert "skipped    Widget.sedna.io: 1 object, no placement rule" in seen


def test_e11_a_directory_that_is_not_there_is_a_problem_and_holds_every_kind(
    tmp_path: Path, broker: Broker, capsys: Output
) -> None:
    assert run("check", "--manifests", tmp_path / "none", "--mqtt-url", broker.url) == 1
    assert "incomplete" in capsys.readouterr().out


def test_e11_another_source_in_the_ledger_ends_with_78_and_one_line(
    broker: Broker, observer: Observer, manifests: Path, tmp_path: Path
) -> None:
    ledger = Ledger(bridge="default", source="theirs", instance="x", epoch=5, nodes=["edge"])
    observer.publish("bridge/default/nodes", encode(ledger))
    config = tmp_path / "bridge.toml"
    config.write_text('source = "mine"')
    done = run_to_end(
        *("nodecast-bridge", "run", "--manifests", str(manifests)),
        *("--mqtt-url", broker.url, "--config", str(config)),
    )
    assert done.returncode == 78
    said = [line for line in done.stderr.splitlines() if line.startswith("nodecast-bridge: ")]
    assert len(said) == 1
    assert "belongs to source 'theirs', this bridge serves 'mine'" in said[0]


def test_a_source_whose_thread_crashes_ends_the_bridge_with_1_and_a_clear_line(
    broker: Broker, manifests: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    def read(_: ManifestDirectory) -> None:
        raise ZeroDivisionError("unforeseen")

    monkeypatch.setattr(ManifestDirectory, "read", read)
    assert run("run", "--manifests", manifests, "--mqtt-url", broker.url) == 1
    seen = errors(capsys)
    assert sum("thread died  thread=manifests" in line for line in seen) == 1
    assert "ZeroDivisionError: unforeseen" in map(str.strip, seen)
    assert seen[-1] == "nodecast-bridge: the thread 'manifests' died: see the error above"


def test_a_source_whose_thread_crashes_in_charge_ends_the_bridge_that_says_offline(
    broker: Broker, observer: Observer, manifests: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ManifestDirectory.read

    def read(directory: ManifestDirectory) -> Reading:
        if observer.latest("node/hall-1/resources"):
            raise ZeroDivisionError("unforeseen")
        return whole(directory)

    monkeypatch.setattr(ManifestDirectory, "read", read)
    monkeypatch.setenv("NODECAST_MANIFESTS_POLL", "0.2")
    assert run("run", "--manifests", manifests, "--mqtt-url", broker.url) == 1
    said = eventually(lambda: _online(observer)[1:], what="it has said that it goes")
    assert said == [False]


def _online(observer: Observer) -> list[bool]:
    """What the bridge has said of itself."""
    said = observer.of("bridge/default/state")
    return [json.loads(each.payload)["online"] for each in said]
