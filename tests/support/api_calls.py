"""A bare HTTP client for a Kubernetes API: single calls, and watch streams read by a thread of
their own.

No library of Kubernetes is between a test and what the server really sent."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from typing import Any

MERGE = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer; `body` is parsed where it is JSON, text where it is not."""

    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def reason(self) -> str:
        return str(self.body["reason"])

    @property
    def names(self) -> list[str]:
        """The names of a List's items."""
        return [item["metadata"]["name"] for item in self.body["items"]]

    @property
    def version(self) -> str:
        """The resourceVersion of an object or a List."""
        return str(self.body["metadata"]["resourceVersion"])

    @property
    def content_type(self) -> str:
        return self.headers.get("Content-Type", "")


class Caller:
    """Calls the server on a loopback port with a bearer token (None: without)."""

    def __init__(self, port: int, token: str | None, timeout: float = 10.0) -> None:
        self._port, self._token, self._timeout = port, token, timeout

    def open(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> HTTPConnection:
        """Send a request; the answer is the caller's to read, the connection its to close."""
        connection = HTTPConnection("127.0.0.1", self._port, timeout=self._timeout)
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        if body is not None:
            headers["Content-Type"] = content_type
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        return connection

    def call(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> Reply:
        connection = self.open(method, path, body, content_type)
        try:
            response = connection.getresponse()
            text = response.read().decode()
            return Reply(response.status, dict(response.headers), _parsed(text))
        finally:
            connection.close()

    def get(self, path: str) -> Reply:
        return self.call("GET", path)

    def merge(self, path: str, patch: object) -> Reply:
        return self.call("PATCH", path, patch, MERGE)

    def watch(self, path: str) -> Stream:
        return Stream(self.open("GET", path))


class Stream:
    """A watch: its events so far, and how it ended ("": it runs; "clean", "reset", "broken"). A
    context manager."""

    def __init__(self, connection: HTTPConnection) -> None:
        self._connection = connection
        self._response = connection.getresponse()
        self.status = self._response.status
        self.events: list[dict[str, Any]] = []
        self.rest = b""  # what came after the last whole line
        self.end = ""
        self._thread = threading.Thread(target=self._read, name="watch stream", daemon=True)
        self._thread.start()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection.sock is not None:
            try:
                self._connection.sock.shutdown(socket.SHUT_RDWR)  # wakes the reader
            except OSError:
                pass  # the server was quicker
        self._thread.join(5)
        self._response.close()
        self._connection.close()

    @property
    def seen(self) -> list[tuple[str, str]]:
        """(type, name) of each event; bookmarks have no name."""
        return [
            (event["type"], event["object"]["metadata"].get("name", "")) for event in self.events
        ]

    def _read(self) -> None:
        try:
            while data := self._response.read1(65536):
                *lines, self.rest = (self.rest + data).split(b"\n")
                self.events.extend(json.loads(line) for line in lines)
            self.end = "clean"
        except ConnectionResetError:
            self.end = "reset"
        except (OSError, HTTPException, ValueError, AttributeError):
            self.end = "broken"


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
