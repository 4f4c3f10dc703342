"""Watches: one stream of events each, from a version on, and the register of those that run.

Always holds: a watch sends the changes later than its cursor, in order, and nothing twice; a
version in the future is silence; one that was compacted away is an ERROR line and the end. A
frozen watch sends nothing at all, however long. A watch runs in the thread of its connection,
which waits on its table's condition for at most half a second at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import orjson

from tests.fakes.answers import expired, watch_error
from tests.fakes.reads import Scope, scope_of, version_of
from tests.fakes.requests import TRUE, Request
from tests.fakes.resources import Resource
from tests.fakes.storage import Change, Clock, Entry, Store, Table

TOO_OLD = "The resourceVersion for the provided watch is too old."
_LONGEST = 1800.0
_BEFORE_THE_END = 1.5
_LOOK_AROUND = 0.5
_AT_ONCE = 1000


@dataclass(slots=True)
class Watch:
    """One running watch. Others set `frozen` and `ending` (then wake the store)."""

    store: Store
    table: Table
    resource: Resource
    request: Request
    user: str
    scope: Scope
    cursor: int
    initial: bool  # what is there comes first
    bookmark_every: float  # infinite: none
    deadline: float
    clock: Clock
    new_body_on_exit: bool = False
    replay_old: bool | None = None  # None: no replay
    frozen: bool = False
    ending: str = ""  # "clean" or "reset"
    too_late: bool = False  # its version was compacted away before it was opened
    _next_bookmark: float = field(default=math.inf)

    def batches(self, alive: Callable[[], bool]) -> Iterator[bytes]:
        """What to send, a batch of whole lines at a time, until the stream ends."""
        self._next_bookmark = self._bookmark_after(self.clock())
        yield from self._opening()
        while True:
            changes = self._await_news(alive)
            if changes is None:
                return
            if not changes and self._too_old():
                yield watch_error(expired(TOO_OLD))
                return
            if not changes:
                self._next_bookmark = self._bookmark_after(self.clock())
                yield self._bookmark()
                continue
            lines = b"".join([line for change in changes for line in self._event(change)])
            self.cursor = changes[-1].version
            if lines:
                yield lines

    def _opening(self) -> Iterator[bytes]:
        if not self.initial and self.replay_old is None:
            return
        with self.store.lock:
            if self.too_late:
                return
            at = self.store.version
            entries = [entry for entry in self.table.at(at) if self.scope.fits(entry)]
            if self.replay_old:
                oldest = self._oldest()
                entries = [oldest.get(entry.key, entry) for entry in entries]
            elif self.initial:
                self.cursor = at
        if entries:
            yield b"".join([part for entry in entries for part in _line(b"ADDED", entry)])

    def _oldest(self) -> dict[str, Entry]:
        """The oldest body that history has of each object."""
        found: dict[str, Entry] = {}
        for change in self.table.log:
            entry = change.before or change.after
            if entry is not None:
                found.setdefault(entry.key, entry)
        return found

    def _await_news(self, alive: Callable[[], bool]) -> list[Change] | None:
        """Changes; none for a bookmark or a version too old; None for the end."""
        with self.table.condition:
            while True:
                if self.ending or not alive():
                    return None
                now = self.clock()
                if self.frozen:
                    self.table.condition.wait(_LOOK_AROUND)
                    continue
                if self._too_old():
                    return []
                if changes := self.table.after(self.cursor, _AT_ONCE):
                    return changes
                self.cursor = max(self.cursor, self.store.version)
                if now >= self.deadline:
                    return None
                if now >= self._next_bookmark and self.cursor <= self.store.version:
                    return []
                until = min(self.deadline, self._next_bookmark, now + _LOOK_AROUND)
                self.table.condition.wait(max(until - now, 0.001))

    def _too_old(self) -> bool:
        """Whether changes that were not sent are forgotten (an idle watch has missed none)."""
        return self.too_late or self.cursor < self.table.forgotten

    def _event(self, change: Change) -> tuple[bytes, ...]:
        before = change.before if change.before and self.scope.fits(change.before) else None
        after = change.after if change.after and self.scope.fits(change.after) else None
        if after is not None:
            return _line(b"ADDED" if before is None else b"MODIFIED", after)
        if before is None:
            return ()
        if self.new_body_on_exit and change.after is not None:
            return _line(b"DELETED", change.after)
        # The last body that fitted, under the version of what took it away.
        return _line(b"DELETED", before.at(change.version))

    def _bookmark_after(self, now: float) -> float:
        before_the_end = self.deadline - _BEFORE_THE_END
        if math.isinf(self.bookmark_every) or now >= before_the_end:
            return math.inf
        return min(now + self.bookmark_every, before_the_end)

    def _bookmark(self) -> bytes:
        said = {
            "type": "BOOKMARK",
            "object": {
                "kind": self.resource.kind,
                "apiVersion": self.resource.api_version,
                "metadata": {"resourceVersion": str(self.cursor)},
            },
        }
        return orjson.dumps(said) + b"\n"


def _line(kind: bytes, entry: Entry) -> tuple[bytes, ...]:
    return (b'{"type":"', kind, b'","object":', entry.encoded, b"}\n")


def opened(
    store: Store, resource: Resource, request: Request, user: str, clock: Clock, every: float
) -> Watch:
    """The watch that `request` asks for; `every`: seconds between bookmarks. Raises `Refused`."""
    asked = request.query.get("resourceVersion") or "0"
    seconds = float(request.query.get("timeoutSeconds") or 0) or _LONGEST
    bookmarks = request.query.get("allowWatchBookmarks") in TRUE
    version = version_of(asked)
    with store.lock:
        table = store.table(resource)
        return Watch(
            store,
            table,
            resource,
            request,
            user,
            scope_of(request),
            cursor=version or store.version,
            initial=version == 0,
            bookmark_every=every if bookmarks else math.inf,
            deadline=clock() + seconds,
            clock=clock,
            too_late=0 < version < table.compacted,
        )


class Watches:
    """The watches that run now."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._running: list[Watch] = []

    def add(self, watch: Watch) -> None:
        with self._store.lock:
            self._running.append(watch)

    def discard(self, watch: Watch) -> None:
        with self._store.lock:
            self._running = [each for each in self._running if each is not watch]

    def running(self) -> list[Watch]:
        with self._store.lock:
            return list(self._running)

    def end_kind(self, group: str, plural: str) -> None:
        """End every watch of a kind, cleanly."""
        for watch in self.running():
            if (watch.resource.group, watch.resource.plural) == (group, plural):
                watch.ending = watch.ending or "clean"
        self._store.wake()

    def end_all(self) -> None:
        for watch in self.running():
            watch.ending = watch.ending or "clean"
        self._store.wake()
