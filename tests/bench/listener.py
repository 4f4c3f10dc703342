"""A subscriber that costs next to nothing: it keeps what comes, and looks at it afterwards."""

from __future__ import annotations

import socket
import struct
import threading
import time

from tests.bench.baseline import length_bytes, text_bytes

_PUBLISH = 0x30


class Listener:
    """A QoS 0 subscription on a bare socket. `last` is the second at which anything came."""

    def __init__(self, port: int, filter_: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        body = b"\x00\x04MQTT\x05\x02\x00\x00\x00" + text_bytes("bench-listener")
        self._socket.sendall(b"\x10" + length_bytes(len(body)) + body)
        body = struct.pack("!HB", 1, 0) + text_bytes(filter_) + b"\x00"
        self._socket.sendall(b"\x82" + length_bytes(len(body)) + body)
        self._pieces: list[bytes] = []
        self.last = time.monotonic()
        self._thread = threading.Thread(target=self._listen, name="listener", daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        while piece := self._socket.recv(1 << 18):
            self._pieces.append(piece)
            self.last = time.monotonic()

    def quiet(self, seconds: float) -> bool:
        """Whether nothing came for so long."""
        return time.monotonic() - self.last >= seconds

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        self._socket.close()

    def publishes(self) -> int:
        """How many publishes came so far."""
        data, at, count = b"".join(self._pieces), 0, 0
        while at + 2 <= len(data):
            kind, at = data[at], at + 1
            size = shift = 0
            while True:
                digit, at = data[at], at + 1
                size |= (digit & 0x7F) << shift
                shift += 7
                if digit < 0x80:
                    break
            at += size
            count += kind & 0xF0 == _PUBLISH
        return count
