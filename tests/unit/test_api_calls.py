"""Calls from other threads to the loop: who makes them, and what becomes of them."""

from __future__ import annotations

import threading

import pytest

from bridge.api.calls import Calls
from nodecast.errors import ApiError, NothingToApprove


class Woken:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def test_a_call_is_made_by_the_loop_and_not_before_it_comes_round() -> None:
    woken = Woken()
    calls = Calls(woken)
    future = calls.submit(threading.current_thread)
    assert (woken.count, future.done()) == (1, False)

    calls.work()
    assert future.result(0) is threading.current_thread()


def test_a_call_that_was_given_up_is_not_made() -> None:
    calls, made = Calls(Woken()), list[int]()
    given_up, other = calls.submit(lambda: made.append(1)), calls.submit(lambda: made.append(2))
    assert given_up.cancel()

    calls.work()
    assert made == [2]
    assert other.done()


def test_what_the_core_refuses_goes_to_who_asked_and_not_to_the_loop() -> None:
    def refuse() -> None:
        raise NothingToApprove("nothing")

    calls = Calls(Woken())
    future = calls.submit(refuse)
    calls.work()
    with pytest.raises(NothingToApprove):
        future.result(0)


def test_what_nobody_foresaw_goes_to_both() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    calls = Calls(Woken())
    future = calls.submit(fail)
    with pytest.raises(ZeroDivisionError):
        calls.work()
    with pytest.raises(ZeroDivisionError):
        future.result(0)


def test_many_calls_take_one_slice_of_a_turn_and_have_the_loop_come_again() -> None:
    now = [0.0]

    def take() -> None:
        now[0] += 0.02

    woken = Woken()
    calls = Calls(woken, clock=lambda: now[0])
    futures = [calls.submit(take) for _ in range(10)]
    woken.count = 0

    calls.work()
    assert (sum(each.done() for each in futures), woken.count) == (3, 1)
    while woken.count:
        woken.count = 0
        calls.work()
    assert all(each.done() for each in futures)


def test_a_loop_that_stops_answers_what_waits_and_what_comes() -> None:
    calls, made = Calls(Woken()), list[int]()
    waiting = calls.submit(lambda: made.append(1))
    calls.close("stopping")
    late = calls.submit(lambda: made.append(2))
    calls.work()

    for future in (waiting, late):
        with pytest.raises(ApiError, match="stopping"):
            future.result(0)
    assert made == []
