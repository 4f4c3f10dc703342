"""Without a broker, before there is one, and while it stands still."""

from __future__ import annotations

import json

import pytest

from tests.support.fleet import Agent, Fleet, end_state
from tests.support.objects import dataset
from tests.support.wait import eventually

pytestmark = pytest.mark.broker

ONE = dataset("one", "edge0")
TWO = dataset("two", "edge1")
LATE = dataset("late", "edge0")
LONG = 120.0
"""Seconds: a stop that waits for the broker would never come."""


def _status(agent: Agent) -> dict[str, object]:
    found: dict[str, object] = json.loads(agent.command("status", "--json")[1])
    return found


def _ready(agent: Agent) -> None:
    eventually(lambda: agent.instance and _status(agent)["ready"], 20, what="it serves from disk")


def test_m2_bridge_and_agents_that_start_before_the_broker_get_there_by_themselves(
    fleet: Fleet,
) -> None:
    fleet.put(ONE, TWO)
    everything = [fleet.bridge, *fleet.agents.values()]
    for process in everything:
        process.start()
    for process in everything:
        eventually(
            lambda each=process: each.logged("no connection to the broker") >= 1,
            20,
            what="it has tried",
        )
    assert not fleet.agents["edge0"].disk()
    fleet.put(LATE)
    fleet.broker.start()
    fleet.should_be({"edge0": (ONE, LATE), "edge1": (TWO,)})

    assert all(process.running and process.started_at == 0 for process in everything)


def test_e3_resources_and_models_are_served_from_disk_without_broker_and_cloud(
    make_fleet: type[Fleet],
) -> None:
    fleet = make_fleet("edge0")
    agent = fleet.agents["edge0"]
    fleet.put(ONE, LATE)
    agent.models({"one": "s3://one"})
    fleet.start()
    fleet.should_be({"edge0": (ONE, LATE)})
    agent.stop()
    fleet.bridge.stop()
    fleet.broker.stop()
    by_hand = agent.tree / "Dataset.sedna.io" / "default"
    (by_hand / "one.json").unlink()
    (by_hand / "late.json").write_text("{}")

    agent.start()
    _ready(agent)
    fleet.disks_should_be({"edge0": (ONE, LATE)})
    agent.models({"one": "s3://one", "two": "s3://two"})
    eventually(lambda: _model_states(agent) == {"one": "Requested", "two": "Pending"}, 20)
    assert set(agent.listed().values()) == {"Applied"}

    agent.freeze()
    fleet.broker.start()
    with fleet.look() as look:
        agent.thaw()
        eventually(lambda: len(look.ops("edge0")) == 1, 20, what="the op that had to wait")
        assert [(op.op, op.model) for op in look.ops("edge0")] == [("load", "two")]


def _model_states(agent: Agent) -> dict[str, str]:
    models = json.loads(agent.command("models", "--json")[1])["models"]
    return {each["name"]: each["state"] for each in models}


def test_m7_a_broker_that_stands_still_is_noticed_and_loses_nothing(fleet: Fleet) -> None:
    for process in (fleet.bridge, *fleet.agents.values()):
        process.settings["mqtt.keep_alive"] = 1
    fleet.put(ONE, TWO)
    fleet.start()
    fleet.should_be({"edge0": (ONE,), "edge1": (TWO,)})
    agent = fleet.agents["edge0"]
    fleet.broker.freeze()
    fleet.put(LATE)
    agent.models({"new": "s3://new"})
    fleet.bridge.says("connection to the broker lost")
    agent.says("connection to the broker lost")
    assert _status(agent)["connected"] is False
    assert _model_states(agent)["new"] in ("Pending", "Requested")

    fleet.broker.thaw()
    fleet.should_be({"edge0": (ONE, LATE), "edge1": (TWO,)})
    with fleet.look() as look:
        eventually(
            lambda: (
                (found := look.model_set("edge0"))
                and [(each.name, each.state) for each in found.models] == [("new", "Requested")]
            ),
            20,
            what="the model is requested",
        )


MODELS = {f"m{number}": f"s3://{number}" for number in range(10)}


def test_m9_an_agent_that_is_stopped_says_first_what_it_has_to_say(fleet: Fleet) -> None:
    agent = fleet.agents["edge0"]
    fleet.broker.start()
    agent.models({})
    with fleet.look() as look:
        agent.start()
        eventually(lambda: look.report("edge0"), 20, what="it is connected")
        fleet.broker.freeze()
        agent.models(MODELS)
        agent.says("model ops sent")
        agent.ask_to_stop()
        fleet.broker.thaw()

        assert agent.wait(LONG) == 0
        eventually(lambda: len(look.ops("edge0")) == len(MODELS), what="all ops came")
        eventually(lambda: look.online("node/edge0/state") is False, what="it says offline")
        models = look.model_set("edge0")
        assert models is not None
        assert models.seq == len(MODELS)


def test_m9_a_broker_that_stands_still_holds_up_no_stop_and_nothing_is_lost(fleet: Fleet) -> None:
    agent = fleet.agents["edge0"]
    for process in (fleet.bridge, agent):
        process.settings["mqtt.drain"] = 1
    fleet.put(ONE)
    fleet.start()
    fleet.should_be({"edge0": (ONE,)})
    with fleet.look() as look:
        fleet.broker.freeze()
        fleet.put(LATE)
        agent.models(MODELS)
        agent.says("model ops sent")
        agent.ask_to_stop()
        fleet.bridge.ask_to_stop()
        assert agent.wait(LONG) == 0
        assert fleet.bridge.wait(LONG) == 0
        fleet.broker.thaw()
        fleet.start()
        fleet.should_be({"edge0": (ONE, LATE)})
        eventually(
            lambda: end_state(look.ops("edge0")).keys() == MODELS.keys(), 20, what="all ops came"
        )
        assert {op.seq for op in look.ops("edge0")} == set(range(1, len(MODELS) + 1))


def test_m9_a_bridge_that_is_stopped_says_offline(fleet: Fleet) -> None:
    fleet.put(ONE)
    fleet.start()
    fleet.should_be({"edge0": (ONE,)})
    with fleet.look() as look:
        assert fleet.bridge.stop() == 0
        eventually(lambda: look.online("bridge/default/state") is False, what="it says offline")
        assert look.online("node/edge0/state") is True
