"""What is known of one kind in one namespace (or in all), and what the server's words change in it.

Pure: no clock, no thread, no log. A list is the truth and replaces everything. An event changes one
object, unless it contradicts what is known: an object that is told of as new (ADDED) and is known
in another version can only be a server that repeats itself, and which of both is the older one no
version number may decide. Then a list does, and what it refuted is left alone from then on. The
same goes for objects that are not known, in a watch that repeats what is: they may be long gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bridge.glimpse import Glimpse
from bridge.objects import read_object
from bridge.placement import Rules
from bridge.record import ObjectRecord
from bridge.sources.kubernetes.answers import ADDED, BOOKMARK, DELETED, Page, event_of
from bridge.sources.kubernetes.failures import TooDeep
from nodecast.errors import ObjectError, SourceError
from nodecast.names import KindName, ResourceKey, resource_key

PLACE = ""
"""Where an object was read, for people: its key says it."""
_MOST_REFUTED = 10_000

Changes = dict[ResourceKey, ObjectRecord | None]


class Contradiction(SourceError):
    """The server tells of objects as new in a way that cannot be."""


class Sight:
    """Objects by key, the version to watch from, and what cannot be read.

    `changes` collects what events changed until `take` is called. One thread at a time reads events
    and finishes lists: see `kinds`.
    """

    def __init__(self, kind: KindName, rules: Rules) -> None:
        self._kind = kind
        self._rules = rules
        rule = rules.get(kind)
        self._namespaced = rules.namespaced(kind)
        self._glimpse = None if rule is None else Glimpse.of(rule, rules)
        self._refuted: set[tuple[ResourceKey, str]] = set()
        self._doubted: set[tuple[ResourceKey, str]] = set()
        self._added: set[tuple[ResourceKey, str]] = set()  # in this watch
        self._repeating = False
        self.objects: dict[ResourceKey, ObjectRecord] = {}
        self.unreadable: dict[str, str] = {}
        """Reasons, by `namespace/name`."""
        self.version = ""
        self.changes: Changes = {}

    # -- a list

    def begin_list(self) -> ListInProgress:
        """Collects the pages of a list."""
        return ListInProgress(self)

    def listed(
        self, objects: dict[ResourceKey, ObjectRecord], unreadable: dict[str, str], version: str
    ) -> None:
        """This is all there is, as of `version`."""
        for key, told in self._doubted:
            known = objects.get(key)
            if known is None or known.version != told:
                if len(self._refuted) >= _MOST_REFUTED:
                    self._refuted.clear()
                self._refuted.add((key, told))
        self._doubted.clear()
        self.changes.clear()
        self.objects, self.unreadable, self.version = objects, unreadable, version

    def read(self, item: object) -> ObjectRecord:
        """The record of an object. Raises ObjectError."""
        record = read_object(item, self._rules, PLACE, None, unsendable=True)
        if record.kind != self._kind:
            raise ObjectError(f"is a {record.kind} in a list of {self._kind}")
        return record

    # -- events

    def begin_watch(self) -> None:
        """A watch from `version` on begins."""
        self._repeating = False
        self._added.clear()

    def events(self, lines: Iterable[bytes]) -> None:
        """Take lines of a watch into `changes`.

        Raises Refusal (an ERROR event), Garbled, or Contradiction; what came before it counts.
        """
        for line in lines:
            if line and not self._glimpsed(line):
                kind, obj, metadata, version = event_of(line)
                if kind != BOOKMARK:
                    self._event(kind, obj, metadata, version)
                elif not self._doubted:
                    self.version = version
        if self._doubted:
            keys = ", ".join(sorted({key for key, _ in self._doubted})[:3])
            raise Contradiction(f"told of as new, but known, or told with what is known: {keys}")

    def take(self) -> Changes:
        """What events changed since the last time; it counts as known now."""
        changes, self.changes = self.changes, {}
        for key, record in changes.items():
            if record is not None:
                self.objects[key] = record
            else:
                self.objects.pop(key, None)
        return changes

    def _glimpsed(self, line: bytes) -> bool:
        """Take an event by what placement needs of it; False: it must be read in full."""
        change = None if self._glimpse is None else self._glimpse.change(line, self._known)
        if change is None:
            return False
        before, now = change
        if now is not before:
            self.changes[now.key] = now
            self.version = now.version
        return True

    def _known(self, key: ResourceKey) -> ObjectRecord | None:
        return self.changes[key] if key in self.changes else self.objects.get(key)

    def _event(
        self, kind: str, obj: dict[str, Any], metadata: dict[str, Any], version: str
    ) -> None:
        key = self._key(metadata)
        known = self._known(key)
        if kind == DELETED:  # also for an object that left the selector: its new body is no matter
            self.unreadable.pop(_name(metadata), None)
            if known is not None:
                self.changes[key] = None
        elif known is not None and known.version == version:
            if kind == ADDED and (key, version) not in self._added:
                self._repeats()
            return  # it moves nothing
        elif kind == ADDED and (key, version) in self._refuted:
            return
        elif kind == ADDED and (known is not None or self._repeating):
            self._doubted.add((key, version))
            return
        else:
            if kind == ADDED:
                self._added.add((key, version))
            self._put(key, obj, metadata, known)
        self.version = version

    def _repeats(self) -> None:
        """The server tells again what it told: what else it calls new in this watch may be old."""
        self._repeating = True
        self._doubted |= self._added
        self._added.clear()

    def _put(
        self, key: ResourceKey, obj: object, metadata: dict[str, Any], known: ObjectRecord | None
    ) -> None:
        try:
            record = self.read(obj)
        except ObjectError as error:
            self.unreadable[_name(metadata)] = str(error)
            if known is not None:
                self.changes[key] = None
            return
        self.unreadable.pop(_name(metadata), None)
        self.changes[record.key] = record if known is None else record.sharing(known)

    def _key(self, metadata: dict[str, Any]) -> ResourceKey:
        return self.key(_text(metadata, "namespace"), _text(metadata, "name"))

    def key(self, namespace: str, name: str) -> ResourceKey:
        """As `read_object` gives it to what has proper names; others are in no key of ours."""
        return resource_key(self._kind, namespace if self._namespaced else "", name)


class ListInProgress:
    """The pages of one list; nothing counts before the last of them."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight
        self._objects: dict[ResourceKey, ObjectRecord] = {}
        self._unreadable: dict[str, str] = {}

    def add(self, items: Iterable[object]) -> None:
        """A page. What did not change keeps the record that is known."""
        known = self._sight.objects
        for item in items:
            if isinstance(item, TooDeep):
                self._too_deep(item)
                continue
            try:
                record = self._sight.read(item)
            except ObjectError as error:
                metadata = item.get("metadata") if isinstance(item, dict) else None
                name = _name(metadata) if isinstance(metadata, dict) else "?"
                self._unreadable[name] = str(error)
                continue
            before = known.get(record.key)
            if before is not None:
                same = before == record and before.version == record.version
                record = before if same else record.sharing(before)
            self._objects[record.key] = record

    def _too_deep(self, item: TooDeep) -> None:
        """It keeps what is known of it."""
        self._unreadable[f"{item.namespace}/{item.name}"] = "is too deep to be read"
        key = self._sight.key(item.namespace, item.name)
        before = self._sight.objects.get(key)
        if before is not None:
            self._objects[key] = before

    def fill(self, pages: Iterable[Page]) -> str:
        """All pages; the version of the list: that of the first page."""
        version = ""
        for page in pages:
            self.add(page.items)
            version = version or page.version
        return version

    def finish(self, version: str) -> None:
        """The list is whole."""
        self._sight.listed(self._objects, self._unreadable, version)


def _name(metadata: dict[str, Any]) -> str:
    return f"{_text(metadata, 'namespace')}/{_text(metadata, 'name')}"


def _text(metadata: dict[str, Any], field: str) -> str:
    """Empty for what is no string: a number must not pass for the name that it looks like."""
    value = metadata.get(field)
    return value if isinstance(value, str) else ""
