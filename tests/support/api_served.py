"""The bridge's API on a real socket, with a subject and a loop of the test's own."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bridge.api.calls import Calls
from bridge.api.client import Client
from bridge.api.routes import Routes
from bridge.api.server import ApiServer
from bridge.kind_views import KindView
from bridge.status import BrokerStatus, Status
from nodecast.errors import NodecastError, NothingToApprove, UnknownKind
from nodecast.names import KindName
from tests.support.wait import eventually

DATASET, MODEL = KindName("Dataset.sedna.io"), KindName("Model.sedna.io")
LONG = 600.0
"""Seconds: no test waits for it."""


def kind(name: KindName, **more: object) -> KindView:
    """A kind that is well, but for `more`."""
    plain = {"status": "ok", "held": False, "reasons": (), "guarded": None, "approvable": False}
    fields = plain | {"objects": 3, "placed": 2} | more
    return KindView(name, **fields)  # type: ignore[arg-type]


def status(**more: object) -> Status:
    """A bridge in charge, but for `more`."""
    plain = {"bridge": "default", "instance": "i", "version": "1"}
    plain |= {"started": "now", "origin": "here"}
    known: dict[str, object] = {"phase": "in charge", "broker": BrokerStatus("mqtt://x", True)}
    return Status(**{**plain, **known, **more})  # type: ignore[arg-type]


class Subject:
    """What the API asks: `DATASET` is held, and can be approved once; `along` goes with it."""

    def __init__(self, *more: KindName) -> None:
        """It knows `more` kinds, which are well."""
        self.more = more
        self.held = True
        self.along: tuple[KindName, ...] = ()
        self.asked = 0
        self.threads: set[str] = set()

    def status(self) -> Status:
        self.asked += 1
        self.threads.add(threading.current_thread().name)
        others = [kind(name, held=self.held and name in self.along) for name in self._others]
        return status(kinds=[self._dataset, *others])

    def approve(self, name: KindName) -> KindView:
        if name not in (DATASET, *self._others):
            raise UnknownKind(f"{name} has no rule")
        if name != DATASET or not self.held:
            raise NothingToApprove(f"nothing to approve: {name} is not held")
        self.held = False
        return self._dataset

    @property
    def _others(self) -> tuple[KindName, ...]:
        return (MODEL, *self.more)

    @property
    def _dataset(self) -> KindView:
        return kind(DATASET, held=self.held, reasons=("because",) if self.held else ())


class Served:
    """A server, and the loop that makes its calls while `working` is set."""

    def __init__(self, path: Path, subject: Subject, within: float) -> None:
        self.path, self.subject = path, subject
        self.failures: list[NodecastError] = []
        self.working = threading.Event()
        self.working.set()
        self._ended = threading.Event()
        self._woken = threading.Event()
        self.calls = Calls(self._woken.set)
        routes = Routes(subject, self.calls, within)
        self.server = ApiServer(
            lambda: routes.application, path, self.failures.append, rng=random.Random(1)
        )
        self._loop = threading.Thread(target=self._run, name="loop")

    def client(self, within: float = LONG) -> Client:
        return Client([self.path], within)

    def start(self) -> None:
        self._loop.start()
        self.server.start()

    def end(self) -> None:
        self._ended.set()
        self._woken.set()
        self.calls.close("the test is over")
        self.server.stop()
        self.server.join(LONG)
        self._loop.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            self._woken.wait()
            if self.working.is_set():
                self._woken.clear()
                self.calls.work()
            else:
                self._ended.wait(0.01)


@contextmanager
def serving(
    path: Path, subject: Subject | None = None, *, within: float = LONG, opened: bool = True
) -> Iterator[Served]:
    """A server that runs; its socket is there, if it is to be `opened`."""
    served = Served(path, subject or Subject(), within)
    served.start()
    try:
        if opened:
            eventually(lambda: answers(served.client()), 30, what="the API is open")
        yield served
    finally:
        served.end()
    assert served.failures == []


def answers(client: Client) -> bool:
    """Whether a bridge answers now."""
    try:
        client.status()
    except NodecastError:
        return False
    return True
