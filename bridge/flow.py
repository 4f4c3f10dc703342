"""Which object is on which node, kept while objects come and go.

Pure. Nodes flow along references: from what carries an object to it, and from what an object
follows to it. Placement is the least fixpoint: an object is on the nodes that it names and on those
that flow to it, and on no other, in whatever order the objects came.

For an object that nodes can flow to, it is counted for each node how many bring it there, itself
included. One that comes or goes counts up or down, and only a count that leaves or reaches zero
goes further: the cost of a change is what it moves, not how many others refer to the same object.

In a cycle counts would keep each other up. So the kinds that can be in one (the rules say which)
are not counted: at the first loss such an object leaves the node, with all that had the node from
it, and comes back if after all losses anything still brings it there.

Objects that nothing can flow to cost no more than their place in the lists of their nodes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field

from bridge.interned import NOWHERE
from bridge.placement import Rules
from bridge.record import ObjectRecord
from nodecast.names import KindName, NodeName, ResourceKey, kind_of

_Index = dict[ResourceKey, set[ResourceKey]]
_Place = tuple[ResourceKey, NodeName]


@dataclass(slots=True)
class Moves:
    """What one change moved, once its losses and then its gains are in: what left and came back
    did not move. `nodes` have something new; `arrived`: keys now on a node, `departed`: on none."""

    left: set[_Place] = field(default_factory=set)
    nodes: set[NodeName] = field(default_factory=set)
    arrived: set[ResourceKey] = field(default_factory=set)
    departed: set[ResourceKey] = field(default_factory=set)


class Flow:
    """Places objects. One owner thread.

    A change is: all `remove`, one `settle`, all `add`. `get` gives the objects that there are: one
    that is removed is out of it before the call, one that is added in it before the call. An object
    may be replaced behind the flow's back as long as `same_inputs` holds.
    """

    def __init__(self, rules: Rules, get: Callable[[ResourceKey], ObjectRecord | None]) -> None:
        self._rules = rules
        self._get = get
        self._on: dict[NodeName, list[ResourceKey]] = {}
        self._counts: dict[ResourceKey, dict[NodeName, int]] = {}
        self._carriers: _Index = {}
        self._followers: _Index = {}
        self._doubtful: list[_Place] = []
        self._placed: dict[KindName, int] = dict.fromkeys(rules.kinds, 0)

    # -- what it says

    def nodes(self) -> Set[NodeName]:
        """The nodes that have anything."""
        return self._on.keys()

    def on(self, node: NodeName) -> Sequence[ResourceKey]:
        """What is on a node, by key."""
        return self._on.get(node, ())

    def at(self, record: ObjectRecord | None) -> Set[NodeName]:
        """The nodes of an object. They change with the next change."""
        if record is None or not record.placeable:
            return NOWHERE
        counts = self._counts.get(record.key)
        return record.nodes if counts is None else counts.keys()

    def placed(self, kind: KindName) -> int:
        """How many objects of a kind are on at least one node."""
        return self._placed.get(kind, 0)

    # -- what changes it

    def remove(self, record: ObjectRecord, moves: Moves) -> None:
        """An object is gone, or will be added anew."""
        key = record.key
        nodes = self.at(record)
        self._counts.pop(key, None)
        if nodes:
            for node in nodes:
                self._leave(key, node, moves)
            self._depart(record.kind, key, moves)
            for target in self._targets(record):
                self._lose(target, nodes, moves)
        for index, others in ((self._carriers, record.carries), (self._followers, record.follows)):
            for other in others:
                index[other].discard(key)
                if not index[other]:
                    del index[other]

    def settle(self, moves: Moves) -> None:
        """All losses of a change are in: what was lost too hastily comes back."""
        doubtful, self._doubtful = self._doubtful, []
        for key, node in doubtful:
            record = self._get(key)
            if record is not None and (
                node in record.nodes
                or any(node in self.at(self._get(source)) for source in self._sources(record))
            ):
                self._gain(key, [node], moves)

    def add(self, record: ObjectRecord, moves: Moves) -> None:
        """An object is new, or was removed before."""
        key = record.key
        for index, others in ((self._carriers, record.carries), (self._followers, record.follows)):
            for other in others:
                index.setdefault(other, set()).add(key)
        if not record.placeable:
            return
        if self._rules.receives(record.kind):
            self._counts[key] = {}
            nodes = list(record.nodes)
            for source in self._sources(record):
                nodes += self.at(self._get(source))
            self._gain(key, nodes, moves)
        elif record.nodes:
            for node in record.nodes:
                self._enter(key, node, moves)
            self._arrive(record.kind, key, moves)
            for target in self._targets(record):
                self._gain(target, record.nodes, moves)

    def _gain(self, key: ResourceKey, nodes: Iterable[NodeName], moves: Moves) -> None:
        """For each of `nodes` there is one more that brings the object there; so on from there."""
        todo = [(key, nodes)]
        while todo:
            key, nodes = todo.pop()
            counts = self._counts.get(key)
            if counts is None:
                continue  # a reference to what is not there
            step = 0 if self._rules.cyclic(kind_of(key)) else 1
            placed, new = bool(counts), []
            for node in nodes:
                if node in counts:
                    counts[node] += step
                else:
                    counts[node] = 1
                    self._enter(key, node, moves)
                    new.append(node)
            if new:
                if not placed:
                    self._arrive(kind_of(key), key, moves)
                todo += [(target, new) for target in self._targets(self._get(key))]

    def _lose(self, key: ResourceKey, nodes: Iterable[NodeName], moves: Moves) -> None:
        """For each of `nodes` there is one less that brings the object there; so on from there."""
        todo = [(key, nodes)]
        while todo:
            key, nodes = todo.pop()
            counts = self._counts.get(key)
            if counts is None:
                continue
            gone = []
            for node in nodes:
                count = counts.get(node)
                if count is None:
                    continue  # lost before, and in doubt
                if count > 1:
                    counts[node] = count - 1
                    continue
                del counts[node]
                self._leave(key, node, moves)
                gone.append(node)
            if gone:
                if not counts:
                    self._depart(kind_of(key), key, moves)
                if self._rules.cyclic(kind_of(key)):
                    self._doubtful += [(key, node) for node in gone]
                todo += [(target, gone) for target in self._targets(self._get(key))]

    def _targets(self, record: ObjectRecord | None) -> Iterator[ResourceKey]:
        """What the nodes of an object flow to: once for each reference."""
        if record is not None:
            yield from record.carries
            yield from self._followers.get(record.key, ())

    def _sources(self, record: ObjectRecord) -> Iterable[ResourceKey]:
        """What nodes flow from to an object: once for each reference."""
        return (*self._carriers.get(record.key, ()), *record.follows)

    # -- places

    def _enter(self, key: ResourceKey, node: NodeName, moves: Moves) -> None:
        keys = self._on.get(node)
        if keys is None:
            self._on[node] = [key]
        else:
            insort(keys, key)
        if (key, node) in moves.left:
            moves.left.remove((key, node))
        else:
            moves.nodes.add(node)

    def _leave(self, key: ResourceKey, node: NodeName, moves: Moves) -> None:
        keys = self._on[node]
        if len(keys) == 1:
            del self._on[node]
        else:
            del keys[bisect_left(keys, key)]
        moves.left.add((key, node))

    def _arrive(self, kind: KindName, key: ResourceKey, moves: Moves) -> None:
        self._placed[kind] += 1
        if key in moves.departed:
            moves.departed.remove(key)
        else:
            moves.arrived.add(key)

    def _depart(self, kind: KindName, key: ResourceKey, moves: Moves) -> None:
        self._placed[kind] -= 1
        moves.departed.add(key)


def same_inputs(old: ObjectRecord, new: ObjectRecord) -> bool:
    """Whether two states of an object flow alike."""
    return (
        old.nodes == new.nodes
        and old.carries == new.carries
        and old.follows == new.follows
        and old.placeable == new.placeable
    )
