"""The removal guard of all kinds: one mistake takes objects of many kinds, and few of some.

Pure: time comes in as monotonic seconds. Beside each kind for itself (`bridge.guard`):

- where no kind is guarded for itself, all count together, by the same numbers. If so much of
  everything is missing, each kind of which anything is missing is guarded, and approved one by one,
  until so much is back. Once each is back or approved that is over, and what goes missing later is
  another matter;
- while any kind is guarded, and held a while longer because it was, those that lost something
  within the window before or after that are held along with it. They need no approval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bridge.guard import Guarded, GuardPolicy, KindGuard
from nodecast.names import KindName

_NONE: frozenset[KindName] = frozenset()


@dataclass(slots=True)
class _Together:
    """Too much was missing of all kinds together: of `before` objects. `let_go`: how many of the
    missing ones were approved since."""

    before: int
    let_go: int = 0


class Guards:
    """The guards of the kinds, and what they decide together. One owner thread."""

    def __init__(self, policy: GuardPolicy, placed: Callable[[KindName], int]) -> None:
        """`placed`: how many objects of a kind are on at least one node."""
        self._policy = policy
        self._placed = placed
        self._kinds: dict[KindName, KindGuard] = {}
        self._counted = 0
        self._together: _Together | None = None
        self._lost_at = -math.inf  # when guarded kinds lost too much last
        self._tripped: set[KindName] = set()
        self._along = _NONE

    def add(self, kind: KindName) -> KindGuard:
        """The guard of a kind from now on."""
        guard = self._kinds[kind] = KindGuard(self._policy)
        return guard

    def counted(self) -> None:
        """The bridge takes charge; each kind knows what the ledger counted."""
        self._counted = sum(guard.counted for guard in self._kinds.values())

    def approve(self, kind: KindName) -> None:
        """What is placed now of a kind is what is meant."""
        guard = self._kinds[kind]
        if self._together is not None:
            self._together.let_go += guard.missing(self._placed(kind))
        guard.approve()

    def judge(self, now: float) -> frozenset[KindName]:
        """The kinds that are guarded now."""
        before = self.guarded.keys()
        for kind, guard in self._kinds.items():
            guard.judge(self._placed(kind), now)
        missing = {k: g.missing(self._placed(k)) for k, g in self._kinds.items()}
        lost = frozenset(kind for kind, count in missing.items() if count)
        if before and self._burst(now):
            self._lost_at = now
        if any(guard.alone for guard in self._kinds.values()):
            self._part()
        else:
            self._judge_together(sum(missing.values()), lost, now)
        guarded = frozenset(self.guarded)
        if guarded - before:
            self._lost_at = now
        for kind in guarded & before:
            self._lost_at = max(self._lost_at, self._kinds[kind].burst(self._placed(kind), now))
        self._tripped |= guarded
        if guarded and self._lately(now):
            self._along |= lost
        self._along &= lost
        return guarded

    def along(self, held: frozenset[KindName]) -> frozenset[KindName]:
        """The kinds to be held along with those that were guarded, while one of these is `held`."""
        if not self._tripped & held:
            self._tripped, self._along = set(), _NONE
        return self._along

    @property
    def guarded(self) -> Mapping[KindName, Guarded]:
        """What is missing of each kind that is guarded."""
        found = {kind: guard.guarded(self._placed(kind)) for kind, guard in self._kinds.items()}
        return {kind: guarded for kind, guarded in found.items() if guarded}

    def _judge_together(self, missing: int, lost: frozenset[KindName], now: float) -> None:
        if self._together is not None and self._settled(now):
            self._part()
        together = self._together
        if together is None:
            before = self._too_many_together(now)
            if before is None:
                return
            self._together, self._lost_at = _Together(before), now
        elif not self._policy.too_many(together.before, missing + together.let_go):
            self._part()
            return
        for kind, guard in self._kinds.items():
            guard.judge_with_all(self._placed(kind), more=kind in lost and self._lately(now))

    def _settled(self, now: float) -> bool:
        """Whether what was missing together is back or approved, and no more of it may follow."""
        return not (self.guarded or self._lately(now))

    def _part(self) -> None:
        """The kinds count for themselves again."""
        self._together = None
        for guard in self._kinds.values():
            guard.release_with_all()

    def _too_many_together(self, now: float) -> int | None:
        """Of how many objects too many are missing, if so."""
        gone = sum(max(0, g.counted - self._placed(k)) for k, g in self._kinds.items())
        counted = self._counted if self._policy.too_many(self._counted, gone) else 0
        return max(self._burst(now), counted) or None

    def _burst(self, now: float) -> int:
        """Of how many objects too many departed within the window; 0: not so many."""
        lately = sum(guard.lately(now) for guard in self._kinds.values())
        before = sum(map(self._placed, self._kinds)) + lately
        return before if self._policy.too_many(before, lately) else 0

    def _lately(self, now: float) -> bool:
        """Whether what is lost now may still be of the mistake that tripped the guard last."""
        return now <= self._lost_at + self._policy.window
