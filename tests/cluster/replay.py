"""Plays a file of recorded requests against a server and compares the answers, each exactly once.

What must differ is made alike first: `managedFields` go (the fake keeps none), the server's own
times become one word, and a uid stands for the recorded one that it was first met in the place
of. Everything else must be equal: versions too, since a script lets the fake's counter start
where the real one stood. The seconds of a watch are not compared."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

from tests.fakes.apiserver import ApiServer
from tests.support.wait import eventually

RECORDED = Path(__file__).parent / "recorded"
_TIMES = frozenset({"creationTimestamp", "deletionTimestamp"})


class Clock:
    """A monotonic clock that only the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Replay:
    """One recorded file against one server; `tokens`: the token of each `as`."""

    def __init__(self, name: str, server: ApiServer, clock: Clock) -> None:
        self.server, self.clock = server, clock
        self._exchanges = json.loads((RECORDED / f"{name}.json").read_text())
        self._left = set(range(len(self._exchanges)))
        self._uids: dict[str, str] = {}
        self._tokens = {
            "admin": server.admin_token,
            "plain-user": server.token("plain-user"),
            "unknown": "nobody-issued-this",
        }

    def exchange(self, *numbers: int) -> None:
        """Send the requests with these numbers and compare what comes back."""
        for number in numbers:
            recorded = self._exchanges[number]
            with_events = "events" in recorded["response"]
            connection, response = self._send(recorded["request"])
            with closing(connection):
                text = response.read().decode()
            body = text if "text/plain" in response.headers["Content-Type"] else json.loads(text)
            expected = dict(recorded["response"])
            if with_events:  # a watch that was refused: its body was read as a line
                expected = {"status": expected["status"], "body": expected["events"][0]}
            found = {
                "status": response.status,
                "contentType": response.headers["Content-Type"],
                "retryAfter": response.headers["Retry-After"],
                "body": body,
            }
            self._compare(number, expected, {key: found[key] for key in expected})

    def watch(self, number: int, during: Callable[[], None] | None = None) -> None:
        """Open the watch, let things happen, move the clock to its end, and compare its events."""
        recorded = self._exchanges[number]
        path = recorded["request"]["path"]
        before = len(self.server.watches())
        connection, response = self._send(recorded["request"])
        assert response.status == 200
        lines: list[Any] = []
        ends: list[str] = []
        reading = threading.Thread(target=_read, args=(response, lines, ends), daemon=True)
        reading.start()
        expected = recorded["response"]["events"]
        ends_itself = bool(expected) and expected[-1]["type"] == "ERROR"
        if not ends_itself:
            eventually(lambda: len(self.server.watches()) > before, what=path)
        if during is not None:
            during()
        bookmarks = [event for event in expected if event["type"] == "BOOKMARK"]
        eventually(lambda: len(lines) >= len(expected) - len(bookmarks), what=f"events of {path}")
        for second in recorded["response"]["secondsOfEachEventAndTheEnd"][-1 - len(bookmarks) :]:
            self._move_to(second + 0.5, lines, reading)
        reading.join(5)
        connection.close()
        assert not reading.is_alive(), f"{path}: the stream did not end"
        found = {
            "status": response.status,
            "contentType": response.headers["Content-Type"],
            "events": lines,
            "end": ends[0],
        }
        wanted = {key: value for key, value in recorded["response"].items() if key in found}
        self._compare(number, wanted, found)
        self.clock.now += 1000

    def _move_to(self, second: float, lines: list[Any], reading: threading.Thread) -> None:
        """Move the clock to this second of the watch, and wait for a line or the end."""
        count = len(lines)
        self.clock.now = max(self.clock.now, self._opened_at + second)
        self.server.look_around()
        eventually(lambda: len(lines) > count or not reading.is_alive(), what=f"second {second}")

    def same(self, number: int, body: dict[str, Any]) -> None:
        """`body` is the object that the answer with this number shows: learn its uid."""
        shown = self._exchanges[number]["response"]["body"]
        self._uids[body["metadata"]["uid"]] = shown["metadata"]["uid"]

    def nothing_left(self) -> None:
        notes = [self._exchanges[number]["note"] for number in sorted(self._left)]
        assert notes == [], "recorded, and compared with nothing"

    def _send(self, request: dict[str, Any]) -> tuple[HTTPConnection, HTTPResponse]:
        self._opened_at = self.clock.now
        connection = HTTPConnection("127.0.0.1", self.server.port, timeout=10)
        headers = {}
        if request["as"] != "none":
            headers["Authorization"] = f"Bearer {self._tokens[request['as']]}"
        body = None
        if request.get("body") is not None:
            headers["Content-Type"] = request["contentType"]
            body = json.dumps(request["body"])
            for ours, theirs in self._uids.items():
                body = body.replace(theirs, ours)
        connection.request(request["method"], request["path"], body, headers)
        return connection, connection.getresponse()

    def _compare(self, number: int, expected: Any, found: Any) -> None:
        self._left.discard(number)
        self._learn(expected, found)
        note = self._exchanges[number]["note"]
        assert self._alike(found) == self._alike(expected), note

    def _learn(self, expected: Any, found: Any) -> None:
        """Pair the uids that stand in the same places."""
        if isinstance(expected, dict) and isinstance(found, dict):
            for key in expected.keys() & found.keys():
                if key == "uid":
                    self._uids.setdefault(found[key], expected[key])
                self._learn(expected[key], found[key])
        elif isinstance(expected, list) and isinstance(found, list):
            for mine, theirs in zip(expected, found, strict=False):
                self._learn(mine, theirs)

    def _alike(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._alike(each) for each in value]
        if not isinstance(value, dict):
            return value
        alike = {}
        for key, each in value.items():
            if key == "managedFields":
                continue
            if key == "uid":
                alike[key] = self._uids.get(each, each)
            elif key in _TIMES:
                alike[key] = "a time" if each.endswith("Z") and len(each) == 20 else each
            else:
                alike[key] = self._alike(each)
        return alike


def _read(response: HTTPResponse, lines: list[Any], ends: list[str]) -> None:
    """Collect the events of a stream, and how it ended (a connection that breaks raises)."""
    rest = b""
    while data := response.read1(65536):
        *whole, rest = (rest + data).split(b"\n")
        lines.extend(json.loads(line) for line in whole)
    ends.append("in a line" if rest else "clean end")
    response.close()
