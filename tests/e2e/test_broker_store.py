"""The broker's store is a cache: it is lost, or goes back in time, and nothing else does."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from nodecast.messages import Ledger, ModelSet, encode
from tests.support.fleet import Fleet, Look, Mark
from tests.support.mqtt import observing
from tests.support.objects import Object, dataset, inference, model
from tests.support.wait import eventually

pytestmark = pytest.mark.broker

MODEL = model("detector")
SERVICE = inference("service", "edge0", "detector")
MOVED = dataset("moved", "edge0")
DELETED = dataset("deleted", "edge1")
STAYS = dataset("stays", "edge1")
BEFORE = {"edge0": (SERVICE, MODEL, MOVED), "edge1": (DELETED, STAYS)}
MODELS = {"yolo": "s3://yolo", "whisper": "s3://whisper"}
STATES = ("node/edge0/state", "node/edge1/state", "bridge/default/state")


def _begin(fleet: Fleet) -> None:
    fleet.put(MODEL, SERVICE, MOVED, DELETED, STAYS)
    fleet.agents["edge0"].models(MODELS)
    fleet.start()
    fleet.should_be(BEFORE)
    with fleet.look() as look:
        eventually(lambda: _requested(look), what="the models are requested")


def _requested(look: Look) -> ModelSet | None:
    """The ModelSet of edge0, once both its models are requested."""
    found = look.model_set("edge0")
    good = found and [each.state for each in found.models] == ["Requested", "Requested"]
    return found if good else None


def _change(fleet: Fleet) -> dict[str, tuple[Object, ...]]:
    moved = dataset("moved", "edge1")
    fleet.put(moved)
    fleet.drop(DELETED)
    return {"edge0": (SERVICE, MODEL), "edge1": (moved, STAYS)}


@pytest.mark.parametrize("restarted", [False, True], ids=["same-bridge", "new-bridge"])
def test_m1_a_broker_that_comes_back_empty_is_filled_and_no_agent_does_anything(
    fleet: Fleet, restarted: bool
) -> None:
    _begin(fleet)
    marks = {node: agent.mark() for node, agent in fleet.agents.items()}
    fleet.broker.kill()
    fleet.broker.wipe()
    if restarted:
        fleet.bridge.stop()
    fleet.start()
    fleet.should_be(BEFORE)

    with fleet.look() as look:
        models = eventually(lambda: _requested(look), what="the models are there again")
        assert models.seq == len(MODELS)
        eventually(lambda: all(look.online(each) for each in STATES), what="all say online")
        ledger = eventually(look.ledger, what="the ledger is there again")
        assert ledger.nodes == ["edge0", "edge1"]
        assert look.ops("edge0") == []
    for node, agent in fleet.agents.items():
        assert agent.untouched(marks[node])
        assert not agent.logged("model ops sent", marks[node].log)


@pytest.mark.parametrize("saved_once", [False, True], ids=["never-saved", "older-save"])
def test_b1_a_broker_killed_before_its_autosave_is_repaired_without_a_change_in_the_cluster(
    fleet: Fleet, saved_once: bool
) -> None:
    fleet.broker.autosave = False
    _begin(fleet)
    if saved_once:
        fleet.broker.restart()  # the stop saves what was before the change
    now = _change(fleet)
    fleet.should_be(now)
    with fleet.look() as look:
        eventually(lambda: (found := look.ledger()) and found.kinds, what="the ledger is whole")
        right = eventually(lambda: _payloads(look), what="the snapshots")
    marks = {node: agent.mark() for node, agent in fleet.agents.items()}
    since = len(fleet.bridge.log)
    fleet.broker.kill()
    assert fleet.broker.store.exists() is saved_once
    fleet.broker.start()
    fleet.should_be(now)

    with fleet.look() as look:
        eventually(lambda: _payloads(look) == right, what="the versions are those of before")
        eventually(lambda: _requested(look), what="the models are there again")
        assert look.ops("edge0") == []
    assert not fleet.bridge.logged("taking charge", since)
    assert all(agent.untouched(marks[node]) for node, agent in fleet.agents.items())


def _payloads(look: Look) -> list[bytes] | None:
    """The snapshots of both nodes, byte by byte, once there are two."""
    seen = [look.observer.latest(f"node/{node}/resources") for node in BEFORE]
    return [each.payload for each in seen if each] if all(seen) else None


def _garbage(store: bytes) -> bytes:
    return random.Random(1).randbytes(len(store))


def _first_half(store: bytes) -> bytes:
    return store[: len(store) // 2]


@pytest.mark.parametrize("corrupt", [_garbage, _first_half])
def test_b2_a_corrupt_store_and_a_broker_that_stays_away_cost_no_agent_anything(
    fleet: Fleet, corrupt: Callable[[bytes], bytes]
) -> None:
    _begin(fleet)
    broker, (first, second) = fleet.broker, fleet.agents.values()
    marks = {node: agent.mark() for node, agent in fleet.agents.items()}
    broker.stop()
    broker.store.write_bytes(corrupt(broker.store.read_bytes()))
    assert not broker.starts()

    for process in (fleet.bridge, first, second):
        process.says("no connection to the broker")
    second.kill()  # and nothing but its disk to start from
    second.start()
    eventually(lambda: second.status().get("ready"), 20, what="it serves from its disk")
    assert (first.status()["connected"], second.status()["connected"]) == (False, False)
    fleet.disks_should_be(BEFORE)
    assert all(agent.untouched(marks[node]) for node, agent in fleet.agents.items())

    broker.wipe()
    broker.start()
    fleet.should_be(BEFORE)
    with fleet.look() as look:
        eventually(lambda: _requested(look), what="the models are there again")
        eventually(look.ledger, what="the ledger is there again")
        assert look.ops("edge0") == []
    for node, agent in fleet.agents.items():
        assert agent.untouched(marks[node])
        assert not agent.logged("model ops sent", marks[node].log)


def _both_refuse(fleet: Fleet, marks: dict[str, Mark]) -> None:
    """Wait until both agents were told the older snapshot."""
    for node, agent in fleet.agents.items():
        agent.says("snapshot refused", since=marks[node].log)


@pytest.mark.parametrize("also_changed", [False, True], ids=["unchanged", "changed-meanwhile"])
def test_e12_a_broker_with_an_older_store_under_a_restarted_bridge_takes_no_agent_back(
    fleet: Fleet, also_changed: bool
) -> None:
    _begin(fleet)
    older = fleet.broker.save()
    fleet.agents["edge0"].models({"yolo": "s3://yolo-2"})
    now = _change(fleet)
    fleet.should_be(now)
    with fleet.look() as look:
        eventually(lambda: (m := look.model_set("edge0")) and m.seq == 5, what="three more ops")
    fleet.bridge.stop()
    marks = {node: agent.mark() for node, agent in fleet.agents.items()}
    if also_changed:
        late = dataset("late", "edge0")
        fleet.put(late)
        now["edge0"] = (*now["edge0"], late)
    fleet.broker.restore(older)
    _both_refuse(fleet, marks)
    fleet.start()
    fleet.should_be(now)

    wrote = {node: agent.wrote(marks[node]) for node, agent in fleet.agents.items()}
    late_file = {"Dataset.sedna.io/default/late.json"} if also_changed else set()
    assert wrote == {"edge0": late_file, "edge1": set()}
    assert fleet.agents["edge1"].untouched(marks["edge1"])
    with fleet.look() as look:
        eventually(lambda: (m := look.model_set("edge0")) and m.seq == 5, what="the newest models")
    assert not fleet.agents["edge0"].logged("model ops sent", marks["edge0"].log)


def test_e12_the_same_bridge_repairs_a_broker_that_went_back_under_it(fleet: Fleet) -> None:
    _begin(fleet)
    older = fleet.broker.save()
    now = _change(fleet)
    fleet.should_be(now)
    marks = {node: agent.mark() for node, agent in fleet.agents.items()}
    fleet.bridge.freeze()
    fleet.broker.restore(older)
    _both_refuse(fleet, marks)
    fleet.bridge.thaw()
    fleet.should_be(now)

    assert all(agent.untouched(marks[node]) for node, agent in fleet.agents.items())


def test_e7_an_epoch_of_the_future_holds_back_nothing_that_comes_after_it(fleet: Fleet) -> None:
    fleet.broker.start()
    with observing(fleet.broker.port) as observer:
        ledger = Ledger(
            bridge="default", source="manifests", instance="0" * 16, epoch=2**40, mark=0, nodes=[]
        )
        observer.publish("bridge/default/nodes", encode(ledger))
    _begin(fleet)
    with fleet.look() as look:
        snapshot = eventually(lambda: look.snapshot("edge0"), what="a snapshot")
        assert snapshot.version.epoch == 2**40 + 1
    fleet.bridge.stop()
    fleet.broker.kill()
    fleet.broker.wipe()
    marks = {node: agent.mark() for node, agent in fleet.agents.items()}
    now = _change(fleet)
    fleet.start()
    fleet.should_be(now)

    assert fleet.agents["edge0"].wrote(marks["edge0"]) == {"Dataset.sedna.io/default/moved.json"}
