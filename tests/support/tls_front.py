"""TLS in front of a server that speaks plain TCP, on loopback.

One thread that accepts, two a connection; all daemons, ended with the front.
"""

from __future__ import annotations

import socket
import ssl
import threading
from pathlib import Path

from tests.fakes.apiserver import ApiServer

CERTIFICATE = Path(__file__).parent / "tls" / "loopback.crt"
_KEY = Path(__file__).parent / "tls" / "loopback.key"


class TlsFront:
    """Leads to a loopback port. A context manager."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(CERTIFICATE, _KEY)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = int(self._listener.getsockname()[1])

    def kubeconfig(self, server: ApiServer, path: Path) -> Path:
        """Write a kubeconfig that leads to `server` through here."""
        cluster = f'"server": "https://127.0.0.1:{self.port}",'
        cluster += f' "certificate-authority": "{CERTIFICATE}"'
        text = server.kubeconfig(path).read_text()
        path.write_text(text.replace(f'"server": "{server.url}"', cluster))
        return path

    def __enter__(self) -> TlsFront:
        threading.Thread(target=self._accept, name="TLS front", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(
                target=self._lead, args=(connection,), name="TLS connection", daemon=True
            ).start()

    def _lead(self, connection: socket.socket) -> None:
        try:
            inner = self._context.wrap_socket(connection, server_side=True)
            outer = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            connection.close()
            return
        back = threading.Thread(
            target=_pump, args=(outer, inner), name="TLS connection, back", daemon=True
        )
        back.start()
        _pump(inner, outer)
        back.join()
        inner.close()
        outer.close()


def _pump(source: socket.socket, target: socket.socket) -> None:
    """Hand on until one side ends, and end both."""
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass  # one side was quicker
    for each in (source, target):
        try:
            each.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it has ended already
