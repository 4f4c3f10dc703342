"""Lists that something waits for: asked of the source once, however many wait, and paced."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from nodecast.names import KindName

_PAUSE = 1.0
"""Seconds between two requests for the same kind."""


class Listing:
    """Collects wishes and passes them on. One owner thread."""

    def __init__(self, relist: Callable[[frozenset[KindName]], None]) -> None:
        """`relist`: asks the source for lists that begin after the call."""
        self._relist = relist
        self._wanted: dict[KindName, float] = {}
        self._asked: dict[KindName, float] = {}

    def want(self, kinds: Mapping[KindName, float]) -> None:
        """Lists of `kinds` are needed that are asked for at these seconds or later."""
        for kind, after in kinds.items():
            if self._asked.get(kind, -math.inf) < after:
                self._wanted[kind] = max(after, self._wanted.get(kind, -math.inf))

    def ask(self, now: float) -> float:
        """Ask for what may be asked for now; the second at which there is more to ask."""
        ready, soonest = set(), math.inf
        for kind, after in self._wanted.items():
            at = max(after, self._asked.get(kind, -math.inf) + _PAUSE)
            if at <= now:
                ready.add(kind)
            else:
                soonest = min(soonest, at)
        for kind in ready:
            self._asked[kind] = now
            del self._wanted[kind]
        if ready:
            self._relist(frozenset(ready))
        return soonest
