"""Whichever thread of a process dies, the process ends, and its log says why: whoever supervises it
starts it again. One that went on without it would look healthy and do half of its work."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.fleet import Fleet
from tests.support.objects import dataset
from tests.support.sabotaging import Sabotage
from tests.support.wait import eventually

ROOT = Path(__file__).parents[2]
IN_A_CLUSTER = {"informer", "time limits", "lease", "login"}
"""See tests/cluster/test_threads_that_die.py."""
Provoke = Callable[[Fleet], object]

BRIDGE: dict[str, Provoke] = {
    "manifests": lambda fleet: fleet.put(dataset("new", "edge0")),
    "mqtt-connect": lambda fleet: fleet.broker.restart(),
    "api": lambda _: None,
}
AGENT: dict[str, Provoke] = {
    "models-watch": lambda fleet: fleet.agents["edge0"].models({"m": "s3://m"}),
    "mqtt-connect": lambda fleet: fleet.broker.restart(),
}


def test_every_thread_is_tried() -> None:
    packages = (ROOT / each for each in ("nodecast", "bridge", "agent"))
    code = "".join(path.read_text() for each in packages for path in each.rglob("*.py"))
    made = re.findall(r"(?<!def )supervised\(\s*f?\"([a-z -]+)", code)
    assert {each.strip() for each in made} == {*BRIDGE, *AGENT, "identity", *IN_A_CLUSTER}


@pytest.mark.parametrize("thread", BRIDGE)
def test_a_thread_of_the_bridge_that_dies_ends_it(fleet: Fleet, thread: str) -> None:
    fleet.put(dataset("a", "edge0"))
    sabotage = Sabotage(fleet.bridge, thread, fleet.root)
    fleet.start()
    fleet.should_be({"edge0": [dataset("a", "edge0")]})
    sabotage.strike()
    BRIDGE[thread](fleet)
    sabotage.ends_the_process()


def test_a_thread_of_the_bridge_that_dies_at_the_start_ends_it(fleet: Fleet) -> None:
    sabotage = Sabotage(fleet.bridge, "identity", fleet.root)
    sabotage.strike()
    fleet.bridge.start()
    sabotage.ends_the_process()


@pytest.mark.parametrize("thread", AGENT)
def test_a_thread_of_the_agent_that_dies_ends_it(fleet: Fleet, thread: str) -> None:
    fleet.put(dataset("a", "edge0"))
    sabotage = Sabotage(fleet.agents["edge0"], thread, fleet.root)
    fleet.start()
    fleet.should_be({"edge0": [dataset("a", "edge0")]})
    sabotage.strike()
    AGENT[thread](fleet)
    sabotage.ends_the_process()


def test_a_process_that_ends_so_says_that_it_is_offline(fleet: Fleet) -> None:
    sabotages = [
        Sabotage(fleet.bridge, "manifests", fleet.root),
        Sabotage(fleet.agents["edge0"], "models-watch", fleet.root),
    ]
    fleet.put(dataset("a", "edge0"))
    fleet.start()
    fleet.should_be({"edge0": [dataset("a", "edge0")]})
    sabotages[0].strike()
    BRIDGE["manifests"](fleet)
    AGENT["models-watch"](fleet)
    for each in sabotages:
        each.ends_the_process()
    with fleet.look() as look:
        for topic in ("bridge/default/state", "node/edge0/state"):
            eventually(lambda topic=topic: look.online(topic) is False, what=topic)
