"""A client that listens to everything on the demo's broker and keeps what was said last.

It owns one session and one thread, `observer`, which waits for the broker alone; `view` may be
called from any thread. It listens and never publishes. A lost connection empties the view, and the
next starts from the retained messages again, so that it shows what the broker has now; ops are
kept, since they are no retained messages.
"""

from __future__ import annotations

import secrets
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TypeVar

import msgspec

from nodecast.errors import MessageError
from nodecast.log import logger
from nodecast.messages import (
    Ledger,
    ModelOp,
    ModelSet,
    Presence,
    Report,
    Snapshot,
    Wire,
    decode,
    decode_snapshot,
)
from nodecast.names import bridge_name
from nodecast.session import Connected, Event, Lost, MqttSettings, Received, Session, Subscription
from nodecast.topics import Topics
from waiting import DemoFailed

log = logger(__name__)

BRIDGE = bridge_name("default")
_TOPICS = Topics()
_FILTERS = (
    "node/+/resources",
    "node/+/state",
    "node/+/status",
    "node/+/models",
    "node/+/models/ops",
    _TOPICS.bridge_state(BRIDGE),
    _TOPICS.ledger(BRIDGE),
)
_POLL = 1.0
_LEAVE_WITHIN = 1.0

M = TypeVar("M", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class View:
    """What the broker has, by node; `ops`: every model op that was heard, in order."""

    connected: bool = False
    bridge: Presence | None = None
    ledger: Ledger | None = None
    snapshots: dict[str, Snapshot] = field(default_factory=dict)
    presences: dict[str, Presence] = field(default_factory=dict)
    reports: dict[str, Report] = field(default_factory=dict)
    models: dict[str, ModelSet] = field(default_factory=dict)
    ops: tuple[ModelOp, ...] = ()

    def online(self, node: str) -> bool:
        presence = self.presences.get(node)
        return presence is not None and presence.online


class Observer:
    """See the module."""

    def __init__(self, url: str) -> None:
        settings = MqttSettings(url=url, reconnect_min=0.1, reconnect_max=0.5)
        client = f"nodecast-cli-{secrets.token_hex(4)}"
        self._session = Session(settings, client, will=lambda: None)
        self._lock = threading.Lock()
        self._view = View()
        self._stopping = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End the thread and the connection."""
        self._stopping = True
        if self._thread.is_alive():
            self._session.wake()
            self._thread.join()

    def view(self) -> View:
        """What is known now."""
        with self._lock:
            return self._view

    def check(self) -> None:
        """Raise DemoFailed when the thread has ended by an error."""
        if self._failure is not None:
            raise DemoFailed(f"the observer ended: {self._failure!r}") from self._failure

    def _run(self) -> None:
        try:
            while not self._stopping:
                for event in self._session.poll(_POLL):
                    self._take(event)
            self._session.close(time.monotonic() + _LEAVE_WITHIN)
        except Exception as error:  # noqa: BLE001 - the top of the thread
            log.crash("observer ended")
            self._failure = error

    def _take(self, event: Event) -> None:
        if isinstance(event, Connected):
            self._session.subscribe([Subscription(each) for each in _FILTERS], None)
            self._set(View(connected=True, ops=self._view.ops))
        elif isinstance(event, Lost):
            self._set(View(ops=self._view.ops))
        elif isinstance(event, Received):
            try:
                self._set(self._with(event))
            except MessageError as error:
                log.warning("message not read", topic=event.topic, reason=str(error))

    def _set(self, view: View) -> None:
        with self._lock:
            self._view = view

    def _with(self, message: Received) -> View:
        """The view after `message`. Raises MessageError."""
        view = self._view
        wire = Wire(message.payload, message.encoding)
        if message.topic == _TOPICS.bridge_state(BRIDGE):
            return replace(view, bridge=_read(Presence, wire))
        if message.topic == _TOPICS.ledger(BRIDGE):
            return replace(view, ledger=_read(Ledger, wire))
        parsed = _TOPICS.parse_node(message.topic)
        return view if parsed is None else _with_node(view, *parsed, wire)


def _with_node(view: View, node: str, leaf: str, wire: Wire) -> View:
    if not wire.payload:
        return view
    if leaf == "resources":
        return replace(view, snapshots={**view.snapshots, node: decode_snapshot(wire)})
    if leaf == "state":
        return replace(view, presences={**view.presences, node: decode(Presence, wire)})
    if leaf == "status":
        return replace(view, reports={**view.reports, node: decode(Report, wire)})
    if leaf == "models":
        return replace(view, models={**view.models, node: decode(ModelSet, wire)})
    if leaf == "models/ops":
        return _with_op(view, decode(ModelOp, wire))
    return view


def _with_op(view: View, op: ModelOp) -> View:
    """An op is sent at least once: the same `seq` of the same store counts once."""
    heard = {(each.node, each.store, each.seq) for each in view.ops}
    return view if (op.node, op.store, op.seq) in heard else replace(view, ops=(*view.ops, op))


def _read(kind: type[M], wire: Wire) -> M | None:
    return decode(kind, wire) if wire.payload else None
