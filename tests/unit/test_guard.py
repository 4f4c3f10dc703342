"""The removal guard: what trips it, what ends it, and what an operator says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from bridge.guard import Guarded, GuardPolicy, KindGuard
from bridge.sources.events import KindStatus
from nodecast.errors import NothingToApprove, UnknownKind
from nodecast.names import KindName, ResourceKey
from tests.support.core import ALONE, OWNER, PART, Core, key, record

NUMBER, WINDOW = GuardPolicy().number, GuardPolicy().window


def many(count: int, first: int = 0) -> list[str]:
    return [f"Alone/a{n}" for n in range(first, first + count)]


@pytest.fixture
def core() -> Core:
    """In charge of twenty objects of one kind, and one of each other."""
    core = Core()
    core.put(record("Owner/a", "n"), record("Part/a", "n"))
    core.come(*many(20))
    core.charge()
    core.after(WINDOW)
    assert core.holding.held == ()
    return core


def test_more_than_half_and_ten_gone_within_the_window_hold_the_kind(core: Core) -> None:
    core.go(*many(10))
    assert core.holding.held == ()
    core.go("Alone/a10")
    assert core.holding.held == (ALONE,)
    assert core.holding.guarded == {ALONE: Guarded(20, 11)}


def test_the_guard_has_no_end_by_time(core: Core) -> None:
    core.go(*many(11))
    core.after(30 * 24 * 3600)
    assert core.holding.held == (ALONE,)


def test_the_return_of_objects_ends_the_guard_and_then_the_hold(core: Core) -> None:
    core.go(*many(12))
    core.come("Alone/a0")
    assert core.holding.guarded == {ALONE: Guarded(20, 11)}
    core.come("Alone/a1")
    assert core.holding.guarded == {}
    core.after(59.9)
    assert core.holding.held == (ALONE,)
    core.after(0.2)
    assert core.holding.held == ()


def test_other_objects_make_up_for_none_that_is_missing(core: Core) -> None:
    core.go(*many(11))
    core.come(*many(100, first=100))
    core.after(3600)
    assert core.holding.guarded == {ALONE: Guarded(20, 11)}


def test_an_approval_ends_the_hold_at_once_and_for_that_time_only(core: Core) -> None:
    core.go(*many(11))
    core.holding.approve(ALONE)
    core.after(0)
    assert core.holding.held == ()
    core.come(*many(20))
    core.go(*many(20))
    assert core.holding.held == (ALONE,)


def test_what_is_not_held_needs_no_approval(core: Core) -> None:
    with pytest.raises(NothingToApprove, match=r"Alone\.x is not held"):
        core.holding.check_approval(ALONE)
    with pytest.raises(UnknownKind, match=r"Other\.x has no rule"):
        core.holding.check_approval(KindName("Other.x"))


def test_an_approval_does_not_speak_for_what_may_not_be_seen(core: Core) -> None:
    core.listed(OWNER, status=KindStatus.FORBIDDEN)
    with pytest.raises(NothingToApprove, match="cannot be seen in full"):
        core.holding.check_approval(OWNER)
    with pytest.raises(NothingToApprove, match=r"held only with Owner\.x"):
        core.holding.check_approval(PART)


def test_a_kind_without_a_rule_that_the_ledger_counts_is_held_until_approved() -> None:
    core = Core()
    core.put(record("Owner/a", "n"), record("Part/a", "n"), record("Alone/a", "n"))
    core.charge({OWNER: 1, PART: 1, ALONE: 1, "Old.x": 10, "no kind": 10})
    core.after(3600)
    assert core.holding.held == ("Old.x",)
    assert core.holding.counts(core.now).kinds == {OWNER: 1, PART: 1, ALONE: 1, "Old.x": 10}
    core.holding.approve(KindName("Old.x"))
    core.after(0)
    assert core.holding.held == ()
    assert core.holding.counts(core.now).kinds == {OWNER: 1, PART: 1, ALONE: 1}


def test_a_guard_that_is_off_holds_nothing() -> None:
    guard = KindGuard(GuardPolicy(enabled=False))
    for each in many(20):
        guard.departed(key(each), 0.0)
    guard.judge(0, 0.0)
    assert guard.guarded(0) is None


# -- what each node asks


class Counted(dict[ResourceKey, float]):
    """When what departed; it is counted how many of them are looked at, from the newest on."""

    looked_at = 0

    def values(self) -> Any:
        return self

    def __reversed__(self) -> Iterator[Any]:
        for each in reversed(list(dict.values(self))):
            self.looked_at += 1
            yield each


def test_what_departed_is_counted_no_further_than_it_matters() -> None:
    guard = KindGuard(GuardPolicy())
    departed = guard._departed = Counted()
    assert guard.departed_since(0.0, 10) == 0
    for n in range(1000):
        guard.departed(key(f"Alone/{n}"), float(n))
    assert guard.departed_since(994.0, 10) == 5
    assert guard.departed_since(0.0, 7) == 7
    assert departed.looked_at == 6 + 7
