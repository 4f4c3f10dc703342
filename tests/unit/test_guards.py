"""The removal guard of several kinds: what is guarded together, and what is held along."""

from __future__ import annotations

import pytest

from bridge.guard import Guarded, GuardPolicy
from bridge.sources.events import KindStatus
from nodecast.errors import NothingToApprove
from tests.support.core import ALONE, OWNER, PART, Core, record

WINDOW = GuardPolicy().window
FEW = [f"{kind}/{n}" for kind in ("Owner", "Part", "Alone") for n in range(6)]


@pytest.fixture
def core() -> Core:
    """In charge of six objects of each kind."""
    core = Core()
    core.come(*FEW)
    core.charge()
    core.after(WINDOW)
    return core


@pytest.fixture
def owned() -> Core:
    """In charge of twelve owners that carry one part each, and one of another kind."""
    core = Core()
    core.put(*(record(f"Owner/{n}", "n", carries=[f"Part/{n}"]) for n in range(12)))
    core.put(*(record(f"Part/{n}") for n in range(12)), record("Alone/0", "n"))
    core.charge()
    core.after(WINDOW)
    return core


# -- together


def test_more_than_half_and_ten_of_all_kinds_guard_each_that_lost_any(core: Core) -> None:
    core.go(*FEW[:9])
    assert core.holding.guarded == {}
    core.go(FEW[9])
    assert core.holding.guarded == {OWNER: Guarded(6, 6), PART: Guarded(6, 4)}
    assert core.holding.held == (OWNER, PART)


def test_what_goes_missing_a_moment_later_is_guarded_too(core: Core) -> None:
    core.go(*FEW[:10])
    core.after(WINDOW)
    core.go("Alone/0")
    assert core.holding.guarded[ALONE] == Guarded(6, 1)


def test_what_goes_missing_later_than_the_window_is_another_matter(core: Core) -> None:
    core.go(*FEW[:10])
    core.after(WINDOW + 0.1)
    core.go("Alone/0")
    assert core.holding.guarded.keys() == {OWNER, PART}
    assert core.holding.held == (OWNER, PART)


def test_what_goes_with_a_second_burst_while_they_are_guarded_is_guarded_too(core: Core) -> None:
    core.go(*FEW[:10])
    core.after(2 * WINDOW)
    core.come(*(f"Alone/more{n}" for n in range(3)))
    core.go(*(f"Alone/more{n}" for n in range(3)), *FEW[10:])
    assert core.holding.guarded[ALONE] == Guarded(9, 9)


def test_each_of_them_is_approved_for_itself(core: Core) -> None:
    core.go(*FEW[:12])
    core.holding.approve(PART)
    core.after(3600)
    assert core.holding.guarded == {OWNER: Guarded(6, 6)}
    core.holding.approve(OWNER)
    core.after(0)
    assert core.holding.held == ()


def test_once_all_of_it_is_approved_the_next_such_loss_is_guarded_anew(core: Core) -> None:
    core.go(*FEW[:12])
    core.holding.approve(PART)
    core.holding.approve(OWNER)
    core.after(3600)
    core.come(*(f"{each}-anew" for each in FEW[:12]))
    core.after(3600)
    core.go(*(f"{each}-anew" for each in FEW[:12]))
    assert core.holding.guarded == {OWNER: Guarded(6, 6), PART: Guarded(6, 6)}


def test_a_kind_that_is_back_as_a_whole_waits_for_no_approval_of_the_others(core: Core) -> None:
    core.go(*FEW[:17])
    core.come(*FEW[12:17])
    assert core.holding.guarded.keys() == {OWNER, PART}
    core.after(3600)
    assert core.holding.held == (OWNER, PART)


def test_it_is_over_once_so_much_is_back_and_then_the_hold(core: Core) -> None:
    core.go(*FEW[:10])
    core.come(FEW[0])
    assert core.holding.guarded == {}
    core.after(59.9)
    assert core.holding.held == (OWNER, PART)
    core.after(0.2)
    assert core.holding.held == ()


def test_a_kind_of_which_most_is_back_is_let_go_though_others_were_approved(core: Core) -> None:
    core.go(*FEW[:12])
    core.holding.approve(PART)
    core.come(*FEW[:2])
    assert core.holding.guarded == {OWNER: Guarded(6, 4)}
    core.come(FEW[2])
    assert core.holding.guarded == {}
    core.after(0)
    assert core.holding.guarded == {}


def test_a_restart_is_guarded_by_all_that_the_ledger_counts() -> None:
    core = Core()
    core.come(*FEW[10:])
    core.charge({OWNER: 6, PART: 6, ALONE: 6})
    core.after(3600)
    assert core.holding.guarded == {OWNER: Guarded(6, 6), PART: Guarded(6, 4)}


def test_kinds_that_the_ledger_counted_once_do_not_count_together_later() -> None:
    core = Core()
    core.come(*[each for each in FEW if each not in ("Alone/0", "Part/0")])
    core.charge({OWNER: 6, PART: 6, ALONE: 6}, all_seen=False)
    core.listed(OWNER)
    core.after(3600)  # two kinds are in doubt all the time, and keep their counts
    assert core.holding.guarded == {}


# -- along


def test_a_kind_that_lost_one_at_that_time_is_held_along_and_needs_no_approval(
    core: Core,
) -> None:
    core.come(*(f"Owner/more{n}" for n in range(14)))
    core.after(WINDOW)
    core.go("Alone/0", *(f"Owner/more{n}" for n in range(14)))
    assert core.holding.held == (ALONE, OWNER, PART)
    assert core.holding.guarded.keys() == {OWNER}
    with pytest.raises(NothingToApprove, match=r"Alone\.x is held only along with Owner\.x"):
        core.holding.check_approval(ALONE)
    core.holding.approve(OWNER)
    core.after(0)
    assert core.holding.held == ()


def test_a_kind_is_held_along_for_as_long_as_those_that_were_guarded(core: Core) -> None:
    owners = [f"Owner/more{n}" for n in range(14)]
    core.come(*owners)
    core.after(WINDOW)
    core.go("Alone/0", *owners)
    core.come(*owners[:10])
    assert core.holding.guarded == {}
    core.after(59.9)
    assert core.holding.held == (ALONE, OWNER, PART)
    core.after(0.2)
    assert core.holding.held == ()


def test_a_kind_that_lost_nothing_at_that_time_is_not_held_along(owned: Core) -> None:
    owned.go(*(f"Owner/{n}" for n in range(12)))
    owned.after(WINDOW + 0.1)
    owned.go("Alone/0")
    assert owned.holding.held == (OWNER, PART)


def test_what_goes_with_a_second_burst_of_a_guarded_kind_is_held_along_too(core: Core) -> None:
    first, second = ([f"Owner/{x}{n}" for n in range(14)] for x in ("first", "second"))
    core.come(*first)
    core.after(WINDOW)
    core.go(*first)
    core.after(2 * WINDOW)
    core.come(*second)
    core.go("Alone/0", *second, *(f"Owner/{n}" for n in range(6)))
    assert core.holding.held == (ALONE, OWNER, PART)
    assert core.holding.guarded.keys() == {OWNER}


# -- approvals


def test_what_is_approved_stays_held_with_a_kind_that_it_depends_on(owned: Core) -> None:
    owned.go(*(f"Owner/{n}" for n in range(12)))
    assert owned.holding.guarded == {OWNER: Guarded(12, 12), PART: Guarded(12, 12)}
    owned.holding.approve(PART)
    owned.after(0)
    assert owned.holding.held == (OWNER, PART)
    with pytest.raises(NothingToApprove, match=r"Part\.x is held only with Owner\.x"):
        owned.holding.check_approval(PART)
    owned.holding.approve(OWNER)
    owned.after(0)
    assert owned.holding.held == ()


def test_a_missing_kind_that_is_approved_is_empty_until_it_is_served_again(core: Core) -> None:
    core.listed(OWNER, status=KindStatus.MISSING)
    assert core.holding.approvable(OWNER)
    core.remove(*(f"Owner/{n}" for n in range(6)))
    core.holding.approve(OWNER)
    core.listed(OWNER, status=KindStatus.MISSING)
    core.after(0)
    assert core.holding.held == ()
    assert not core.holding.approvable(OWNER)
    core.listed(OWNER)
    core.listed(OWNER, status=KindStatus.MISSING)
    assert core.holding.held == (OWNER, PART)


def test_an_approval_ends_a_hold_that_only_waits_for_its_time(core: Core) -> None:
    core.listed(OWNER, status=KindStatus.FORBIDDEN)
    core.listed(OWNER)
    core.after(1)
    assert core.holding.held == (OWNER, PART)
    core.holding.approve(OWNER)
    core.after(0)
    assert core.holding.held == ()


def test_a_kind_that_was_empty_settles_anew_when_the_first_of_it_is_back(core: Core) -> None:
    core.go(*FEW[:6])
    assert OWNER in core.holding.waiting
    core.after(3)
    core.put(record("Owner/elsewhere"))
    core.after(0)
    assert core.holding.waiting == frozenset()
    assert core.holding.view(OWNER).lost_at == core.now
    core.after(2)
    core.come(FEW[0])
    assert core.holding.view(OWNER).lost_at == core.now


def test_a_kind_emptied_on_purpose_waits_for_no_second_list_once_approved(core: Core) -> None:
    core.come(*(f"Alone/more{n}" for n in range(14)))
    core.go(*(f"Alone/more{n}" for n in range(14)), *(f"Alone/{n}" for n in range(6)))
    assert ALONE in core.holding.waiting
    core.holding.approve(ALONE)
    core.after(0)
    assert core.holding.waiting == frozenset()
