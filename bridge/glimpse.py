"""A watch event read no further than placement needs.

Most events of a busy watch change an object that is known. To know where it goes, a rule looks at
a few fields, so a type of just these is made of the rule: reading it costs a fraction of reading
the whole object, whose projection is put off until a node needs it (`ObjectRecord.from_event`).

Pure. This is a short cut, never another truth: for whatever is not plain (a field of another type,
a name that is none, a path that a type cannot say, text beyond ASCII) it gives None, and the object
is read in full. A property holds both ways to the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter
from typing import Annotated, Any, Literal

import msgspec

from bridge import interned
from bridge.interned import NOWHERE
from bridge.placement import Reference, Rule, Rules
from bridge.record import ObjectRecord
from nodecast.errors import InvalidName
from nodecast.messages.version import MAX_NUMBER
from nodecast.names import NodeName, ResourceKey, resource_key

_TABLES = ("labels", "annotations")
_REMEMBERED = 4096


class _Metadata(msgspec.Struct, frozen=True, gc=False):
    resourceVersion: Annotated[str, msgspec.Meta(min_length=1)]  # noqa: N815 - as on the wire
    name: str
    namespace: str = ""
    uid: str | None = None
    generation: Annotated[int, msgspec.Meta(ge=0, le=MAX_NUMBER)] | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    deletionTimestamp: str | None = None  # noqa: N815


_Placement = tuple[frozenset[NodeName], tuple[ResourceKey, ...], tuple[ResourceKey, ...]]


class _NoType(Exception):
    """These paths are not what one type can say."""


@dataclass(slots=True)
class _Branch:
    """What is wanted below one field: its own value, or fields of it, or each of its items."""

    value: bool = False
    each: _Branch | None = None
    fields: dict[str, _Branch] = field(default_factory=dict)

    def plant(self, steps: Steps) -> None:
        """Add a path."""
        if not steps:
            self.value = True
        elif steps[0] is None:
            self.each = self.each or _Branch()
            self.each.plant(steps[1:])
        else:
            self.fields.setdefault(steps[0], _Branch()).plant(steps[1:])

    def wanted(self) -> tuple[Any, Any]:
        """(type, default) of the field. Raises _NoType."""
        if self.value + (self.each is not None) + bool(self.fields) != 1:
            raise _NoType
        if self.value:
            return str | None, None
        if self.each is not None:
            items: Any = list
            return items[self.each.wanted()[0]] | None, None
        struct: Any = self.struct()
        return struct | None, struct()

    def struct(self, *known: Any) -> type[msgspec.Struct]:
        """A type with `known` fields and these."""
        own = []
        for name, branch in self.fields.items():
            kind, default = branch.wanted()
            own.append((_attribute(name), kind, msgspec.field(default=default, name=name)))
        return msgspec.defstruct("Seen", [*known, *own], frozen=True, gc=False)


Steps = Sequence[str | None]
Value = str | tuple[str, ...] | None
"""What stands at a path: one name, or all of them where it goes through a list."""
Reading = Callable[[Any], Value]
"""Raises AttributeError where there is a null on the way."""


class Glimpse:
    """Reads events of one kind."""

    def __init__(self, rule: Rule, rules: Rules) -> None:
        """Raises _NoType: see `of`."""
        references = (*rule.carries, *rule.follows)
        paths = [path.steps for path in (*rule.nodes, *(each.path for each in references))]
        tree = _Branch()
        for steps in paths:
            if steps[0] != "metadata":
                tree.plant(steps)
        self._short = rule.kind.partition(".")[0]
        thing = tree.struct(
            ("apiVersion", str), ("kind", Literal[self._short]), ("metadata", _Metadata)
        )
        event = msgspec.defstruct(
            "Event", [("type", Literal["MODIFIED"]), ("object", thing)], frozen=True, gc=False
        )
        self._decode: Callable[[bytes], Any] = msgspec.json.Decoder(event).decode
        self._rule = rule
        self._rules = rules
        self._kind = rule.kind
        self._api_versions: set[str] = set()  # of this kind's group
        self._namespaced = rule.namespaced
        self._values = _values(paths)
        # The same values come again with each event of an object, and with objects side by side.
        self._placement = lru_cache(_REMEMBERED)(self._place)

    @classmethod
    def of(cls, rule: Rule, rules: Rules) -> Glimpse | None:
        """None: the rule's paths are not what one type can say."""
        try:
            return cls(rule, rules)
        except _NoType:
            return None

    def change(
        self, line: bytes, known: Callable[[ResourceKey], ObjectRecord | None]
    ) -> tuple[ObjectRecord, ObjectRecord] | None:
        """(before, now) of a `known` object that a line tells of as MODIFIED; the same twice, where
        that is its state already. None: the line must be read in full."""
        try:
            # What is skipped in it is checked as JSON all the same, but not as UTF-8.
            thing = self._decode(line).object if line.isascii() else None
            if thing is None:
                return None
            version = thing.apiVersion
            if version not in self._api_versions and not self._is_ours(version):
                return None
        except (msgspec.MsgspecError, InvalidName, RecursionError):
            return None
        metadata = thing.metadata
        namespace = metadata.namespace if self._namespaced else ""
        before = known(resource_key(self._kind, namespace, metadata.name))
        if before is None:
            return None
        if before.version == metadata.resourceVersion:
            return before, before
        try:
            nodes, carries, follows = self._placement(namespace, self._values(thing))
        except (AttributeError, InvalidName):
            return None
        return before, ObjectRecord.from_event(
            before,
            nodes,
            carries,
            follows,
            line,
            namespace,
            bool(metadata.deletionTimestamp),
            metadata.resourceVersion,
        )

    def _is_ours(self, api_version: str) -> bool:
        """Whether it is one of this kind's group."""
        ours = interned.kind_of_object(api_version, self._short) == self._kind
        if ours:
            self._api_versions.add(api_version)
        return ours

    def _place(self, namespace: str, values: tuple[Value, ...]) -> _Placement:
        """Nodes and references, of the values at the paths in their order. Raises InvalidName."""
        nodes, carries = len(self._rule.nodes), len(self._rule.carries)
        names = [name for each in values[:nodes] for name in _names(each)]
        return (
            interned.nodes(names) if names else NOWHERE,
            self._targets(namespace, self._rule.carries, values[nodes : nodes + carries]),
            self._targets(namespace, self._rule.follows, values[nodes + carries :]),
        )

    def _targets(
        self,
        namespace: str,
        references: Iterable[Reference],
        values: Iterable[Value],
    ) -> tuple[ResourceKey, ...]:
        found = [
            interned.target(
                reference.kind, namespace if self._rules.namespaced(reference.kind) else "", name
            )
            for reference, value in zip(references, values, strict=True)
            for name in _names(value)
        ]
        return tuple(dict.fromkeys(found))


def _names(value: Value) -> tuple[str, ...]:
    """An empty string is as good as nothing."""
    if isinstance(value, tuple):
        return value
    return (value,) if value else ()


def _values(paths: Sequence[Steps]) -> Callable[[Any], tuple[Value, ...]]:
    """Takes out what stands at all paths. Raises _NoType."""
    if len(paths) > 1 and all(None not in steps and steps[0] != "metadata" for steps in paths):
        return attrgetter(*(_dotted(steps) for steps in paths))  # in one step, outside of Python
    readings = [_reading(steps) for steps in paths]
    return lambda thing: tuple([reading(thing) for reading in readings])


def _reading(steps: Steps) -> Reading:
    """Takes out what stands at one path. Raises _NoType."""
    if None not in steps:
        return _getter(steps)
    at = steps.index(None)
    items, inner = _getter(steps[:at]), _reading(steps[at + 1 :])

    def values(thing: Any) -> tuple[str, ...]:
        return tuple([name for item in items(thing) or () for name in _names(inner(item))])

    return values


def _getter(steps: Steps) -> Callable[[Any], Any]:
    """One field. Raises _NoType."""
    if not steps:
        return lambda thing: thing
    return _entry(steps) if steps[0] == "metadata" else attrgetter(_dotted(steps))


def _entry(steps: Steps) -> Callable[[Any], Any]:
    """A label or an annotation. Raises _NoType for what else is in the metadata."""
    if len(steps) != 3 or steps[1] not in _TABLES:
        raise _NoType
    table, name = str(steps[1]), steps[2]

    def get(thing: Any) -> Any:
        entries = getattr(thing.metadata, table)
        return None if entries is None else entries.get(name)

    return get


def _dotted(steps: Steps) -> str:
    return ".".join(_attribute(step) for step in steps if step is not None)


def _attribute(name: str) -> str:
    """An attribute's name for any key of JSON."""
    return "at_" + name.encode().hex()
