"""Two brokers that pass everything on to each other: the bridge speaks to one, the agent to the
other."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fleet import Agent, Fleet
from tests.support.mosquitto import Broker
from tests.support.mqtt import Observer, observing
from tests.support.objects import dataset
from tests.support.proxies import Proxy
from tests.support.wait import eventually

pytestmark = pytest.mark.broker

ONE = dataset("one", "edge0")
TWO = dataset("two", "edge0")
QUIET = 3.0
"""Seconds in which nothing may go round but the marker: whatever is put off comes sooner."""


@pytest.fixture
def far(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "far", persistent=True) as running:
        yield running


@pytest.fixture
def link(far: Broker) -> Iterator[Proxy]:
    """Between the two brokers."""
    with Proxy("127.0.0.1", far.port) as proxy:
        yield proxy


@pytest.fixture
def fleet(make_fleet: type[Fleet], far: Broker, link: Proxy) -> Fleet:
    bridged = (
        "connection to-far",
        f"address 127.0.0.1:{link.port}",
        "topic # both 1",
        "restart_timeout 1",
        "notifications false",
    )
    fleet = make_fleet(
        "edge0",
        config="\n".join(bridged),
        url=lambda process, port: f"mqtt://127.0.0.1:{far.port if process == 'edge0' else port}",
    )
    fleet.agents["edge0"].settings["heartbeat"] = 600
    return fleet


def _written(agent: Agent) -> dict[str, int]:
    """How often each resource was written in all."""
    names = ("one", "two")
    return {name: agent.logged(f"written  key=Dataset.sedna.io/default/{name}") for name in names}


def _comes_to_rest(near: Observer, far: Observer) -> None:
    """Wait until nothing but a marker goes from one broker to the other and back, for a while."""
    rounds = itertools.count()

    def rest() -> bool:
        before, over = _others(near, far), time.monotonic() + QUIET
        while time.monotonic() < over:
            payload = b"%d" % next(rounds)
            for here, there, topic in ((near, far, "marker/out"), (far, near, "marker/back")):
                here.publish(topic, payload, retain=False)
                eventually(
                    lambda at=there, on=topic, what=payload: (  # type: ignore[misc]
                        (seen := at.latest(on)) and seen.payload == what
                    ),
                    what=f"{topic} arrives",
                )
        return _others(near, far) == before

    eventually(rest, within=90, what="quiet")


def _others(*observers: Observer) -> list[int]:
    return [
        sum(not seen.topic.startswith("marker/") for seen in list(each.messages))
        for each in observers
    ]


def test_b6_two_brokers_bridged_in_both_directions_come_to_rest_and_all_is_applied_once(
    fleet: Fleet, far: Broker, link: Proxy
) -> None:
    agent = fleet.agents["edge0"]
    fleet.put(ONE)
    agent.models({"m": "s3://1"})
    fleet.start()
    fleet.should_be({"edge0": (ONE,)})
    with observing(fleet.broker.port) as near_side, observing(far.port) as far_side:
        _comes_to_rest(near_side, far_side)
    assert _written(agent) == {"one": 1, "two": 0}

    link.refuse()  # each side goes on alone, and tells the other afterwards what it still has
    fleet.put(TWO)
    fleet.bridge.kill()
    fleet.bridge.start()
    fleet.bridge.says("taking charge", since=fleet.bridge.started_at)
    agent.models({"m": "s3://2"})
    agent.says("model ops sent", since=len(agent.log))
    link.accept()
    fleet.disks_should_be({"edge0": (ONE, TWO)})
    with observing(fleet.broker.port) as near_side, observing(far.port) as far_side:
        _comes_to_rest(near_side, far_side)
        for each in (near_side, far_side):
            assert b'"online":true' in each.retained["bridge/default/state"]
            assert b'"online":true' in each.retained["node/edge0/state"]
    assert _written(agent) == {"one": 1, "two": 1}
    assert agent.logged("model ops sent") == 2

    # The stores crossed on the link: the near one got back what the far one had kept.
    agent.stop()
    agent.start("--mqtt-url", fleet.broker.url)
    fleet.should_be({"edge0": (ONE, TWO)})
    assert _written(agent) == {"one": 1, "two": 1}
