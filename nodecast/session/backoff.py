"""The pauses between connections: growing, with full jitter, and starting anew after a good one.

With full jitter a fleet that lost its broker at the same moment does not come back at the same
moment. No clock and no sleep: who asks waits as it sees fit. One owner thread.
"""

from __future__ import annotations

import random

from nodecast.backoff import Backoff


class Pauses:
    """Gives pauses in seconds; `reset` once a connection has proved itself."""

    __slots__ = ("_backoff", "_failures", "_rng")

    def __init__(self, first: float, longest: float, rng: random.Random) -> None:
        self._backoff = Backoff(first, longest, floor=0.0)
        self._rng = rng
        self._failures = 0

    def pause(self) -> float:
        """The next pause; the one after it may be twice as long."""
        self._failures += 1
        return self._backoff.pause(self._failures, self._rng)

    def long_pause(self) -> float:
        """A pause for what a person has to put right: half the longest at least."""
        return self._rng.uniform(self._backoff.most / 2, self._backoff.most)

    def reset(self) -> None:
        """The next pause is a first one again."""
        self._failures = 0
