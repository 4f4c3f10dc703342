"""The agent as a process: start order, the loop that owns everything, and the way out.

Start: lock the state directory, open the store, serve from disk, look at the model config; only
then the broker. One thread, `main`, runs the loop and owns store, tree, models and session; the
watch of the model config has a thread of its own that only hands its looks over. A slice of work on
files is short, so that the loop comes round, polls the session, and feeds systemd's watchdog.
"""

from __future__ import annotations

import queue
import random
import secrets
import time
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from agent.broker.presence import Identity
from agent.broker.report import build_report
from agent.broker.uplink import Uplink
from agent.config import AgentSettings
from agent.footing import OpenFiles, TreeLock
from agent.handlers.files import FilesHandler
from agent.handlers.tree import Tree
from agent.inspect.live import LiveFile, LiveStatus
from agent.lock import locked
from agent.models.configfile import ConfigSeen
from agent.models.sync import ModelSync
from agent.models.watch import ModelsWatch
from agent.resources import NodeResources
from agent.store.database import Opened, open_database
from agent.store.models import SCHEMA as MODELS_SCHEMA
from agent.store.models import ModelStore
from agent.store.resources import SCHEMA as RESOURCES_SCHEMA
from agent.store.resources import ResourceStore
from nodecast import __version__
from nodecast.errors import NodecastError
from nodecast.log import logger
from nodecast.messages import ModelOp, encode
from nodecast.notify import Notifier
from nodecast.session import Outgoing, Session
from nodecast.signals import stop_on_signal
from nodecast.topics import Topics, agent_client_id

log = logger(__name__)

SCHEMAS = (RESOURCES_SCHEMA, MODELS_SCHEMA)
_SLICE = 0.05
_LONGEST_WAIT = 5.0
"""Seconds: no wait is longer, so that a mistake in a deadline costs little."""
_FIRST_LOOK = 10.0
"""Seconds that the broker waits for the first look at the model config: a disk may hang."""
_LEAVE = 2.0


class App:
    """One run of the agent. `run` returns after SIGTERM or SIGINT; errors end it."""

    def __init__(
        self, settings: AgentSettings, *, environ: Mapping[str, str] | None = None
    ) -> None:
        """Raises SettingsError."""
        self._settings = settings
        self._node = settings.node_name
        self._clock = time.monotonic
        self._rng = random.SystemRandom()
        self._notifier = (
            Notifier.from_environment() if environ is None else Notifier.from_environment(environ)
        )
        self._inbox: queue.SimpleQueue[ConfigSeen | NodecastError] = queue.SimpleQueue()
        self._instance = secrets.token_hex(8)
        self._started = self._text(self._clock())
        self._since = self._started
        self._stopping = self._hurried = False
        self._ready = False
        self._live = LiveFile(settings.state, self._rng)
        self._connected: bool | None = None
        self._line = ""

    def run(self) -> None:
        """Serve until a signal.

        Raises SettingsError, StateDirInUse, TreeInUse, StoreError, or ThreadDied.
        """
        with ExitStack() as stack:
            stack.enter_context(stop_on_signal(self._stop))
            stack.enter_context(locked(self._settings.state))
            self._tree_lock = stack.enter_context(TreeLock(self._settings.tree))
            opened = open_database(self._settings.state, SCHEMAS, secrets.token_hex(8))
            stack.callback(opened.connection.close)
            self._files = OpenFiles(self._settings.state)
            self._make(opened)
            stack.callback(self._close_session)
            log.info(
                "agent starts",
                version=__version__,
                node=self._node,
                bridge=self._settings.bridge,
                broker=self._settings.mqtt.url,
                store=opened.store,
            )
            self._watch.start()
            stack.callback(lambda: self._watch.stop(1.0))
            self._serve_from_disk()
            self._loop()
            self._drain()
        log.info("agent stopped")

    def _make(self, opened: Opened) -> None:
        settings = self._settings
        topics = Topics(settings.mqtt.prefix)
        store = ResourceStore(opened.connection, opened.store, settings.bridge)
        self._resources = NodeResources(
            store,
            FilesHandler(Tree(settings.tree)),
            self._node,
            clock=self._clock,
            rng=self._rng,
            pacing=settings.pacing(),
        )
        self._watch = ModelsWatch(
            Path(settings.model_config_dir).absolute(),
            self._seen,
            self._seen,
            settings.model_config_poll,
        )
        ops = topics.model_ops(self._node)
        self._models = ModelSync(
            self._node,
            opened.store,
            str(self._watch.path),
            ModelStore(opened.connection),
            oversize=lambda op: self._uplink.oversize(_op_message(ops, op)),
            now=lambda: self._text(self._clock()),
        )
        self._session = Session(
            settings.mqtt,
            agent_client_id(self._node),
            will=lambda: self._uplink.will(),
            clock=self._clock,
            rng=self._rng,
        )
        self._uplink = Uplink(
            self._session,
            Identity(self._node, settings.bridge_name, self._instance, self._started),
            topics,
            self._resources,
            self._models,
            clock=self._clock,
            text=self._text,
            times=settings.report_times(),
            rng=self._rng,
            new_id=lambda: secrets.token_hex(8),
        )

    # --- other threads, and signals

    def _seen(self, seen: ConfigSeen | NodecastError) -> None:
        """A look at the model config, or what ended its watch."""
        self._inbox.put(seen)
        self._session.wake()

    def _stop(self) -> None:
        """At a signal. A second one: leave without waiting for anybody."""
        self._hurried = self._stopping
        self._stopping = True
        # A signal may come before there is a session.
        if (session := getattr(self, "_session", None)) is not None:
            session.wake()

    # --- the loop

    def _serve_from_disk(self) -> None:
        """What is in the store, onto the disk, before and without any broker."""
        self._resources.start()
        patience = self._clock() + _FIRST_LOOK
        while not self._stopping:
            self._notifier.alive()
            self._resources.work(self._clock() + _SLICE)
            self._check_footing()
            read = self._models.read_once or self._clock() > patience
            if self._resources.served and read:
                break
            self._take_looks(0.0 if not self._resources.served else _SLICE)
        self._tend()

    def _loop(self) -> None:
        while not self._stopping:
            self._turn(self._wait())

    def _turn(self, wait: float) -> None:
        """One turn: events, decisions, commits, a slice of file work, what is to be said."""
        for event in self._session.poll(wait):
            self._uplink.handle(event, self._clock())
        self._take_looks(0.0)
        self._resources.work(self._clock() + _SLICE)
        self._check_footing()
        self._uplink.work(self._clock())
        self._tend()

    def _check_footing(self) -> None:
        """Between what was done and what is claimed of it. Raises StoreError or TreeInUse."""
        self._files.check()
        self._tree_lock.hold()

    def _wait(self) -> float:
        due = min(self._resources.due(), self._uplink.due(), self._live.due(self._live_state()))
        wait = min(max(0.0, due - self._clock()), _LONGEST_WAIT)
        pause = self._notifier.pause
        return wait if pause is None else min(wait, pause)

    def _take_looks(self, wait: float) -> None:
        """Hand looks at the model config to the models; wait at most `wait` seconds for one."""
        while True:
            try:
                seen = self._inbox.get(timeout=wait) if wait else self._inbox.get_nowait()
            except queue.Empty:
                return
            wait = 0.0
            if isinstance(seen, NodecastError):
                raise seen
            self._models.seen(seen)

    def _tend(self) -> None:
        """Tell systemd and the status file how things are."""
        if not self._ready and self._models.read_once and self._resources.served:
            self._ready = True
            self._notifier.ready("serving from disk")
        self._notifier.alive()
        if self._uplink.connected != self._connected:
            self._connected = self._uplink.connected
            self._since = self._text(self._clock())
        self._tell_systemd()
        self._live.tend(self._live_state(), self._clock(), self._live_status)

    def _tell_systemd(self) -> None:
        """The line of `systemctl status`, when it changes; it needs no disk."""
        line = "connected" if self._connected else "not connected, serving from disk"
        for error in (self._uplink.subscription_error, self._resources.store_error):
            line += f"; {error}" if error is not None else ""
        if line != self._line:
            self._line = line
            self._notifier.status(line)

    # --- the status file

    def _live_state(self) -> object:
        """Differs when the status file would say something else."""
        resources = self._resources
        return (
            self._uplink.connected,
            self._session.failure,
            self._uplink.subscription_error,
            self._uplink.models_error,
            self._models.changes,
            self._ready,
            resources.accepted,
            resources.changes,
            resources.refused,
            resources.left_alone,
        )

    def _live_status(self, *, stopped: bool = False) -> LiveStatus:
        resources, now = self._resources, self._clock()
        return LiveStatus(
            version=__version__,
            instance=self._instance,
            started=self._started,
            broker=self._settings.mqtt.url,
            connected=self._uplink.connected and not stopped,
            since=self._since,
            failure=None if stopped else self._session.failure,
            written=self._text(now),
            stopped=stopped,
            ready=self._ready,
            behind=resources.behind,
            left_alone=resources.left_alone,
            store_error=resources.store_error,
            subscription_error=self._uplink.subscription_error,
            models_error=self._uplink.models_error,
            report=build_report(resources, self._node, self._instance, 0, now, self._text),
            models=self._models.model_set(),
            config_problems=self._models.config_problems,
        )

    # --- the way out

    def _drain(self) -> None:
        """Say what is left to say, then offline; a broker that is slow or frozen delays little."""
        self._notifier.stopping("leaving")
        log.info("leaving", drain=self._settings.mqtt.drain)
        deadline = self._clock() + self._settings.mqtt.drain
        self._uplink.leave(self._clock())
        while not self._uplink.idle and (rest := self._left(deadline)) > 0:
            self._turn(min(rest, 0.1))
        if self._uplink.connected:
            self._uplink.say_offline()
            while self._uplink.connected and not self._uplink.offline_said:
                if (rest := self._left(deadline)) <= 0:
                    break
                for event in self._session.poll(rest):
                    self._uplink.handle(event, self._clock())
        self._live.write(self._live_status(stopped=True))

    def _left(self, deadline: float) -> float:
        return 0.0 if self._hurried else deadline - self._clock()

    def _close_session(self) -> None:
        """Also after an error: a DISCONNECT takes the will back, so the last word is said here."""
        if self._uplink.connected and not self._uplink.offline_said:
            self._uplink.say_offline()
        self._session.close(self._clock() + _LEAVE)

    def _text(self, moment: float) -> str:
        """A moment of the monotonic clock as a time of day, for people's eyes; empty where the
        clock says a time that no calendar has."""
        try:
            at = datetime.fromtimestamp(time.time() - (time.monotonic() - moment), UTC)
        except (ValueError, OverflowError, OSError):
            return ""
        return at.isoformat(timespec="seconds")


def _op_message(topic: str, op: ModelOp) -> Outgoing:
    return Outgoing(topic, encode(op), retain=False)
