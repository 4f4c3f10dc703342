"""The pauses before a new connection."""

from __future__ import annotations

import random

from nodecast.session.backoff import Pauses


class Highest(random.Random):
    """Always the greatest value that may come."""

    def uniform(self, a: float, b: float) -> float:
        return max(a, b)


def test_the_ceiling_doubles_up_to_the_longest_pause() -> None:
    pauses = Pauses(1.0, 120.0, Highest())
    assert [pauses.pause() for _ in range(9)] == [1, 2, 4, 8, 16, 32, 64, 120, 120]


def test_a_reset_makes_the_next_pause_a_first_one() -> None:
    pauses = Pauses(1.0, 120.0, Highest())
    for _ in range(5):
        pauses.pause()
    pauses.reset()
    assert pauses.pause() == 1.0


def test_the_jitter_is_full() -> None:
    pauses = Pauses(10.0, 10.0, random.Random(7))
    seen = [pauses.pause() for _ in range(400)]
    assert min(seen) < 0.5
    assert max(seen) > 9.5
    assert 4.0 < sum(seen) / len(seen) < 6.0


def test_ten_thousand_failures_still_give_a_pause() -> None:
    pauses = Pauses(1.0, 120.0, Highest())
    assert [pauses.pause() for _ in range(10_000)][-1] == 120.0


def test_a_long_pause_is_at_least_half_of_the_longest() -> None:
    pauses = Pauses(1.0, 120.0, random.Random(3))
    assert all(60.0 <= pauses.long_pause() <= 120.0 for _ in range(200))
