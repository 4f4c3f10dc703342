"""The target `packets`: whatever bytes a broker sends, its connection ends at the worst."""

from __future__ import annotations

import socket
from pathlib import Path

from nodecast.session.connection import Connection, connect
from nodecast.session.events import Outgoing, Subscription
from nodecast.session.link import Ended
from nodecast.session.settings import MqttSettings
from tests.fuzz.target import Reader, Target

_CONNACK = bytes.fromhex("20 0b 00 00 08 21 0014 27 00010000")
_SUBACK = bytes.fromhex("90 06 0001 00 01 00 87")
_PUBACKS = bytes.fromhex("40 02 0002 40 04 0003 10 00 40 04 0004 97 00")
_TOPIC, _PAYLOAD = b"node/edge-a/resources", b'{"schema": 1}'
_PROPERTIES = (
    b"\x03" + b"\x00\x10application/json" + b"\x26" + b"\x00\x08encoding" + b"\x00\x04zlib"
)
_VARIABLE = (
    len(_TOPIC).to_bytes(2, "big") + _TOPIC + b"\x00\x05" + bytes([len(_PROPERTIES)]) + _PROPERTIES
)
_PUBLISH = b"\x33" + bytes([len(_VARIABLE) + len(_PAYLOAD)]) + _VARIABLE + _PAYLOAD
_DISCONNECT = bytes.fromhex("e0 02 8e 00")
_PINGRESP = bytes.fromhex("d0 00")
_READS = 10_000
"""More than an input of the largest size takes."""


def _open(_: Path) -> Reader:
    def read(data: bytes) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            url = f"mqtt://127.0.0.1:{listener.getsockname()[1]}"
            link = connect(MqttSettings(url=url), "fuzz", None)
            broker, _ = listener.accept()
        try:
            link.subscribe([Subscription("node/+/status"), Subscription("a")])
            link.publish(Outgoing("b", b"x", retain=True))
            broker.setblocking(False)
            sent = 0
            for _ in range(_READS):
                sent += _some(broker, data[sent:])
                if sent == len(data):  # closed, it would take back what was not read yet
                    _finish(broker)
                link.read()
                if _ended(link):
                    break
            assert _ended(link), "it has ended, or its broker has"
        finally:
            broker.close()
            link.drop()

    return read


def _some(broker: socket.socket, data: bytes) -> int:
    """Send what goes; how much that was. What the other side closed takes everything."""
    try:
        return broker.send(data) if data else 0
    except BlockingIOError:
        return 0
    except OSError:
        return len(data)


def _finish(broker: socket.socket) -> None:
    try:
        broker.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # the other side was first


def _ended(link: Connection) -> bool:
    return any(isinstance(each, Ended) for each in link.happened)


def _transcripts() -> tuple[bytes, ...]:
    talk = _CONNACK + _SUBACK + _PUBLISH + _PUBACKS + _PINGRESP
    return (talk, talk + _DISCONNECT, _CONNACK + _PUBLISH * 20, _SUBACK + _PUBLISH)


PACKETS = {
    "packets": Target(
        _transcripts,
        (_CONNACK, _SUBACK, _PUBACKS, _PUBLISH, _DISCONNECT, b"\xff\xff\xff\x7f", b"\x00\x00"),
        _open,
    )
}
