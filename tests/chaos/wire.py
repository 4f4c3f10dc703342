"""Records every message on the wire, and says where one breaks what must always hold.

A client of the broker's own, beside all links. paho's thread calls it, under one lock; it waits for
nothing. Only live messages are judged: what the broker keeps may be old, since its store is wiped
and taken back in a run.

What always holds: one instance of a bridge gives a version to one content, and never goes back; an
agent never reports a lower version than before, unless the run took its store; a `seq` of a store's
ops means one op.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from typing import Any

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.subscribeoptions import SubscribeOptions

from nodecast.errors import MessageError
from nodecast.messages import ModelOp, ModelSet, Report, Version, Wire, decode, decode_snapshot
from tests.chaos.consumer import Consumer
from tests.support.wait import eventually

_AGAIN = 0.05
"""Seconds between two attempts to connect: it is to be there before the others."""
_NONE = Version(0, 0)


class Recorder:
    """Listens; a context manager. `wrong` holds what must not have been."""

    def __init__(self, port: int) -> None:
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.consumers: dict[str, Consumer] = defaultdict(Consumer)
        self.operations = 0
        self._port = port
        self._lock = threading.Lock()
        self._contents: dict[tuple[str, str, Version], str] = {}
        self._published: dict[tuple[str, str], Version] = {}
        self._reported: dict[str, tuple[str, Version]] = {}
        self._taken: set[str] = set()  # nodes whose store the run took, until they report again
        self._restored: set[str] = set()  # those of them that were given an older one
        self._kept: dict[str, tuple[str, int]] = {}  # what the broker surely keeps of ModelSets
        self._ops: dict[tuple[str, str, int], tuple[str, str, object]] = {}
        self._subscribed = threading.Event()
        self._client = self._made()

    def _made(self) -> Client:
        client = Client(
            CallbackAPIVersion.VERSION2,
            client_id="chaos-recorder",
            protocol=MQTTProtocolVersion.MQTTv5,
        )
        client.on_connect = self._on_connect
        client.on_disconnect = lambda *_: self._subscribed.clear()
        client.on_subscribe = lambda *_: self._subscribed.set()
        client.on_message = self._on_message
        client.reconnect_delay_set(_AGAIN, _AGAIN)  # type: ignore[arg-type]
        client.connect_async("127.0.0.1", self._port)
        client.loop_start()
        return client

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def listens(self) -> None:
        """Wait until the broker, which has just come up, tells it everything."""
        eventually(self._subscribed.is_set, 20, what="the recorder is subscribed")

    def store_taken(self, node: str, *, restored: bool) -> None:
        """A node's agent, which does not run, lost its store, or was given an older one."""
        with self._lock:
            self._taken.add(node)
            if restored:
                self._restored.add(node)
                self._begin_anew_if_untold(node)

    def broker_lost(self) -> None:
        """The broker, which does not run, may have lost what it kept."""
        with self._lock:
            self._kept.clear()
            for node in self._restored:
                self._begin_anew_if_untold(node)

    def _begin_anew_if_untold(self, node: str) -> None:
        """A restored store says nothing of the ops that came after it, and where the broker's
        ModelSet is lost too, nobody does: they are said again, and may mean something else."""
        consumer = self.consumers[node]
        if self._kept.get(node) != (consumer.store, consumer.seq):
            self._forget_ops(node)
            self.consumers[node] = Consumer(gaps=consumer.gaps)

    def _forget_ops(self, node: str) -> None:
        self._ops = {op: means for op, means in self._ops.items() if op[0] != node}

    def _on_connect(self, client: Client, *_: Any) -> None:
        client.subscribe([("#", SubscribeOptions(qos=1))])

    def _on_message(self, _client: Client, _userdata: Any, message: MQTTMessage) -> None:
        encoding = dict(getattr(message.properties, "UserProperty", ())).get("encoding")
        with self._lock:
            try:
                self._take(message.topic, Wire(message.payload, encoding), live=not message.retain)
            except MessageError as error:
                self.wrong.append(f"{message.topic}: a message that does not read: {error}")

    def _take(self, topic: str, wire: Wire, *, live: bool) -> None:
        _, name, what = topic.split("/", 2)
        self.counts[what if live else "kept by the broker"] += 1
        if what == "models":
            self._model_set(name, decode(ModelSet, wire), live=live)
        elif live and what == "resources":
            self._snapshot(name, wire)
        elif live and what == "status":
            self._report(name, decode(Report, wire))
        elif what == "models/ops":
            self._op(name, wire)

    def _model_set(self, node: str, said: ModelSet, *, live: bool) -> None:
        if live:
            self._kept[node] = (said.store, said.seq)
        self.consumers[node].model_set(said)

    def _snapshot(self, node: str, wire: Wire) -> None:
        snapshot = decode_snapshot(wire)
        # Another instance may give a version again, where ledger and reports of it are lost: a
        # version is the same only with the same digest.
        by = (node, snapshot.instance)
        if self._contents.setdefault((*by, snapshot.version), snapshot.digest) != snapshot.digest:
            self.wrong.append(f"{node}: {snapshot.version} of {snapshot.instance} has two contents")
        if snapshot.version < self._published.get(by, _NONE):
            self.wrong.append(f"{node}: {snapshot.instance} went back to {snapshot.version}")
        self._published[by] = snapshot.version

    def _report(self, node: str, report: Report) -> None:
        instance, version = self._reported.get(node, ("", _NONE))
        if report.instance != instance and node in self._taken:
            self._taken.discard(node)
            self._restored.discard(node)
            version = _NONE
        if report.version < version:
            self.wrong.append(f"{node}: reports {report.version} after {version}")
        self._reported[node] = (report.instance, report.version)

    def _op(self, node: str, wire: Wire) -> None:
        op = decode(ModelOp, wire)
        self.operations += 1
        if self.consumers[node].store != op.store:
            self._forget_ops(node)  # whoever sees a new store begins anew
        means = (op.op, op.model, op.spec)
        if (known := self._ops.setdefault((node, op.store, op.seq), means)) != means:
            self.wrong.append(f"{node}: op {op.seq} of {op.store} is {known}, then {means}")
        self.consumers[node].op(op)
