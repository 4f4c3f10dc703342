"""The bridge as a process: source, session and core, and the loop that joins them.

One thread, `main`, runs the loop and owns the core and the session. The source has threads of its
own and hands events over; an error that ends one of them ends the process, whatever the main thread
waits for (`nodecast.threads`). What an open change holds is read when the loop looks at it
(`bridge.sources.events.Changed`).
"""

from __future__ import annotations

import gc
import math
import os
import queue
import random
import secrets
import socket
import time

from bridge.api.place import socket_path
from bridge.attendant import Attendant
from bridge.bridge import Bridge
from bridge.charge import Identity, Phase
from bridge.config import BridgeSettings
from bridge.lease import Unshared
from bridge.origin import origin_of
from bridge.sources.events import SourceEvent
from bridge.standing import Standing
from bridge.tenure import Tenure
from nodecast import __version__
from nodecast.backoff import Backoff
from nodecast.errors import NodecastError, SourceError, Superseded
from nodecast.log import Repeats, logger
from nodecast.names import bridge_name
from nodecast.session import Session
from nodecast.signals import stop_on_signal
from nodecast.threads import sleep, supervised
from nodecast.topics import Topics, bridge_client_id

log = logger(__name__)

_LONGEST_WAIT = 5.0
"""Seconds: no wait is longer, so that a mistake in a deadline costs little."""
_LEAVE = 2.0
_GATHER = 0.02
"""Seconds between two looks at what the source says, in a burst."""
_BACKOFF = Backoff(first=1.0, most=30.0)
"""Seconds between two questions for the source's identity."""
COLLECTOR = (50_000, 20, 50)
"""Garbage collection: what is kept is many and never cyclic, so it need not be walked often."""


class App:
    """One run of the bridge. `run` returns when it was stopped; errors end it."""

    def __init__(self, settings: BridgeSettings, *, adopt: bool = False) -> None:
        """Raises SettingsError."""
        self._origin = origin_of(settings)
        self._settings = settings
        self._adopt = adopt
        self._name = bridge_name(settings.bridge)
        self._rules = settings.placement()
        self._rng = random.SystemRandom()
        self._inbox: queue.SimpleQueue[SourceEvent] = queue.SimpleQueue()
        self._coming = False
        self._look_at = math.inf
        self._stopping = self._hurried = False
        self._failure: NodecastError | None = None
        self._bridge: Bridge
        self._instance = secrets.token_hex(8)
        me = f"{socket.gethostname()}_{self._instance}"
        leadership = self._origin.leadership(me, lambda: self._session.wake(), self._fail)
        self._leased = leadership is not None
        self._leadership = leadership or Unshared()
        self._tenure = Tenure(self._leadership)
        self._session = Session(
            settings.mqtt,
            bridge_client_id(self._name),
            will=lambda: self._bridge.own.presence(online=False),
            permit=self._tenure.permits,
            rng=self._rng,
        )
        self._source = self._origin.source(self._rules, self._emit, self._fail)
        self._standing = Standing(
            self._name, self._instance, str(self._origin), settings.mqtt.url, self._session
        )
        self._attendant = Attendant(
            self._standing,
            socket_path(settings.api.socket, self._name, os.environ, os.getuid()),
            wake=self._session.wake,
            fail=self._fail,
            rng=self._rng,
        )

    def run(self) -> None:
        """Serve until a signal. Raises SettingsError, Unavailable, or ThreadDied."""
        log.info(
            "bridge starts",
            version=__version__,
            bridge=self._name,
            instance=self._instance,
            source=str(self._origin),
            broker=self._settings.mqtt.url,
        )
        gc.set_threshold(*COLLECTOR)
        with stop_on_signal(self._stop):
            self._source.start()
            self._attendant.start()
            try:
                identity = self._identify()
                if identity is not None:
                    self._bridge = self._standing.bridge = self._core(identity)
                    self._standing.stage = "listing"
                    self._wait_for_lists()
                    self._serve()
            except Superseded:
                self._session.disconnect("superseded")  # the other one speaks now: not a word more
                self._session.close(time.monotonic())
                raise
            finally:
                self._attendant.leave()
                self._source.stop()
                try:
                    self._leave()
                finally:
                    self._leadership.stop()  # not a word to the broker after it
                    self._attendant.close()

    def _identify(self) -> str | None:
        """What tells the source from another, asked for until it is known; None: stopped."""
        failures, said = 0, Repeats()
        while self._going:
            answer = self._ask_identity()
            if isinstance(answer, SourceError):
                failures += 1
                if said.new("source", str(answer)):
                    log.warning("source not reached yet, trying again", reason=str(answer))
            else:
                if said.over("source"):
                    log.info("source reached", source=str(self._origin))
                return answer
            again = time.monotonic() + _BACKOFF.pause(failures, self._rng)
            while self._going and (left := again - time.monotonic()) > 0:
                self._attendant.attend()
                sleep(min(left, 0.2))
        return None

    def _ask_identity(self) -> str | SourceError | None:
        """In a thread of its own, so that a silent source delays no stop; None: stopped."""
        answers: queue.SimpleQueue[str | SourceError] = queue.SimpleQueue()

        def ask() -> None:
            try:
                answers.put(self._origin.identity())
            except SourceError as error:
                answers.put(error)

        supervised("identity", ask, self._fail).start()
        while self._going:
            self._attendant.attend()
            try:
                return answers.get(timeout=0.2)
            except queue.Empty:
                continue
        return None

    def _core(self, source: str) -> Bridge:
        return Bridge(
            Identity(self._name, source, self._instance, self._adopt, self._leased),
            self._rules,
            Topics(self._settings.mqtt.prefix),
            self._settings.policy(),
            self._session,
            self._source.relist,
            rng=self._rng,
            wall_clock=time.time,
        )

    def _emit(self, event: SourceEvent) -> None:
        """Any thread. The loop is woken for the first of many events; it comes for the others."""
        self._inbox.put(event)
        if not self._coming:
            self._coming = True
            self._session.wake()

    def _fail(self, error: NodecastError) -> None:
        """Any thread: what ended it. The first one counts."""
        self._failure = self._failure or error
        self._session.wake()

    def _stop(self) -> None:
        """At a signal. A second one: leave without waiting for anybody."""
        self._hurried = self._stopping
        self._stopping = True
        self._session.wake()

    @property
    def _going(self) -> bool:
        """Whether to go on. Raises what ended a thread."""
        if self._failure is not None:
            raise self._failure
        return not self._stopping

    def _wait_for_lists(self) -> None:
        """The broker is not bothered before there is something to say."""
        started = time.monotonic()
        while self._going:
            self._attendant.attend()
            waited = time.monotonic() - started
            if self._bridge.may_connect(waited):
                return
            try:
                self._take(self._inbox.get(timeout=0.2))
            except queue.Empty:
                continue

    def _serve(self) -> None:
        self._leadership.start()  # not before it could serve
        deadline = 0.0
        while self._going:
            self._keep_to_the_lease()
            wait = min(deadline, self._look_at) - time.monotonic()
            wait = min(max(0.0, wait), self._tenure.left, _LONGEST_WAIT)
            self._poll(self._attendant.longest_wait(wait))
            self._take_all()
            self._attendant.attend()
            deadline = self._bridge.work(time.monotonic())

    def _poll(self, wait: float) -> None:
        for event in self._session.poll(wait):
            self._standing.session_event(event)
            self._bridge.session_event(event, time.monotonic())

    def _keep_to_the_lease(self) -> None:
        """Without the right to be in charge there is no connection to the broker."""
        if self._tenure.end():
            log.warning("the lease is lost: in charge no more, the connection is cut")
            self._session.cut("the lease is lost")
            self._bridge.step_down()
        self._tenure.begin()
        self._standing.stage = "connecting" if self._tenure.serving else "standing by"

    def _take_all(self) -> None:
        """Take what the source said. In a burst that is done every `_GATHER` seconds, not for each
        event: two threads that wake each other all the time do little else."""
        now = time.monotonic()
        if now < self._look_at < math.inf:
            return
        self._coming = False  # before the look: what comes after it wakes the loop again
        took = False
        while True:
            try:
                self._take(self._inbox.get_nowait())
                took = True
            except queue.Empty:
                break
        self._coming = took
        self._look_at = now + _GATHER if took else math.inf

    def _take(self, event: SourceEvent) -> None:
        self._bridge.source_event(event, time.monotonic())

    def _leave(self) -> None:
        """Wait for what is under way, say offline, and go; a frozen broker delays it little."""
        if self._session.connected and self._bridge.charge.phase is Phase.IN_CHARGE:
            deadline = time.monotonic() + self._settings.mqtt.drain
            log.info("leaving", drain=self._settings.mqtt.drain)
            self._bridge.leave()
            while self._bridge.busy and self._session.connected and time.monotonic() < deadline:
                if self._hurried:
                    break
                self._poll(0.2)
                self._attendant.attend()
        self._session.close(time.monotonic() + _LEAVE)
        log.info("bridge stopped")
