"""What is told again and again is done once."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import orjson
import pytest

from nodecast.messages import Wire, unpack
from tests.support.fleet import Agent, Fleet, Look
from tests.support.objects import Object, dataset
from tests.support.wait import eventually

pytestmark = pytest.mark.broker


def test_b5_ten_reconnects_with_five_hundred_resources_write_no_file_and_send_no_op(
    make_fleet: type[Fleet],
) -> None:
    fleet = make_fleet("edge0")
    agent = fleet.agents["edge0"]
    agent.models({"one": "s3://one"})
    things = [dataset(f"d{number:03}", "edge0") for number in range(500)]
    fleet.put(*things)
    fleet.start()
    fleet.should_be({"edge0": things})
    mark = agent.mark()
    for number in range(10):
        fleet.broker.restart()
        eventually(
            lambda count=number: agent.logged("connected to the broker", mark.log) > count,
            what="the agent is connected again",
        )
    fleet.should_be({"edge0": things})

    assert agent.untouched(mark)
    assert not agent.logged("model ops sent", mark.log)
    with fleet.look() as look:
        models = eventually(lambda: look.model_set("edge0"), what="the ModelSet")
        assert models.seq == 1


NODES = [f"n{number:02}" for number in range(20)]
REAL = ("n00", "n07")


def _bytes(look: Look, node: str) -> tuple[str, str, bytes]:
    """(instance, digest, `resources` as they stand in the message)"""
    seen = look.observer.latest(f"node/{node}/resources")
    assert seen is not None
    body = unpack(Wire(seen.payload, seen.properties.get("encoding")))
    value = orjson.loads(body)
    start = body.index(b'"resources":')
    end = body.rindex(b'"heldKinds"') if body.rindex(b'"heldKinds"') > start else len(body)
    return value["instance"], value["digest"], body[start:end]


def _all_of_one(look: Look) -> dict[str, tuple[str, bytes]] | None:
    """Digest and bytes by node, once every node's snapshot is of the instance that runs."""
    presence = look.presence("bridge/default/state")
    if presence is None or not all(look.snapshot(node) for node in NODES):
        return None
    found = {node: _bytes(look, node) for node in NODES}
    if {instance for instance, _, _ in found.values()} != {presence.instance}:
        return None
    return {node: (digest, resources) for node, (_, digest, resources) in found.items()}


TABLES = ("resources", "progress", "model_base", "model_sent", "accepted")


def _note_writes(agent: Agent) -> None:
    """Have the store itself note each row that the agent writes from now on."""
    with closing(sqlite3.connect(agent.state_dir / "agent.db", timeout=10)) as db:
        db.execute("CREATE TABLE written (name)")
        for table in TABLES:
            for verb in ("INSERT", "UPDATE", "DELETE"):
                db.execute(
                    f"CREATE TRIGGER {table}_{verb} AFTER {verb} ON {table}"
                    f" BEGIN INSERT INTO written VALUES ('{table}'); END"
                )
        db.commit()


def _written(agent: Agent) -> set[str]:
    """The tables of which the agent wrote a row since `_note_writes`."""
    with closing(sqlite3.connect(f"file:{agent.state_dir}/agent.db?mode=ro", uri=True)) as db:
        return {name for (name,) in db.execute("SELECT name FROM written")}


def test_e9_five_restarts_and_a_second_bridge_change_no_digest_no_byte_and_no_file(
    make_fleet: type[Fleet],
) -> None:
    fleet = make_fleet(*REAL)
    placed: dict[str, list[Object]] = {node: [] for node in NODES}
    for number in range(2000):
        node = NODES[number % len(NODES)]
        placed[node].append(dataset(f"d{number:04}", node))
    for node, things in placed.items():
        fleet.put_together(f"{node}.json", *things)
    for agent in fleet.agents.values():
        agent.models({"one": "s3://one"})
    fleet.start()
    real = {node: placed[node] for node in REAL}
    fleet.should_be(real)
    with fleet.look() as look:
        first = eventually(lambda: _all_of_one(look), 20, what="all snapshots")
        # Without its counts a ledger is as good as none, and every kind is held at first.
        eventually(lambda: (found := look.ledger()) and found.kinds, what="the ledger counts")
        marks = {node: agent.mark() for node, agent in fleet.agents.items()}
        for agent in fleet.agents.values():
            _note_writes(agent)
        for turn in range(5):
            if turn % 2:
                fleet.bridge.kill()
            else:
                fleet.bridge.stop()
            since = len(look.observer.messages)
            fleet.bridge.start()
            fleet.should_be(real)
            eventually(lambda: _all_of_one(look) == first, 20, what="all snapshots, as they were")
            retold = [each.topic for each in look.observer.messages[since:]]
            assert all(retold.count(f"node/{node}/resources") == 1 for node in NODES)
        # Two replicas for a while, as in a rolling update: the older steps down.
        older, fleet.bridge = fleet.bridge, fleet.another_bridge("second")
        fleet.bridge.start()
        assert older.wait(30) == 69
        fleet.should_be(real)
        eventually(lambda: _all_of_one(look) == first, 20, what="all snapshots, as they were")
        assert look.ops(REAL[0]) == look.ops(REAL[1]) == []
    for node, agent in fleet.agents.items():
        assert agent.untouched(marks[node])
        assert not agent.logged("model ops sent", marks[node].log)
        assert _written(agent) == {"accepted"}
