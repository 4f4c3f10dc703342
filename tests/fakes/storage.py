"""The fake API server's store: objects as encoded bytes, one version counter, and history.

Always holds: the counter rises with every write and names it; an entry never changes (a write
makes a new one), so lists and watches may keep it without a copy; the history of a table goes
back to its compacted version. Everything is read and written with `lock` held; each table has a
condition on it that a watch may wait for. Objects are kept as bytes only: a hundred thousand
parsed ones would take a gigabyte."""

from __future__ import annotations

import bisect
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import orjson

from tests.fakes.resources import Body, Resource

FIRST_VERSION = 200
_KEPT_SNAPSHOTS = 4


@dataclass(frozen=True, slots=True)
class Entry:
    """One object at one version. `key` is `namespace/name`; the namespace may be empty."""

    key: str
    version: int
    encoded: bytes
    labels: Mapping[str, str]

    def body(self) -> Body:
        """A parsed copy, the caller's to change."""
        body: Body = orjson.loads(self.encoded)
        return body

    def at(self, version: int) -> Entry:
        """The same object under another version."""
        return entry_of(self.key, version, self.body())


@dataclass(frozen=True, slots=True)
class Change:
    """One write: what was there before it (None: nothing) and after it (None: deleted)."""

    version: int
    before: Entry | None
    after: Entry | None

    @property
    def key(self) -> str:
        entry = self.after or self.before
        assert entry is not None
        return entry.key


@dataclass(frozen=True, slots=True)
class Backup:
    """What a store held at one version."""

    version: int
    entries: Mapping[tuple[str, str], Mapping[str, Entry]]


def key_of(namespace: str, name: str) -> str:
    return f"{namespace}/{name}"


def entry_of(key: str, version: int, body: Body) -> Entry:
    """`body` encoded, with `version` in it."""
    metadata = body["metadata"]
    metadata["resourceVersion"] = str(version)
    # Copied to its size: what orjson returns keeps kilobytes to spare.
    encoded = bytes(memoryview(orjson.dumps(body)))
    return Entry(key, version, encoded, metadata.get("labels") or {})


@dataclass(slots=True)
class Table:
    """The objects of one kind and what happened to them."""

    condition: threading.Condition
    entries: dict[str, Entry] = field(default_factory=dict)
    log: list[Change] = field(default_factory=list)
    compacted: int = 0
    forgotten: int = 0  # the version of the latest change that is not in the log any more
    changed: int = 0  # rises with every write and restore, for what is worked out from here
    snapshots: dict[int, list[Entry]] = field(default_factory=dict)

    def after(self, version: int, limit: int) -> list[Change]:
        """The first `limit` changes later than `version`, in order."""
        start = bisect.bisect_right(self.log, version, key=lambda change: change.version)
        return self.log[start : start + limit]

    def at(self, version: int) -> list[Entry]:
        """All entries as they were at `version`, in the order of their keys."""
        last = self.log[-1].version if self.log else self.compacted
        version = min(version, last)
        found = self.snapshots.pop(version, None)
        if found is None:
            found = [entry for _, entry in sorted(self._undone_to(version).items())]
        self.snapshots[version] = found  # the latest used is the last to go
        while len(self.snapshots) > _KEPT_SNAPSHOTS:
            del self.snapshots[next(iter(self.snapshots))]
        return found

    def _undone_to(self, version: int) -> dict[str, Entry]:
        entries = dict(self.entries)
        for change in reversed(self.log):
            if change.version <= version:
                break
            if change.before is None:
                entries.pop(change.key, None)
            else:
                entries[change.key] = change.before
        return entries


class Store:
    """All tables and the one counter of versions."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.version = self.compacted = FIRST_VERSION
        self.tables: dict[tuple[str, str], Table] = {}

    def table(self, resource: Resource) -> Table:
        key = (resource.group, resource.plural)
        with self.lock:
            if key not in self.tables:
                table = Table(threading.Condition(self.lock))
                table.compacted = self.compacted
                self.tables[key] = table
            return self.tables[key]

    def put(self, table: Table, key: str, body: Body) -> Entry:
        """Write `body` under the next version."""
        with self.lock:
            entry = entry_of(key, self.version + 1, body)
            self._commit(table, Change(entry.version, table.entries.get(key), entry))
            table.entries[key] = entry
            return entry

    def remove(self, table: Table, key: str) -> None:
        """Delete what stands under `key`, under the next version."""
        with self.lock:
            self._commit(table, Change(self.version + 1, table.entries.pop(key), None))

    def _commit(self, table: Table, change: Change) -> None:
        self.version = change.version
        table.log.append(change)
        table.changed += 1
        table.condition.notify_all()

    def compact(self) -> None:
        """Forget all history: nothing before this version can be watched from or listed at."""
        with self.lock:
            self.compacted = self.version
            for table in self.tables.values():
                table.compacted = self.version
                if table.log:
                    table.forgotten = table.log[-1].version
                table.log.clear()
                table.snapshots.clear()

    def backup(self) -> Backup:
        with self.lock:
            held = {key: dict(table.entries) for key, table in self.tables.items()}
            return Backup(self.version, held)

    def restore(self, backup: Backup) -> None:
        """Hold what `backup` held: the counter goes back, history is gone, nobody is told."""
        with self.lock:
            self.version = self.compacted = backup.version
            for key, table in self.tables.items():
                table.entries = dict(backup.entries.get(key, {}))
                table.log.clear()
                table.snapshots.clear()
                table.compacted = backup.version
                table.changed += 1

    def wake(self) -> None:
        """Let every watch look around."""
        with self.lock:
            for table in self.tables.values():
                table.condition.notify_all()

    def in_namespace(self, namespace: str) -> Iterator[tuple[Table, str]]:
        """The keys of everything in `namespace`, of every kind."""
        for table in self.tables.values():
            for key in sorted(key for key in table.entries if key.startswith(f"{namespace}/")):
                yield table, key


Clock = Callable[[], float]
