"""What people want, what the source shows of it, and which removals are therefore wrong.

The two differ only during an accident: people want their objects while a CRD is gone and the
server shows none of them. An accident that lasts long enough is taken at its word, as the contract
says: what is shown is then as true as what is wanted, and a removal by either is right. One that is
so large that the removal guard must see it is taken at its word only once an operator approves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from bridge.sources.events import KindStatus
from nodecast.messages import Version
from nodecast.names import KindName, NodeName, ResourceKey, kind_of
from tests.sim.clock import Simulation
from tests.sim.things import KINDS, Thing, pairs_placed

LONG = 100.0
"""Seconds for which something that belonged to a node all the time must not leave it."""

SETTLED = 1.0
"""Seconds before an accident for which something must have belonged to a node."""


@dataclass(slots=True)
class Entry:
    """One change of what is shown. `version`: the source's, as a resourceVersion."""

    version: int
    key: ResourceKey
    thing: Thing | None


@dataclass(slots=True)
class Truth:
    """The state of the source. Readers are told by `watchers` of each change."""

    sim: Simulation
    wanted: dict[ResourceKey, Thing] = field(default_factory=dict)
    shown: dict[ResourceKey, Thing] = field(default_factory=dict)
    status: dict[KindName, KindStatus] = field(
        default_factory=lambda: dict.fromkeys(KINDS, KindStatus.OK)
    )
    version: int = 1
    entries: list[Entry] = field(default_factory=list)
    watchers: list[Callable[[Entry | None], None]] = field(default_factory=list)
    accepted: frozenset[KindName] = frozenset()
    """Kinds of which what is shown counts as true beside what is wanted."""
    guarded: frozenset[KindName] = frozenset()
    """Kinds of which the accident that runs takes so much that none of it may leave a node."""
    guarded_since: float = math.inf
    overlooked: set[KindName] = field(default_factory=set)
    """Kinds that were missing and are back without a watch having noticed."""
    last_edit: float = 0.0
    _since: dict[tuple[NodeName, ResourceKey], float] = field(default_factory=dict)
    _published: dict[tuple[NodeName, Version], float] = field(default_factory=dict)
    _always: dict[tuple[NodeName, ResourceKey], bool] = field(default_factory=dict)

    def put(self, key: ResourceKey, thing: Thing | None, *, wanted: bool = True) -> None:
        """Write or (None) delete; not `wanted`: only the source shows it so."""
        for state in (self.wanted, self.shown) if wanted else (self.shown,):
            if thing is None:
                state.pop(key, None)
            else:
                state[key] = thing
        self.version += 1
        self.last_edit = self.sim.now
        entry = Entry(self.version, key, thing)
        self.entries.append(entry)
        self.sim.say("source", "changed" if wanted else "shows", key=key, thing=_brief(thing))
        self.note()
        for watcher in list(self.watchers):
            watcher(entry)

    def set_status(self, kinds: frozenset[KindName], status: KindStatus) -> None:
        """The server answers otherwise from now on: watches of these kinds end."""
        self.sim.say("source", status.value, kinds=",".join(sorted(kinds)))
        self.status.update(dict.fromkeys(kinds, status))
        self.overlooked.clear()
        for watcher in list(self.watchers):
            watcher(None)

    def rewind(self, things: dict[ResourceKey, Thing], version: int) -> None:
        """The server's store was restored from a backup: no watch is told."""
        self.wanted, self.shown, self.version = dict(things), dict(things), version
        self.entries = [entry for entry in self.entries if entry.version <= version]
        self.last_edit = self.sim.now
        self.note()

    def accept(self, kinds: frozenset[KindName]) -> None:
        """What is shown of these kinds is true from now on, too."""
        self.accepted = kinds
        self.note()

    def guard(self, kinds: frozenset[KindName]) -> None:
        """An accident begins, and takes so much of these kinds."""
        self.guarded, self.guarded_since = kinds, self.sim.now

    def show_less(self, keys: Iterable[ResourceKey]) -> None:
        """The source shows these no more, and tells nobody."""
        for key in keys:
            del self.shown[key]
        self.version += 1
        self.note()

    def show_all(self) -> None:
        """The source shows everything again, and tells nobody."""
        self.shown = dict(self.wanted)
        self.version += 1
        self.note()

    def note(self) -> None:
        """Remember what belongs where in every true state, and since when."""
        placed = pairs_placed(self.wanted)
        if self.accepted:
            mixed = {k: t for k, t in self.wanted.items() if kind_of(k) not in self.accepted}
            mixed |= {k: t for k, t in self.shown.items() if kind_of(k) in self.accepted}
            placed &= pairs_placed(mixed)
        self._since = {pair: self._since.get(pair, self.sim.now) for pair in placed}
        for pair in placed - self._always.keys():
            self._always[pair] = True
        for pair in self._always.keys() - placed:
            self._always[pair] = False

    def published(self, node: NodeName, version: Version) -> None:
        """A bridge publishes a version of a node, for the first time or again."""
        self._published.setdefault((node, version), self.sim.now)

    def why_wrong(self, node: NodeName, key: ResourceKey, version: Version) -> str | None:
        """Why a node must not lose `key` now, by a version of its; None: it may. What was published
        before the accident, and reaches a node that was restored since, is no bridge's fault."""
        since = self._since.get((node, key), math.inf)
        late = self._published.get((node, version), math.inf) < self.guarded_since
        guarded = kind_of(key) in self.guarded - self.accepted and not late
        if guarded and since < self.guarded_since - SETTLED:
            return "so much of its kind is missing that the guard must hold it"
        if self._always.get((node, key)):
            return "it has belonged there ever since it was made"
        if since < self.sim.now - LONG:
            return f"it has belonged there for {LONG:.0f} s"
        return None


def _brief(thing: Thing | None) -> str:
    if thing is None:
        return "gone"
    models = "+".join(key.rpartition("/")[2] for key in sorted(thing.models))
    dataset = thing.dataset.rpartition("/")[2] if thing.dataset else ""
    large = " large" if thing.large else ""
    return f"{thing.edition}@{'+'.join(sorted(thing.nodes))} {models} <{dataset}{large}"
