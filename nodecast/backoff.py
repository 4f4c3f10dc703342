"""Back-off: how long to wait before trying again, as a value.

Own loops wait for many things at once, so nothing here sleeps: who asks waits as it sees fit.
Pauses double from `first` to `most` seconds; the jitter keeps a fleet that failed together from
trying again together.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

_MOST_DOUBLINGS = 32


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds after the n-th failure in a row: between `floor` times the ceiling and the ceiling,
    min(most, first * 2^(n-1)). `floor` 0 is full jitter."""

    first: float
    most: float
    floor: float = 0.5

    def pause(self, failures: int, rng: random.Random) -> float:
        """The pause after `failures` in a row (from 1 on)."""
        doublings = min(max(failures - 1, 0), _MOST_DOUBLINGS)
        ceiling = min(self.most, self.first * 2.0**doublings)
        return rng.uniform(self.floor * ceiling, ceiling)
