"""The removal guard: whether so much of a kind is missing that it looks like a mistake.

Pure: time comes in as monotonic seconds. Of each kind it is kept which objects were placed on a
node within the window and are on none any more, whatever took them away. If those are at least
`number`, and more than `share` of what was placed, the guard trips: the kind is held until fewer
than that are missing or an operator approves. How many were placed is kept as it was then: objects
that are made later make up for none that is missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nodecast.names import ResourceKey


@dataclass(frozen=True, slots=True)
class GuardPolicy:
    """`share`, from 0 to 1, and `number` of a kind's placed objects; `window` in seconds."""

    enabled: bool = True
    share: float = 0.5
    number: int = 10
    window: float = 60.0


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

    __slots__ = ("_before", "_departed", "_policy", "counted")

    def __init__(self, policy: GuardPolicy) -> None:
        self._policy = policy
        self._departed: dict[ResourceKey, float] = {}  # oldest first
        self._before: int | None = None
        self.counted = 0
        """How many the ledger counted, until that is over."""

    # -- what happens

    def departed(self, keys: Iterable[ResourceKey], now: float) -> None:
        """These were placed, and are no more."""
        for key in keys:
            self._departed.pop(key, None)
            self._departed[key] = now

    def arrived(self, keys: Iterable[ResourceKey]) -> bool:
        """These are placed; whether any of them came back."""
        back = [self._departed.pop(key, None) for key in keys]
        return any(at is not None for at in back)

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
        self._before, self.counted = None, 0

    # -- what follows

    def judge(self, placed: int, now: float) -> bool:
        """Whether the guard holds the kind, of which `placed` objects are on nodes now."""
        if self._before is None:
            lately = self._lately(now)
            for before, missing in (
                (placed + lately, lately),
                (self.counted, self.counted - placed),
            ):
                if self._too_many(before, missing):
                    self._before = max(before, self._before or 0)
        elif not self._too_many(self._before, self.missing(placed)):
            self._before = None
        return self._before is not None

    def guarded(self, placed: int) -> Guarded | None:
        """How many are missing of how many, while the guard holds the kind."""
        if self._before is None:
            return None
        return Guarded(self._before, min(self._before, self.missing(placed)))

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

    def _lately(self, now: float) -> int:
        """How many departed within the window: kinds in doubt remember more."""
        if len(self._departed) < self._policy.number:
            return len(self._departed)
        return sum(at > now - self._policy.window for at in self._departed.values())

    def missing(self, placed: int) -> int:
        """How many departed and still count, by key, or by what the ledger counted."""
        return max(len(self._departed), self.counted - placed)

    def _too_many(self, before: int, missing: int) -> bool:
        policy = self._policy
        return policy.enabled and missing >= policy.number and missing > policy.share * before
