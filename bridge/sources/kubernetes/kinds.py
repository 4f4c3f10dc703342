"""What the informers of one kind know, each of one namespace, told as one: a kind is seen in full
only where all of them see it.

The lines of a watch are not read when they come but when someone looks at what they change, many at
a time, which costs half; they are read by the informer itself when they become too many, and at the
end of its watch. So reading a bad line may fall to the one who looks: the informer is woken and
told at its next call.

Threads come in here one at a time; `emit` is called under the lock, so that what is told stands in
the order in which it was learnt.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bridge.placement import Rules
from bridge.record import ObjectRecord
from bridge.sources.events import Changed, Emit, Interrupted, KindStatus, Listed
from bridge.sources.kubernetes.scope import Namespace
from bridge.sources.kubernetes.sight import Changes, ListInProgress, Sight
from nodecast.errors import SourceError
from nodecast.names import KindName, ResourceKey

_MOST_WAITING = 4 << 20
"""Bytes of a watch's lines that are not read yet, in one namespace."""
_WORST_FIRST = (
    KindStatus.MISSING,
    KindStatus.FORBIDDEN,
    KindStatus.INCOMPLETE,
    KindStatus.OK,
)


@dataclass(slots=True)
class _Part:
    """One namespace. `status` None: no answer yet. `waiting`: lines that were not read yet.
    `untaken`: changes were told and not yet taken. `broken`: what is wrong with a line."""

    sight: Sight
    wake: Callable[[], None] = lambda: None
    status: KindStatus | None = None
    reason: str = ""
    asked_at: float = -math.inf
    waiting: list[bytes] = field(default_factory=list)
    size: int = 0
    untaken: object | None = None
    broken: SourceError | None = None
    interrupted: bool = False


class KindTeller:
    """Joins the namespaces of one kind. Any thread."""

    def __init__(
        self,
        kind: KindName,
        namespaces: Iterable[Namespace],
        rules: Rules,
        emit: Emit,
    ) -> None:
        self.kind = kind
        self._emit = emit
        self._lock = threading.RLock()  # `emit` may look at once at what it is told
        self._parts = {each: _Part(Sight(kind, rules)) for each in namespaces}

    def sight(self, namespace: Namespace, wake: Callable[[], None] = lambda: None) -> Sight:
        """What is known of a namespace. Its informer may read it, and begin a list in it; what
        comes in goes through the calls below. `wake` ends the watch: a line of it is bad."""
        part = self._parts[namespace]
        part.wake = wake
        return part.sight

    def listed(
        self,
        namespace: Namespace,
        pages: ListInProgress,
        version: str,
        asked_at: float,
        unwatched: str,
    ) -> None:
        """A list is whole. `unwatched`: why it may not be watched, if so: then it is held."""
        with self._lock:
            pages.finish(version)
            part = self._parts[namespace]
            part.status = KindStatus.FORBIDDEN if unwatched else KindStatus.OK
            part.reason, part.asked_at = unwatched, asked_at
            self._tell(self._all_objects())
            self.interrupted(namespace, False)

    def interrupted(self, namespace: Namespace, now: bool) -> None:
        """News of it may be missing since its last answer, or (not `now`) is not any more."""
        with self._lock:
            parts = self._parts.values()
            before = any(part.interrupted for part in parts)
            part = self._parts[namespace]
            part.interrupted = now and part.status is not None
            if (after := any(part.interrupted for part in parts)) != before:
                self._emit(Interrupted(self.kind, after))

    def events(self, namespace: Namespace, lines: Sequence[bytes]) -> None:
        """Lines of a watch came; `finish` says what is wrong with them."""
        part = self._parts[namespace]
        with self._lock:
            part.waiting += lines
            part.size += sum(map(len, lines))
            if part.waiting and part.untaken is None:
                part.untaken = token = object()
                self._emit(Changed.open(lambda: self._take(part, token)))
            elif part.size > _MOST_WAITING:
                self._read(part)

    def finish(self, namespace: Namespace) -> None:
        """The watch has ended. Raises what `Sight.events` raises of its lines; what came before a
        bad line counts, what came after it does not."""
        part = self._parts[namespace]
        with self._lock:
            self._read(part)
            broken, part.broken = part.broken, None
        if broken is not None:
            raise broken

    def unreadable(self, namespace: Namespace) -> dict[str, str]:
        """Reasons of objects that cannot be read, by `namespace/name`."""
        with self._lock:
            return dict(self._parts[namespace].sight.unreadable)

    def _take(self, part: _Part, token: object) -> Changes:
        """What changed since `token` was told; nothing where a list has come since."""
        with self._lock:
            if part.untaken is not token:
                return {}
            self._read(part)
            part.untaken = None
            return part.sight.take()

    def _read(self, part: _Part) -> None:
        lines, part.waiting, part.size = part.waiting, [], 0
        if lines and part.broken is None:
            try:
                part.sight.events(lines)
            except SourceError as error:
                part.broken = error
                part.wake()

    def refused(
        self, namespace: Namespace, status: KindStatus, reason: str, asked_at: float
    ) -> None:
        """The server does not show it."""
        with self._lock:
            part = self._parts[namespace]
            first = part.status is None
            part.status, part.reason, part.asked_at = status, reason, asked_at
            # What the others know was told only if this was not the answer that all waited for.
            others = first and any(each.sight.version for each in self._parts.values())
            self._tell(self._all_objects() if others else None)

    def watched(self, namespace: Namespace) -> None:
        """It may be watched again, after it might not: its list counts now."""
        with self._lock:
            part = self._parts[namespace]
            part.status, part.reason = KindStatus.OK, ""
            self._tell(self._all_objects())

    def _tell(self, objects: Mapping[ResourceKey, ObjectRecord] | None) -> None:
        """Say the state of the kind, once every namespace has had an answer."""
        parts = self._parts.values()
        statuses = {part.status for part in parts}
        if None in statuses:
            return
        worst = next(status for status in _WORST_FIRST if status in statuses)
        reasons = sorted({part.reason for part in parts if part.status is worst})
        asked_at = min(part.asked_at for part in parts)
        self._emit(Listed(self.kind, worst, objects, asked_at, "; ".join(reasons)))

    def _all_objects(self) -> dict[ResourceKey, ObjectRecord]:
        """A copy: what informers know goes on changing."""
        union: dict[ResourceKey, ObjectRecord] = {}
        for part in self._parts.values():
            # What changed and nobody has looked at yet is told with this, and not after it: a
            # change that stands before it would be undone by it.
            self._read(part)
            part.sight.take()
            part.untaken = None
            union.update(part.sight.objects)
        return union
