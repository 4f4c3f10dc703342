"""The ledger's book: what the broker has confirmed of it, and when it must be written.

No clock, no socket. A node's name is in the acknowledged ledger before its first snapshot, so that
a bridge that starts anew knows every node that may hold one. One write is in flight at a time; a
new name goes at once, a mark or a count that moved at most every `PERIOD` seconds.
"""

from __future__ import annotations

import math
from collections.abc import Set
from dataclasses import dataclass, replace

from bridge.guard import Counts
from nodecast.names import NodeName

PERIOD = 5.0


@dataclass(frozen=True, slots=True)
class Written:
    """One write: the names and figures that it holds."""

    names: frozenset[NodeName]
    mark: int
    counts: Counts


class LedgerBook:
    """Keeps what was written and what was acknowledged. One owner thread."""

    def __init__(self) -> None:
        self.names: frozenset[NodeName] = frozenset()
        """The names that the broker has confirmed in this connection."""
        self.paused = False
        self._in_flight: Written | None = None
        self._last: Written | None = None
        self._written_at = -math.inf
        self._failures_until = -math.inf

    def disconnected(self) -> None:
        """Nothing that was confirmed before counts in the next connection."""
        self.names = frozenset()
        self._in_flight = self._last = None
        self._written_at = self._failures_until = -math.inf

    def idle_until(self, names: Set[NodeName]) -> float:
        """Before then nothing is due, whatever moved: no need to count."""
        if self._in_flight is not None:
            return math.inf
        if self._last is None or len(names) > len(self._last.names):
            return self._failures_until
        return max(self._written_at + PERIOD, self._failures_until)

    def due(self, names: Set[NodeName], mark: int, counts: Counts, now: float) -> float:
        """When it must be written: `now`, later, or never as things are."""
        if self._in_flight is not None:
            return math.inf
        if self._last is None or len(names) > len(self._last.names):  # names only ever come
            return max(now, self._failures_until)
        if (self._last.mark, self._last.counts) != (mark, counts):
            return max(now, self._written_at + PERIOD, self._failures_until)
        return math.inf

    def write(self, names: Set[NodeName], mark: int, counts: Counts, now: float) -> None:
        """It is being written now."""
        self._in_flight = Written(frozenset(names), mark, counts)
        self._last, self._written_at = self._in_flight, now

    def acknowledged(self) -> None:
        """The broker has the write that was in flight."""
        if self._in_flight is not None:
            self.names, self._in_flight = self._in_flight.names, None

    def overwritten(self, until: float) -> None:
        """The broker holds another ledger than ours, or none: written again at `until`."""
        if self._last is not None:
            self._last = replace(self._last, names=frozenset(), mark=-1)
            self._failures_until = max(self._failures_until, until)

    def hurry(self) -> None:
        """What moves now must not wait for the period."""
        self._written_at = -math.inf

    def refused(self, until: float) -> None:
        """The broker did not take it: written again at `until`."""
        if self._in_flight is not None:
            self._last = replace(self._in_flight, names=self.names, mark=-1)
            self._in_flight = None
        self._failures_until = until
