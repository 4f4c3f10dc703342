"""An agent whose directories are taken away, or are another agent's too, ends and says why."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.agents import AgentProcess, Hand
from tests.support.device import resource
from tests.support.mosquitto import Broker
from tests.support.mqtt import Observer

pytestmark = pytest.mark.broker

A = "Dataset.sedna.io/default/a"
Make = Callable[..., AgentProcess]


@pytest.fixture
def make(broker: Broker, tmp_path: Path) -> Iterator[Make]:
    """Makes agents, each with a directory of its own."""
    made: list[AgentProcess] = []

    def make(name: str, **settings: object) -> AgentProcess:
        made.append(AgentProcess(tmp_path / name, broker.url, **settings))
        return made[-1]

    yield make
    for each in made:
        each.kill()


def test_a_state_directory_that_is_removed_ends_the_agent_before_it_claims_more(
    make: Make, observer: Observer
) -> None:
    hand, agent = Hand(observer), make("a")
    agent.start()
    hand.online()
    hand.say((5, 1), [resource(A, 1)])
    hand.reported((5, 1))
    shutil.rmtree(agent.state)
    hand.say((5, 2), [resource(A, 2)])
    assert agent.wait() == 1
    assert "was removed while the agent ran" in agent.log
    report = hand.report()
    assert report is not None
    assert report.version == (5, 1)
    agent.start()
    hand.reported((5, 2))
    assert agent.values == {A: 2}


def test_a_second_agent_with_the_same_tree_ends_with_69_and_the_first_goes_on(
    make: Make, observer: Observer, tmp_path: Path
) -> None:
    hand, tree = Hand(observer), tmp_path / "tree"
    first = make("a", resources_dir=tree).start()
    hand.online()
    hand.say((5, 1), [resource(A, 1)])
    hand.reported((5, 1))
    second = make("b", resources_dir=tree, node="edge-b").start()
    assert second.wait() == 69
    assert "another agent keeps its files in" in second.log
    hand.say((5, 2), [resource(A, 2)])
    hand.reported((5, 2))
    assert first.stop() == 0
