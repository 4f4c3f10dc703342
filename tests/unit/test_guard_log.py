"""What is said of the removal guard, and how often."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bridge.guard_log import AGAIN, GROWN, GuardLog
from nodecast.names import BridgeName
from tests.support.core import ALONE, Core, record

WARNED = "removal guard: too much of a kind would leave the nodes"
OVER = "removal guard: so much is back that the rest may go once the hold is over"


@pytest.fixture
def core() -> Core:
    """Twenty objects, on two nodes that were sent them."""
    core = Core()
    core.put(*(record(f"Alone/a{n}", "n", *["m"] * (n % 2)) for n in range(20)))
    core.charge()
    core.settled()
    return core


@pytest.fixture
def said(core: Core, caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[Any]]]:
    """What a look says now: levels, events up to their comma, missing objects and nodes."""
    log = GuardLog(BridgeName("default"))

    def look() -> list[Any]:
        caplog.clear()
        log.say(core.holding, core.catalog, core.publisher.nodes, core.now)
        return [(r.levelname, r.getMessage().partition(",")[0], *fields(r)) for r in caplog.records]

    def fields(record: Any) -> list[object]:
        found = record.nodecast_fields
        return [found[name] for name in ("missing", "placed", "nodes") if name in found]

    with caplog.at_level(logging.INFO):
        yield look


def lose(core: Core, first: int, last: int) -> None:
    core.go(*(f"Alone/a{n}" for n in range(first, last)))


def test_a_guard_is_said_once_with_how_many_and_again_after_an_hour(
    core: Core, said: Callable[[], list[Any]]
) -> None:
    lose(core, 0, 15)
    warned = [("WARNING", WARNED, 15, 20, 2)]
    assert said() == warned
    core.after(AGAIN - 1)
    assert said() == []
    core.after(1)
    assert said() == warned


def test_what_goes_missing_after_it_was_said_is_said_once_more(
    core: Core, said: Callable[[], list[Any]]
) -> None:
    lose(core, 0, 11)
    said()
    lose(core, 11, 20)
    assert said() == []
    core.after(GROWN)
    assert said() == [("WARNING", WARNED, 20, 20, 2)]
    core.after(GROWN)
    assert said() == []


@pytest.mark.parametrize(("back", "level"), [(10, "WARNING"), (15, "INFO")])
def test_the_end_of_a_guard_is_said_once_and_loudly_while_anything_is_missing(
    back: int, level: str, core: Core, said: Callable[[], list[Any]]
) -> None:
    lose(core, 0, 15)
    said()
    core.put(*(record(f"Alone/a{n}", "n") for n in range(back)))
    core.after(0)
    assert said() == [(level, OVER, 15 - back, 5 + back)]
    assert said() == []


def test_a_bridge_that_loses_its_lease_says_of_nothing_that_it_is_back(
    core: Core, said: Callable[[], list[Any]]
) -> None:
    lose(core, 0, 15)
    said()
    core.holding.step_down()
    assert said() == []
    core.charge({ALONE: 20})
    assert said() == [("WARNING", WARNED, 15, 20, 2)]


@pytest.mark.parametrize(("bridge", "option"), [("default", ""), ("site-a", " --bridge site-a")])
def test_the_command_that_approves_it_at_this_bridge_is_said(
    bridge: str, option: str, core: Core, caplog: pytest.LogCaptureFixture
) -> None:
    lose(core, 0, 15)
    log = GuardLog(BridgeName(bridge))
    log.say(core.holding, core.catalog, {}, core.now)
    said = caplog.records[-1].nodecast_fields["approve"]
    assert said == f"nodecast-bridge approve {ALONE}{option}"


def test_an_approval_is_said_as_such_and_not_as_a_return(
    core: Core, caplog: pytest.LogCaptureFixture
) -> None:
    lose(core, 0, 15)
    log = GuardLog(BridgeName("default"))
    log.say(core.holding, core.catalog, {}, core.now)
    core.put(record("Alone/a0", "n"))
    guarded = core.holding.guarded[ALONE]
    core.holding.approve(ALONE)
    caplog.clear()
    with caplog.at_level(logging.INFO):
        log.approved(ALONE, core.catalog, guarded)
        core.after(0)
        log.say(core.holding, core.catalog, {}, core.now)
    (said,) = caplog.records
    assert said.getMessage().startswith("approved:")
    assert said.nodecast_fields["missing"] == 14
