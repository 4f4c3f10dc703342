"""One candidate for a Lease: what it asks, and when it has the right."""

from __future__ import annotations

import random
from dataclasses import replace

from bridge.lease import Elector, Lease, Right, Terms, Write

TERMS = Terms(duration=15, renew=10, retry=2)


class Middle(random.Random):
    """Always the middle, so that a test knows each pause."""

    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2


def elector(me: str = "me") -> Elector:
    return Elector(me, TERMS, Middle())


def lease(holder: str = "other", version: str = "1", duration: float | None = 15) -> Lease:
    return Lease(holder, duration, "then", "then", 3, version)


def ours(version: str = "9") -> Lease:
    return lease("me", version)


def write(one: Elector, now: float) -> Write:
    wanted = one.ask(now)
    assert wanted is not None
    return wanted


def holder(began: float = 100.0) -> Elector:
    """One that has the right by a write of `began`, answered at once."""
    one = elector()
    one.found(None, began)
    one.wrote(ours(), write(one, began), began)
    assert one.right == Right(1, began + TERMS.renew)
    return one


def test_it_reads_first_and_creates_the_lease_where_there_is_none() -> None:
    one = elector()
    assert one.ask(5) is None
    one.found(None, 5)
    assert (one.next_at, one.right) == (5, None)
    assert one.ask(5) == Write(5, None, "me", 15, anew=True)


def test_a_released_lease_is_taken_at_once() -> None:
    one = elector()
    one.found(lease(holder=""), 5)
    assert one.next_at == 5
    assert write(one, 5).old == lease(holder="")


def test_the_right_ends_a_renew_time_after_the_beginning_of_the_write() -> None:
    one = elector()
    one.found(None, 100)
    one.wrote(ours(), write(one, 100), 104)
    assert one.right == Right(1, 110)
    assert one.holds(109.9)
    assert not one.holds(110)


def test_an_answer_that_comes_after_its_right_is_over_gives_none() -> None:
    one = elector()
    one.found(None, 100)
    one.wrote(ours(), write(one, 100), 110)
    assert one.right is None


def test_another_is_left_alone_until_its_lease_stood_still_for_its_duration() -> None:
    one = elector()
    one.found(lease(), 100)
    assert one.ask(102) is None
    one.found(lease(), 102)
    assert one.ask(114.9) is None
    one.found(lease(), 115)
    assert write(one, 115).old == lease()


def test_each_change_of_the_lease_begins_the_wait_anew() -> None:
    one = elector()
    one.found(lease(version="1"), 100)
    one.found(lease(version="2"), 114)
    one.found(lease(version="2"), 116)
    assert one.ask(116) is None
    one.found(lease(version="2"), 129)
    assert one.ask(129) is not None


def test_the_duration_is_the_one_that_the_lease_names() -> None:
    one = elector()
    one.found(lease(duration=60), 100)
    one.found(lease(duration=60), 159)
    assert one.ask(159) is None
    without = elector()
    without.found(lease(duration=None), 100)
    without.found(lease(duration=None), 114)
    assert without.ask(114) is None
    without.found(lease(duration=None), 115)
    assert without.ask(115) is not None


def test_it_looks_again_when_the_wait_is_over_and_not_a_pause_later() -> None:
    one = elector()
    one.found(lease(), 100)
    assert one.next_at == 102
    one.found(lease(), 114)
    assert one.next_at == 115


def test_a_holder_renews_over_the_version_that_it_wrote_without_reading() -> None:
    one = holder(100)
    assert one.next_at == 102
    wanted = write(one, 102)
    assert (wanted.old, wanted.anew) == (ours(), False)
    one.wrote(ours("10"), wanted, 103)
    assert one.right == Right(1, 112)


def test_a_silent_server_keeps_no_right_alive() -> None:
    one = holder(100)
    for now in (103.0, 106.0, 109.0):
        one.ask(now)
        one.failed(now)
        assert one.next_at == now + TERMS.retry / 2
    assert one.holds(109.9)
    assert not one.holds(110)
    one.ask(111)
    assert one.right is None


def test_pauses_grow_while_there_is_no_answer_and_no_right() -> None:
    one, pauses, now = elector(), [], 0.0
    for _ in range(6):
        one.ask(now)
        one.failed(now)
        pauses.append(one.next_at - now)
        now = one.next_at
    assert pauses == [1.5, 3, 6, 11.25, 11.25, 11.25]


def test_after_a_write_without_an_answer_it_looks_before_it_writes() -> None:
    one = holder(100)
    one.ask(102)
    one.failed(103)
    assert one.ask(105) is None
    one.found(ours("10"), 105)
    assert one.next_at == 105
    assert write(one, 105).old == ours("10")


def test_a_holder_that_finds_anothers_name_has_no_right_any_more() -> None:
    for found in (lease("other", "10"), lease("", "10")):
        one = holder(100)
        one.ask(102)
        one.refused(102)
        assert one.ask(102) is None
        one.found(found, 102)
        assert one.right is None


def test_a_refused_write_is_looked_after_at_once_and_then_with_a_pause() -> None:
    one = holder(100)
    one.ask(102)
    one.refused(102)
    assert one.next_at == 102
    one.found(ours("10"), 102)
    one.ask(102)
    one.refused(102)
    assert one.next_at == 104


def test_a_right_won_anew_is_another_term() -> None:
    one = holder(100)
    wanted = write(one, 109)
    one.wrote(ours("10"), wanted, 111)
    assert one.right == Right(2, 119)


def test_a_lease_that_names_us_counts_like_anothers_without_the_right() -> None:
    one = elector()
    one.found(ours("4"), 100)
    assert one.ask(102) is None
    one.found(ours("4"), 115)
    assert write(one, 115).anew is False


def test_a_lease_deleted_under_its_holder_is_made_again_in_the_same_term() -> None:
    one = holder(100)
    one.ask(102)
    one.refused(102)
    one.found(None, 102)
    wanted = write(one, 102)
    assert wanted.old is None
    one.wrote(ours("20"), wanted, 102)
    assert one.right == Right(1, 112)


def test_a_lease_that_went_away_is_waited_for_as_if_it_had_just_been_renewed() -> None:
    for before in (lease(), lease(holder="")):
        one = elector()
        one.found(before, 100)
        one.ask(100)
        one.refused(101)
        one.found(None, 101)
        assert one.ask(103) is None
        one.found(None, 115)
        assert one.ask(115) is None
        one.found(None, 116)
        assert one.ask(116) is not None


def test_a_lease_that_comes_back_is_a_change() -> None:
    one = elector()
    one.found(lease(version="1"), 100)
    one.found(None, 102)
    one.found(lease(version="1"), 110)
    one.found(lease(version="1"), 124)
    assert one.ask(124) is None


def test_releasing_names_nobody_and_ends_the_right_before_it_is_written() -> None:
    one = holder(100)
    wanted = one.release(105)
    assert wanted is not None
    assert (wanted.holder, wanted.old, one.right) == ("", ours(), None)


def test_what_is_not_held_is_not_released() -> None:
    assert elector().release(5) is None
    assert holder(100).release(110) is None
    unsure = holder(100)
    unsure.ask(102)
    unsure.failed(103)
    assert unsure.release(104) is None


def test_it_says_who_holds_the_lease() -> None:
    one = elector()
    assert one.holder == ""
    one.found(lease("other"), 5)
    assert one.holder == "other"
    one.found(replace(lease(""), version="2"), 6)
    assert one.holder == ""
    one.found(None, 7)
    assert one.holder == ""
