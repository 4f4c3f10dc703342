"""Settle: when a change that takes something away may go out.

Pure: time comes in as monotonic seconds. Kinds arrive in any order, and one watch may be silent: an
object may look as if it left a node while the news of what keeps it there is still under way. So a
removal waits until its kind has lost nothing, and no watch concerned was broken, for `settle`
seconds (`settle_max` at most), until no kind that it depends on awaits a second list, and, where
that is in doubt, until the kinds concerned were listed after the loss was seen:

- an object that is still there, of a kind that is placed through others, may be kept through them;
- of a kind that was held till now, the bridge may know what was true when the hold began;
- an object that is gone may be the first of many, and the watch that told of it broken since. So
  its kind is listed while it settles, unless that costs too much beside what the kind lost.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bridge.catalog import Catalog
from bridge.contents import Content
from bridge.holding import Holding
from bridge.placement import Rules
from bridge.sources.events import KindStatus
from nodecast.names import KindName, ResourceKey, kind_of


@dataclass(frozen=True, slots=True)
class Verdict:
    """`go`, or else: look again at `at` (inf: after the next list). `lists`: those that must be
    asked for, at these seconds or later."""

    go: bool
    at: float = math.inf
    lists: Mapping[KindName, float] = field(default_factory=dict)


GO = Verdict(True)


@dataclass(slots=True)
class Leaving:
    """What is about to leave a node.

    `since`: when that was first seen in this connection. `doubts`: keys, or whole kinds, that news
    still under way may keep on the node; `doubted_since`: when the last of them was seen. `waited`:
    till when it was last seen to wait for an empty kind, or for a broken watch.
    """

    since: float | None = None
    waited: float = -math.inf
    doubts: frozenset[str] = frozenset()
    doubted_since: float = -math.inf

    def clear(self) -> None:
        self.since, self.doubts, self.doubted_since = None, frozenset(), -math.inf
        self.waited = -math.inf


class Settle:
    """Judges changes of nodes. Keeps nothing but what it is given."""

    def __init__(
        self, rules: Rules, catalog: Catalog, holding: Holding, settle: float, settle_max: float
    ) -> None:
        self._rules = rules
        self._catalog = catalog
        self._holding = holding
        self._settle = settle
        self._settle_max = settle_max

    def judge(self, leaving: Leaving, old: Content | None, new: Content, now: float) -> Verdict:
        """May a node go from `old` (None: unknown what it has) to `new` now?"""
        keys = set() if old is None else new.takes_away(old)
        if not keys and old is not None and old.held == new.held:
            leaving.clear()
            return GO
        opened = self._opened(old, new)
        kinds = opened | {kind_of(key) for key in keys}
        if not kinds:
            leaving.clear()
            return GO
        if leaving.since is None:
            leaving.since = now
        doubts = self._doubts(keys, opened, held=old is not None)
        if doubts - leaving.doubts:
            leaving.doubted_since = now
        leaving.doubts = doubts
        whole = self._whole_again(leaving.since, kinds)
        if kinds & self._holding.waiting or now < whole:
            leaving.waited = max(now, whole)
            return Verdict(False, whole if now < whole else math.inf)
        lists = self._lists_needed(leaving, keys, now)
        if lists:
            return Verdict(False, math.inf, lists)
        due = self._due(leaving.since, leaving.waited, kinds)
        if now < due:
            return Verdict(False, due)
        leaving.clear()
        return GO

    def _whole_again(self, since: float, kinds: frozenset[KindName]) -> float:
        """When no watch concerned was broken for `settle` seconds; `settle_max` is the limit."""
        views = [self._holding.view(kind) for kind in self._concerned(kinds)]
        resumed = max(math.inf if view.interrupted else view.resumed_at for view in views)
        return min(resumed + self._settle, since + self._settle_max)

    def _concerned(self, kinds: frozenset[KindName]) -> frozenset[KindName]:
        """These kinds, and those whose objects decide where objects of them are."""
        return kinds.union(*(self._rules.depends_on(kind) for kind in kinds))

    def _opened(self, old: Content | None, new: Content) -> frozenset[KindName]:
        """The kinds of which a node may lose what the bridge does not know of."""
        before = self._rules.kinds if old is None else old.held
        return frozenset(before) - frozenset(new.held)

    def _due(self, since: float, waited: float, kinds: Iterable[KindName]) -> float:
        """When it has settled. What was lost while it waited for something else settles too."""
        quiet = max(self._holding.view(kind).lost_at for kind in kinds) + self._settle
        return max(since + self._settle, min(quiet, max(since, waited) + self._settle_max))

    def _doubts(
        self, keys: Iterable[ResourceKey], opened: Iterable[KindName], *, held: bool
    ) -> frozenset[str]:
        """An object that is gone is gone; one that is there may be kept through another kind. A
        kind that was `held` till now may look as it did when it began to be."""
        there = (key for key in keys if (r := self._catalog.get(key)) is not None and r.placeable)
        dependents = (
            each for each in (*there, *opened) if self._rules.depends_on(kind_of(ResourceKey(each)))
        )
        return frozenset((*dependents, *(opened if held else ())))

    def _lists_needed(
        self, leaving: Leaving, keys: Iterable[ResourceKey], now: float
    ) -> dict[KindName, float]:
        """The kinds concerned that were not listed late enough, and when they must be."""
        doubted = frozenset(kind_of(ResourceKey(each)) for each in leaving.doubts)
        after = dict.fromkeys(self._concerned(doubted), leaving.doubted_since)
        for kind in {kind_of(key) for key in keys if self._catalog.get(key) is None}:
            if self._holding.lost_much(kind, now - self._settle_max):
                after[kind] = max(after.get(kind, -math.inf), self._settling(leaving, kind))
        views = {kind: self._holding.view(kind) for kind in after}
        return {
            kind: after[kind]
            for kind, view in views.items()
            if view.ruled and view.status is KindStatus.OK and view.listed_at < after[kind]
        }

    def _settling(self, leaving: Leaving, kind: KindName) -> float:
        """When half the time is over that a loss of a kind settles: a list has the other half."""
        assert leaving.since is not None, "something is about to leave"
        lost_at = self._holding.view(kind).lost_at
        return min(lost_at + self._settle / 2, leaving.since + self._settle_max)
