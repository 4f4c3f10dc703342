"""The pause before the next connection: growing, with full jitter.

Pause n is anything between 0 and min(longest, first * 2^n) with equal chance, so that a fleet that
lost its broker at the same moment does not come back at the same moment. No clock and no sleep:
who asks waits as it sees fit. One owner thread.
"""

from __future__ import annotations

import random

_MOST_DOUBLINGS = 32


class Backoff:
    """Gives pauses in seconds; `reset` once a connection has proved itself."""

    __slots__ = ("_first", "_longest", "_pauses", "_rng")

    def __init__(self, first: float, longest: float, rng: random.Random) -> None:
        self._first = first
        self._longest = longest
        self._rng = rng
        self._pauses = 0

    def pause(self) -> float:
        """The next pause; the one after it may be twice as long."""
        ceiling: float = min(self._longest, self._first * 2 ** min(self._pauses, _MOST_DOUBLINGS))
        self._pauses += 1
        return self._rng.uniform(0.0, ceiling)

    def long_pause(self) -> float:
        """A pause for what a person has to put right: half the longest at least."""
        return self._rng.uniform(self._longest / 2, self._longest)

    def reset(self) -> None:
        """The next pause is a first one again."""
        self._pauses = 0
