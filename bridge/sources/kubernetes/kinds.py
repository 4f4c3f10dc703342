"""What the informers of one kind know, each of one namespace, told as one: a kind is seen in full
only where all of them see it.

The informers' threads come in here one at a time; `emit` is called under the lock, so that what
is told stands in the order in which it was learnt.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from bridge.objects import ObjectRecord
from bridge.placement import Rules
from bridge.sources.events import Changed, KindStatus, Listed, SourceEvent
from bridge.sources.kubernetes.scope import Namespace
from bridge.sources.kubernetes.sight import Changes, ListInProgress, Sight
from nodecast.names import KindName, ResourceKey

_WORST_FIRST = (KindStatus.MISSING, KindStatus.FORBIDDEN, KindStatus.OK)


@dataclass(slots=True)
class _Part:
    """One namespace. `status` None: no answer yet. `untaken`: changes were told and not yet
    taken."""

    sight: Sight
    status: KindStatus | None = None
    reason: str = ""
    asked_at: float = -math.inf
    untaken: object | None = None


class KindTeller:
    """Joins the namespaces of one kind. Any thread."""

    def __init__(
        self,
        kind: KindName,
        namespaces: Iterable[Namespace],
        rules: Rules,
        emit: Callable[[SourceEvent], None],
    ) -> None:
        self.kind = kind
        self._emit = emit
        self._lock = threading.RLock()  # `emit` may look at once at what it is told
        self._parts = {each: _Part(Sight(kind, rules)) for each in namespaces}

    def sight(self, namespace: Namespace) -> Sight:
        """What is known of a namespace. Its informer may read it, and begin a list in it; what
        comes in goes through the calls below."""
        return self._parts[namespace].sight

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

    def events(self, namespace: Namespace, lines: Iterable[bytes]) -> None:
        """Lines of a watch came. Raises what `Sight.events` raises; what came before it counts."""
        part = self._parts[namespace]
        with self._lock:
            try:
                part.sight.events(lines)
            finally:
                if part.untaken is None and part.sight.changes:
                    part.untaken = token = object()
                    self._emit(Changed.open(lambda: self._take(part, token)))

    def _take(self, part: _Part, token: object) -> Changes:
        """What changed since `token` was told; nothing where a list has come since."""
        with self._lock:
            if part.untaken is not token:
                return {}
            part.untaken = None
            return part.sight.take()

    def refused(
        self, namespace: Namespace, status: KindStatus, reason: str, asked_at: float
    ) -> None:
        """The server does not show it."""
        with self._lock:
            part = self._parts[namespace]
            part.status, part.reason, part.asked_at = status, reason, asked_at
            self._tell(None)

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
            part.sight.take()
            part.untaken = None
            union.update(part.sight.objects)
        return union
