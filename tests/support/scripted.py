"""A broker in a test's hands: what it answers, keeps back, garbles or breaks off, packet by packet.

It speaks as much MQTT 5 as the product does (QoS 1, retained messages, exact and `+` filters), and
asks the test's `reply` before each answer. Faults that a real broker cannot be made to show are its
only use; everything else is tried on Mosquitto. A thread for each connection; all have ended when
it is closed.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from paho.mqtt.client import topic_matches_sub

CONNECT, CONNACK, PUBLISH, PUBACK = 0x10, 0x20, 0x30, 0x40
SUBSCRIBE, SUBACK, PINGREQ, PINGRESP, DISCONNECT = 0x80, 0x90, 0xC0, 0xD0, 0xE0

RECEIVE_MAXIMUM, MAXIMUM_PACKET_SIZE = b"\x21", b"\x27"
MAXIMUM_QOS, RETAIN_AVAILABLE = b"\x24", b"\x25"
SERVER_KEEP_ALIVE, ASSIGNED_CLIENT_ID, TOPIC_ALIAS_MAXIMUM = b"\x13", b"\x12", b"\x22"


class Packet(NamedTuple):
    """A packet of a client; `connection` counts the connections from 1 on."""

    kind: int
    flags: int
    body: bytes
    connection: int

    @property
    def topic(self) -> str:
        """The topic of a PUBLISH; empty for what has none."""
        if self.kind != PUBLISH:
            return ""
        return self.body[2 : 2 + _number(self.body)].decode()

    @property
    def id(self) -> bytes:
        """The packet id of a PUBLISH at QoS 1, or of a SUBSCRIBE."""
        start = 2 + _number(self.body) if self.kind == PUBLISH else 0
        return self.body[start : start + 2]

    @property
    def filters(self) -> list[str]:
        """The topic filters of a SUBSCRIBE."""
        size, used = _varint(self.body, 2)
        at, found = 2 + used + size, []
        while at < len(self.body):
            length = _number(self.body, at)
            found.append(self.body[at + 2 : at + 2 + length].decode())
            at += 2 + length + 1
        return found


class HangUp(Exception):
    """Raised by a reply: say the last words, and close the connection."""

    def __init__(self, last_words: bytes = b"") -> None:
        self.last_words = last_words


Reply = Callable[[Packet], bytes | None]
"""The bytes to answer with (none of them: silence), or None for what a good broker does."""


def packet(head: int, body: bytes) -> bytes:
    """A whole packet."""
    rest, length = len(body), b""
    while True:
        rest, low = divmod(rest, 128)
        length += bytes([low | (0x80 if rest else 0)])
        if not rest:
            return bytes([head]) + length + body


def connack(properties: bytes = b"", code: int = 0) -> bytes:
    return packet(CONNACK, bytes([0, code, len(properties)]) + properties)


def puback(of: bytes, code: int = 0) -> bytes:
    return packet(PUBACK, of + bytes([code]))


def disconnect(code: int) -> bytes:
    return packet(DISCONNECT, bytes([code]))


def publish(topic: str, payload: bytes, *, retained: bool = False) -> bytes:
    """At QoS 0: nothing has to be kept for a client that does not acknowledge."""
    name = topic.encode()
    return packet(PUBLISH | retained, len(name).to_bytes(2, "big") + name + b"\x00" + payload)


@dataclass
class _Client:
    out: socket.socket
    filters: list[str]


class ScriptedBroker:
    """See the module. A context manager; `port` is on 127.0.0.1."""

    def __init__(self, reply: Reply = lambda _: None) -> None:
        self.reply = reply
        self.received: list[Packet] = []
        self._retained: dict[str, bytes] = {}
        self._clients: list[_Client] = []
        self._lock = threading.RLock()
        self._threads: list[threading.Thread] = []
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    def of(self, kind: int) -> list[Packet]:
        """What was received of a kind, in order."""
        with self._lock:
            return [each for each in self.received if each.kind == kind]

    def published(self, topic: str) -> list[Packet]:
        return [each for each in self.of(PUBLISH) if each.topic == topic]

    def say(self, data: bytes) -> None:
        """Send bytes to all that are connected."""
        with self._lock:
            for client in self._clients:
                with suppress(OSError):  # that one is going
                    client.out.sendall(data)

    def __enter__(self) -> ScriptedBroker:
        self._start(self._serve)
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            for each in (self._listener, *self._open):
                with suppress(OSError):  # it is shut
                    each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        for each in (self._listener, *self._open):
            each.close()

    def _start(self, target: Callable[..., None], *given: object) -> None:
        thread = threading.Thread(target=target, args=given, name="scripted broker", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self) -> None:
        with suppress(OSError):  # the listener is shut at the end
            while True:
                near, _ = self._listener.accept()
                with self._lock:
                    self._open.append(near)
                    self.connections += 1
                    number = self.connections
                self._start(self._talk, near, number)

    def _talk(self, near: socket.socket, number: int) -> None:
        client = _Client(near, [])
        with near.makefile("rb") as stream, suppress(OSError):
            while (head := stream.read(1)) != b"":
                body = stream.read(_length(stream.read))
                each = Packet(head[0] & 0xF0, head[0] & 0x0F, body, number)
                with self._lock:
                    self.received.append(each)
                    try:
                        self._answer(client, each)
                    except HangUp as end:
                        near.sendall(end.last_words)
                        break
                if each.kind == DISCONNECT:
                    break
        with self._lock:
            if client in self._clients:
                self._clients.remove(client)
        with suppress(OSError):  # the peer was first
            near.shutdown(socket.SHUT_RDWR)

    def _answer(self, client: _Client, each: Packet) -> None:
        said = self.reply(each)
        if said is not None:
            client.out.sendall(said)
        elif each.kind == CONNECT:
            self._clients.append(client)
            client.out.sendall(connack())
        elif each.kind == SUBSCRIBE:
            client.out.sendall(packet(SUBACK, each.id + b"\x00" + b"\x01" * len(each.filters)))
            self._subscribe(client, each.filters)
        elif each.kind == PUBLISH:
            client.out.sendall(puback(each.id))
            self._deliver(each)
        elif each.kind == PINGREQ:
            client.out.sendall(packet(PINGRESP, b""))

    def _subscribe(self, client: _Client, filters: Sequence[str]) -> None:
        client.filters += filters
        for topic, body in self._retained.items():
            if any(topic_matches_sub(each, topic) for each in filters):
                client.out.sendall(packet(PUBLISH | 1, body))

    def _deliver(self, each: Packet) -> None:
        """As it came, properties and all, without its packet id: at QoS 0."""
        topic_end = 2 + _number(each.body)
        body = each.body[:topic_end] + each.body[topic_end + 2 :]
        if each.flags & 1:
            self._retained[each.topic] = body
        for client in self._clients:
            if any(topic_matches_sub(every, each.topic) for every in client.filters):
                with suppress(OSError):  # that one is going
                    client.out.sendall(packet(PUBLISH, body))


def _number(body: bytes, at: int = 0) -> int:
    return int.from_bytes(body[at : at + 2], "big")


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """(value, how many bytes it takes)"""
    rest = iter(body[at:])
    value = _length(lambda _: bytes([next(rest)]))
    return value, 1 if value < 128 else 2


def _length(read: Callable[[int], bytes]) -> int:
    value, factor = 0, 1
    while True:
        byte = read(1)
        if not byte:
            return 0  # the peer went in the middle of a packet
        value += (byte[0] & 0x7F) * factor
        factor *= 128
        if byte[0] < 0x80:
            return value
