"""Pace: at most so many a second, in small bursts. Time comes in as monotonic seconds."""

from __future__ import annotations

_BURST = 0.1
"""Seconds' worth that may go at once, since loops do not run at exact moments."""


class Pace:
    """Says when the next one may go."""

    def __init__(self, rate: float) -> None:
        """`rate`: how many a second, above 0."""
        self._step = 1 / rate
        self._next = 0.0

    def next_at(self, now: float) -> float:
        """When the next one may go: `now` or later."""
        return max(now, self._next)

    def take(self, now: float) -> None:
        """One goes now."""
        self._next = max(self._next, now - _BURST) + self._step
