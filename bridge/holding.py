"""Held kinds: those of which absence means nothing for now.

Pure: time comes in as monotonic seconds. A kind that the bridge cannot see in full (missing,
forbidden, listed in part or not at all) is held, and with it every kind whose placement depends on
it, until `hold` seconds after the cause was seen gone. At a start without a ledger every kind is
held that long, and so is a kind that the ledger counts and of which nothing is placed. A kind of
which too much is missing is held until that is made good or approved (`bridge.guards`). One that
has no rule any more and that the ledger counts is held like one of which nothing is placed.

A kind that has become empty is not held but *waits*: what it or a dependent kind lost stays until
a list made more than `EMPTY_WAIT` later is empty again. A CRD that goes takes its objects with it,
one by one, before the server says 404.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from bridge.catalog import Catalog, Delta
from bridge.guard import Counts, Guarded, GuardPolicy
from bridge.guards import Guards
from bridge.kind_state import KindState
from bridge.placement import Rules
from bridge.sources.events import Interrupted, KindStatus, Listed
from nodecast.errors import InvalidName, NothingToApprove, UnknownKind
from nodecast.names import KindName, ResourceKey, kind_of, parse_kind

EMPTY_WAIT = 5.0
DEAR = 100
"""Objects in a list for each one that is lost: where there are more, the list costs too much."""


class Holding:
    """Keeps the state of every kind and says which are held. One owner thread."""

    def __init__(
        self, rules: Rules, catalog: Catalog, hold: float, guard: GuardPolicy | None = None
    ) -> None:
        self._rules = rules
        self._catalog = catalog
        self.hold = hold
        self._policy = guard or GuardPolicy()
        self._guards = Guards(self._policy, catalog.placed)
        self._kinds = {kind: KindState(self._guards.add(kind)) for kind in rules.kinds}
        self._charged_at: float | None = None
        self._no_ledger = False
        self.held: tuple[KindName, ...] = ()
        self.along: frozenset[KindName] = frozenset()  # held because others are guarded
        self.empty: frozenset[KindName] = frozenset()
        self.waiting: frozenset[KindName] = frozenset()  # those, and the kinds placed through them

    def view(self, kind: KindName) -> KindState:
        """The state of a kind that has a rule, or that the ledger counts."""
        return self._kinds[kind]

    @property
    def in_charge(self) -> bool:
        """Whether anything is held by this bridge's word."""
        return self._charged_at is not None

    @property
    def kinds(self) -> tuple[KindName, ...]:
        """Those with a rule, and those that the ledger counted without one; by name."""
        return tuple(sorted(self._kinds))

    # -- what happens

    def listed(self, event: Listed) -> None:
        """An answer of the source, of whatever status."""
        view = self._kinds[event.kind]
        view.status, view.reason = event.status, event.reason
        view.approved = view.approved and event.status is KindStatus.MISSING
        view.answered_at = max(view.answered_at, event.asked_at)
        if event.status is KindStatus.OK:
            view.listed_at = max(view.listed_at, event.asked_at)
        elif not view.approved:
            view.glimpsed = True

    def interrupted(self, event: Interrupted, now: float) -> None:
        """News of a kind may be missing, or is not any more."""
        view = self._kinds[event.kind]
        if view.interrupted and not event.now:
            view.resumed_at = now
        view.interrupted = event.now

    def changed(self, delta: Delta, now: float) -> None:
        """The catalog changed: remember what was lost, and when."""
        for kind in delta.lost:
            self._kinds[kind].lost_at = now
        for key in delta.departed:
            self._kinds[kind_of(key)].guard.departed(key, now)
        for key in delta.arrived:
            view = self._kinds[kind_of(key)]
            if view.guard.arrived(key):
                view.came_back(now)
        if self._charged_at is None:
            for view in self._kinds.values():
                view.guard.forget(now)

    def take_charge(self, counts: Counts | None, now: float) -> None:
        """The bridge takes charge; `counts` of the ledger, if there is one. Counts that are not
        sure, or of nothing at all, are as good as none, but for the removal guard."""
        if self._charged_at is not None:  # of another epoch: what was held in it is worked out anew
            self.step_down()
        self._charged_at = now
        self._no_ledger = counts is None or not (counts.sure and counts.kinds)
        for view in self._kinds.values():
            view.guard.forget(now)
        for kind, count in (counts.kinds if counts else {}).items():
            self._counted(kind, count)
        self._guards.counted()
        gone = (
            k for k, v in self._kinds.items() if v.guard.counted and not self._catalog.placed(k)
        )
        self._cause(list(self._kinds) if self._no_ledger else list(gone), now)
        self.update(now)

    def step_down(self) -> None:
        """The bridge is in charge no more. What the source says is known still; what is held, or
        let go, is another's to say, and is worked out anew if it takes charge again."""
        self._charged_at, self._no_ledger = None, False
        self._guards = Guards(self._policy, self._catalog.placed)
        self._kinds = {
            kind: KindState(
                self._guards.add(kind),
                status=old.status,
                reason=old.reason,
                answered_at=old.answered_at,
                listed_at=old.listed_at,
                lost_at=old.lost_at,
                interrupted=old.interrupted,
                resumed_at=old.resumed_at,
            )
            for kind, old in self._kinds.items()
            if old.ruled
        }
        self.held, self.along = (), frozenset()
        self.empty, self.waiting = frozenset(), frozenset()

    def _counted(self, kind: str, count: int) -> None:
        """The ledger counts so many of a kind, which may have no rule any more."""
        view = self._kinds.get(KindName(kind))
        if view is None and count:
            try:
                view = self._kinds[parse_kind(kind)] = KindState(
                    self._guards.add(KindName(kind)), ruled=False, status=KindStatus.OK
                )
            except InvalidName:
                return  # agents refuse it too
        if view is not None:
            view.guard.counted = count

    def reported(self, keys: Iterable[ResourceKey], now: float) -> None:
        """What an agent has: without a ledger it counts as placed."""
        if not self._counts_unknown(now):
            return
        for key in keys:
            view = self._kinds.get(kind_of(key))
            if view is not None and not self._catalog.is_placed(key):
                view.guard.departed(key, now)

    def check_approval(self, kind: KindName) -> None:
        """Raises UnknownKind, or NothingToApprove where an approval would change nothing."""
        view = self._kinds.get(kind)
        if view is None:
            raise UnknownKind(f"{kind} has no rule, and the ledger counts none of it")
        if not self.approvable(kind):
            raise NothingToApprove(f"nothing to approve: {self._why_not(kind, view)}")

    def approve(self, kind: KindName) -> None:
        """What is seen of a kind now is what is meant: what keeps it held ends at once, but for
        kinds that it depends on. One that the server does not know counts as empty until it is
        served again: its objects are out of the catalog by now."""
        view = self._kinds[kind]
        view.approved = view.status is KindStatus.MISSING
        self._guards.approve(kind)
        view.caused = view.glimpsed = view.held_itself = False
        view.waiting_since = None
        view.empty_since = -math.inf

    def approvable(self, kind: KindName) -> bool:
        """Whether an approval would change anything: the kind is guarded, missing, or held only
        because the hold is not over."""
        view = self._kinds[kind]
        if self._charged_at is None:
            return False
        if view.guard.guarded(self._catalog.placed(kind)):
            return True
        missing = view.status is KindStatus.MISSING and not view.approved
        return missing or (view.held_itself and view.seen)

    def _why_not(self, kind: KindName, view: KindState) -> str:
        if self._charged_at is None:
            return "this bridge is not in charge"
        if not view.seen:
            return f"{kind} cannot be seen in full ({view.reason or 'no answer yet'})"
        if kind in self.along:
            return f"{kind} is held only along with {', '.join(self.guarded) or 'others'}"
        if view.held:
            return f"{kind} is held only with {', '.join(self.through(kind))}"
        return f"{kind} is not held"

    # -- what follows

    def update(self, now: float) -> None:
        """Decide anew what is held and what waits. Nothing is before the bridge takes charge."""
        if self._charged_at is None:
            return
        self._cause([k for k, v in self._kinds.items() if v.glimpsed], now)
        caused = self.unseen | self._guards.judge(now)
        self._cause(caused, now)
        for kind, view in self._kinds.items():
            if view.caused and kind not in caused:  # its end is seen now: hold counts from here
                view.caused, view.cause_at = False, now
            if view.held_itself and not view.caused and now >= view.cause_at + self.hold:
                view.held_itself = False
        themselves = frozenset(k for k, v in self._kinds.items() if v.held_itself)
        self.along = self._guards.along(themselves) - themselves
        held = self._rules.with_dependents(themselves | self.along)
        for kind, view in self._kinds.items():
            view.held = kind in held
            self._await_second_list(kind, view, now)
            if not view.in_doubt:
                view.guard.forget(now)
        self.held = tuple(sorted(held))
        self.empty = frozenset(k for k, v in self._kinds.items() if v.waiting_since is not None)
        self.waiting = self._rules.with_dependents(self.empty)

    @property
    def unseen(self) -> frozenset[KindName]:
        """Kinds that are not seen in full now."""
        return frozenset(k for k, v in self._kinds.items() if not v.seen)

    def through(self, kind: KindName) -> list[KindName]:
        """The kinds that a kind is placed through and that are held, by name: it is held with
        them."""
        return sorted(each for each in self._rules.depends_on(kind) if self._kinds[each].held)

    @property
    def guarded(self) -> Mapping[KindName, Guarded]:
        """The kinds that the removal guard holds, and what is missing of them."""
        return self._guards.guarded

    def lost_much(self, kind: KindName, since: float) -> bool:
        """Whether a kind has lost more since then than one of `DEAR` objects placed."""
        placed = self._catalog.placed(kind)
        lost = self._kinds[kind].guard.departed_since(since, most=placed // max(DEAR, 1) + 1)
        return lost * DEAR > placed

    @property
    def vanished(self) -> dict[KindName, int]:
        """How many objects the ledger counts of kinds of which nothing is placed, with nothing in
        the way of seeing that: they are gone once the hold is over, unless the guard holds them."""
        unclear = self._rules.with_dependents(self.unseen)
        return {
            kind: view.guard.counted
            for kind, view in self._kinds.items()
            if view.guard.counted and kind not in unclear and not self._catalog.placed(kind)
        }

    def _cause(self, kinds: Iterable[KindName], now: float) -> None:
        """Hold `kinds` as of now."""
        for kind in kinds:
            view = self._kinds[kind]
            view.held_itself = view.caused = True
            view.glimpsed = False
            view.cause_at = now

    def _await_second_list(self, kind: KindName, view: KindState, now: float) -> None:
        empty = view.ruled and view.status is KindStatus.OK and not self._catalog.count(kind)
        if not empty:
            if view.waiting_since is not None:
                view.came_back(now)
            view.empty_since = view.waiting_since = None
            return
        if view.empty_since is None:
            view.empty_since = now
        had_some = view.guard.lost_some or self._no_ledger
        if view.waiting_since is not None:
            if view.listed_at > view.waiting_since + EMPTY_WAIT:
                view.waiting_since = None
        elif had_some and view.listed_at <= view.empty_since + EMPTY_WAIT:
            view.waiting_since = view.empty_since

    def _counts_unknown(self, now: float) -> bool:
        """Without a ledger, nothing can be counted before the agents had time to report."""
        charged = self._charged_at
        return self._no_ledger and charged is not None and now < charged + self.hold

    def counts(self, now: float) -> Counts:
        """What the ledger is to count."""
        counts = {k: v.guard.count(self._catalog.placed(k)) for k, v in self._kinds.items()}
        return Counts(
            {kind: n for kind, n in counts.items() if n or self._kinds[kind].ruled},
            sure=not self._counts_unknown(now),
        )

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
            if view.held_itself and not view.caused:
                times.append(view.cause_at + self.hold)
            if not view.in_doubt:
                times.append(view.guard.next_forgotten)
            if view.waiting_since is not None and now <= view.waiting_since + EMPTY_WAIT:
                times.append(view.waiting_since + EMPTY_WAIT + 0.01)
        return min(times)
