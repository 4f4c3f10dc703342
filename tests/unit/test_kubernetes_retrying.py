"""When an informer asks again."""

from __future__ import annotations

import random

import pytest

from bridge.sources.kubernetes.failures import ApiFailure, Refusal
from bridge.sources.kubernetes.retrying import Retries
from nodecast.backoff import Backoff

GONE = Refusal(410, "Expired", "too old")
BUSY = Refusal(429, "TooManyRequests", "busy", retry_after=3.0)
BACKOFF = Backoff(first=1.0, most=20.0)


class Uniform(random.Random):
    """Gives the lower or the upper end of every range."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self._share = share

    def uniform(self, a: float, b: float) -> float:
        return a + (b - a) * self._share


def retries(share: float = 1.0) -> Retries:
    return Retries(Uniform(share), BACKOFF, 5.0)


@pytest.mark.parametrize(
    "error",
    [ApiFailure("down"), Refusal(500, "InternalError", "x"), Refusal(403, "Forbidden", "x"), None],
)
def test_pauses_double_up_to_the_longest_whatever_the_end_was(error: Exception | None) -> None:
    upper, lower = retries(1.0), retries(0.0)
    assert [upper.pause(error, 0.1) for _ in range(7)] == [1, 2, 4, 8, 16, 20, 20]
    assert [lower.pause(error, 0.1) for _ in range(7)] == [0.5, 1, 2, 4, 8, 10, 10]
    assert (upper.failures, lower.failures) == (7, 7)


def test_a_watch_that_ended_well_after_a_while_is_made_again_at_once() -> None:
    tries = retries()
    assert tries.pause(None, 5.0) == 0.0
    assert tries.failures == 0


def test_a_watch_that_lasted_starts_the_count_anew() -> None:
    tries = retries()
    for _ in range(4):
        tries.pause(ApiFailure("down"), 0.0)
    assert tries.pause(ApiFailure("down"), 4.9) == 16
    assert tries.pause(ApiFailure("down"), 5.0) == 1
    assert tries.failures == 1


def test_the_first_410_costs_no_pause_and_the_next_ones_do() -> None:
    tries = retries()
    assert [tries.pause(GONE, 0.0) for _ in range(4)] == [0, 1, 2, 4]


def test_a_410_between_other_failures_is_free_once_only() -> None:
    tries = retries()
    pauses = [tries.pause(each, 0.0) for each in (ApiFailure("x"), GONE, ApiFailure("x"), GONE)]
    assert pauses == [1, 0, 2, 4]


def test_a_410_is_free_again_after_a_watch_that_lasted() -> None:
    tries = retries()
    tries.pause(GONE, 0.0)
    assert tries.pause(GONE, 60.0) == 0.0
    assert tries.pause(GONE, 0.0) == 1.0


def test_a_server_that_says_when_is_obeyed_and_the_pause_does_not_grow() -> None:
    assert [retries(0.0).pause(BUSY, 0.0) for _ in range(3)] == [3, 3, 3]
    tries = retries(1.0)
    assert [tries.pause(BUSY, 0.0) for _ in range(3)] == [3.75, 3.75, 3.75]
    assert tries.failures == 0


@pytest.mark.parametrize(("asked", "least", "most"), [(0.0, 0.5, 0.625), (1e9, 60.0, 75.0)])
def test_a_server_that_says_at_once_or_never_is_not_taken_at_its_word(
    asked: float, least: float, most: float
) -> None:
    error = Refusal(429, "TooManyRequests", "busy", retry_after=asked)
    assert (retries(0.0).pause(error, 0.0), retries(1.0).pause(error, 0.0)) == (least, most)


def test_a_busy_server_does_not_undo_the_growth_of_other_failures() -> None:
    tries = retries()
    errors = (ApiFailure("x"), ApiFailure("x"), BUSY, ApiFailure("x"))
    assert [tries.pause(each, 0.0) for each in errors] == [1, 2, 3.75, 4]
