"""Two of what there must be one of."""

from __future__ import annotations

import pytest

from tests.support.fleet import Fleet
from tests.support.objects import dataset
from tests.support.wait import eventually

pytestmark = pytest.mark.broker

ONE = dataset("one", "edge0")
TWO = dataset("two", "edge0")
CAUSE = "is another client connected with the same client id?"


def test_m5_of_two_bridges_of_one_name_the_older_ends_with_69(fleet: Fleet) -> None:
    fleet.put(ONE)
    fleet.start()
    fleet.should_be({"edge0": (ONE,), "edge1": ()})
    older, newer = fleet.bridge, fleet.another_bridge("newer")
    before = fleet.agents["edge0"].mark()
    newer.start()

    assert older.wait(30) == 69
    assert older.logged("another instance of bridge 'default'") == 1
    fleet.bridge = newer
    fleet.should_be({"edge0": (ONE,), "edge1": ()})
    assert fleet.agents["edge0"].untouched(before)
    fleet.put(TWO)
    fleet.should_be({"edge0": (ONE, TWO), "edge1": ()})
    assert newer.running


def test_m5_two_agents_of_one_node_say_why_and_corrupt_nothing(make_fleet: type[Fleet]) -> None:
    fleet = make_fleet("edge0")
    agent = fleet.agents["edge0"]
    twin = fleet.another_agent("edge0", "twin", fleet.root / "twin")
    fleet.put(ONE)
    fleet.start()
    fleet.should_be({"edge0": (ONE,)})
    twin.start()
    eventually(lambda: agent.logged(CAUSE) and twin.logged(CAUSE), 30, what="both say why")
    fleet.put(TWO)
    twin.stop()
    fleet.should_be({"edge0": (ONE, TWO)})

    agent.stop()
    twin.start()
    fleet.agents["edge0"] = twin
    fleet.should_be({"edge0": (ONE, TWO)})


def test_a_second_agent_on_one_state_directory_ends_with_69(fleet: Fleet) -> None:
    agent = fleet.agents["edge0"]
    fleet.broker.start()
    agent.start()
    eventually(lambda: agent.instance, 20, what="it serves from disk")
    second = fleet.another_agent("edge0", "second")
    second.start()

    assert second.wait(10) == 69
    assert second.logged("another agent runs on")
    assert agent.running
