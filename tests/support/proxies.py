"""A TCP proxy on loopback: the network between a client and a server, as a test wants it.

It sees bytes only, so TLS passes through. Threads of its own, all daemons: one that accepts, two
a connection.
"""

from __future__ import annotations

import socket
import threading
from typing import Any


class Proxy:
    """Leads to a server. A context manager. `opened` counts the connections so far."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._flowing = threading.Event()
        self._flowing.set()
        self._listener: socket.socket | None = None
        self.port = 0
        self.opened = 0

    def __enter__(self) -> Proxy:
        self.accept()
        return self

    def __exit__(self, *_: object) -> None:
        self._flowing.set()
        self.refuse()

    def accept(self) -> None:
        """Let connections in (again, on the same port)."""
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=64)
        self.port = self._listener.getsockname()[1]
        threading.Thread(
            target=self._serve, args=(self._listener,), name="proxy", daemon=True
        ).start()

    def refuse(self) -> None:
        """Refuse connections, and break those that are there."""
        if self._listener is not None:
            _shut(self._listener)
            self._listener.close()
            self._listener = None
        self.cut()

    def cut(self) -> None:
        """Break all connections; new ones are let in."""
        with self._lock:
            broken, self._sockets = self._sockets, set()
        for each in broken:
            _shut(each)

    def freeze(self) -> None:
        """Connections stay, and new ones are let in; nothing passes until `thaw`."""
        self._flowing.clear()

    def thaw(self) -> None:
        self._flowing.set()

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return  # no more connections are let in
            try:
                far = socket.create_connection(self._target, timeout=10)
            except OSError:
                near.close()
                continue
            for each in (near, far):
                each.settimeout(None)
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._sockets |= {near, far}
                self.opened += 1
            for pair in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=pair, name="proxy", daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                self._flowing.wait()
                target.sendall(data)
        except OSError:
            pass  # cut, by one side or by a test
        with self._lock:
            self._sockets -= {source, target}
        for each in (source, target):  # the other direction ends by that too
            _shut(each)


def _shut(sock: Any) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it is shut
