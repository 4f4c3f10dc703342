"""SIGTERM: what is under way is said, within the time that is set for it, and nothing keeps a
process that was asked to go.

A drain of ten minutes shows what needs none of it: these tests would not end in time. A drain of a
second shows that it ends.
"""

from __future__ import annotations

import signal

import pytest

from tests.support.crowd import crowd
from tests.support.fleet import Fleet, end_state
from tests.support.objects import dataset
from tests.support.process import Process
from tests.support.wait import eventually

WITHIN = 60.0
"""Seconds: far above what leaving takes, far below the long drain."""
LONG, SHORT = 600, 1
ONE = dataset("a", "edge0")


@pytest.fixture(params=["bridge", "agent"])
def leaving(request: pytest.FixtureRequest, fleet: Fleet) -> Process:
    """One of the two, that has the other to talk to; its drain is still to be set."""
    fleet.put(ONE)
    return fleet.bridge if request.param == "bridge" else fleet.agents["edge0"]


def serving(fleet: Fleet) -> None:
    fleet.start()
    fleet.should_be({"edge0": [ONE]})


def presences(fleet: Fleet, leaving: Process) -> str:
    return "bridge/default/state" if leaving is fleet.bridge else "node/edge0/state"


def test_with_a_broker_that_answers_it_leaves_at_once_and_says_so(
    fleet: Fleet, leaving: Process
) -> None:
    leaving.settings["mqtt.drain"] = LONG
    serving(fleet)
    leaving.ask_to_stop()
    assert leaving.wait(WITHIN) == 0
    with fleet.look() as look:
        topic = presences(fleet, leaving)
        eventually(lambda: look.online(topic) is False, what=topic)


def test_without_a_broker_it_leaves_at_once(fleet: Fleet, leaving: Process) -> None:
    leaving.settings["mqtt.drain"] = LONG
    serving(fleet)
    fleet.broker.kill()
    leaving.says("connection to the broker lost")
    leaving.ask_to_stop()
    assert leaving.wait(WITHIN) == 0


def test_a_broker_that_was_never_there_keeps_nothing(leaving: Process) -> None:
    leaving.settings["mqtt.drain"] = LONG
    leaving.start()
    leaving.says("no connection to the broker")
    leaving.ask_to_stop()
    assert leaving.wait(WITHIN) == 0


def test_a_frozen_broker_keeps_it_no_longer_than_was_set(fleet: Fleet, leaving: Process) -> None:
    leaving.settings["mqtt.drain"] = SHORT
    serving(fleet)
    fleet.broker.freeze()
    leaving.ask_to_stop()
    assert leaving.wait(WITHIN) == 0


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_the_wait(fleet: Fleet, leaving: Process, second: int) -> None:
    leaving.settings["mqtt.drain"] = LONG
    serving(fleet)
    fleet.broker.freeze()
    leaving.ask_to_stop()
    leaving.says("leaving")
    leaving.ask_to_stop(second)
    assert leaving.wait(WITHIN) == 0


def test_a_connection_that_is_being_made_keeps_nothing(fleet: Fleet, leaving: Process) -> None:
    """The broker is frozen from the start: it takes connections, and answers none."""
    leaving.settings |= {"mqtt.drain": LONG, "mqtt.connect_timeout": LONG}
    fleet.broker.start()
    fleet.broker.freeze()
    leaving.start()
    leaving.says("starts")
    leaving.ask_to_stop()
    assert leaving.wait(WITHIN) == 0


def test_what_a_large_fleet_was_still_to_be_told_comes_with_the_next_start(fleet: Fleet) -> None:
    nodes = [f"n{number}" for number in range(3000)]
    fleet.put_together("all.json", *(dataset(f"of-{node}", node) for node in nodes))
    fleet.bridge.settings["mqtt.drain"] = LONG
    fleet.broker.persistent = False  # its store is written at every change
    fleet.broker.start()
    with crowd(fleet.broker.port, nodes) as all_:
        fleet.bridge.start()
        eventually(lambda: all_.told, WITHIN, what="the first ones are told")
        fleet.bridge.ask_to_stop()
        assert fleet.bridge.wait(WITHIN) == 0
        fleet.bridge.start()
        eventually(lambda: len(all_.told) == len(nodes), WITHIN, every=0.1, what="all are told")


def test_model_ops_that_were_still_to_be_sent_come_with_the_next_start(fleet: Fleet) -> None:
    """A thousand models, twenty ops at a time: the agent leaves in the middle."""
    agent = fleet.agents["edge0"]
    agent.settings["mqtt.drain"] = LONG
    models = {f"m{number}": f"s3://{number}" for number in range(1000)}
    agent.models(models)
    fleet.broker.persistent = False
    fleet.broker.start()
    with fleet.look() as look:
        agent.start()
        eventually(lambda: look.ops("edge0"), WITHIN, what="the first op")
        agent.ask_to_stop()
        assert agent.wait(WITHIN) == 0
        agent.start()
        wanted = set(models)
        eventually(lambda: set(end_state(look.ops("edge0"))) == wanted, WITHIN, every=0.2)
