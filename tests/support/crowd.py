"""Thousands of nodes on a few connections: they see what is published for them, and report when the
test says so.

A broker drops what waits beyond a thousand messages for one client, so each connection speaks for a
few hundred nodes and subscribes to their topics one by one, as the nodes themselves would.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.subscribeoptions import SubscribeOptions

from nodecast.messages import Report, Snapshot, Wire, decode_snapshot, encode
from tests.support.wait import eventually

_NODES_A_CONNECTION = 400
_TOPICS_A_SUBSCRIBE = 200


@dataclass(frozen=True)
class Told:
    """The last snapshot of a node, when it came, and how often one came live so far."""

    snapshot: Snapshot
    at: float
    times: int


class Crowd:
    """See the module. `told`: by node, for those that were sent anything."""

    def __init__(self, port: int, nodes: Sequence[str]) -> None:
        self.told: dict[str, Told] = {}
        self._lock = threading.Lock()
        slices = range(0, len(nodes), _NODES_A_CONNECTION)
        self._members = [
            _Member(port, nodes[at : at + _NODES_A_CONNECTION], self._take) for at in slices
        ]
        self._member_of = {node: each for each in self._members for node in each.nodes}

    def listening(self) -> bool:
        """Whether all of them are subscribed, on the connection that they have now."""
        return all(each.subscribed for each in self._members)

    def report(self, reports: Iterable[Report]) -> None:
        """Publish these, retained, and wait until the broker has them."""
        sent = [self._member_of[each.node].report(each) for each in reports]
        eventually(lambda: all(each.is_published() for each in sent), 60, what="reports are sent")

    def times(self) -> Mapping[str, int]:
        """How often each node was sent a snapshot so far."""
        with self._lock:
            return {node: each.times for node, each in self.told.items()}

    def forget(self) -> None:
        """Only what comes from now on counts."""
        with self._lock:
            self.told.clear()

    def close(self) -> None:
        for each in self._members:
            each.close()

    def _take(self, node: str, snapshot: Snapshot, live: bool) -> None:
        with self._lock:
            before = self.told.get(node)
            now = Told(snapshot, time.monotonic(), 1)
            if before is not None:
                now = replace(now, times=before.times + live)
            self.told[node] = now


@contextmanager
def crowd(port: int, nodes: Sequence[str]) -> Iterator[Crowd]:
    """A crowd for the length of a `with`, once it listens."""
    made = Crowd(port, nodes)
    try:
        eventually(made.listening, 60, what="the crowd listens")
        yield made
    finally:
        made.close()


class _Member:
    """One connection; it comes back by itself."""

    def __init__(self, port: int, nodes: Sequence[str], take: Any) -> None:
        self.nodes = nodes
        self._take = take
        self._waiting: set[int | None] = set()
        self._subscribed = False
        self._client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
        self._client.on_connect = self._on_connect
        self._client.on_disconnect = self._on_disconnect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_message = self._on_message
        self._client.reconnect_delay_set(1, 1)
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()

    @property
    def subscribed(self) -> bool:
        return self._subscribed

    def report(self, report: Report) -> Any:
        return self._client.publish(f"node/{report.node}/status", encode(report), 1, retain=True)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def _on_connect(self, client: Client, *_: Any) -> None:
        self._waiting = set()
        for at in range(0, len(self.nodes), _TOPICS_A_SUBSCRIBE):
            part = self.nodes[at : at + _TOPICS_A_SUBSCRIBE]
            filters = [(f"node/{node}/resources", SubscribeOptions(qos=1)) for node in part]
            self._waiting.add(client.subscribe(filters)[1])

    def _on_disconnect(self, *_: Any) -> None:
        self._subscribed = False

    def _on_subscribe(self, _client: Client, _userdata: Any, mid: int, *_: Any) -> None:
        self._waiting.discard(mid)
        self._subscribed = not self._waiting

    def _on_message(self, _client: Client, _userdata: Any, message: MQTTMessage) -> None:
        if message.payload:
            properties = dict(getattr(message.properties, "UserProperty", ()))
            wire = Wire(message.payload, properties.get("encoding"))
            self._take(message.topic.split("/")[1], decode_snapshot(wire), not message.retain)
