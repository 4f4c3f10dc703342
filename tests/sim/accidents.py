"""Accidents of the source, one at a time: what it shows is not what people want.

- a CRD is removed: its objects are deleted one by one, a list is empty, then 404; later the kind
  is back and empty, and its objects come back one by one. Its absence counts as meant once it is
  served again for `hold` seconds, or at once where no watch noticed the 404: then nothing but a
  removal guard can tell that it was not emptied on purpose;
- a kind is forbidden for a while;
- the directory vanishes for a while;
- all or most objects of a kind, or of all, are deleted by mistake, or are not seen any more by a
  bridge that was started with other settings. Nothing but the removal guard can tell that from what
  is wanted: where so much is missing that the guard must trip, none of it may leave a node before
  an operator approves; where less is, it is as good as wanted.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Mapping

from bridge.guard import GuardPolicy
from bridge.sources.events import KindStatus
from nodecast.names import KindName, ResourceKey, kind_of
from tests.sim.clock import Simulation
from tests.sim.things import KINDS, placed_by_kind
from tests.sim.truth import Truth

MARGIN = 1
"""Objects more than the guard's number that an accident must take: the bridge's view lags."""
CLEARLY = 0.75
"""The share that it must take."""
MOST = 0.85


class Accidents:
    """What is wrong with the source now. `hold`, `guard`: the bridge's settings; `known`:
    how much of a kind the bridge in charge knows to be placed."""

    def __init__(
        self,
        sim: Simulation,
        truth: Truth,
        hold: float,
        guard: GuardPolicy,
        known: Callable[[KindName], int],
    ) -> None:
        self._sim = sim
        self._truth = truth
        self._hold = hold
        self._guard = guard
        self._known = known
        self._before: Mapping[KindName, int] = {}
        self._kinds: frozenset[KindName] = frozenset()
        self._removed = False
        self._number = 0
        self._restart: Callable[[], None] | None = None

    @property
    def running(self) -> bool:
        return bool(self._kinds)

    def touch(self, key: ResourceKey) -> bool:
        """Whether an object cannot be edited now: its kind is not there."""
        return self._removed and kind_of(key) in self._kinds

    def crd_removed(self, kinds: frozenset[KindName], rng: random.Random) -> None:
        """Kinds go with all their objects, and come back."""
        keys = self._of(kinds)
        if not self._begin(kinds, removed=True, takes=keys):
            return
        span = self._delete(keys, rng)
        missing_at = span + rng.uniform(0.1, 4.3)
        served_at = missing_at + rng.uniform(2, 60)
        meant_at = served_at + self._hold - 0.5
        self._later(missing_at, self._truth.set_status, kinds, KindStatus.MISSING)
        self._later(served_at, self._truth.set_status, kinds, KindStatus.OK)
        self._later(served_at, self._accept_overlooked)
        self._later(meant_at, self._accept, kinds)
        self._later(served_at + rng.uniform(0, 2 * self._hold), self.end)

    def deleted(self, kinds: frozenset[KindName], rng: random.Random, share: float = 1.0) -> None:
        """People delete objects that they want, and make them again."""
        keys = self._some(kinds, rng, share)
        if not self._begin(kinds, removed=True, takes=keys):
            return
        span = self._delete(keys, rng)
        self._accept(kinds)
        self._later(span + rng.uniform(5, 80), self.end)

    def narrowed(
        self, kinds: frozenset[KindName], rng: random.Random, restart: Callable[[], None]
    ) -> None:
        """The bridge is started with settings that show it little, and later with the right ones.

        `restart`: ends the bridge, and starts it a while later.
        """
        keys = self._some(kinds, rng, rng.choice([MOST, 1.0]))
        if not self._begin(kinds, removed=True, takes=keys):
            return
        self._restart = restart
        self._accept(kinds)
        restart()
        self._truth.show_less(keys)
        self._later(rng.uniform(5, 80), self.end)

    def approved(self, kind: KindName, *, last: bool) -> None:
        """An operator says that what is shown of a kind is meant; `last`: no other is guarded, so
        that what goes along with those that were may go."""
        if self.running:
            along = self._truth.guarded if last else frozenset()
            self._truth.accept(self._truth.accepted | {kind} | along)

    def counted(self, counts: Mapping[str, int]) -> None:
        """A bridge begins that knows no more of what was placed before it than these counts."""
        if any(counts.get(kind, 0) < self._before[kind] for kind in self._truth.guarded):
            self._truth.accept(self._truth.accepted | self._truth.guarded)
            self._truth.guard(frozenset())

    def _of(self, kinds: frozenset[KindName]) -> list[ResourceKey]:
        return [key for key in self._truth.shown if kind_of(key) in kinds]

    def _some(
        self, kinds: frozenset[KindName], rng: random.Random, share: float
    ) -> list[ResourceKey]:
        """So many of the objects of each kind, rounded up."""
        found = []
        for kind in sorted(kinds):
            keys = self._of(frozenset({kind}))
            found += rng.sample(keys, math.ceil(share * len(keys)))
        return found

    def _delete(self, keys: list[ResourceKey], rng: random.Random) -> float:
        """Every kind loses its objects at an even pace; the seconds until all are gone."""
        of_kind = [[key for key in keys if kind_of(key) == kind] for kind in KINDS]
        some = [each for each in of_kind if each]
        span = min([rng.choice([0.3, 0.3, 2.5]), *(0.3 * len(each) for each in some)])
        for each in some:
            rng.shuffle(each)
            for index, key in enumerate(each):
                self._later(span * index / len(each), self._truth.put, key, None, wanted=False)
        return span

    def _accept(self, kinds: frozenset[KindName]) -> None:
        """What is shown of these kinds is meant, but for what must be guarded."""
        self._truth.accept(self._truth.accepted | (kinds - self._truth.guarded))

    def _accept_overlooked(self) -> None:
        self._accept(frozenset(self._truth.overlooked))

    def forbidden(self, kinds: frozenset[KindName], lasts: float) -> None:
        """The bridge has no right to see these kinds; people go on editing."""
        if self._begin(kinds):
            self._truth.set_status(kinds, KindStatus.FORBIDDEN)
            self._later(lasts, self.end)

    def directory_gone(self, lasts: float) -> None:
        """Nothing can be read."""
        if self._begin(frozenset(KINDS)):
            self._truth.set_status(frozenset(KINDS), KindStatus.INCOMPLETE)
            self._later(lasts, self.end)

    def end(self) -> None:
        """Everything is served again; objects that went come back within half a second."""
        if not self.running:
            return
        truth = self._truth
        self._number += 1
        self._removed = False
        truth.set_status(self._kinds, KindStatus.OK)
        if self._restart is not None:
            self._restart()
            self._restart = None
            truth.show_all()
        back = [key for key, thing in truth.wanted.items() if truth.shown.get(key) != thing]
        for index, key in enumerate(back):
            self._sim.after(0.5 * index / len(back), self._come_back, key)
        self._later(0.51, self._over)

    def _begin(
        self,
        kinds: frozenset[KindName],
        *,
        removed: bool = False,
        takes: Collection[ResourceKey] = (),
    ) -> bool:
        if self.running:
            return False
        self._kinds, self._removed = kinds, removed
        self._truth.guard(self._must_be_guarded(takes))
        self._number += 1
        return True

    def _must_be_guarded(self, takes: Collection[ResourceKey]) -> frozenset[KindName]:
        """The kinds of which nothing may go: of what the bridge knows to be placed, so much of them
        or of all together will be on no node that the guard must trip, or they go along."""
        wanted = self._truth.wanted
        before = self._before = placed_by_kind(wanted)
        left = placed_by_kind({key: each for key, each in wanted.items() if key not in set(takes)})
        lost = {kind: before[kind] - left[kind] for kind in KINDS}
        known = {kind for kind in KINDS if self._known(kind) >= before[kind]}
        alone = {kind for kind in known if self._clearly(lost[kind], before[kind])}
        if (
            not alone
            and known == set(KINDS)
            and self._clearly(sum(lost.values()), sum(before.values()))
        ):
            alone = {kind for kind in KINDS if lost[kind]}
        return frozenset(kind for kind in KINDS if lost[kind]) if alone else frozenset()

    def _clearly(self, lost: int, before: int) -> bool:
        return lost >= self._guard.number + MARGIN and lost > CLEARLY * before

    def _later(
        self, delay: float, action: Callable[..., None], *arguments: object, **named: object
    ) -> None:
        """Do it unless the accident has gone on by then."""
        number = self._number

        def act() -> None:
            if number == self._number:
                action(*arguments, **named)

        self._sim.after(delay, act)

    def _come_back(self, key: ResourceKey) -> None:
        if key in self._truth.wanted:
            self._truth.put(key, self._truth.wanted[key])

    def _over(self) -> None:
        self._kinds = frozenset()
        self._truth.guard(frozenset())
        self._truth.accept(frozenset())
