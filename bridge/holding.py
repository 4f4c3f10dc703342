"""Held kinds: those of which absence means nothing for now.

Pure: time comes in as monotonic seconds. A kind that the bridge cannot see in full (missing,
forbidden, listed in part or not at all) is held, and with it every kind whose placement depends on
it, until `hold` seconds after the cause was seen gone. At a start without a ledger every kind is
held that long, and so is a kind that the ledger counts and of which nothing is placed.

A kind that has become empty is not held but *waits*: what it or a dependent kind lost stays until
a list made more than `EMPTY_WAIT` later is empty again. A CRD that goes takes its objects with it,
one by one, before the server says 404.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bridge.catalog import Catalog, Delta
from bridge.placement import Rules
from bridge.sources.events import KindStatus, Listed
from nodecast.names import KindName, ResourceKey, kind_of

EMPTY_WAIT = 5.0
WINDOW = 60.0
"""Seconds for which an object that is no longer placed still counts as placed in the ledger."""


@dataclass(slots=True)
class KindView:
    """What is known of one kind. `listed_at`: the newest whole list was asked for then."""

    status: KindStatus | None = None
    answered_at: float = -math.inf
    listed_at: float = -math.inf
    lost_at: float = -math.inf
    glimpsed: bool = False  # a cause came, and may have gone, since the last update
    caused: bool = False  # there is a cause to hold it
    cause_at: float = -math.inf  # when one was seen last, or seen gone
    held: bool = False
    empty_since: float | None = None
    waiting_since: float | None = None
    ledger_count: int = 0
    departed: dict[ResourceKey, float] = field(default_factory=dict)  # oldest first

    @property
    def in_doubt(self) -> bool:
        """Whether what was there before still counts."""
        return self.held or self.waiting_since is not None

    def forget(self, until: float) -> None:
        """What departed up to then no longer counts."""
        while self.departed:
            key = next(iter(self.departed))
            if self.departed[key] > until:
                return
            del self.departed[key]


class Holding:
    """Keeps the view of every kind and says which are held. One owner thread."""

    def __init__(self, rules: Rules, catalog: Catalog, hold: float) -> None:
        self._rules = rules
        self._catalog = catalog
        self.hold = hold
        self._kinds = {kind: KindView() for kind in rules.kinds}
        self._charged_at: float | None = None
        self._no_ledger = False
        self.held: tuple[KindName, ...] = ()
        self.empty: frozenset[KindName] = frozenset()
        self.waiting: frozenset[KindName] = frozenset()  # those, and the kinds placed through them

    def view(self, kind: KindName) -> KindView:
        return self._kinds[kind]

    # -- what happens

    def listed(self, event: Listed) -> None:
        """An answer of the source, of whatever status."""
        view = self._kinds[event.kind]
        view.status = event.status
        view.answered_at = max(view.answered_at, event.asked_at)
        if event.status is KindStatus.OK:
            view.listed_at = max(view.listed_at, event.asked_at)
        else:
            view.glimpsed = True

    def changed(self, delta: Delta, now: float) -> None:
        """The catalog changed: remember what was lost, and when."""
        for kind in delta.lost:
            self._kinds[kind].lost_at = now
        for key in delta.departed:
            self._kinds[kind_of(key)].departed[key] = now
        for key in delta.arrived:
            self._kinds[kind_of(key)].departed.pop(key, None)

    def take_charge(self, counts: Mapping[str, int] | None, now: float) -> None:
        """The bridge takes charge; `counts` of the ledger, None or empty without one."""
        self._charged_at = now
        self._no_ledger = not counts
        for kind, view in self._kinds.items():
            view.ledger_count = (counts or {}).get(kind, 0)
        self._cause(
            (
                kind
                for kind, view in self._kinds.items()
                if self._no_ledger or (view.ledger_count and not self._catalog.placed(kind))
            ),
            now,
        )

    def reported(self, keys: Iterable[ResourceKey], now: float) -> None:
        """What an agent has: without a ledger it counts as placed."""
        if not self._counts_unknown(now):
            return
        for key in keys:
            view = self._kinds.get(kind_of(key))
            if view is not None and not self._catalog.is_placed(key):
                view.departed.pop(key, None)
                view.departed[key] = now

    # -- what follows

    def update(self, now: float) -> None:
        """Decide anew what is held and what waits. Nothing is before the bridge takes charge."""
        if self._charged_at is None:
            return
        self._cause([k for k, v in self._kinds.items() if v.glimpsed], now)
        caused = self._cause(self.unseen, now)
        for kind, view in self._kinds.items():
            if view.caused and kind not in caused:  # its end is seen now: hold counts from here
                view.caused, view.cause_at = False, now
            if view.held and not view.caused and now >= view.cause_at + self.hold:
                view.held = False
            self._await_second_list(kind, view, now)
            if not view.in_doubt:
                view.ledger_count = 0
                view.forget(now - WINDOW)
        self.held = tuple(k for k in self._rules.kinds if self._kinds[k].held)
        self.empty = frozenset(k for k, v in self._kinds.items() if v.waiting_since is not None)
        self.waiting = self._rules.with_dependents(self.empty)

    @property
    def unseen(self) -> frozenset[KindName]:
        """Kinds that are not seen in full now."""
        return frozenset(k for k, v in self._kinds.items() if v.status is not KindStatus.OK)

    @property
    def vanished(self) -> dict[KindName, int]:
        """How many objects the ledger counts of kinds of which nothing is placed, with nothing in
        the way of seeing that: they are gone once the hold is over."""
        unclear = self._rules.with_dependents(self.unseen)
        return {
            kind: view.ledger_count
            for kind, view in self._kinds.items()
            if view.ledger_count and kind not in unclear and not self._catalog.placed(kind)
        }

    def _cause(self, kinds: Iterable[KindName], now: float) -> frozenset[KindName]:
        """Hold `kinds` and their dependents as of now."""
        closure = self._rules.with_dependents(kinds)
        for kind in closure:
            view = self._kinds[kind]
            view.held = view.caused = True
            view.glimpsed = False
            view.cause_at = now
        return closure

    def _await_second_list(self, kind: KindName, view: KindView, now: float) -> None:
        empty = view.status is KindStatus.OK and not self._catalog.count(kind)
        if not empty:
            view.empty_since = view.waiting_since = None
            return
        if view.empty_since is None:
            view.empty_since = now
        had_some = view.departed or view.ledger_count or self._no_ledger
        if view.waiting_since is not None:
            if view.listed_at > view.waiting_since + EMPTY_WAIT:
                view.waiting_since = None
        elif had_some and view.listed_at <= view.empty_since + EMPTY_WAIT:
            view.waiting_since = view.empty_since

    def _counts_unknown(self, now: float) -> bool:
        """Without a ledger, nothing can be counted before the agents had time to report."""
        charged = self._charged_at
        return self._no_ledger and charged is not None and now < charged + self.hold

    def counts(self, now: float) -> dict[str, int]:
        """Placed objects a kind, for the ledger; empty while that cannot be known."""
        if self._counts_unknown(now):
            return {}
        return {
            kind: max(view.ledger_count, self._catalog.placed(kind) + len(view.departed))
            for kind, view in self._kinds.items()
        }

    def wanted_lists(self, now: float) -> dict[KindName, float]:
        """Kinds that wait for a list, and the second after which it must be asked for."""
        return {
            kind: view.waiting_since + EMPTY_WAIT
            for kind, view in self._kinds.items()
            if view.waiting_since is not None and now > view.waiting_since + EMPTY_WAIT
        }

    def next_change(self, now: float) -> float:
        """When `update` or `wanted_lists` may say something new by time alone."""
        times = [math.inf]
        for view in self._kinds.values():
            if view.held and not view.caused:
                times.append(view.cause_at + self.hold)
            if view.departed and not view.in_doubt:
                times.append(next(iter(view.departed.values())) + WINDOW)
            if view.waiting_since is not None and now <= view.waiting_since + EMPTY_WAIT:
                times.append(view.waiting_since + EMPTY_WAIT + 0.01)
        return min(times)
