"""A TCP proxy on loopback: the network between a client and a server, as a test wants it.

It sees bytes only, so TLS passes through: it can refuse them, cut, hold, delay and drop. Threads of
its own: one that accepts, and two for each connection; all have ended when the proxy is closed.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Literal

Way = Literal["up", "down"]
"""To the server, and back from it."""


class Proxy:
    """Leads to a server. A context manager."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._lock = threading.Lock()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._flowing = threading.Event()
        self._flowing.set()
        self._swallows: frozenset[Way] = frozenset()
        self.delay = 0.0
        """Seconds by which each piece of data comes later, in both directions."""
        self._listener: socket.socket | None = None
        self._threads: list[threading.Thread] = []
        self.port = 0

    def __enter__(self) -> Proxy:
        self.accept()
        return self

    def __exit__(self, *_: object) -> None:
        self.refuse()
        self.thaw()
        with self._lock:
            threads = self._threads[:]
        for thread in threads:
            thread.join(10)

    def accept(self) -> None:
        """Let connections in (again, on the same port)."""
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=64)
        self.port = self._listener.getsockname()[1]
        self._start(self._serve, self._listener)

    def refuse(self) -> None:
        """Refuse connections, and break those that are there."""
        if self._listener is not None:
            _shut(self._listener)
            self._listener = None
        self.cut()

    def cut(self) -> None:
        """Break all connections; new ones are let in."""
        with self._lock:
            for pair in self._pairs:
                _shut(*pair)

    def freeze(self) -> None:
        """Connections stay, and new ones are let in; nothing passes until `thaw`."""
        self._flowing.clear()

    def thaw(self) -> None:
        self._flowing.set()

    def drop(self, *ways: Way) -> None:
        """Swallow the bytes that go these ways (all, if none is named) while the connections stay;
        those that lost some can only be cut, as `pass_again` does."""
        self._swallows = frozenset(ways or ("up", "down"))

    def pass_again(self) -> None:
        """Let bytes through on new connections."""
        self._swallows = frozenset()
        self.cut()

    def _start(self, target: Callable[[socket.socket], None], given: socket.socket) -> None:
        thread = threading.Thread(target=target, args=(given,), name="proxy", daemon=True)
        with self._lock:
            self._threads.append(thread)
        thread.start()

    def _serve(self, listener: socket.socket) -> None:
        with listener, suppress(OSError):  # it is shut when no more are let in
            while True:
                near, _ = listener.accept()
                self._start(self._connect, near)

    def _connect(self, near: socket.socket) -> None:
        with near, suppress(OSError), socket.create_connection(self._target, timeout=10) as far:
            for each in (near, far):
                each.settimeout(None)
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._pairs.add((near, far))
            back = threading.Thread(target=self._pump, args=(far, near, "down"), name="proxy back")
            back.start()
            self._pump(near, far, "up")
            back.join()
            with self._lock:
                self._pairs.discard((near, far))

    def _pump(self, source: socket.socket, target: socket.socket, way: Way) -> None:
        with suppress(OSError):  # broken off by one side, or by a test
            while data := source.recv(65536):
                self._flowing.wait()
                if self.delay:
                    threading.Event().wait(self.delay)
                if way not in self._swallows:
                    target.sendall(data)
        self._flowing.wait()  # an end is not seen either while nothing passes
        _shut(source, target)


def _shut(*sockets: socket.socket) -> None:
    for each in sockets:
        with suppress(OSError):  # it is shut
            each.shutdown(socket.SHUT_RDWR)
