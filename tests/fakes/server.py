"""HTTP/1.1 for the fake API server: connections, chunked watches, and where faults bite.

One thread a connection (daemons), one that accepts. `down` ends all of them and keeps the API
and its store; `up` listens on the same port again. Sockets have TCP_NODELAY; an answer is one
write."""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
import threading
from collections.abc import Callable
from http.client import responses
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.fakes.answers import Answer
from tests.fakes.api import Api
from tests.fakes.faults import (
    CloseAtOnce,
    CutAfter,
    Delay,
    Fault,
    Faults,
    Garble,
    NewBodyOnExit,
    Replay,
    Respond,
    Swallow,
)
from tests.fakes.requests import Record, Request, understood
from tests.fakes.storage import Clock
from tests.fakes.watching import Watch

_LOOK_AROUND = 0.2
_END_OF_CHUNKS = b"0\r\n\r\n"


class _Closed(Exception):
    """The server goes down, or the fault wants the connection gone."""


class _Cut(Exception):
    """The body breaks off here."""


class Server:
    """Serves `api` on a loopback port; `port` 0 takes a free one at the first `up`."""

    def __init__(self, api: Api, faults: Faults, clock: Clock, port: int = 0) -> None:
        self.api, self.faults, self.clock, self.port = api, faults, clock, port
        self.records: list[Record] = []
        self.closing = threading.Event()
        self.connections: set[socket.socket] = set()
        self.lock = threading.Lock()
        self._listener: _Listener | None = None
        self._thread: threading.Thread | None = None

    def up(self) -> None:
        self.closing.clear()
        self._listener = _Listener(self)
        self.port = self._listener.server_address[1]
        self._thread = threading.Thread(
            target=self._listener.serve_forever,
            kwargs={"poll_interval": 0.05},
            name="fake apiserver",
            daemon=True,
        )
        self._thread.start()

    def down(self) -> None:
        """Refuse connections and break those that are there."""
        if self._listener is None or self._thread is None:
            return
        self.closing.set()
        self._listener.shutdown()
        self._thread.join()
        self._listener.server_close()
        self._listener = None
        self.api.watches.end_all()
        with self.lock:
            for connection in self.connections:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # its thread or its client was quicker

    def record(self, request: Request, user: str) -> None:
        entry = Record(
            request.method, request.path, request.query, user, request.wish, self.clock()
        )
        with self.lock:
            self.records.append(entry)


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, owner: Server) -> None:
        self.owner = owner
        super().__init__(("127.0.0.1", owner.port), _Handler)

    def server_bind(self) -> None:
        # Not HTTPServer's: it asks for the machine's name.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        socket.socket.bind(self.socket, self.server_address)
        self.server_address = self.socket.getsockname()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news; anything else ends up in the test's output."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Listener

    def setup(self) -> None:
        super().setup()
        with self.server.owner.lock:
            self.server.owner.connections.add(self.connection)

    def finish(self) -> None:
        with self.server.owner.lock:
            self.server.owner.connections.discard(self.connection)
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: what came in is in the records."""

    def _exchange(self) -> None:
        try:
            self._serve()
        except _Closed:
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _exchange  # noqa: N815

    def _serve(self) -> None:
        owner = self.server.owner
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else b""
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = understood(self.command, self.path, headers, body)
        user = owner.api.identities.who(headers.get("authorization"))
        name = user.name if user else ""
        owner.record(request, name)
        self._flow()
        met = {type(fault.action): fault for fault in owner.faults.take(request, name)}
        self._hold_back(met)
        answer: Answer | Watch
        if (respond := _action(met, Respond)) is not None:
            answer = respond.answer
        else:
            answer = owner.api.respond(request, user)
        if isinstance(answer, Watch):
            self._stream(answer, met)
        else:
            self._send(answer, met)

    def _flow(self) -> None:
        """Wait while the whole server is frozen."""
        owner = self.server.owner
        while not owner.faults.flowing.wait(_LOOK_AROUND):
            if owner.closing.is_set():
                raise _Closed

    def _hold_back(self, met: dict[type, Fault]) -> None:
        owner = self.server.owner
        if (delay := _action(met, Delay)) is not None and owner.closing.wait(delay.seconds):
            raise _Closed
        if Swallow in met:
            while not met[Swallow].cleared and not owner.closing.wait(_LOOK_AROUND):
                if not self._alive():
                    break
            raise _Closed

    def _alive(self) -> bool:
        """Whether the client is still there."""
        poll = select.poll()  # not select(): it takes no descriptor above 1023
        poll.register(self.connection, select.POLLIN)
        if not poll.poll(0):
            return True
        try:
            return bool(self.connection.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def _head(self, answer: Answer, framing: str) -> bytes:
        lines = [
            f"HTTP/1.1 {answer.status} {responses.get(answer.status, '')}",
            f"Content-Type: {answer.content_type}",
            f"Date: {self.date_time_string()}",
            *(f"{name}: {value}" for name, value in answer.headers.items()),
            framing,
        ]
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"

    def _send(self, answer: Answer, met: dict[type, Fault]) -> None:
        body = answer.body
        if (garble := _action(met, Garble)) is not None:
            body = garble.change(body)
        head = self._head(answer, f"Content-Length: {len(body)}")
        cut = _action(met, CutAfter)
        if cut is not None and cut.count < len(body):
            self.connection.sendall(head + body[: cut.count])
            self._break_off(cut.reset)
        else:
            self.connection.sendall(head + body)

    def _stream(self, watch: Watch, met: dict[type, Fault]) -> None:
        owner = self.server.owner
        if (replay := _action(met, Replay)) is not None:
            watch.replay_old = replay.old
        watch.new_body_on_exit = NewBodyOnExit in met
        self.connection.sendall(self._head(Answer(200, b""), "Transfer-Encoding: chunked"))
        if CloseAtOnce in met:
            self.connection.sendall(_END_OF_CHUNKS)
            return
        write = self._writer(met)
        owner.api.watches.add(watch)
        try:
            for batch in watch.batches(self._alive):
                self._flow()
                write(batch)
        except _Cut:
            return
        finally:
            owner.api.watches.discard(watch)
        if watch.ending == "reset":
            self._break_off(reset=True)
        elif owner.closing.is_set():
            raise _Closed
        elif self._alive():
            self.connection.sendall(_END_OF_CHUNKS)

    def _writer(self, met: dict[type, Fault]) -> Callable[[bytes], None]:
        """What sends a batch as one chunk, with the faults that bite there."""
        garble, cut = _action(met, Garble), _action(met, CutAfter)
        sent = 0

        def write(batch: bytes) -> None:
            nonlocal sent
            if garble is not None:
                batch = garble.change(batch)
            if cut is not None and sent + len(batch) > cut.count:
                rest = batch[: cut.count - sent]
                self.connection.sendall(_chunk(rest) if rest else b"")
                self._break_off(cut.reset)
                raise _Cut
            sent += len(batch)
            self.connection.sendall(_chunk(batch))

        return write

    def _break_off(self, reset: bool) -> None:
        """Close the socket where the stream stands; `reset`: with a RST instead of a FIN."""
        self.close_connection = True
        owner = self.server.owner
        with owner.lock:
            owner.connections.discard(self.connection)
            if reset:
                linger = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            # Closing the socket object would not do: its files hold on to it, and the
            # server sends a FIN first.
            os.close(self.connection.detach())


def _action(met: dict[type, Fault], kind: type[Any]) -> Any:
    fault = met.get(kind)
    return None if fault is None else fault.action


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
