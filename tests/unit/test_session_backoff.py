"""The pauses before a new connection."""

from __future__ import annotations

import random

from nodecast.session.backoff import Backoff


class Highest(random.Random):
    """Always the greatest value that may come."""

    def uniform(self, a: float, b: float) -> float:
        return max(a, b)


def test_the_ceiling_doubles_up_to_the_longest_pause() -> None:
    backoff = Backoff(1.0, 120.0, Highest())
    assert [backoff.pause() for _ in range(9)] == [1, 2, 4, 8, 16, 32, 64, 120, 120]


def test_a_reset_makes_the_next_pause_a_first_one() -> None:
    backoff = Backoff(1.0, 120.0, Highest())
    for _ in range(5):
        backoff.pause()
    backoff.reset()
    assert backoff.pause() == 1.0


def test_the_jitter_is_full() -> None:
    backoff = Backoff(10.0, 10.0, random.Random(7))
    pauses = [backoff.pause() for _ in range(400)]
    assert min(pauses) < 0.5
    assert max(pauses) > 9.5
    assert 4.0 < sum(pauses) / len(pauses) < 6.0


def test_ten_thousand_failures_still_give_a_pause() -> None:
    backoff = Backoff(1.0, 120.0, Highest())
    assert [backoff.pause() for _ in range(10_000)][-1] == 120.0


def test_a_long_pause_is_at_least_half_of_the_longest() -> None:
    backoff = Backoff(1.0, 120.0, random.Random(3))
    assert all(60.0 <= backoff.long_pause() <= 120.0 for _ in range(200))
