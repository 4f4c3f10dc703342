"""The power goes at the worst moment, or a record rots: the agent starts, and loses nothing."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.agents import AgentProcess, Hand
from tests.support.device import resource
from tests.support.mosquitto import Broker, free_port
from tests.support.mqtt import observing
from tests.support.wait import eventually

pytestmark = pytest.mark.broker

A = "Dataset.sedna.io/default/a"
B = "Dataset.sedna.io/default/b"
M = "Model.sedna.io/default/m"
GONE = "Dataset.sedna.io/default/gone"
KEYS = [f"Dataset.sedna.io/default/n{number}" for number in range(40)]
MODELS = {"one": "s3://one", "two": "s3://two"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """Keeps what is retained over its stops."""
    made = Broker(tmp_path / "broker", persistent=True, port=free_port())
    yield made
    if made.running:
        made.kill()


def _files(agent: AgentProcess) -> dict[str, tuple[int, int]]:
    """Which file is at each path of the tree: another one is there after a write."""
    return {
        str(path.relative_to(agent.tree)): (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in agent.tree.rglob("*.json")
        if not path.name.startswith(".")
    }


def _copies(agent: AgentProcess, name: str) -> Path:
    """Copies of the store's files as they are."""
    there = agent.root / name
    there.mkdir()
    for file in agent.state.glob("agent.db*"):
        shutil.copy(file, there)
    return there


Damage = Callable[[AgentProcess, Path], None]


def _on(name: str, change: Callable[[bytes], bytes]) -> Damage:
    def damage(agent: AgentProcess, _earlier: Path) -> None:
        path = agent.state / name
        path.write_bytes(change(path.read_bytes()))

    return damage


def _missing(*names: str) -> Damage:
    def damage(agent: AgentProcess, _earlier: Path) -> None:
        for name in names:
            (agent.state / name).unlink()

    return damage


def _older(*names: str) -> Damage:
    """Files as they were before the last snapshot; those beside them are the newest."""

    def damage(agent: AgentProcess, earlier: Path) -> None:
        for name in names:
            shutil.copy(earlier / name, agent.state / name)

    return damage


def _other_store(agent: AgentProcess, earlier: Path) -> None:
    """The -wal of another database, which SQLite would play into this one."""
    path = earlier / "other.db"
    other = sqlite3.connect(path)
    other.execute("PRAGMA journal_mode=WAL")
    other.execute("CREATE TABLE accepted (one INTEGER)")
    other.commit()
    shutil.copy(path.with_name("other.db-wal"), agent.state / "agent.db-wal")
    other.close()


def _temporaries(agent: AgentProcess, _earlier: Path) -> None:
    """What a write leaves that was cut short."""
    for place in (agent.tree, agent.tree / "Dataset.sedna.io" / "default"):
        (place / ".nodecast.tmp").write_bytes(b'{"half')
    (agent.state / "status.json.tmp").write_bytes(b"{")
    (agent.state / "status.json").write_bytes(b"")


def _directory(agent: AgentProcess, _earlier: Path) -> None:
    (agent.state / "agent.db").unlink()
    (agent.state / "agent.db").mkdir()


DB, WAL, SHM = "agent.db", "agent.db-wal", "agent.db-shm"
DAMAGES: dict[str, Damage] = {
    "store of 0 bytes": _on(DB, lambda _: b""),
    "store of NULs": _on(DB, lambda old: bytes(len(old))),
    "half a store": _on(DB, lambda old: old[: len(old) // 2]),
    "a garbled page": _on(DB, lambda old: old[:8192] + b"\xff" * 4096 + old[12288:]),
    "no store": _missing(DB),
    "no store at all": _missing(DB, WAL, SHM),
    "a directory": _directory,
    "no wal": _missing(WAL),
    "wal of 0 bytes": _on(WAL, lambda _: b""),
    "wal of NULs": _on(WAL, lambda old: bytes(len(old))),
    "half a wal": _on(WAL, lambda old: old[: len(old) // 2]),
    "stale wal": _older(WAL),
    "stale store": _older(DB),
    "stale both": _older(DB, WAL),
    "wal of another store": _other_store,
    "garbled shm": _on(SHM, lambda old: b"\xff" * len(old)),
    "stale temporary files": _temporaries,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_e5_after_a_power_loss_it_starts_and_neither_removes_nor_forgets_anything(
    agent: AgentProcess, broker: Broker, damage: Damage
) -> None:
    agent.models(**MODELS)
    agent.start()
    broker.start()
    with observing(broker.port) as observer:
        hand = Hand(observer)
        hand.online()
        hand.say((5, 1), [resource(A), resource(GONE), *map(resource, KEYS)])
        hand.reported((5, 1))
        eventually(lambda: len(agent.values) == 42, what="the files")
        eventually(lambda: hand.replay() == MODELS, what="the ops")
        earlier = _copies(agent, "earlier")
        want: dict[str, object] = {A: 2, **dict.fromkeys(KEYS, 1)}
        hand.say((5, 2), [resource(A, 2), *map(resource, KEYS)])
        first = hand.reported((5, 2)).instance
        eventually(lambda: agent.values == want, what="the files")
    agent.kill()
    before = _files(agent)
    damage(agent, earlier)

    # Without a broker: it starts, and what is there stays as it is.
    broker.stop()
    agent.start()
    eventually(lambda: agent.status().get("ready"), 20, what="it serves from disk")
    assert _files(agent) == before

    # The broker has the snapshot from before: enough to be right again, and nothing is written.
    broker.start()
    with observing(broker.port) as observer:
        hand = Hand(observer)
        eventually(
            lambda: _instance(hand) != first and _applied(hand) == want.keys(),
            20,
            what="all is Applied, says the one that runs now",
        )
        assert hand.reported((5, 2)).version == (5, 2)
        assert _files(agent) == before
        # The bridge speaks: what goes, goes.
        del want[KEYS[0]]
        hand.say((5, 3), [resource(A, 2), *map(resource, KEYS[1:])])
        hand.reported((5, 3))
        eventually(lambda: agent.values == want, 20, what="the removal")
        agent.models(**MODELS, three="s3://three")
        eventually(lambda: "three" in hand.replay(), 20, what="a model that is new")
        eventually(
            lambda: (m := hand.model_set()) and {x.name for x in m.models} == {*MODELS, "three"},
            20,
            what="the ModelSet",
        )
        assert len({op.seq for op in hand.ops()}) == len(hand.ops())
    assert not list(agent.tree.rglob("*.tmp"))
    assert agent.stop() == 0


def _instance(hand: Hand) -> str:
    report = hand.report()
    return report.instance if report else ""


def _applied(hand: Hand) -> set[str]:
    report = hand.report()
    return {each.key for each in report.resources if each.state == "Applied"} if report else set()


def test_e4_bad_records_are_set_aside_and_come_again_and_the_rest_is_served(
    agent: AgentProcess, broker: Broker
) -> None:
    agent.models(**MODELS)
    broker.start()
    agent.start()
    everything = [A, B, M, GONE]
    with observing(broker.port) as observer:
        hand = Hand(observer)
        hand.online()
        hand.say((5, 1), [resource(key) for key in everything])
        first = hand.reported((5, 1)).instance
        eventually(lambda: _applied(hand) == set(everything), what="all is Applied")
        eventually(lambda: hand.replay() == MODELS, what="the ops")
    agent.kill()
    broker.stop()
    newer = b'{"schema": 2, "form": "of a newer release"}'
    with sqlite3.connect(agent.state / "agent.db") as db:
        db.execute("UPDATE resources SET body = ? WHERE key = ?", (b'{"broken', A))
        db.execute("UPDATE resources SET key = 'Unknown:Kind//x' WHERE key = ?", (GONE,))
        row = (newer, hashlib.sha256(newer + b"\n").hexdigest(), M)
        db.execute("UPDATE resources SET body = ?, sum = ? WHERE key = ?", row)
        db.execute("UPDATE model_base SET spec = '{' WHERE name = 'one'")
    db.close()
    (agent.tree / (B + ".json")).unlink()
    before = _files(agent)

    agent.start()
    eventually(lambda: B in agent.values, 20, what="the rest is served")
    eventually(lambda: agent.status().get("ready"), 20, what="it serves from disk")
    assert {path: there for path, there in _files(agent).items() if path in before} == before
    assert agent.log.count("bad record in the store, set aside") == 3
    assert agent.log.count("model record set aside") == 1

    broker.start()
    with observing(broker.port) as observer:
        hand = Hand(observer)
        eventually(
            lambda: _instance(hand) != first and _applied(hand) == set(everything),
            20,
            what="they came again",
        )
        eventually(lambda: "one" in hand.replay(), 20, what="the model is loaded anew")
        assert "two" not in {op.model for op in hand.ops()}
    assert {path: there for path, there in _files(agent).items() if path in before} == before
    assert agent.stop() == 0
