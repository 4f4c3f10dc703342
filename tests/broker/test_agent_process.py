"""The agent as a process on a real broker: faults, restarts, and the way out."""

from __future__ import annotations

import random
import shutil
import socket
import sqlite3
from pathlib import Path

import pytest

from nodecast.messages import Presence, Report
from tests.support.agents import MODELS, OPS, RESOURCES, STATE, AgentProcess, Hand
from tests.support.device import resource
from tests.support.mosquitto import Broker, free_port
from tests.support.mqtt import Observer, observing
from tests.support.wait import eventually

pytestmark = pytest.mark.broker

A = "Dataset.sedna.io/default/a"
B = "Dataset.sedna.io/default/b"
M = "Model.sedna.io/default/m"


def test_from_snapshot_to_file_to_report_and_from_config_to_op(
    agent: AgentProcess, hand: Hand
) -> None:
    agent.models(m1="s3://one")
    agent.start()
    hand.online()
    hand.say((5, 1), [resource(A, 1), resource(M, 2)])
    report = hand.reported((5, 1))
    assert agent.values == {A: 1, M: 2}
    eventually(lambda: hand.replay() == {"m1": "s3://one"}, what="the op")
    hand.say((5, 2), [resource(A, 3)])
    hand.reported((5, 2))
    eventually(lambda: agent.values == {A: 3}, what="the removal")
    assert report.instance == hand.online().instance
    assert agent.stop() == 0
    last = hand.presence()
    assert last is not None
    assert not last.online


def test_e1_deleted_while_the_agent_was_off(agent: AgentProcess, hand: Hand) -> None:
    agent.start()
    hand.online()
    hand.say((5, 1), [resource(A), resource(B)])
    hand.reported((5, 1))
    agent.stop()
    hand.say((5, 2), [resource(B)])
    before = (agent.tree / f"{B}.json").stat()
    agent.start()
    hand.reported((5, 2))
    eventually(lambda: agent.values == {B: 1}, what="the removal")
    after = (agent.tree / f"{B}.json").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_e3_without_a_broker_it_serves_from_disk_and_keeps_ops(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "broker", port=free_port())
    agent = AgentProcess(tmp_path / "node", broker.url)
    try:
        with broker, observing(broker.port) as observer:
            hand = Hand(observer)
            agent.start()
            hand.online()
            hand.say((5, 1), [resource(A)])
            hand.reported((5, 1))
            agent.stop()
        (agent.tree / (A + ".json")).unlink()
        agent.models(m1="s3://old")
        agent.start()
        eventually(lambda: agent.values == {A: 1}, what="the file is put back")
        agent.models(m1="s3://new", m2="s3://two")
        eventually(lambda: '"s3://new"' in _status_file(agent), what="the config is read")
        status = agent.status()
        assert (status["running"], status["connected"], status["ready"]) == (True, False, True)
        with broker, observing(broker.port) as observer:
            hand = Hand(observer)
            want = {"m1": "s3://new", "m2": "s3://two"}
            eventually(lambda: hand.replay() == want, what="the ops of the final state")
            assert [op.model for op in hand.ops()] == ["m1", "m2"]
    finally:
        agent.kill()


def _status_file(agent: AgentProcess) -> str:
    path = agent.state / "status.json"
    return path.read_text() if path.exists() else ""


def test_m8_killed_at_random_moments_disk_is_snapshot_and_no_op_is_missing(
    agent: AgentProcess, hand: Hand
) -> None:
    rng = random.Random(8)
    keys = [f"Dataset.sedna.io/default/k{i}" for i in range(12)]
    values: dict[str, object] = {}
    for revision in range(1, 9):
        agent.start()
        if revision % 3 == 1:
            hand.online()
        agent.models(**{f"m{i}": f"s3://{revision}" for i in range(rng.randrange(4))})
        values = {key: revision for key in keys if rng.random() < 0.7}
        hand.say((5, revision), [resource(key, value) for key, value in values.items()])
        moment = rng.choice(["at once", "first file", "reported"])
        if moment == "first file":
            eventually(lambda expected=values: agent.values or not expected, what="a file")
        elif moment == "reported":
            hand.reported((5, revision))
        agent.kill()
    agent.models(m0="s3://last", x="s3://x")
    agent.start()
    hand.reported((5, 8))
    eventually(lambda: agent.values == values, what="disk = snapshot")
    eventually(lambda: hand.replay() == {"m0": "s3://last", "x": "s3://x"}, what="all ops")


def test_e13_a_lost_store_keeps_the_files_until_the_bridge_speaks(
    agent: AgentProcess, hand: Hand
) -> None:
    agent.start()
    hand.online()
    hand.say((5, 1), [resource(A), resource(B)])
    hand.reported((5, 1))
    agent.stop()
    for file in agent.state.glob("agent.db*"):
        file.unlink()
    hand.say((5, 2), [resource(A)])
    agent.start()
    report = hand.reported((5, 2))
    assert report.incomplete
    assert agent.values == {A: 1, B: 1}
    hand.say((5, 2), [resource(A)])
    eventually(lambda: agent.values == {A: 1}, what="the orphan goes")
    eventually(lambda: not _report(hand).incomplete, what="complete")


def _report(hand: Hand, *, above: int = 0) -> Report:
    """The last report, as soon as there is one with a greater seq."""

    def found() -> Report | None:
        report = hand.report()
        return report if report and report.seq > above else None

    report = eventually(found, 20, what=f"a report above seq {above}")
    assert report is not None
    return report


def test_a_store_from_a_backup_goes_on_under_a_new_id(agent: AgentProcess, hand: Hand) -> None:
    agent.models(m1="s3://one")
    agent.start()
    eventually(lambda: len(hand.ops()) == 1, what="the first op")
    agent.stop()
    backup = agent.root / "backup"
    backup.mkdir()
    for file in agent.state.glob("agent.db*"):
        shutil.copy(file, backup)
    agent.models(m1="s3://two")
    agent.start()
    eventually(lambda: len(hand.ops()) == 3, what="unload and load")
    eventually(lambda: hand.model_set().seq == 3, what="the set after them")
    store = hand.ops()[0].store
    agent.stop()
    for file in agent.state.glob("agent.db*"):
        file.unlink()
    for file in backup.iterdir():
        shutil.copy(file, agent.state)
    agent.models(m1="s3://three")
    agent.start()
    eventually(lambda: hand.ops()[-1].store != store, what="a new store id")
    eventually(lambda: hand.ops()[-1].spec == {"storageUri": "s3://three"}, what="its last op")
    eventually(lambda: hand.model_set().store != store, what="the set")


def test_b1_a_broker_that_lost_everything_is_filled_again(
    agent: AgentProcess, hand: Hand, broker: Broker
) -> None:
    agent.models(m1="s3://one")
    agent.start()
    hand.online()
    hand.say((5, 1), [resource(A)])
    hand.reported((5, 1))
    eventually(lambda: hand.model_set() and hand.model_set().seq == 1, what="the set")
    broker.kill()
    broker.start()
    with observing(broker.port) as observer:
        after = Hand(observer)
        after.online()
        after.reported((5, 1))
        eventually(lambda: after.model_set() and after.model_set().seq == 1, what="the set")
        assert after.ops() == []
    assert agent.values == {A: 1}


def test_the_own_state_is_said_again_when_somebody_takes_it(
    agent: AgentProcess, hand: Hand, observer: Observer
) -> None:
    agent.start()
    hand.online()
    observer.publish(STATE, b"")
    eventually(lambda: hand.presence() is None, what="cleared")
    hand.online()


def test_m3_poison_is_left_alone_and_the_agent_goes_on(
    agent: AgentProcess, hand: Hand, observer: Observer
) -> None:
    agent.start()
    hand.online()
    hand.say((5, 1), [resource(A)])
    hand.reported((5, 1))
    for poison in (b"\xff\xfe", b"[" * 2_000_000, b'{"schema": 2}'):
        observer.publish(RESOURCES, poison)
    observer.publish(STATE, b"[]")
    observer.publish(MODELS, b"[]")
    observer.publish(OPS, b"[]", retain=False)
    agent.kill()
    agent.start()
    hand.say((5, 2), [resource(A, 2)])
    hand.reported((5, 2))
    eventually(lambda: agent.values == {A: 2}, what="the next good one")


def test_m9_a_frozen_broker_does_not_hold_up_the_stop(
    agent: AgentProcess, hand: Hand, broker: Broker
) -> None:
    agent.settings["mqtt_drain"] = 1
    agent.models(m1="s3://one")
    agent.start()
    hand.online()
    eventually(lambda: hand.replay() == {"m1": "s3://one"}, what="the first op")
    broker.freeze()
    agent.models(m1="s3://two")
    eventually(lambda: '"s3://two"' in _status_file(agent), what="the config is read")
    assert agent.stop(within=15) == 0
    broker.thaw()
    agent.start()
    eventually(lambda: hand.replay() == {"m1": "s3://two"}, what="nothing is lost")


def test_two_agents_on_one_state_directory_end_with_69(
    agent: AgentProcess, hand: Hand, broker: Broker
) -> None:
    agent.start()
    hand.online()
    second = AgentProcess(agent.root, broker.url)
    second.start()
    assert second.wait() == 69
    assert "another agent runs on" in agent.log
    eventually(lambda: agent.status()["connected"], what="the first goes on")


def test_systemd_hears_ready_before_any_broker_and_stopping(tmp_path: Path) -> None:
    agent = AgentProcess(tmp_path / "node", f"mqtt://127.0.0.1:{free_port()}")
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(str(path))
        notify.settimeout(15)
        agent.start({"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "300000"})
        try:
            words = [_word(notify)]
            while "READY=1" not in words or words.count("WATCHDOG=1") < 3:
                words.append(_word(notify))
            assert agent.stop() == 0
            while "STOPPING=1" not in words:
                words.append(_word(notify))
        finally:
            agent.kill()


def _word(notify: socket.socket) -> str:
    return notify.recv(4096).decode().splitlines()[0]


def test_m6_connected_but_no_snapshot_ever_seen_is_visible(agent: AgentProcess, hand: Hand) -> None:
    agent.start()
    hand.online()
    eventually(lambda: agent.status().get("connected"), what="status says connected")
    assert "connected, but no snapshot ever seen" in agent.run("status").stdout


def test_m5_two_devices_with_one_name_corrupt_nothing(
    agent: AgentProcess, hand: Hand, broker: Broker
) -> None:
    second = AgentProcess(agent.root.parent / "second", broker.url)
    try:
        agent.start()
        hand.online()
        second.start()
        hand.say((5, 1), [resource(A)])
        eventually(lambda: agent.values == second.values == {A: 1}, 30, what="both have it")
        said = "is another client connected with the same client id?"
        eventually(lambda: said in agent.log + second.log, 30, what="the likely cause is named")
        second.kill()
        hand.say((5, 2), [resource(A, 2), resource(B)])
        eventually(lambda: agent.values == {A: 2, B: 1}, 30, what="the one that is left goes on")
    finally:
        second.kill()


def test_m4_a_stream_of_snapshots_over_broker_restarts_ends_in_the_last(
    agent: AgentProcess, broker: Broker
) -> None:
    agent.start()
    instances = set()
    for epoch in (5, 6, 7):
        with observing(broker.port) as observer:
            hand = Hand(observer)
            instances.add(hand.online().instance)
            for revision in range(1, 41):
                hand.say((epoch, revision), [resource(A, revision), resource(B, epoch)])
            if epoch == 7:
                hand.reported((7, 40))
        if epoch < 7:
            broker.kill()
            broker.start()
    eventually(lambda: agent.values == {A: 40, B: 7}, what="the last snapshot")
    assert len(instances) == 1


def test_b5_reconnections_write_no_file_and_send_no_op(agent: AgentProcess, tmp_path: Path) -> None:
    broker = Broker(tmp_path / "kept", persistent=True)
    agent.settings["mqtt_url"] = broker.url
    agent.models(m1="s3://one")
    with broker:
        agent.start()
        with observing(broker.port) as observer:
            kept = Hand(observer)
            kept.online()
            kept.say((5, 1), [resource(f"Dataset.sedna.io/default/k{i}") for i in range(100)])
            kept.reported((5, 1))
            eventually(lambda: kept.model_set() and kept.model_set().seq == 1, what="the op")
            eventually(lambda: len(agent.values) == 100, what="all files")
        before = {p: p.stat().st_ino for p in agent.tree.rglob("*")}
        seq = 0
        for _ in range(4):
            with observing(broker.port) as observer:
                seq = _report(Hand(observer), above=seq).seq
            broker.restart()
        with observing(broker.port) as observer:
            again = Hand(observer)
            _report(again, above=seq)
            assert again.ops() == []
        assert {p: p.stat().st_ino for p in agent.tree.rglob("*")} == before
        assert agent.log.count("snapshot accepted") == 1
        assert agent.log.count("model ops sent") == 1
        assert agent.stop() == 0


def test_a_store_that_breaks_at_work_ends_the_process_and_the_next_begins_afresh(
    agent: AgentProcess, hand: Hand
) -> None:
    agent.start()
    hand.online()
    hand.say((5, 1), [resource(A), resource(B)])
    hand.reported((5, 1))
    eventually(lambda: agent.values == {A: 1, B: 1}, what="the files")
    with sqlite3.connect(agent.state / "agent.db") as db:
        db.execute("DROP TABLE resources")
    db.close()
    hand.say((5, 2), [resource(A, 2)])
    assert agent.wait() == 1
    eventually(lambda: not _presence(hand).online, what="it says that it is gone")
    assert agent.values == {A: 1, B: 1}
    agent.start()
    eventually(lambda: agent.values == {A: 2, B: 1}, what="what the broker kept")
    assert (agent.state / "agent.db.bad-1").exists()
    hand.say((5, 2), [resource(A, 2)])
    eventually(lambda: agent.values == {A: 2}, what="the orphan goes")


def _presence(hand: Hand) -> Presence:
    presence = hand.presence()
    assert presence is not None
    return presence
