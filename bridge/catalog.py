"""The catalog: all objects, and on which nodes each of them belongs.

Pure: no clock, no log. Placement is the least fixpoint of the rules: an object is on the nodes
that it names, on those of whatever carries it, and on those of whatever it follows. A change costs
what it moves (see `bridge.flow`), and the result is the same as from scratch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from bridge.flow import Flow, Moves, same_inputs
from bridge.placement import Rules
from bridge.record import ObjectRecord
from nodecast.names import KindName, NodeName, ResourceKey, kind_of


@dataclass(slots=True)
class Delta:
    """What a change did. `dirty`: nodes whose set or its content changed, or may have (where the
    projection of an object is put off). `lost`: kinds of which an object went, or left a node.
    `arrived`, `departed`: keys that are now placed, or no more."""

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
    """Objects by kind and key, and where they are. One owner thread."""

    def __init__(self, rules: Rules) -> None:
        self._records: dict[KindName, dict[ResourceKey, ObjectRecord]] = {
            kind: {} for kind in rules.kinds
        }
        self._flow = Flow(rules, self.get)

    # -- what it says

    def get(self, key: ResourceKey) -> ObjectRecord | None:
        records = self._records.get(kind_of(key))
        return None if records is None else records.get(key)

    def records(self) -> Iterator[ObjectRecord]:
        """All objects, by key."""
        for _, records in sorted(self._records.items()):
            yield from (records[key] for key in sorted(records))

    def nodes_of(self, key: ResourceKey) -> frozenset[NodeName]:
        return frozenset(self._flow.at(self.get(key)))

    def is_placed(self, key: ResourceKey) -> bool:
        """Whether an object is there, and on any node."""
        return bool(self._flow.at(self.get(key)))

    def nodes(self) -> Iterable[NodeName]:
        """The nodes that have anything."""
        return self._flow.nodes()

    def on_node(self, node: NodeName) -> list[ObjectRecord]:
        """What belongs on a node, by key."""
        return [self._records[kind_of(key)][key] for key in self._flow.on(node)]

    def count(self, kind: KindName) -> int:
        """How many objects of a kind there are."""
        return len(self._records.get(kind, ()))

    def placed(self, kind: KindName) -> int:
        """How many objects of a kind are on at least one node."""
        return self._flow.placed(kind)

    def dangling(self) -> list[Dangling]:
        """References that lead nowhere, by owner and target."""
        return [
            Dangling(record.key, target)
            for record in self.records()
            for target in sorted({*record.carries, *record.follows})
            if (found := self.get(target)) is None or not found.placeable
        ]

    # -- what changes it

    def changes(
        self, kind: KindName, objects: Mapping[ResourceKey, ObjectRecord]
    ) -> dict[ResourceKey, ObjectRecord | None]:
        """What to apply so that `objects` are all there is of a kind: what a list says."""
        known = self._records[kind]
        changes: dict[ResourceKey, ObjectRecord | None] = {
            key: record for key, record in objects.items() if known.get(key) is not record
        }
        return changes | dict.fromkeys(known.keys() - objects.keys())

    def apply(self, changes: Mapping[ResourceKey, ObjectRecord | None]) -> Delta:
        """Put or (None) remove objects, and place what that touches."""
        delta = Delta()
        moving = [key for key, new in changes.items() if not self._in_place(key, new, delta)]
        if moving:
            self._move(moving, changes, delta)
        return delta

    def _in_place(self, key: ResourceKey, new: ObjectRecord | None, delta: Delta) -> bool:
        """Whether the change moves nothing: then it is made."""
        records = self._records[kind_of(key) if new is None else new.kind]
        old = records.get(key)
        if old is None:
            return new is None
        if new is None:
            delta.lost.add(old.kind)
            return False
        if old.put_off or new.put_off or old.digest != new.digest:
            delta.dirty.update(self._flow.at(old))
        if not same_inputs(old, new):
            return False
        records[key] = new
        return True

    def _move(
        self,
        keys: Iterable[ResourceKey],
        changes: Mapping[ResourceKey, ObjectRecord | None],
        delta: Delta,
    ) -> None:
        moves = Moves()
        for key in keys:
            old = self._records[kind_of(key)].pop(key, None)
            if old is not None:
                self._flow.remove(old, moves)
        self._flow.settle(moves)
        for key in keys:
            new = changes[key]
            if new is not None:
                self._records[new.kind][key] = new
                self._flow.add(new, moves)
        for key, node in moves.left:
            delta.dirty.add(node)
            delta.lost.add(kind_of(key))
        delta.dirty |= moves.nodes
        delta.arrived, delta.departed = moves.arrived, moves.departed
