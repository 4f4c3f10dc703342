"""Accidents of the source, one at a time: what it shows is not what people want.

- a CRD is removed: its objects are deleted one by one, a list is empty, then 404; later the kind
  is back and empty, and its objects come back one by one. Its absence counts as meant once it is
  served again for `hold` seconds, or at once where no watch noticed the 404: then nothing but a
  removal guard can tell that it was not emptied on purpose;
- a kind is forbidden for a while;
- the directory vanishes for a while.

Mass deletions by mistake are not among them: without a removal guard nothing can tell them from
what is wanted.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from bridge.sources.events import KindStatus
from nodecast.names import KindName, ResourceKey, kind_of
from tests.sim.clock import Simulation
from tests.sim.things import KINDS
from tests.sim.truth import Truth


class Accidents:
    """What is wrong with the source now. `hold`: seconds of the bridge's setting."""

    def __init__(self, sim: Simulation, truth: Truth, hold: float) -> None:
        self._sim = sim
        self._truth = truth
        self._hold = hold
        self._kinds: frozenset[KindName] = frozenset()
        self._removed = False
        self._number = 0

    @property
    def running(self) -> bool:
        return bool(self._kinds)

    def touch(self, key: ResourceKey) -> bool:
        """Whether an object cannot be edited now: its kind is not there."""
        return self._removed and kind_of(key) in self._kinds

    def crd_removed(self, kinds: frozenset[KindName], rng: random.Random) -> None:
        """Kinds go with all their objects, and come back."""
        if not self._begin(kinds, removed=True):
            return
        span = self._delete_all(kinds, rng)
        missing_at = span + rng.uniform(0.1, 4.3)
        served_at = missing_at + rng.uniform(2, 60)
        meant_at = served_at + self._hold - 0.5
        self._later(missing_at, self._truth.set_status, kinds, KindStatus.MISSING)
        self._later(served_at, self._truth.set_status, kinds, KindStatus.OK)
        self._later(served_at, self._accept_overlooked)
        self._later(meant_at, self._truth.accept, kinds)
        self._later(served_at + rng.uniform(0, 2 * self._hold), self.end)

    def _delete_all(self, kinds: frozenset[KindName], rng: random.Random) -> float:
        """Every kind loses its objects at an even pace; the seconds until all are gone."""
        of_kind = [[key for key in self._truth.shown if kind_of(key) == k] for k in sorted(kinds)]
        some = [keys for keys in of_kind if keys]
        span = min([rng.choice([0.3, 0.3, 2.5]), *(0.3 * len(keys) for keys in some)])
        for keys in some:
            rng.shuffle(keys)
            for index, key in enumerate(keys):
                self._later(span * index / len(keys), self._truth.put, key, None, wanted=False)
        return span

    def _accept_overlooked(self) -> None:
        self._truth.accept(frozenset(self._truth.overlooked))

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
        back = [key for key, thing in truth.wanted.items() if truth.shown.get(key) != thing]
        for index, key in enumerate(back):
            self._sim.after(0.5 * index / len(back), self._come_back, key)
        self._later(0.51, self._over)

    def _begin(self, kinds: frozenset[KindName], *, removed: bool = False) -> bool:
        if self.running:
            return False
        self._kinds, self._removed = kinds, removed
        self._number += 1
        return True

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
        self._truth.accept(frozenset())
