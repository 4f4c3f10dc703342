"""The catalog: all objects, and on which nodes each of them belongs.

Pure: no clock, no log. Placement is the least fixpoint of the rules: an object is on the nodes
that it names, on those of whatever carries it, and on those of whatever it follows. A change
recomputes only what can be reached from it, and the result is the same as from scratch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field

from bridge.objects import ObjectRecord
from bridge.placement import Rules
from nodecast.names import KindName, NodeName, ResourceKey, kind_of

_NOWHERE: frozenset[NodeName] = frozenset()


@dataclass(slots=True)
class Delta:
    """What a change did. `dirty`: nodes whose set or its content changed. `lost`: kinds of which
    an object went, or left a node. `arrived`, `departed`: keys that are now placed, or no more."""

    dirty: set[NodeName] = field(default_factory=set)
    lost: set[KindName] = field(default_factory=set)
    arrived: set[ResourceKey] = field(default_factory=set)
    departed: set[ResourceKey] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Dangling:
    """A reference to an object that is not there, or cannot be placed."""

    owner: ResourceKey
    target: ResourceKey


class Catalog:
    """Objects by key, their nodes, and the nodes' objects. One owner thread."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._records: dict[ResourceKey, ObjectRecord] = {}
        self._of_kind: dict[KindName, set[ResourceKey]] = {kind: set() for kind in rules.kinds}
        self._placed_of_kind: dict[KindName, int] = dict.fromkeys(rules.kinds, 0)
        self._at: dict[ResourceKey, frozenset[NodeName]] = {}
        self._on: dict[NodeName, set[ResourceKey]] = {}
        self._carriers: dict[ResourceKey, set[ResourceKey]] = {}
        self._followers: dict[ResourceKey, set[ResourceKey]] = {}

    # -- what it says

    def get(self, key: ResourceKey) -> ObjectRecord | None:
        return self._records.get(key)

    def records(self) -> Iterator[ObjectRecord]:
        """All objects, by key."""
        return (self._records[key] for key in sorted(self._records))

    def nodes_of(self, key: ResourceKey) -> frozenset[NodeName]:
        return self._at.get(key, _NOWHERE)

    def nodes(self) -> Iterable[NodeName]:
        """The nodes that have anything."""
        return self._on.keys()

    def on_node(self, node: NodeName) -> list[ObjectRecord]:
        """What belongs on a node, by key."""
        return [self._records[key] for key in sorted(self._on.get(node, ()))]

    def count(self, kind: KindName) -> int:
        """How many objects of a kind there are."""
        return len(self._of_kind[kind])

    def placed(self, kind: KindName) -> int:
        """How many objects of a kind are on at least one node."""
        return self._placed_of_kind[kind]

    def dangling(self) -> list[Dangling]:
        """References that lead nowhere, by owner and target."""
        return [
            Dangling(record.key, target)
            for record in self.records()
            for target in sorted({*record.carries, *record.follows})
            if target not in self._records or not self._records[target].placeable
        ]

    # -- what changes it

    def changes(
        self, kind: KindName, objects: Mapping[ResourceKey, ObjectRecord]
    ) -> dict[ResourceKey, ObjectRecord | None]:
        """What to apply so that `objects` are all there is of a kind: what a list says."""
        changes: dict[ResourceKey, ObjectRecord | None] = {
            key: record for key, record in objects.items() if self._records.get(key) is not record
        }
        return changes | dict.fromkeys(self._of_kind[kind] - objects.keys())

    def apply(self, changes: Mapping[ResourceKey, ObjectRecord | None]) -> Delta:
        """Put or (None) remove objects, and place what that touches."""
        delta = Delta()
        touched: set[ResourceKey] = set()
        for key, new in changes.items():
            old = self._records.get(key)
            if old is not None:
                if new is None:
                    delta.lost.add(old.kind)
                elif old.digest != new.digest:
                    delta.dirty |= self.nodes_of(key)
            self._store(key, old, new)
            if _inputs(old) != _inputs(new):
                touched |= self._link(key, old, new)
        if touched:
            self._place(self._reach(touched), delta)
        return delta

    def _store(self, key: ResourceKey, old: ObjectRecord | None, new: ObjectRecord | None) -> None:
        if new is not None:
            self._records[key] = new
            self._of_kind[new.kind].add(key)
        elif old is not None:
            del self._records[key]
            self._of_kind[old.kind].discard(key)

    def _link(
        self, key: ResourceKey, old: ObjectRecord | None, new: ObjectRecord | None
    ) -> set[ResourceKey]:
        """Index the references of `new` instead of `old`'s; the keys to be placed anew.

        What `old` carried is among them: nodes may have come to it along an edge that is gone.
        """
        touched = {key}
        for record, index in ((old, _drop), (new, _add)):
            if record is not None:
                touched.update(record.carries)
                for target in record.carries:
                    index(self._carriers, target, key)
                for target in record.follows:
                    index(self._followers, target, key)
        return touched

    def _reach(self, keys: Iterable[ResourceKey]) -> set[ResourceKey]:
        """`keys`, and all whose placement can depend on theirs."""
        seen: set[ResourceKey] = set()
        todo = list(keys)
        while todo:
            key = todo.pop()
            if key not in seen:
                seen.add(key)
                todo += self._flows_to(key)
        return seen

    def _flows_to(self, key: ResourceKey) -> Iterator[ResourceKey]:
        record = self._records.get(key)
        if record is not None and record.placeable:
            yield from record.carries
        yield from self._followers.get(key, ())

    def _flows_from(self, key: ResourceKey, record: ObjectRecord) -> Iterator[ResourceKey]:
        yield from self._carriers.get(key, ())
        yield from record.follows

    def _place(self, region: set[ResourceKey], delta: Delta) -> None:
        """Compute the nodes of a region that is closed under flow, from what flows into it."""
        at: dict[ResourceKey, set[NodeName]] = {}
        for key in region:
            record = self._records.get(key)
            if record is not None and record.placeable:
                outside = (s for s in self._flows_from(key, record) if s not in region)
                at[key] = set(record.nodes).union(*map(self.nodes_of, outside))
        todo = [key for key, nodes in at.items() if nodes]
        while todo:
            key = todo.pop()
            for target in self._flows_to(key):
                if target in at and not at[key] <= at[target]:
                    at[target] |= at[key]
                    todo.append(target)
        for key in region:
            self._move(key, at.get(key, _NOWHERE), delta)

    def _move(self, key: ResourceKey, nodes: Set[NodeName], delta: Delta) -> None:
        before = self.nodes_of(key)
        if nodes == before:
            return
        delta.dirty |= nodes ^ before
        kind = kind_of(key)
        for node in before - nodes:
            delta.lost.add(kind)
            self._on[node].discard(key)
            if not self._on[node]:
                del self._on[node]
        for node in nodes - before:
            self._on.setdefault(node, set()).add(key)
        if nodes:
            own = self._records[key].nodes  # mostly the same: then one set is kept, not two
            self._at[key] = own if nodes == own else frozenset(nodes)
        else:
            del self._at[key]
        if bool(nodes) != bool(before):
            self._placed_of_kind[kind] += 1 if nodes else -1
            (delta.arrived if nodes else delta.departed).add(key)


def _inputs(record: ObjectRecord | None) -> tuple[object, ...] | None:
    """What placement depends on."""
    if record is None:
        return None
    return record.nodes, record.carries, record.follows, record.placeable


_Index = dict[ResourceKey, set[ResourceKey]]


def _add(index: _Index, target: ResourceKey, source: ResourceKey) -> None:
    index.setdefault(target, set()).add(source)


def _drop(index: _Index, target: ResourceKey, source: ResourceKey) -> None:
    sources = index[target]
    sources.discard(source)
    if not sources:
        del index[target]
