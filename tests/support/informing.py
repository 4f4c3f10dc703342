"""The Kubernetes source against a fake API server, in the test's process: what it tells, what it
logs, and what it asks.

Pauses and time limits are a tenth of the real ones, so that what takes a minute takes seconds.
"""

from __future__ import annotations

import json
import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bridge.placement import Rules, built_in
from bridge.record import ObjectRecord
from bridge.sources.events import Changed, KindStatus, Listed, SourceEvent
from bridge.sources.kubernetes.access import Access
from bridge.sources.kubernetes.api import Api
from bridge.sources.kubernetes.scope import Scope, Tuning
from bridge.sources.kubernetes.source import KubernetesSource
from nodecast.backoff import Backoff
from tests.fakes.apiserver import ApiServer
from tests.fakes.crds import crd
from tests.fakes.faults import Match
from tests.fakes.requests import Record
from tests.support.wait import eventually

QUICK = Tuning(
    watch=1.0, grace=1.0, silence=1.0, backoff=Backoff(first=0.1, most=2.0), lasted=0.5, page=50
)
"""Watches of a second; a silent server is given up a second later."""
LONG = Tuning(watch=600.0, backoff=QUICK.backoff, lasted=QUICK.lasted, page=50)
"""Watches that do not end by themselves within a test."""
DATASETS = Match(resource="datasets")
LISTS = Match(verb="list", resource="datasets")
WATCHES = Match(verb="watch", resource="datasets")


def quick_time() -> float:
    """A monotonic clock that runs ten times as fast: for how often credentials are renewed."""
    return time.monotonic() * 10


class Told:
    """What a source told, in order, and what it makes together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.events: list[SourceEvent] = []
        self.at: list[float] = []
        """The monotonic second of each event."""
        self.objects: dict[str, ObjectRecord] = {}
        self.statuses: dict[str, KindStatus] = {}
        self.gone: list[str] = []
        """Every key that was ever taken away."""
        self.crashes: list[BaseException] = []

    def emit(self, event: SourceEvent) -> None:
        if isinstance(event, Changed) and not event.objects:
            return  # lines came, and changed nothing
        with self._lock:
            self.events.append(event)
            self.at.append(time.monotonic())
            if isinstance(event, Listed):
                self._listed(event)
            elif isinstance(event, Changed):
                for key, record in event.objects.items():
                    self._put(key, record)

    def _listed(self, event: Listed) -> None:
        self.statuses[event.kind] = event.status
        if event.objects is not None:
            known = [key for key, record in self.objects.items() if record.kind == event.kind]
            for key in known:
                if key not in event.objects:
                    self._put(key, None)
            self.objects.update(event.objects)

    def _put(self, key: str, record: ObjectRecord | None) -> None:
        if record is not None:
            self.objects[key] = record
        elif self.objects.pop(key, None) is not None:
            self.gone.append(key)

    @property
    def names(self) -> set[str]:
        """The names of all objects that are there."""
        with self._lock:
            return {key.rpartition("/")[2] for key in self.objects}

    @property
    def lists(self) -> list[Listed]:
        with self._lock:
            return [each for each in self.events if isinstance(each, Listed)]

    def url(self, name: str) -> str | None:
        """`spec.url` of the Dataset with this name."""
        record = self.objects.get(f"Dataset.sedna.io/default/{name}")
        return None if record is None else str(json.loads(record.encoded)["spec"]["url"])


class Lines(logging.Handler):
    """Log lines: (level, event, fields)."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[int, str, dict[str, Any]]] = []

    def emit(self, record: logging.LogRecord) -> None:
        fields = getattr(record, "nodecast_fields", {})
        self.lines.append((record.levelno, record.getMessage(), dict(fields)))

    @property
    def warnings(self) -> list[tuple[str, dict[str, Any]]]:
        """Everything at WARNING and above."""
        return [(event, fields) for level, event, fields in self.lines if level >= logging.WARNING]

    @property
    def reasons(self) -> list[str]:
        """The reasons of all warnings."""
        return [str(fields.get("reason")) for _, fields in self.warnings]

    @property
    def text(self) -> str:
        """All of it, for what must not be in it."""
        return "\n".join(f"{event} {fields}" for _, event, fields in list(self.lines))


class Informing:
    """A source that runs against `server`."""

    def __init__(
        self, server: ApiServer, source: KubernetesSource, api: Api, told: Told, log: Lines
    ) -> None:
        self.server, self.source, self.api, self.told, self.log = server, source, api, told, log

    def listed(self, kind: str = "Dataset.sedna.io", times: int = 1) -> None:
        """Wait until the kind was seen in full, `times` times."""
        eventually(
            lambda: (
                sum(each.kind == kind and each.status is KindStatus.OK for each in self.told.lists)
                >= times
            ),
            what=f"{kind} is listed; {self.log.warnings}",
        )

    def watching(self, count: int = 1, resource: str = "datasets") -> None:
        """Wait until the server has so many watches of the kind."""
        eventually(
            lambda: len(self.server.watches(resource)) >= count, what=f"a watch of {resource}"
        )

    def knows(self, *names: str, within: float = 20.0) -> None:
        """Wait until exactly these objects are known."""
        eventually(
            lambda: self.told.names == set(names),
            within,
            what=f"{names} are known, {self.log.warnings}",
        )

    def asked(self, verb: str, since: float = 0.0) -> list[Record]:
        """Requests for datasets."""
        return [
            each
            for each in self.server.requests(verb=verb, resource="datasets")
            if each.at >= since
        ]


@contextmanager
def serving(
    *things: dict[str, Any], kinds: Sequence[str] = ("Dataset",), bookmark_every: float = 60.0
) -> Iterator[ApiServer]:
    """A fake API server with these kinds of `sedna.io`, and these objects."""
    with ApiServer(bookmark_every=bookmark_every) as server:
        for kind in kinds:
            server.install(crd(kind))
        server.load(things)
        yield server


def rules_of(*kinds: str) -> Rules:
    """The built-in rules of these kinds; none: of all."""
    short = {rule.kind.partition(".")[0]: rule for rule in built_in()}
    return Rules([short[kind] for kind in kinds] if kinds else built_in())


@contextmanager
def informing(
    server: ApiServer,
    directory: Path,
    *,
    tuning: Tuning = QUICK,
    rules: Rules | None = None,
    scope: Scope | None = None,
    access: Access | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Informing]:
    """A source that runs, as the server's admin where no `access` is given; `clock`: the Api's.

    Raises AssertionError where a thread of it failed.
    """
    if access is None:
        access = Access(str(server.kubeconfig(directory / "kubeconfig")))
    told, log = Told(), Lines()
    api = Api(access, clock)
    source = KubernetesSource(
        api,
        scope or Scope(),
        rules or rules_of("Dataset"),
        told.emit,
        fail=told.crashes.append,
        tuning=tuning,
        rng=random.Random(7),
    )
    with logging_to(log):
        source.start()
        try:
            yield Informing(server, source, api, told, log)
        finally:
            source.stop()
    assert told.crashes == [], told.crashes


@contextmanager
def logging_to(log: Lines, level: int = logging.DEBUG) -> Iterator[Lines]:
    """Everything that is logged, by libraries too, goes to `log` besides."""
    root = logging.getLogger()
    before = root.level
    root.addHandler(log)
    root.setLevel(level)
    try:
        yield log
    finally:
        root.removeHandler(log)
        root.setLevel(before)
