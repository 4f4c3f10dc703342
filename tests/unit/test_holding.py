"""Which kinds are held, which wait for a second list, and what the ledger counts."""

from __future__ import annotations

import math

import pytest

from bridge.guard import Counts, GuardPolicy
from bridge.holding import EMPTY_WAIT
from bridge.sources.events import KindStatus, Listed
from tests.support.core import ALONE, OWNER, PART, RULES, Core, key, record

BAD = [KindStatus.MISSING, KindStatus.FORBIDDEN, KindStatus.INCOMPLETE]
WINDOW = GuardPolicy().window


@pytest.fixture
def core() -> Core:
    """In charge, with an object of each kind on a node, and a ledger that counts them."""
    core = Core()
    core.put(record("Owner/a", "n"), record("Part/a", "n"), record("Alone/a", "n"))
    core.charge()
    core.after(0)
    assert core.holding.held == ()
    return core


def test_nothing_is_held_before_the_bridge_takes_charge() -> None:
    core = Core()
    core.after(0)
    assert (core.holding.held, core.holding.waiting) == ((), frozenset())


@pytest.mark.parametrize("status", BAD)
def test_a_kind_that_cannot_be_seen_is_held_with_its_dependents(
    core: Core, status: KindStatus
) -> None:
    core.listed(OWNER, status=status)
    assert core.holding.held == (OWNER, PART)
    core.listed(ALONE, status=status)
    assert core.holding.held == (ALONE, OWNER, PART)


def test_a_kind_is_held_without_those_that_it_does_not_decide(core: Core) -> None:
    core.listed(PART, status=KindStatus.MISSING)
    assert core.holding.held == (PART,)


def test_a_kind_that_was_never_listed_is_held() -> None:
    core = Core()
    core.put(record("Owner/a", "n"), record("Part/a", "n"), record("Alone/a", "n"))
    core.listed(OWNER, PART)
    core.charge(all_seen=False)
    core.after(1000)
    assert core.holding.held == (ALONE,)


def test_the_hold_counts_from_when_the_cause_was_seen_gone(core: Core) -> None:
    core.listed(OWNER, status=KindStatus.MISSING)
    core.now += 500  # nobody looks meanwhile
    core.listed(OWNER)
    core.after(59.9)
    assert core.holding.held == (OWNER, PART)
    core.after(0.2)
    assert core.holding.held == ()


def test_a_cause_that_comes_back_holds_anew(core: Core) -> None:
    core.listed(OWNER, status=KindStatus.MISSING)
    core.listed(OWNER)
    core.after(50)
    core.listed(OWNER, status=KindStatus.FORBIDDEN)
    core.listed(OWNER)
    core.after(50)
    assert core.holding.held == (OWNER, PART)


def test_a_cause_that_came_and_went_between_two_looks_holds_as_well(core: Core) -> None:
    core.holding.listed(Listed(OWNER, KindStatus.MISSING, None, core.now))
    core.holding.listed(Listed(OWNER, KindStatus.OK, None, core.now))
    core.after(0)
    assert core.holding.held == (OWNER, PART)
    core.after(59.9)
    assert core.holding.held == (OWNER, PART)
    core.after(0.2)
    assert core.holding.held == ()


def test_the_next_change_is_the_end_of_the_hold(core: Core) -> None:
    core.listed(ALONE, status=KindStatus.MISSING)
    assert core.holding.next_change(core.now) == math.inf
    core.listed(ALONE)
    assert core.holding.next_change(core.now) == core.now + 60


# -- at a start


@pytest.mark.parametrize("counts", [None, Counts({}), Counts({ALONE: 1}, sure=False)])
def test_without_a_ledger_every_kind_is_held_for_the_hold_time(counts: Counts | None) -> None:
    core = Core()
    core.put(record("Alone/a", "n"), record("Owner/a", "n"), record("Part/a", "n"))
    core.listed()
    core.holding.take_charge(counts, core.now)
    core.after(0)
    assert core.holding.held == RULES.kinds
    core.after(59.9)
    assert core.holding.held == RULES.kinds
    core.after(0.2)
    assert core.holding.held == ()


def test_a_kind_that_the_ledger_counts_and_nothing_is_placed_of_is_held() -> None:
    core = Core()
    core.put(record("Owner/a"), record("Part/a", "n"), record("Alone/a", "n"))
    core.charge({OWNER: 1, PART: 9, ALONE: 1})
    core.after(0)
    assert core.holding.held == (OWNER, PART)
    core.after(60.1)
    assert core.holding.held == ()


def test_a_kind_that_the_ledger_does_not_count_is_not_held() -> None:
    core = Core()
    core.put(record("Alone/a", "n"))
    core.charge({ALONE: 1, OWNER: 0})
    core.after(0)
    assert core.holding.held == ()


def test_what_the_ledger_counts_of_a_kind_of_which_nothing_is_placed_has_vanished() -> None:
    core = Core()
    core.put(record("Owner/a"), record("Part/a", "n"))
    core.charge({OWNER: 4, PART: 9, ALONE: 2})
    assert core.holding.vanished == {OWNER: 4, ALONE: 2}
    core.put(record("Owner/a", "n"))
    assert core.holding.vanished == {ALONE: 2}


def test_a_kind_that_cannot_be_seen_and_one_placed_through_it_have_not_vanished() -> None:
    core = Core()
    core.listed()
    core.listed(OWNER, status=KindStatus.MISSING)
    core.charge({OWNER: 4, PART: 9, ALONE: 2}, all_seen=False)
    assert core.holding.vanished == {ALONE: 2}


# -- a kind that is empty


def empty(core: Core) -> None:
    core.remove("Owner/a")
    core.after(0)


def test_a_kind_that_became_empty_waits_with_its_dependents(core: Core) -> None:
    empty(core)
    assert core.holding.waiting == {OWNER, PART}
    assert core.holding.empty == {OWNER}
    assert core.holding.held == ()


def test_a_kind_that_lost_one_of_two_does_not_wait(core: Core) -> None:
    core.put(record("Owner/b", "n"))
    empty(core)
    assert core.holding.waiting == frozenset()


def test_only_a_list_made_more_than_five_seconds_later_ends_the_wait(core: Core) -> None:
    empty(core)
    emptied = core.now
    core.after(EMPTY_WAIT)
    core.listed()
    assert core.holding.waiting == {OWNER, PART}
    core.after(100)
    core.listed(at=emptied + EMPTY_WAIT)
    assert core.holding.waiting == {OWNER, PART}
    core.listed(OWNER, at=emptied + EMPTY_WAIT + 0.01)
    assert core.holding.waiting == frozenset()


def test_the_list_is_asked_for_once_its_time_has_come(core: Core) -> None:
    empty(core)
    emptied = core.now
    assert core.holding.wanted_lists(core.now) == {}
    at = core.holding.next_change(core.now)
    assert emptied + EMPTY_WAIT < at < emptied + EMPTY_WAIT + 0.1
    assert core.holding.wanted_lists(at) == {OWNER: emptied + EMPTY_WAIT}


def test_an_object_that_comes_back_ends_the_wait(core: Core) -> None:
    empty(core)
    core.put(record("Owner/b", "n"))
    core.after(0)
    assert core.holding.waiting == frozenset()


def test_a_kind_that_goes_missing_while_it_waits_is_held_instead(core: Core) -> None:
    empty(core)
    core.listed(OWNER, status=KindStatus.MISSING)
    assert core.holding.waiting == frozenset()
    assert core.holding.held == (OWNER, PART)


def test_a_kind_that_is_still_empty_when_it_is_seen_again_waits_again(core: Core) -> None:
    empty(core)
    core.listed(OWNER, status=KindStatus.MISSING)
    core.after(3600)
    core.listed(OWNER)
    assert core.holding.waiting == {OWNER, PART}


def test_a_kind_found_empty_at_a_start_that_the_ledger_counts_waits() -> None:
    core = Core(hold=0)
    core.put(record("Part/a", "n"), record("Alone/a", "n"))
    core.charge({OWNER: 3, PART: 1, ALONE: 1})
    core.after(0)
    assert core.holding.waiting == {OWNER, PART}


def test_a_kind_found_empty_at_a_start_that_was_always_empty_does_not_wait() -> None:
    core = Core()
    core.put(record("Part/a", "n"), record("Alone/a", "n"))
    core.charge({OWNER: 0, PART: 1, ALONE: 1})
    core.after(0)
    assert core.holding.waiting == frozenset()


def test_without_a_ledger_every_empty_kind_waits() -> None:
    core = Core(hold=0)
    core.put(record("Part/a", "n"), record("Alone/a", "n"))
    core.charge({})
    core.after(0)
    assert core.holding.waiting == {OWNER, PART}


# -- what the ledger counts


def test_the_counts_are_the_objects_placed(core: Core) -> None:
    core.put(record("Alone/b", "n", "m"), record("Alone/c"))
    assert core.holding.counts(core.now).kinds == {ALONE: 2, OWNER: 1, PART: 1}


def test_an_object_counts_for_a_minute_after_it_left(core: Core) -> None:
    core.put(record("Alone/b", "n"))
    core.remove("Alone/b")
    core.after(WINDOW - 1)
    assert core.holding.counts(core.now).kinds[ALONE] == 2
    core.after(2)
    assert core.holding.counts(core.now).kinds[ALONE] == 1


def test_an_object_that_came_back_counts_once(core: Core) -> None:
    core.put(record("Alone/a"))
    core.put(record("Alone/a", "m"))
    assert core.holding.counts(core.now).kinds[ALONE] == 1


def test_a_held_kind_keeps_its_count(core: Core) -> None:
    core.put(record("Alone/b", "n"))
    core.listed(ALONE, status=KindStatus.INCOMPLETE)
    core.remove("Alone/b")
    core.after(10 * WINDOW)
    assert core.holding.counts(core.now).kinds[ALONE] == 2


def test_a_kind_held_at_a_start_keeps_the_ledgers_count() -> None:
    core = Core()
    core.put(record("Alone/a"))
    core.charge({ALONE: 4})
    core.after(59)
    assert core.holding.counts(core.now).kinds[ALONE] == 4
    core.after(2)
    assert core.holding.counts(core.now).kinds[ALONE] == 0


def test_without_a_ledger_there_is_no_count_for_the_hold_time() -> None:
    core = Core()
    core.put(record("Alone/a", "n"))
    core.charge({})
    core.after(59)
    assert not core.holding.counts(core.now).sure
    core.after(2)
    assert core.holding.counts(core.now).kinds[ALONE] == 1


def test_what_agents_report_counts_as_placed_where_there_was_no_ledger() -> None:
    core = Core()
    core.put(record("Alone/a", "n"))
    core.charge({})
    core.after(30)
    core.holding.reported([key("Alone/a"), key("Alone/gone"), key("Other/x")], core.now)
    core.after(31)
    assert core.holding.counts(core.now).kinds[ALONE] == 2
    core.after(WINDOW)
    assert core.holding.counts(core.now).kinds[ALONE] == 1


def test_what_agents_report_does_not_count_where_there_was_a_ledger(core: Core) -> None:
    core.holding.reported([key("Alone/gone")], core.now)
    assert core.holding.counts(core.now).kinds[ALONE] == 1


def test_a_kind_that_agents_have_and_the_source_does_not_waits_without_a_ledger() -> None:
    core = Core()
    core.put(record("Part/a", "n"), record("Alone/a", "n"))
    core.charge({})
    core.holding.reported([key("Owner/gone")], core.now)
    core.after(61)
    assert core.holding.waiting == {OWNER, PART}


# -- another term


def test_who_is_in_charge_no_more_holds_nothing_and_counts_nothing(core: Core) -> None:
    core.listed(OWNER, status=KindStatus.FORBIDDEN)
    core.remove("Alone/a")
    core.after(0)
    assert core.holding.held == (OWNER, PART)
    assert core.holding.waiting == {ALONE}
    core.holding.step_down()
    core.after(0)
    assert (core.holding.held, core.holding.waiting) == ((), frozenset())
    assert core.holding.view(OWNER).status is KindStatus.FORBIDDEN


def test_who_takes_charge_again_holds_what_it_would_hold_at_a_start(core: Core) -> None:
    core.remove("Alone/a")
    core.holding.step_down()
    core.charge({ALONE: 1, OWNER: 1, PART: 1})
    core.after(0)
    assert core.holding.held == (ALONE,)
    core.charge({ALONE: 0, OWNER: 1, PART: 1})
    core.after(0)
    assert core.holding.held == ()
