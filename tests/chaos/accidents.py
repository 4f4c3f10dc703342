"""Accidents: the source shows less than people want, for a while. What may leave a node meanwhile?

Pure: time comes in as monotonic seconds. A kind that lost so much that the removal guard must hold
it loses nothing on any node before an operator approves, and here nobody does: everything comes
back. What the guard's numbers leave out may go. Nor can it be asked for where a bridge was started
in the accident after the broker had lost its store: nothing knew then how much there had been.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from nodecast.names import NodeName, ResourceKey
from tests.chaos.plan import LONGEST
from tests.chaos.things import Things, kind_of
from tests.chaos.truth import placed

_LATE = LONGEST + 8.0
"""Seconds after its end for which an accident may still be felt: a link may have been frozen."""
_KNOWN = 25.0
"""Seconds within which a running bridge has written its ledger again, and been reached."""
_MARGIN = 3
"""Objects that the ledger may not count yet."""


@dataclass(slots=True)
class Accident:
    """Objects of `kinds` are not shown since `began`, until `ended`."""

    kinds: frozenset[str]
    began: float
    unguarded: frozenset[str]
    """Those of the kinds that have too few objects for the guard."""
    ended: float | None = None

    def felt(self, now: float) -> bool:
        return now >= self.began and (self.ended is None or now < self.ended + _LATE)


@dataclass(slots=True)
class Accidents:
    """Those of a run, one at a time. `number` is the guard's."""

    number: int
    bridge_starts: list[float] = field(default_factory=list)
    broker_losses: list[float] = field(default_factory=list)
    _all: list[Accident] = field(default_factory=list)

    @property
    def running(self) -> bool:
        return bool(self._all) and self._all[-1].ended is None

    def begin(self, kinds: Iterable[str], wanted: Things, now: float) -> None:
        """All objects of these kinds are about to vanish from the source."""
        counts = Counter(kind_of(key) for key in {key for _, key in placed(wanted)})
        lost = frozenset(kinds)
        few = frozenset(kind for kind in lost if counts[kind] < self.number + _MARGIN)
        self._all.append(Accident(lost, now, few))

    def end(self, now: float) -> None:
        """They are all back."""
        if self.running:
            self._all[-1].ended = now

    def excuse(self, node: NodeName, key: ResourceKey, wanted: Things, now: float) -> bool:
        """Whether an accident may have taken `key` from a node."""
        return any(
            (node, key) not in placed(_without(wanted, self._free(each, now)))
            for each in self._all
            if each.felt(now)
        )

    def _free(self, accident: Accident, now: float) -> frozenset[str]:
        """The kinds whose objects may go in it."""
        until = now if accident.ended is None else min(now, accident.ended + _LATE)
        started = [at for at in self.bridge_starts if accident.began - 1 <= at <= until]
        unknown = any(at - _KNOWN <= lost <= until for at in started for lost in self.broker_losses)
        return accident.kinds if unknown else accident.unguarded


def _without(things: Things, kinds: Collection[str]) -> Things:
    return {key: thing for key, thing in things.items() if thing.kind not in kinds}
