"""What there is to compare with: paho alone on its best loop, and a bare socket."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Sequence

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from nodecast.session import Outgoing

WINDOW = 20
"""Mosquitto's Receive Maximum, which both keep."""


def publish_with_paho(port: int, messages: Sequence[Outgoing], window: int = WINDOW) -> float:
    """Seconds that a bare paho client takes until all messages are acknowledged.

    One thread, `select`, paho's loop functions by hand, no inner queue.
    """
    client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
    client.max_inflight_messages_set(0)
    client.on_socket_register_write = lambda *_: None
    client.on_socket_open = lambda _c, _u, s: s.setsockopt(
        socket.IPPROTO_TCP, socket.TCP_NODELAY, 1
    )
    acknowledged = 0

    def on_publish(*_: object) -> None:
        nonlocal acknowledged
        acknowledged += 1

    client.on_publish = on_publish
    client.connect("127.0.0.1", port)
    while not client.is_connected():
        client.loop(0.1)
    properties = Properties(PacketTypes.PUBLISH)
    properties.ContentType = "application/json"
    sent, total, begin = 0, len(messages), time.perf_counter()
    while acknowledged < total:
        while sent < total and sent - acknowledged < window:
            message = messages[sent]
            client.publish(message.topic, message.payload, 1, message.retain, properties)
            sent += 1
        if client.want_write():
            client.loop_write()
        opened = client.socket()
        writers = [opened] if client.want_write() else []
        readable, _, _ = select.select([opened], writers, [], 1.0)
        if readable:
            client.loop_read()
    seconds = time.perf_counter() - begin
    client.disconnect()
    return seconds


def publish_on_a_socket(port: int, messages: Sequence[Outgoing], window: int = WINDOW) -> float:
    """Seconds that a bare socket takes: packets built by hand, acknowledgements only counted."""
    packets = [_publish(message, 1 + i % 60_000) for i, message in enumerate(messages)]
    with socket.create_connection(("127.0.0.1", port)) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        body = b"\x00\x04MQTT\x05\x02\x00\x3c\x00" + text_bytes("bench-socket")
        peer.sendall(b"\x10" + length_bytes(len(body)) + body)
        assert peer.recv(256)[0] == 0x20, "CONNACK"
        sent = acknowledged = 0
        rest, begin = b"", time.perf_counter()
        while acknowledged < len(packets):
            batch = packets[sent : acknowledged + window]
            if batch:
                peer.sendall(b"".join(batch))
                sent += len(batch)
            rest += peer.recv(65_536)
            at = 0
            while len(rest) - at >= 2 and len(rest) - at >= 2 + rest[at + 1]:
                assert rest[at] == 0x40, "PUBACK"
                at += 2 + rest[at + 1]
                acknowledged += 1
            rest = rest[at:]
        return time.perf_counter() - begin


def text_bytes(value: str) -> bytes:
    """A UTF-8 string as it stands in a packet (MQTT 5 §1.5.4)."""
    return struct.pack("!H", len(value.encode())) + value.encode()


def length_bytes(value: int) -> bytes:
    """A variable byte integer (MQTT 5 §1.5.5)."""
    out = bytearray()
    while True:
        value, digit = divmod(value, 128)
        out.append(digit | 0x80 if value else digit)
        if not value:
            return bytes(out)


def _publish(message: Outgoing, mid: int) -> bytes:
    properties = b"\x03" + text_bytes("application/json")
    body = text_bytes(message.topic) + struct.pack("!H", mid)
    body += length_bytes(len(properties)) + properties + message.payload
    return bytes([0x32 | message.retain]) + length_bytes(len(body)) + body
