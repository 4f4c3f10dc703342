"""Projections that were put off, worked out in quiet moments.

A record that was read at a glimpse keeps the whole event until it is projected. Most are as soon as
their node is sent a snapshot; here are the others (on no node, or while no broker is there), so
that what is kept in memory is what nodes get, and no more.

Pure: time comes in as monotonic seconds. One owner thread.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from bridge.record import ObjectRecord
from nodecast.names import ResourceKey

QUIET = 0.1
"""Seconds without news of the source after which there is time."""
_AT_ONCE = 100
"""Records a turn of the loop: some 2 ms."""


class Backlog:
    """The newest record of each object whose projection may still be put off."""

    def __init__(self) -> None:
        self._records: dict[ResourceKey, ObjectRecord] = {}
        self._quiet_from = -math.inf

    def __len__(self) -> int:
        return len(self._records)

    def add(self, changes: Mapping[ResourceKey, ObjectRecord | None], now: float) -> None:
        """Objects changed, or (None) went."""
        self._quiet_from = now + QUIET
        for key, record in changes.items():
            if record is not None and record.put_off:
                self._records[key] = record
            elif self._records:
                self._records.pop(key, None)

    def work(self, now: float) -> float:
        """Project some, if it is quiet; the second at which to be called again."""
        if not self._records:
            return math.inf
        if now < self._quiet_from:
            return self._quiet_from
        for _ in range(min(_AT_ONCE, len(self._records))):
            _, record = self._records.popitem()
            record.project()
        return now if self._records else math.inf
