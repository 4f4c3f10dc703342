"""An HTTP server that sends just the bytes that a test gives it, when it gives them.

For what no well-behaved server does: answers without chunks or length, bodies that stand still.
One thread that accepts, one a connection; all daemons, ended with the server.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
STREAM = HEAD + b"\r\n"
"""Before a body that ends with the connection."""

Pieces = Iterable[bytes | None]
"""None in the place of a piece: nothing more is sent, and the connection stays open."""


def whole(body: object) -> bytes:
    """A JSON answer with its length."""
    encoded = json.dumps(body).encode()
    return HEAD + b"Content-Length: %d\r\n\r\n" % len(encoded) + encoded


class RawServer:
    """`answer` gives the pieces for a request's target (path and query). A context manager."""

    def __init__(self, answer: Callable[[str], Pieces]) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._ending = threading.Event()
        self._sockets: list[socket.socket] = []
        self.port = int(self._listener.getsockname()[1])
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def kubeconfig(self, path: Path) -> Path:
        """Write a kubeconfig that names this server and no user."""
        config = {
            "clusters": [{"name": "raw", "cluster": {"server": self.url}}],
            "contexts": [{"name": "raw", "context": {"cluster": "raw", "user": "raw"}}],
            "users": [{"name": "raw", "user": {"token": "t"}}],
            "current-context": "raw",
        }
        path.write_text(json.dumps(config))
        return path

    def __enter__(self) -> RawServer:
        threading.Thread(target=self._accept, name="raw server", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._sockets:
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(connection)
            threading.Thread(
                target=self._serve, args=(connection,), name="raw connection", daemon=True
            ).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            request = b""
            while b"\r\n\r\n" not in request:
                piece = connection.recv(65536)
                if not piece:
                    return
                request += piece
            target = request.split(b" ", 2)[1].decode()
            self.asked.append(target)
            for part in self._answer(target):
                if part is None:
                    self._ending.wait()
                    return
                connection.sendall(part)
        except OSError:
            pass  # the client, or the test, has ended
        finally:
            connection.close()
