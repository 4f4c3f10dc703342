"""The life of CRDs: established a moment after their creation, gone a moment after their deletion.

Always holds: what is served follows the CRD objects in the store. A CRD that is deleted takes
its objects with it at once (DELETED for each), its kind still lists empty for `gone` seconds,
then its watches end and it is a plain 404. Any change of a CRD ends the watches of its kinds.
Delays run on timer threads that `close` stops; everything else runs in the thread of the
request."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.fakes.answers import initialising, page_not_found, refused
from tests.fakes.resources import BUILT_IN, CRDS, Body, Resource
from tests.fakes.storage import Clock, Store, key_of

Served = dict[tuple[str, str, str], Resource]


@dataclass(frozen=True, slots=True)
class Delays:
    """Seconds. A real server takes about one for each; `initialising`: it says 429."""

    established: float = 0.02
    initialising: float = 0.0
    gone: float = 0.1


DEFAULT_DELAYS = Delays()


class Definitions:
    """Which kinds are served now."""

    def __init__(
        self,
        store: Store,
        delays: Delays,
        clock: Clock,
        now: Callable[[], datetime],
        end_watches: Callable[[str, str], None],
    ) -> None:
        self._store, self._delays, self._clock, self._now = store, delays, clock, now
        self._end_watches = end_watches
        self._served: Served = {}
        self._ready_at: dict[tuple[str, str], float] = {}
        self._terminating: set[str] = set()
        self._timers: set[threading.Timer] = set()
        self._closed = False
        for resource in BUILT_IN:
            self._served[resource.group, resource.version, resource.plural] = resource

    def resources(self) -> list[Resource]:
        with self._store.lock:
            return list(self._served.values())

    def find(self, group: str, version: str, plural: str) -> Resource:
        """The resource of a path; plain 404 where there is none, 429 where it is not ready yet."""
        with self._store.lock:
            resource = self._served.get((group, version, plural))
            if resource is None:
                raise page_not_found()
            if self._clock() < self._ready_at.get((group, plural), 0.0):
                raise initialising()
            return resource

    def of_kind(self, kind: str) -> Resource:
        """The resource of `Kind` or `Kind.group`. Raises KeyError."""
        for resource in self.resources():
            if kind in (resource.kind, resource.qualified_kind):
                return resource
        raise KeyError(f"the fake API server serves no kind {kind!r}: install its CRD first")

    def created(self, name: str) -> None:
        self._later(self._delays.established, lambda: self._establish(name))

    def changed(self, name: str) -> None:
        """A CRD was changed: what is served follows, and the watches of its kinds end."""
        with self._store.lock:
            entry = self._store.table(CRDS).entries.get(key_of("", name))
            if entry is None or not _is_established(entry.body()):
                return
            self._serve(entry.body())

    def deleted(self, name: str) -> None:
        """A CRD was marked deleted: its objects go now, the kind itself a little later."""
        with self._store.lock:
            self._terminating.add(name)
            crd = self._store.table(CRDS).entries[key_of("", name)].body()
            for resource in _resources_of(crd):
                table = self._store.table(resource)
                for key in sorted(table.entries):
                    self._store.remove(table, key)
        self._later(self._delays.gone, lambda: self._vanish(name))

    def must_take_new(self, resource: Resource) -> None:
        """405 where the kind's CRD is being deleted."""
        if not resource.custom:
            return
        if resource.qualified in self._terminating:
            message = "create not allowed while custom resource definition is terminating"
            raise refused(405, "MethodNotAllowed", message)

    def reload(self) -> None:
        """Serve what the store's CRDs say, after the store was restored."""
        with self._store.lock:
            self._terminating.clear()
            for key in [key for key, each in self._served.items() if each.custom]:
                del self._served[key]
            for entry in self._store.table(CRDS).entries.values():
                if _is_established(entry.body()):
                    self._enter(entry.body())

    def close(self) -> None:
        with self._store.lock:
            self._closed = True
            for timer in self._timers:
                timer.cancel()

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        def run() -> None:
            with self._store.lock:
                self._timers.discard(timer)
                if not self._closed:
                    call()

        timer = threading.Timer(seconds, run)
        timer.name = "fake apiserver definitions"
        timer.daemon = True
        with self._store.lock:
            self._timers.add(timer)
        timer.start()

    def _establish(self, name: str) -> None:
        entry = self._store.table(CRDS).entries.get(key_of("", name))
        if entry is None or entry.body()["metadata"].get("deletionTimestamp"):
            return
        crd = entry.body()
        crd["status"] = _established_status(crd, self._now().strftime("%Y-%m-%dT%H:%M:%SZ"))
        self._store.put(self._store.table(CRDS), entry.key, crd)
        for resource in _resources_of(crd):
            ready = self._clock() + self._delays.initialising
            self._ready_at[resource.group, resource.plural] = ready
        self._serve(crd)

    def _serve(self, crd: Body) -> None:
        self._withdraw(crd)
        self._enter(crd)

    def _enter(self, crd: Body) -> None:
        for resource in _resources_of(crd):
            self._served[resource.group, resource.version, resource.plural] = resource

    def _withdraw(self, crd: Body) -> None:
        group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
        for key in [key for key in self._served if key[0] == group and key[2] == plural]:
            del self._served[key]
        self._end_watches(group, plural)

    def _vanish(self, name: str) -> None:
        table = self._store.table(CRDS)
        entry = table.entries.get(key_of("", name))
        if entry is not None and entry.body()["metadata"].get("deletionTimestamp"):
            self._store.remove(table, entry.key)
            self._terminating.discard(name)
            self._withdraw(entry.body())


def _is_established(crd: Body) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def _resources_of(crd: Mapping[str, Any]) -> Iterator[Resource]:
    """One for each served version."""
    spec = crd["spec"]
    for version in spec["versions"]:
        if version.get("served"):
            yield Resource(
                spec["group"],
                version["name"],
                spec["names"]["plural"],
                spec["names"]["kind"],
                namespaced=spec.get("scope", "Namespaced") == "Namespaced",
                custom=True,
                status="status" in (version.get("subresources") or {}),
                generation=True,
                blind_put=False,
                schema=(version.get("schema") or {}).get("openAPIV3Schema") or {},
            )


def _established_status(crd: Mapping[str, Any], stamp: str) -> Body:
    def condition(kind: str, reason: str, message: str) -> Body:
        words = {"type": kind, "status": "True", "reason": reason, "message": message}
        return {**words, "lastTransitionTime": stamp}

    names = crd["spec"]["names"]
    return {
        "acceptedNames": {"listKind": f"{names['kind']}List", **names},
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition(
                "Established", "InitialNamesAccepted", "the initial names have been accepted"
            ),
        ],
        "storedVersions": [each["name"] for each in crd["spec"]["versions"] if each.get("storage")],
    }
