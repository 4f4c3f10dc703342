"""A plain client to look into a broker and to write raw bytes to it, independent of our session."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from tests.support.wait import eventually


@dataclass(frozen=True)
class Seen:
    """A message as it arrived."""

    topic: str
    payload: bytes
    retained: bool
    content_type: str | None
    properties: dict[str, str] = field(default_factory=dict)


class Observer:
    """Sees everything below its filters: `messages` in order, `retained` the last of a topic."""

    def __init__(self, port: int, *filters: str, client_id: str | None = None) -> None:
        self.messages: list[Seen] = []
        self._latest: dict[str, Seen] = {}
        self._filters = filters or ("#",)
        self._subscribed = threading.Event()
        self._client = Client(
            CallbackAPIVersion.VERSION2,
            client_id=client_id or f"observer-{uuid.uuid4().hex[:12]}",
            protocol=MQTTProtocolVersion.MQTTv5,
        )
        self._client.on_connect = self._on_connect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_message = self._on_message
        self._client.reconnect_delay_set(1, 1)
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        assert self._subscribed.wait(10), "the observer did not get its subscription"

    @property
    def retained(self) -> dict[str, bytes]:
        """What the store holds, by topic: the last non-empty payload of each."""
        return {topic: seen.payload for topic, seen in list(self._latest.items()) if seen.payload}

    def latest(self, topic: str) -> Seen | None:
        """The last message of a topic."""
        return self._latest.get(topic)

    def of(self, topic: str) -> list[Seen]:
        """All messages of a topic, in order."""
        return [seen for seen in list(self.messages) if seen.topic == topic]

    def publish(
        self, topic: str, payload: bytes, *, retain: bool = True, encoding: str | None = None
    ) -> None:
        """Publish at QoS 1, and wait until the broker has it."""
        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        if encoding is not None:
            properties.UserProperty = ("encoding", encoding)
        info = self._client.publish(topic, payload, 1, retain, properties)
        eventually(info.is_published, what=f"the broker took {topic}")

    def clear(self, topic: str) -> None:
        """Take a retained message out of the store."""
        self.publish(topic, b"")

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def _on_connect(self, client: Client, *_: Any) -> None:
        client.subscribe([(each, SubscribeOptions(qos=1)) for each in self._filters])

    def _on_subscribe(self, *_: Any) -> None:
        self._subscribed.set()

    def _on_message(self, _client: Client, _userdata: Any, message: MQTTMessage) -> None:
        seen = Seen(
            message.topic,
            message.payload,
            message.retain,
            getattr(message.properties, "ContentType", None),
            dict(getattr(message.properties, "UserProperty", ())),
        )
        self.messages.append(seen)
        self._latest[seen.topic] = seen


@contextmanager
def observing(port: int, *filters: str) -> Iterator[Observer]:
    """An observer for the length of a `with`."""
    observer = Observer(port, *filters)
    try:
        yield observer
    finally:
        observer.close()
