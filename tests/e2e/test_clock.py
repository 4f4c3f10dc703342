"""The clock says 1970, jumps ahead, or jumps back: nothing orders or waits by it."""

from __future__ import annotations

import pytest

from tests.support.clock import WallClock
from tests.support.fleet import Fleet
from tests.support.objects import dataset
from tests.support.wait import eventually

pytestmark = pytest.mark.broker

ONE = dataset("one", "edge0")
TWO = dataset("two", "edge0")
THREE = dataset("three", "edge0")
LATE = dataset("late", "edge0")
TIMES = {"1970": "@1970-01-01 00:00:05", "ahead": "+3650d", "back": "-3650d", "true": "+0d"}


def _epoch(fleet: Fleet) -> int:
    with fleet.look() as look:
        snapshot = eventually(lambda: look.snapshot("edge0"), what="the snapshot")
        return snapshot.version.epoch


@pytest.mark.parametrize(
    "times",
    [("1970", "true", "ahead"), ("ahead", "back", "1970"), ("true", "1970", "back")],
    ids="-".join,
)
def test_e7_a_clock_that_is_wrong_and_jumps_orders_nothing(
    make_fleet: type[Fleet], times: tuple[str, str, str]
) -> None:
    fleet = make_fleet("edge0")
    agent, clock = fleet.agents["edge0"], WallClock(fleet.root)
    clock.set(TIMES[times[0]])
    fleet.bridge.variables = agent.variables = clock.variables
    fleet.put(ONE)
    agent.models({"m": "s3://1"})
    fleet.start()
    fleet.should_be({"edge0": (ONE,)})
    first = _epoch(fleet)

    # It jumps under both of them.
    clock.set(TIMES[times[1]])
    fleet.put(TWO)
    agent.models({"m": "s3://2"})
    fleet.should_be({"edge0": (ONE, TWO)})
    assert _epoch(fleet) == first

    # It jumps while both wait for the broker, and is still so when they start again.
    fleet.broker.stop()
    clock.set(TIMES[times[2]])
    fleet.put(THREE)
    fleet.broker.start()
    fleet.should_be({"edge0": (ONE, TWO, THREE)})
    fleet.bridge.stop()
    agent.stop()
    fleet.put(LATE)
    fleet.start()
    fleet.should_be({"edge0": (ONE, TWO, THREE, LATE)})
    assert _epoch(fleet) > first
    with fleet.look() as look:
        eventually(lambda: (m := look.model_set("edge0")) and m.seq == 3, what="the ops")


def test_e7_a_bridge_whose_clock_went_back_and_whose_broker_is_empty_is_heard_all_the_same(
    make_fleet: type[Fleet],
) -> None:
    fleet = make_fleet("edge0")
    clock = WallClock(fleet.root)
    fleet.bridge.variables = clock.variables
    fleet.put(ONE, TWO)
    fleet.start()
    fleet.should_be({"edge0": (ONE, TWO)})
    first = _epoch(fleet)
    fleet.bridge.stop()
    fleet.broker.kill()
    fleet.broker.wipe()
    clock.set(TIMES["1970"])
    fleet.put(THREE)
    mark = fleet.agents["edge0"].mark()
    fleet.start()
    fleet.should_be({"edge0": (ONE, TWO, THREE)})
    assert _epoch(fleet) >= first
    assert fleet.agents["edge0"].wrote(mark) == {"Dataset.sedna.io/default/three.json"}


@pytest.mark.parametrize("jump", ["-3650d", "+3650d"], ids=["back", "ahead"])
def test_e7_pauses_and_rounds_go_on_by_the_monotonic_clock(
    make_fleet: type[Fleet], jump: str
) -> None:
    # A time-out that were taken from the time of day would be over in ten years, or at once and
    # again and again.
    fleet = make_fleet("edge0")
    agent, clock = fleet.agents["edge0"], WallClock(fleet.root)
    fleet.bridge.variables = agent.variables = clock.variables
    agent.settings |= {"round": 1, "heartbeat": 1, "model_config_poll": 1}
    fleet.put(ONE)
    fleet.start()
    fleet.should_be({"edge0": (ONE,)})
    fleet.broker.stop()
    for process in (fleet.bridge, agent):
        process.says("no connection to the broker")
    clock.set(jump)
    (agent.tree / "Dataset.sedna.io" / "default" / "one.json").unlink()
    fleet.disks_should_be({"edge0": (ONE,)})  # a round came
    fleet.broker.start()
    fleet.put(TWO)
    fleet.should_be({"edge0": (ONE, TWO)})  # pauses of reconnection and settling ended
    with fleet.look() as look:
        report = eventually(lambda: look.report("edge0"), what="a report")
        eventually(  # a heartbeat came
            lambda: (now := look.report("edge0")) and now.seq > report.seq + 1,
            20,
            what="heartbeats",
        )
