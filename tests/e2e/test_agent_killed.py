"""The agent is killed at random moments while everything around it changes."""

from __future__ import annotations

import random
import threading

import pytest

from nodecast.messages import ModelOp
from tests.support.fleet import Agent, Fleet, Look, end_state
from tests.support.mqtt import observing
from tests.support.objects import Object, dataset
from tests.support.wait import eventually

pytestmark = pytest.mark.broker

KILLS = 50
WORKING = 5
"""One life of so many comes to its work before the moment of its kill is drawn."""
SEED = 20240607
LIVES = (0.15, 0.6)
"""Seconds from a start to its kill: from before the store is open to long after the connection."""


def _change_objects(fleet: Fleet, rng: random.Random) -> None:
    name = f"d{rng.randrange(6)}"
    thing = dataset(name, "edge0", url=f"/{rng.randrange(10**6)}")
    there = [each for each in fleet.objects.values() if each["metadata"]["name"] == name]
    if there and rng.random() < 0.3:
        fleet.drop(*there)
    else:
        fleet.put(thing)


def _change_models(agent: Agent, models: dict[str, str], rng: random.Random) -> None:
    name = f"m{rng.randrange(4)}"
    if models.pop(name, None) is None or rng.random() < 0.7:
        models[name] = f"s3://{rng.randrange(10**6)}"
    agent.models(models)


def test_m8_b7_after_fifty_kills_disk_is_snapshot_no_op_is_missing_and_no_session_is_left(
    make_fleet: type[Fleet],
) -> None:
    rng = random.Random(SEED)
    fleet = make_fleet("edge0", config="sys_interval 1")
    agent = fleet.agents["edge0"]
    keeps = dataset("keeps", "edge0")
    fleet.put(keeps)
    fleet.broker.start()
    fleet.bridge.start()
    models: dict[str, str] = {}
    with fleet.look() as look:
        for life in range(KILLS):
            agent.start()
            _change_objects(fleet, rng)
            _change_models(agent, models, rng)
            if life % WORKING == 0:
                _work(fleet, agent, models, rng)
            _live(rng)
            _change_objects(fleet, rng)
            _change_models(agent, models, rng)
            agent.kill()
        assert look.ops("edge0")
        agent.start()
        fleet.should_be({"edge0": list(fleet.objects.values())})
        _models_should_be(look, models)
        _all_ops_came(look.ops("edge0"), models)
    _sessions_should_be(fleet, 2)  # of the bridge and the agent
    agent.stop()
    _sessions_should_be(fleet, 1)


def _sessions_should_be(fleet: Fleet, number: int) -> None:
    """One session outlives its connection by the delay of its will, so that the will is said."""
    topic = "$SYS/broker/clients/total"
    with observing(fleet.broker.port, topic) as observer:
        eventually(
            lambda: (seen := observer.latest(topic)) and int(seen.payload) == number + 1,
            60,
            what=f"{number} sessions, and the observer's",
        )


def _live(rng: random.Random) -> None:
    """The moment of the kill is the subject here: it is by time, and by nothing the agent does."""
    threading.Event().wait(rng.uniform(*LIVES))


def _work(fleet: Fleet, agent: Agent, models: dict[str, str], rng: random.Random) -> None:
    """A life that comes to its work, however slow the machine is: what changed is taken and sent.

    Kills that all came before the store was open would show nothing. What is new here was never
    there before: two random changes, one on each side of a kill, may come to nothing.
    """
    fleet.put(dataset("d0", "edge0", url=f"/{rng.randrange(10**6)}"))
    models["m0"] = f"s3://{rng.randrange(10**6)}"
    agent.models(models)
    agent.says("snapshot accepted", since=agent.started_at)
    agent.says("model ops sent", since=agent.started_at)


def _models_should_be(look: Look, models: dict[str, str]) -> None:
    def there() -> bool:
        found = look.model_set("edge0")
        return found is not None and {
            each.name: (each.spec["storageUri"], each.state) for each in found.models
        } == {name: (uri, "Requested") for name, uri in models.items()}

    eventually(there, 20, what=f"the ModelSet says {models}")


def _all_ops_came(ops: list[ModelOp], models: dict[str, str]) -> None:
    (store,) = {op.store for op in ops}
    assert store
    by_seq: dict[int, ModelOp] = {}
    newest = 0
    for op in ops:
        # What went again is what it was, and nothing comes before what is before it.
        assert by_seq.setdefault(op.seq, op) == op
        assert op.seq <= newest + 1
        newest = max(newest, op.seq)
    assert sorted(by_seq) == list(range(1, newest + 1))
    end: dict[str, Object] = end_state(ops)
    assert {name: spec["storageUri"] for name, spec in end.items()} == models


FREEZES = 5


def test_an_agent_that_stands_still_at_random_moments_goes_on_where_it_was(
    make_fleet: type[Fleet],
) -> None:
    # A suspended device: in the middle of a commit, while the broker gives it up.
    rng = random.Random(SEED)
    fleet = make_fleet("edge0")
    agent = fleet.agents["edge0"]
    agent.settings["mqtt.keep_alive"] = 1
    fleet.put(dataset("keeps", "edge0"))
    fleet.start()
    models: dict[str, str] = {}
    with fleet.look() as look:
        eventually(lambda: look.report("edge0"), 20, what="it is connected")
        for freeze in range(1, FREEZES + 1):
            for _ in range(10):
                _change_objects(fleet, rng)
                _change_models(agent, models, rng)
            threading.Event().wait(rng.uniform(0.0, 0.3))  # the moment is the subject
            agent.freeze()
            # Whoever asks meanwhile is answered, from the disk.
            assert agent.command("status")[1]
            _change_objects(fleet, rng)
            _change_models(agent, models, rng)
            eventually(
                lambda n=freeze: fleet.broker.log.count("has exceeded timeout") >= n,
                20,
                what="the broker gives it up",
            )
            since = len(agent.log)
            agent.thaw()
            agent.says("connected to the broker", since=since)
        fleet.should_be({"edge0": list(fleet.objects.values())})
        _models_should_be(look, models)
        _all_ops_came(look.ops("edge0"), models)
    assert agent.logged("agent starts") == 1
