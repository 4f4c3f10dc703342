"""How a bridge process reads the source: a watch for each kind, or one directory.

Kinds are read apart, so their news comes in any order; within a kind, in order. A watch may have a
gap, with the server out of reach (`noticed`: lists fail, too) or silent. A list takes a while and
shows the state of a moment after it was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from bridge.record import ObjectRecord
from bridge.sources.events import Changed, Interrupted, KindStatus, Listed, SourceEvent
from nodecast.names import KindName, ResourceKey, kind_of
from tests.sim.clock import Simulation
from tests.sim.things import KINDS, Thing, record, records
from tests.sim.truth import Entry, Truth

Emit = Callable[[SourceEvent], None]
RELIST = (20.0, 40.0)


class KindReader:
    """Lists and watches one kind."""

    def __init__(
        self, sim: Simulation, truth: Truth, kind: KindName, emit: Emit, name: str
    ) -> None:
        self._sim = sim
        self._truth = truth
        self._kind = kind
        self._emit = emit
        self._rng = sim.rng(f"{name}/{kind}")
        self._seen = 0  # the version up to which everything was told
        self._watching = False
        self._retrying = False
        self._news_at = 0.0
        self._gap_until = 0.0
        self._noticed = False
        self._stopped = False
        truth.watchers.append(self._happened)
        self.list()
        sim.after(self._rng.uniform(*RELIST), self._periodic)

    def stop(self) -> None:
        self._stopped = True
        self._truth.watchers.remove(self._happened)

    def list(self) -> None:
        self._sim.after(self._rng.uniform(0.02, 0.6), self._answer, self._sim.now)

    def gap(self, lasts: float, *, noticed: bool) -> None:
        """No news for a while; afterwards the watch resumes, or has to list again."""
        self._gap_until, self._noticed = self._sim.now + lasts, noticed
        if noticed:
            self._emit(Interrupted(self._kind, True))
        self._sim.after(lasts + 0.01, self._resume)

    @property
    def _in_gap(self) -> bool:
        return self._sim.now < self._gap_until

    def _periodic(self) -> None:
        if not self._stopped:
            self.list()
            self._sim.after(self._rng.uniform(*RELIST), self._periodic)

    def _answer(self, asked_at: float) -> None:
        if self._stopped:
            return
        if self._in_gap and self._noticed:
            self._sim.after(self._rng.uniform(0.5, 2), self.list)
            return
        status = self._truth.status[self._kind]
        if status is KindStatus.OK:
            self._seen, self._watching = self._truth.version, True
            self._emit(Listed(self._kind, status, records(self._truth.shown, self._kind), asked_at))
            self._emit(Interrupted(self._kind, False))
            return
        self._watching = False
        self._emit(Listed(self._kind, status, None, asked_at, "the accident"))
        if not self._retrying:
            self._retrying = True
            self._sim.after(self._rng.uniform(1, 4), self._retry)

    def _retry(self) -> None:
        self._retrying = False
        if not self._stopped and not self._watching:
            self.list()

    def _happened(self, entry: Entry | None) -> None:
        if entry is None:  # the server serves otherwise: watches end
            served = self._truth.status[self._kind] is KindStatus.OK
            if served and self._watching:
                self._truth.overlooked.add(self._kind)
            else:
                self._sim.after(self._rng.uniform(0.1, 1.5), self.list)
        elif kind_of(entry.key) == self._kind:
            self._news_at = max(self._news_at, self._sim.now + self._rng.uniform(0.02, 0.5))
            self._sim.after(self._news_at - self._sim.now, self._tell, entry)

    def _tell(self, entry: Entry) -> None:
        lost = self._stopped or not self._watching or self._sim.now < self._gap_until + 0.02
        if lost or entry.version <= self._seen:
            return
        self._seen = entry.version
        self._emit(Changed({entry.key: _record(entry.thing)}))

    def _resume(self) -> None:
        if self._stopped or self._in_gap:
            return
        if not self._watching or self._rng.random() < 0.4:  # 410, or nothing to resume
            self.list()
            return
        self._emit(Interrupted(self._kind, False))
        for entry in self._truth.entries:
            if entry.version > self._seen and kind_of(entry.key) == self._kind:
                self._seen = entry.version
                self._emit(Changed({entry.key: _record(entry.thing)}))


class DirectoryReader:
    """Reads everything at once, a moment after anything changed; the reading takes a moment."""

    def __init__(self, sim: Simulation, truth: Truth, emit: Emit, name: str) -> None:
        self._sim = sim
        self._truth = truth
        self._emit = emit
        self._rng = sim.rng(f"{name}/directory")
        self._stopped = False
        self._due = False
        self._deaf_until = 0.0
        self._known: dict[KindName, dict[ResourceKey, ObjectRecord]] = {k: {} for k in KINDS}
        truth.watchers.append(self._happened)
        self._begin()
        sim.after(self._rng.uniform(*RELIST), self._periodic)

    def stop(self) -> None:
        self._stopped = True
        self._truth.watchers.remove(self._happened)

    def list(self) -> None:
        """One reading at a time; what is asked meanwhile is answered by the next."""
        if not self._due:
            self._due = True
            self._sim.after(self._rng.uniform(0.02, 0.3), self._begin)

    def gap(self, lasts: float, *, noticed: bool) -> None:
        """The watch of the directory tells nothing for a while (`noticed` or not)."""
        del noticed
        self._deaf_until = self._sim.now + lasts
        self._sim.after(lasts + 0.01, self.list)

    def _happened(self, entry: Entry | None) -> None:
        del entry
        if self._sim.now >= self._deaf_until:
            self.list()

    def _periodic(self) -> None:
        if not self._stopped:
            self.list()
            self._sim.after(self._rng.uniform(*RELIST), self._periodic)

    def _begin(self) -> None:
        self._due = False
        if self._stopped:
            return
        if KindStatus.INCOMPLETE in self._truth.status.values():
            self._tell(KindStatus.INCOMPLETE, self._sim.now, KINDS)
            return
        kinds = self._rng.sample(KINDS, len(KINDS))
        first = self._rng.randrange(len(KINDS) + 1)
        self._read(kinds[:first])
        self._sim.after(self._rng.uniform(0, 0.1), self._finish, kinds[first:], self._sim.now)

    def _read(self, kinds: Iterable[KindName]) -> None:
        for kind in kinds:
            self._known[kind] = records(self._truth.shown, kind)

    def _finish(self, kinds: Sequence[KindName], asked_at: float) -> None:
        if not self._stopped:
            self._read(kinds)
            self._tell(KindStatus.OK, asked_at, self._rng.sample(KINDS, len(KINDS)))

    def _tell(self, status: KindStatus, asked_at: float, kinds: Iterable[KindName]) -> None:
        reason = "" if status is KindStatus.OK else "the accident"
        for index, kind in enumerate(kinds):
            listed = Listed(kind, status, self._known[kind], asked_at, reason)
            self._sim.after(0.002 * index, self._emit, listed)


def _record(thing: Thing | None) -> ObjectRecord | None:
    return None if thing is None else record(thing)
