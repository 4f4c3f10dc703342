"""The removal guard of one kind: whether so much of it is missing that it looks like a mistake.

Pure: time comes in as monotonic seconds. It is kept which objects were placed on a node within the
window and are on none any more, whatever took them away. If those are at least `number`, and more
than `share` of what was placed, the guard trips: the kind is held until fewer than that are missing
or an operator approves. How many were placed is kept as it was then: objects that are made later
make up for none that is missing. What holds of several kinds together is in `bridge.guards`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice, takewhile

from nodecast.names import ResourceKey


@dataclass(frozen=True, slots=True)
class GuardPolicy:
    """`share`, from 0 to 1, and `number` of a kind's placed objects; `window` in seconds."""

    enabled: bool = True
    share: float = 0.5
    number: int = 10
    window: float = 60.0

    def too_many(self, before: int, missing: int) -> bool:
        """Whether so many of so many look like a mistake."""
        return self.enabled and missing >= self.number and missing > self.share * before


@dataclass(frozen=True, slots=True)
class Guarded:
    """`missing` of `placed` objects of a kind would be on no node any more."""

    placed: int
    missing: int


@dataclass(frozen=True, slots=True)
class Counts:
    """Placed objects by kind, the most within the window; not `sure`: there may be more."""

    kinds: Mapping[str, int]
    sure: bool = True


class KindGuard:
    """What was placed of one kind lately, and whether too much of it is missing."""

    __slots__ = ("_before", "_departed", "_most", "_policy", "_with_all", "counted")

    def __init__(self, policy: GuardPolicy) -> None:
        self._policy = policy
        self._departed: dict[ResourceKey, float] = {}  # oldest first
        self._before: int | None = None
        self._with_all = False
        self._most = 0  # that was missing while it was guarded with all
        self.counted = 0
        """How many the ledger counted, until that is over."""

    # -- what happens

    def departed(self, key: ResourceKey, now: float) -> None:
        """It was placed, and is no more."""
        self._departed.pop(key, None)
        self._departed[key] = now

    def arrived(self, key: ResourceKey) -> bool:
        """It is placed; whether it came back."""
        return self._departed.pop(key, None) is not None

    def forget(self, now: float) -> None:
        """What departed longer ago than the window no longer counts, nor what the ledger said."""
        self.counted = 0
        while self._departed:
            key = next(iter(self._departed))
            if self._departed[key] > now - self._policy.window:
                return
            del self._departed[key]

    def approve(self) -> None:
        """What is placed now is what is meant."""
        self._departed.clear()
        self._before, self._with_all = None, False
        self._most = self.counted = 0

    def judge_with_all(self, placed: int, *, more: bool) -> None:
        """Too much is missing of all kinds together; `more`: some of it is of this one. It is
        guarded until most of that is back."""
        missing = self.missing(placed)
        self._most = max(self._most, missing)
        if missing <= self._policy.share * self._most:
            self._let_go()
        elif self._before is None and more:
            self._before, self._with_all = self.count(placed), True

    def release_with_all(self) -> None:
        """That is over."""
        self._most = 0
        self._let_go()

    def _let_go(self) -> None:
        if self._with_all:
            self._before, self._with_all = None, False

    # -- what follows

    def judge(self, placed: int, now: float) -> None:
        """Decide anew whether too much of the kind is missing; `placed` objects are on nodes."""
        lately = self.lately(now)
        losses = ((placed + lately, lately), (self.counted, self.counted - placed))
        tripped = [before for before, lost in losses if self._policy.too_many(before, lost)]
        if tripped and (self._before is None or self._with_all):
            self._before, self._with_all = max(tripped), False
        elif self.alone and not self._policy.too_many(self._before or 0, self.missing(placed)):
            self._before = None

    @property
    def alone(self) -> bool:
        """Whether the kind is guarded because of what is missing of itself."""
        return self._before is not None and not self._with_all

    def burst(self, placed: int, now: float) -> float:
        """When the last object departed, if too many did within the window; else never."""
        lately = self.lately(now)
        if not self._policy.too_many(placed + lately, lately):
            return -math.inf
        return next(reversed(self._departed.values()))

    def guarded(self, placed: int) -> Guarded | None:
        """How many are missing of how many, while the guard holds the kind."""
        if self._before is None:
            return None
        return Guarded(self._before, min(self._before, self.missing(placed)))

    def missing(self, placed: int) -> int:
        """How many departed and still count, by key, or by what the ledger counted."""
        return max(len(self._departed), self.counted - placed)

    def lately(self, now: float) -> int:
        """How many departed within the window: a kind in doubt remembers more."""
        return self.departed_since(now - self._policy.window, len(self._departed))

    def departed_since(self, since: float, most: int) -> int:
        """How many departed after that second, counted up to `most`: it is asked for each node
        that loses something."""
        newest = islice(reversed(self._departed.values()), most)
        return sum(1 for _ in takewhile(lambda at: at > since, newest))

    def count(self, placed: int) -> int:
        """How many were placed, the most within the window: what the ledger is to count."""
        return max(self.counted, placed + len(self._departed))

    @property
    def lost_some(self) -> bool:
        """Whether anything that was placed may be missing."""
        return bool(self._departed or self.counted)

    @property
    def next_forgotten(self) -> float:
        """When `forget` has something to do."""
        for at in self._departed.values():
            return at + self._policy.window
        return math.inf
