"""Wakes: for each key the earliest moment at which to look at it. Times are the owner's seconds."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Wakes(Generic[K]):
    """An earlier look is early enough: it finds out how long to wait from then on."""

    __slots__ = ("_heap", "_order", "_when")

    def __init__(self) -> None:
        self._when: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._order = itertools.count()

    def __len__(self) -> int:
        """How many keys wait."""
        return len(self._when)

    def set(self, key: K, at: float) -> None:
        """Look at `key` at `at`, or when it is due already if that is earlier."""
        if at < self._when.get(key, math.inf):
            self._when[key] = at
            heapq.heappush(self._heap, (at, next(self._order), key))

    def due(self, now: float) -> list[K]:
        """The keys whose time has come; each is given once."""
        keys = []
        while self._heap and self._heap[0][0] <= now:
            at, _, key = heapq.heappop(self._heap)
            if self._when.get(key) == at:
                del self._when[key]
                keys.append(key)
        return keys

    @property
    def next_at(self) -> float:
        """When `due` gives something again; inf: never, as things are. May be early."""
        return self._heap[0][0] if self._heap else math.inf
