"""What goes over the wire, seen by a listener that is no broker."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from nodecast.errors import SessionError
from nodecast.session import MqttSettings, Outgoing, Subscription, wire_size
from nodecast.session.connection import Connection, connect
from nodecast.session.packets import subscribe_size

MAXIMUM_PACKET_SIZE, SESSION_EXPIRY, WILL_DELAY = 0x27, 0x11, 0x18


class Listener:
    """Takes one connection, and gives what came, packet by packet."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.settings = MqttSettings(url=f"mqtt://127.0.0.1:{self._server.getsockname()[1]}")
        self._peer: socket.socket | None = None

    def packet(self) -> bytes:
        """The next whole packet."""
        if self._peer is None:
            self._peer, _ = self._server.accept()
            self._peer.settimeout(5)
        head = self._exactly(1)
        length, shift = 0, 0
        while True:
            head += self._exactly(1)
            length |= (head[-1] & 127) << shift
            shift += 7
            if head[-1] < 128:
                return head + self._exactly(length)

    def _exactly(self, size: int) -> bytes:
        assert self._peer is not None
        data = b""
        while len(data) < size:
            more = self._peer.recv(size - len(data))
            assert more, "the connection ended within a packet"
            data += more
        return data

    def close(self) -> None:
        self._server.close()
        if self._peer is not None:
            self._peer.close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener()
    yield made
    made.close()


def write_all(link: Connection) -> None:
    while link.wants_write:
        link.write()


@pytest.mark.parametrize("encoding", [None, "zlib"])
@pytest.mark.parametrize("topic", ["a", "node/edge-0/resources", "site/é/ü"])
@pytest.mark.parametrize("size", [0, 1, 90, 127, 128, 16_300, 16_384, 70_000])
def test_the_wire_size_is_what_the_packet_takes(
    listener: Listener, topic: str, size: int, encoding: str | None
) -> None:
    link = connect(listener.settings, "wire", None)
    message = Outgoing(topic, b"x" * size, True, encoding)
    link.publish(message)
    write_all(link)
    listener.packet()
    assert len(listener.packet()) == wire_size(message)
    link.drop()


def test_the_connect_is_clean_and_outlives_the_will_and_names_no_packet_limit(
    listener: Listener,
) -> None:
    link = connect(listener.settings, "wire", Outgoing("state", b"{}", True, will_delay=10))
    write_all(link)
    packet = listener.packet()
    flags = packet[packet.index(b"MQTT") + 5]
    assert flags & 0x02, "clean start"
    assert (flags >> 3) & 0x03 == 1, "a will at QoS 1"
    properties = packet[packet.index(b"MQTT") + 8 :]
    assert properties[:6] == bytes([5, SESSION_EXPIRY, 0, 0, 0, 15])
    assert bytes([WILL_DELAY, 0, 0, 0, 10]) in packet
    link.drop()


def test_a_password_file_is_read_at_each_connection(listener: Listener, tmp_path: object) -> None:
    path = f"{tmp_path}/password"
    settings = MqttSettings(url=listener.settings.url, username="agent", password_file=path)
    with pytest.raises(SessionError, match="password file"):
        connect(settings, "wire", None)
    with open(path, "w") as file:
        file.write("open sesame\n")
    link = connect(settings, "wire", None)
    write_all(link)
    assert listener.packet().endswith(b"\x00\x05agent\x00\x0bopen sesame")
    link.drop()


def test_a_refused_connection_says_why_and_where() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(SessionError, match=f"127.0.0.1:{port}: Connection refused"):
        connect(MqttSettings(url=f"mqtt://127.0.0.1:{port}"), "wire", None)


@pytest.mark.parametrize("topic", ["", "a/+", "#", "a\0b", "\ud800", "x" * 65_536])
def test_a_topic_that_cannot_be_published_to_is_refused(topic: str) -> None:
    with pytest.raises(SessionError):
        wire_size(Outgoing(topic, b"", True))


def test_bytes_that_are_no_mqtt_end_the_connection_with_a_reason(listener: Listener) -> None:
    link = connect(listener.settings, "wire", None)
    write_all(link)
    listener.packet()
    assert listener._peer is not None
    listener._peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    listener._peer.shutdown(socket.SHUT_WR)
    for _ in range(100):
        link.read()
        if link.happened:
            break
    assert link.happened
    link.drop()


def test_paho_holds_no_publish_back(listener: Listener) -> None:
    link = connect(listener.settings, "wire", None)
    for i in range(50):
        link.publish(Outgoing(f"t/{i}", b"", True))
    write_all(link)
    listener.packet()
    assert [listener.packet()[0] >> 4 for _ in range(50)] == [3] * 50
    link.drop()


def test_a_subscribe_takes_no_more_than_reckoned(listener: Listener) -> None:
    filters = [f"node/edge-{i}/status" for i in range(50)]
    link = connect(listener.settings, "wire", None)
    link.subscribe([Subscription(each) for each in filters])
    write_all(link)
    listener.packet()
    assert len(listener.packet()) <= subscribe_size(filters)
    link.drop()
