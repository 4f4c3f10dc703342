"""The properties of our packets, and how many bytes a PUBLISH takes (MQTT 5 §3.3, §3.1).

Publish properties are encoded once for each encoding and kept: paho would do it for each message.
Sizes are reckoned without building the packet.
"""

from __future__ import annotations

from functools import lru_cache

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from nodecast.errors import SessionError
from nodecast.session.events import Outgoing

CONTENT_TYPE = "application/json"
SESSION_MARGIN = 5
"""Seconds: a will does not outlive its session, so the session expires after the will's delay."""

_LARGEST_REMAINING = 268_435_455
_LONGEST_TOPIC = 65_535


class _Encoded(Properties):
    """PUBLISH properties that keep their bytes."""

    def __init__(self, encoding: str | None) -> None:
        super().__init__(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        _describe(self, encoding)
        object.__setattr__(self, "encoded", super().pack())  # type: ignore[no-untyped-call]

    def pack(self) -> bytes:
        encoded: bytes = object.__getattribute__(self, "encoded")
        return encoded


@lru_cache(maxsize=16)
def publish_properties(encoding: str | None) -> Properties:
    """The properties of every message with this encoding."""
    return _Encoded(encoding)


@lru_cache(maxsize=16)
def _properties_size(encoding: str | None) -> int:
    return len(_Encoded(encoding).pack())


def connect_properties(will: Outgoing | None) -> Properties:
    """Session expiry beyond the will's delay. Never a Maximum Packet Size of our own.

    Mosquitto drops what is larger than a client takes without a word to anybody.
    """
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    if will is not None:
        properties.SessionExpiryInterval = will.will_delay + SESSION_MARGIN
    return properties


def will_properties(will: Outgoing) -> Properties:
    """As a PUBLISH, and the delay."""
    properties = Properties(PacketTypes.WILLMESSAGE)  # type: ignore[no-untyped-call]
    _describe(properties, will.encoding)
    properties.WillDelayInterval = will.will_delay
    return properties


def _describe(properties: Properties, encoding: str | None) -> None:
    properties.ContentType = CONTENT_TYPE
    if encoding is not None:
        properties.UserProperty = ("encoding", encoding)


def wire_size(message: Outgoing) -> int:
    """Bytes of the whole PUBLISH packet at QoS 1, properties included.

    Raises SessionError where no packet can hold the message: an empty or too long topic, one with
    a wildcard, or more than 256 MiB.
    """
    topic = message.topic
    length = len(topic) if topic.isascii() else _encoded_length(topic)
    if not 0 < length <= _LONGEST_TOPIC or "+" in topic or "#" in topic or "\0" in topic:
        raise SessionError(f"{topic[:80]!r} is not a topic that can be published to")
    remaining = 2 + length + 2 + _properties_size(message.encoding) + len(message.payload)
    if remaining > _LARGEST_REMAINING:
        raise SessionError(f"a message of {remaining} bytes on {topic!r} fits into no MQTT packet")
    return 1 + _varint_size(remaining) + remaining


def subscribe_size(filters: list[str]) -> int:
    """At most how many bytes a SUBSCRIBE of these filters takes."""
    return 1 + 4 + 2 + 1 + sum(len(each.encode()) + 3 for each in filters)


def _encoded_length(topic: str) -> int:
    try:
        return len(topic.encode())
    except UnicodeEncodeError as error:
        raise SessionError(f"topic {topic[:80]!r} is not UTF-8: {error.reason}") from error


def _varint_size(value: int) -> int:
    return 1 if value < 128 else 2 if value < 16_384 else 3 if value < 2_097_152 else 4
