"""A small API server for benchmarks, as a process of its own, and the handle to it.

It answers lists in pages and watches from a version, and what clients ask to find their way. All
of it is encoded before it is asked for, so that the server is never what limits: it sends a stream
as fast as the socket takes it. A watch sends its stream once the benchmark says `go`, and after
that nothing but a bookmark before its time is over. It proves nothing about a client: for that
there is the fake of the tests, which is held to what a real server answers.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.bench.cluster import API_VERSION, FIRST_VERSION
from tests.bench.discovery import DEFINITIONS, DOCUMENTS, NOT_FOUND
from tests.bench.served import END, SETS, Collection, empty

TOKEN = "bench"
_WATCH_TIME = 300.0
"""Seconds of a watch that gives no time-out."""


class ApiServer:
    """Starts the process, and tells it what to serve and when."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def __enter__(self) -> ApiServer:
        command = [sys.executable, "-m", "tests.bench.apiserver"]
        root = Path(__file__).parents[2]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().decode().strip()
        assert self.url, "the server of the benchmarks did not start"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.communicate()

    def serve(self, what: str, *numbers: int) -> None:
        """Serve a set of `served.SETS` made with these numbers; its stream waits for `go`."""
        self._tell(f"serve/{'/'.join((what, *map(str, numbers)))}")

    def hold(self) -> None:
        """Be as before the stream, for the lists and watches that come now."""
        self._tell("hold")

    def go(self) -> float:
        """Let the stream out, to watches that wait and to those that come; the second it began."""
        return float(self._tell("go"))

    def watching(self, plural: str) -> bool:
        """Whether a watch of this kind waits for the stream."""
        return plural in json.loads(self._tell("watching"))

    def served(self) -> int:
        """Bytes of bodies sent for lists and watches since the server started."""
        return int(self._tell("sent"))

    def kubeconfig(self) -> Path:
        """A kubeconfig that leads here."""
        path = self._directory / "kubeconfig"
        user = {"name": "bench", "user": {"token": TOKEN}}
        cluster = {"name": "bench", "cluster": {"server": self.url}}
        context = {"name": "bench", "context": {"cluster": "bench", "user": "bench"}}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [cluster],
            "users": [user],
            "contexts": [context],
            "current-context": "bench",
        }
        path.write_text(json.dumps(config))
        return path

    def _tell(self, what: str) -> bytes:
        with urllib.request.urlopen(f"{self.url}/bench/{what}", timeout=300) as answer:
            body: bytes = answer.read()
            return body


class _Served:
    """What the process serves now; its handlers run in threads of their own."""

    def __init__(self) -> None:
        self.collections: Mapping[str, Collection] = empty()
        self.released = os.eventfd(0, os.EFD_NONBLOCK)
        self.lock = threading.Lock()
        self.waiting: list[str] = []
        self.sent = 0

    @property
    def streaming(self) -> bool:
        return bool(select.select([self.released], [], [], 0)[0])

    def tell(self, what: str) -> object:
        """Do what the benchmark says."""
        verb, *rest = what.split("/")
        with self.lock:
            if verb == "serve":
                self.collections = SETS[rest[0]](*map(int, rest[1:]))
            if verb in ("serve", "hold") and self.streaming:
                os.eventfd_read(self.released)
            if verb == "go":
                now = time.monotonic()
                os.eventfd_write(self.released, 1)
                return now
            return self.sent if verb == "sent" else self.waiting


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    served: _Served

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing of each request."""

    def do_GET(self) -> None:
        split = urlsplit(self.path)
        query, path = dict(parse_qsl(split.query)), split.path.strip("/")
        if path.startswith("bench/"):
            self._answer(200, self.served.tell(path.removeprefix("bench/")))
            return
        collection = self._collection(path)
        if collection is None:
            known = DOCUMENTS.get(path)
            self._answer(200 if known else 404, known or NOT_FOUND)
        elif query.get("watch") in ("1", "true", "True"):
            self._watch(collection, query)
        else:
            self._list(collection, query)

    def _collection(self, path: str) -> Collection | None:
        if path == "apis/apiextensions.k8s.io/v1/customresourcedefinitions":
            return DEFINITIONS
        group, _, plural = path.rpartition("/")
        return self.served.collections.get(plural) if group == f"apis/{API_VERSION}" else None

    def _answer(self, status: int, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _begin(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _list(self, collection: Collection, query: dict[str, str]) -> None:
        self._begin()
        state = collection.after if self.served.streaming else collection.before
        limit = int(query["limit"]) if query.get("limit") else None
        for piece in collection.page(state, int(query.get("continue", 0)), limit):
            self._send(piece)

    def _send(self, piece: bytes) -> None:
        self.connection.sendall(piece)
        with self.served.lock:
            self.served.sent += len(piece)

    def _watch(self, collection: Collection, query: dict[str, str]) -> None:
        """Wait for `go`, send the stream, and then wait for the watch's time to be over."""
        self._begin()
        deadline = time.monotonic() + float(query.get("timeoutSeconds") or _WATCH_TIME)
        version = int(query.get("resourceVersion") or FIRST_VERSION)
        if stream := collection.stream(version):
            released = self._wait_for(self.served.released, deadline, collection.plural)
            if released is None:
                return
            if released:
                self._send(stream)
                if self._wait_for(None, deadline, "") is None:
                    return
        elif self._wait_for(None, deadline, collection.plural) is None:
            return
        if query.get("allowWatchBookmarks") in ("1", "true", "True"):
            done = version if stream and not self.served.streaming else collection.after.version
            self._send(collection.bookmark(done))
        self._send(END)

    def _wait_for(self, released: int | None, deadline: float, plural: str) -> bool | None:
        """Whether the stream may go; False: the time is over; None: the client has gone."""
        files: list[Any] = [self.connection] if released is None else [self.connection, released]
        with self.served.lock:
            self.served.waiting.append(plural)
        ready, _, _ = select.select(files, [], [], max(0.0, deadline - time.monotonic()))
        with self.served.lock:
            self.served.waiting.remove(plural)
        if self.connection in ready:
            self.close_connection = True
            return None
        return bool(ready)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes in the middle of a stream is no error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def main() -> None:
    """Serve on a free port of the loopback until killed; say the URL."""
    _Handler.served = _Served()
    server = _Server(("127.0.0.1", 0), _Handler)
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
