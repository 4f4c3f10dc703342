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
from bridge.objects import ObjectRecord
from bridge.placement import Reference, Rule, Rules
from nodecast.errors import InvalidName
from nodecast.messages.version import MAX_NUMBER
from nodecast.names import NodeName, ResourceKey, resource_key

_TABLES = ("labels", "annotations")
_REMEMBERED = 4096


class _Metadata(msgspec.Struct, frozen=True):
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

    def plant(self, steps: Sequence[str | None]) -> None:
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


Reading = Callable[[Any], tuple[str, ...]]
"""Takes the values at one path out of what was decoded; an empty string is as good as nothing.
Raises AttributeError where there is a null on the way."""


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
        short = rule.kind.partition(".")[0]
        thing = tree.struct(("apiVersion", str), ("kind", Literal[short]), ("metadata", _Metadata))
        event = msgspec.defstruct(
            "Event", [("type", Literal["MODIFIED"]), ("object", thing)], frozen=True
        )
        self._decode: Callable[[bytes], Any] = msgspec.json.Decoder(event).decode
        self._rule = rule
        self._rules = rules
        self._kind = rule.kind
        self._kind_of = interned.kind_of_object
        self._namespaced = rule.namespaced
        self._readings = [_reading(steps) for steps in paths]
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
    ) -> ObjectRecord | None:
        """The new record of a `known` object that a line tells of as MODIFIED, or the one that is
        known, if that is its state already. None: the line must be read in full."""
        try:
            # What is skipped in it is checked as JSON all the same, but not as UTF-8.
            thing = self._decode(line).object if line.isascii() else None
        except msgspec.MsgspecError:
            return None
        if thing is None or self._kind_of(thing.apiVersion, thing.kind) != self._kind:
            return None
        metadata = thing.metadata
        namespace = metadata.namespace if self._namespaced else ""
        before = known(resource_key(self._kind, namespace, metadata.name))
        if before is None or before.version == metadata.resourceVersion:
            return before
        try:
            nodes, carries, follows = self._placement(
                namespace, tuple([reading(thing) for reading in self._readings])
            )
        except (AttributeError, InvalidName):
            return None
        return ObjectRecord.from_event(
            before,
            nodes,
            carries,
            follows,
            line,
            namespace,
            bool(metadata.deletionTimestamp),
            metadata.resourceVersion,
        )

    def _place(self, namespace: str, values: tuple[tuple[str, ...], ...]) -> _Placement:
        """Nodes and references, of the values at the paths in their order. Raises InvalidName."""
        nodes, carries = len(self._rule.nodes), len(self._rule.carries)
        names = [name for each in values[:nodes] for name in each]
        return (
            interned.nodes(names) if names else NOWHERE,
            self._targets(namespace, self._rule.carries, values[nodes : nodes + carries]),
            self._targets(namespace, self._rule.follows, values[nodes + carries :]),
        )

    def _targets(
        self,
        namespace: str,
        references: Iterable[Reference],
        values: Iterable[tuple[str, ...]],
    ) -> tuple[ResourceKey, ...]:
        found = [
            interned.target(reference.kind, namespace if self._inside(reference) else "", name)
            for reference, names in zip(references, values, strict=True)
            for name in names
        ]
        return tuple(dict.fromkeys(found))

    def _inside(self, reference: Reference) -> bool:
        rule = self._rules.get(reference.kind)
        return rule is None or rule.namespaced


def _reading(steps: Sequence[str | None]) -> Reading:
    """How the values at a path are taken out. Raises _NoType."""
    if None not in steps:
        get = _getter([step for step in steps if step is not None])

        def value(thing: Any) -> tuple[str, ...]:
            found = get(thing)
            return (found,) if found else ()

        return value
    at = steps.index(None)
    items = _getter([step for step in steps[:at] if step is not None])
    inner = _reading(steps[at + 1 :])

    def values(thing: Any) -> tuple[str, ...]:
        return tuple([name for item in items(thing) or () for name in inner(item)])

    return values


def _getter(steps: Sequence[str]) -> Callable[[Any], Any]:
    """One field. Raises _NoType."""
    if not steps:
        return lambda thing: thing
    if steps[0] != "metadata":
        return attrgetter(".".join(map(_attribute, steps)))
    return _entry(steps)


def _entry(steps: Sequence[str]) -> Callable[[Any], Any]:
    """A label or an annotation. Raises _NoType for what else is in the metadata."""
    if len(steps) != 3 or steps[1] not in _TABLES:
        raise _NoType
    _, table, name = steps

    def get(thing: Any) -> Any:
        entries = getattr(thing.metadata, table)
        return None if entries is None else entries.get(name)

    return get


def _attribute(name: str) -> str:
    """An attribute's name for any key of JSON."""
    return "at_" + name.encode().hex()
