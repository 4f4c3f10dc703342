"""paho's client, made to ask before each write to its socket.

A process may stand still at any moment, and what it may send may have changed when it goes on; so
the question is asked last of all, after whatever paho has queued. One owner thread.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable

from paho.mqtt.client import Client


class GuardedClient(Client):
    """A client that sends while `permit` says yes; with a no its connection is over, and
    `on_denial` is called before paho is told.

    `_sock_send` is paho's own and may be renamed: tests/broker/test_session_permit.py would fail.
    """

    permit: Callable[[], bool] | None = None
    on_denial: Callable[[], None] | None = None

    def _sock_send(self, buf: bytes | bytearray) -> int:
        if self.permit is not None and not self.permit():
            self.throw_away()
            if self.on_denial is not None:
                self.on_denial()
            raise ConnectionAbortedError("nothing may be sent any more")
        return super()._sock_send(buf)

    def throw_away(self) -> None:
        """Let closing the socket reset it: what the kernel still holds is not sent any more."""
        open_socket = self.socket()
        if isinstance(open_socket, socket.socket):
            linger = struct.pack("ii", 1, 0)
            open_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
