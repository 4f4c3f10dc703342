"""The API on its socket: what is answered to whom, also where the loop behind it stands still."""

from __future__ import annotations

import asyncio
import errno
import json
import socket
import threading
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import bridge.api.server
from bridge.api.client import Client
from bridge.api.place import open_socket
from bridge.status import Status
from nodecast.errors import ApiError, NoBridge
from nodecast.names import KindName
from tests.support.api_served import DATASET, LONG, MODEL, Served, Subject, answers, serving
from tests.support.wait import eventually


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "b.sock"


@pytest.fixture
def served(path: Path) -> Iterator[Served]:
    with serving(path) as served:
        yield served


def raw(path: Path, sent: bytes, *, ends: bool = False) -> bytes:
    """All that comes back for `sent`, until the server closes; with `ends` nothing more follows."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(LONG)
        connection.connect(str(path))
        try:
            connection.sendall(sent)
            if ends:
                connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(65536), b""))
        except (BrokenPipeError, ConnectionResetError):  # it was answered before it was all read
            return b""


def ask(path: Path, line: str) -> tuple[int, dict[str, object]]:
    """(status code, JSON) of `METHOD /target`; its content type is as it should be."""
    answer = raw(path, f"{line} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    first, _, content = answer.partition(b"\r\n\r\n")
    code = int(first.split()[1])
    kind = b"application/json" if code == 200 else b"application/problem+json"
    assert b"content-type: " + kind in first
    return code, json.loads(content)


def test_the_status_comes_from_the_loop_alone(served: Served) -> None:
    code, body = ask(served.path, "GET /v1/status")
    assert (code, body["phase"], body["bridge"]) == (200, "in charge", "default")
    assert served.subject.threads == {"loop"}


def test_the_client_reads_what_the_server_writes(served: Served) -> None:
    assert served.client().status() == served.subject.status()


def test_a_kind_is_approved_once(served: Served) -> None:
    client = served.client()
    assert not client.approve(DATASET).held
    with pytest.raises(ApiError, match="nothing to approve: Dataset"):
        client.approve(DATASET)


@pytest.mark.parametrize(
    ("line", "code", "detail"),
    [
        ("POST /v1/kinds/Model.sedna.io/approve", 409, "nothing to approve"),
        ("POST /v1/kinds/Camera.example.com/approve", 404, "has no rule"),
        ("POST /v1/kinds/a%2Fb/approve", 404, "see GET /v1/status"),
        ("POST /v1/kinds/no+kind/approve", 400, "not a Kubernetes kind"),
        ("POST /v1/kinds/%00/approve", 400, "not a Kubernetes kind"),
        ("GET /v1/kinds/Dataset.sedna.io/approve", 405, "see GET /v1/status"),
        ("DELETE /v1/status", 405, "see GET /v1/status"),
        ("GET /", 404, "see GET /v1/status"),
        ("GET /v2/status", 404, "see GET /v1/status"),
    ],
)
def test_what_cannot_be_is_a_problem_with_a_reason(
    line: str, code: int, detail: str, served: Served
) -> None:
    status, body = ask(served.path, line)
    assert (status, body["status"]) == (code, code)
    assert detail in str(body["detail"])
    assert served.subject.held


def test_a_body_that_nobody_asked_for_changes_nothing(served: Served) -> None:
    head = (
        f"POST /v1/kinds/{DATASET}/approve HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
    )
    raw(served.path, head.encode() + b"[" * 1_000_000)
    eventually(lambda: not served.subject.held, 30)
    assert served.client().status().phase == "in charge"


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00" * 1000,
        b"\xff" * 200_000,
        b"GET",
        b"GET /v1/status FTP/1.1\r\n\r\n",
        b"GET /v1/status HTTP/1.1\r\n" + b"X: y\r\n" * 100_000,
        b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\n\r\n",
        b"POST /v1/kinds/Dataset.sedna.io/approve HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)),
    ],
)
def test_garbage_is_answered_with_400_or_nothing_and_costs_nobody_else(
    garbage: bytes, served: Served
) -> None:
    answer = raw(served.path, garbage, ends=True)
    assert answer == b"" or b" 400 " in answer.partition(b"\r\n")[0]
    assert served.client().status().phase == "in charge"
    assert served.subject.held


def test_a_loop_that_stands_still_gives_503_and_what_was_asked_is_never_done(path: Path) -> None:
    subject = Subject()
    with serving(path, subject, within=0.2) as served:
        served.working.clear()
        with pytest.raises(NoBridge, match="the bridge's loop did not answer within"):
            served.client().approve(DATASET)
        code, _ = ask(path, f"POST /v1/kinds/{DATASET}/approve")
        assert code == 503

        served.working.set()
        asked = subject.asked
        eventually(lambda: answers(served.client()), 30)
        assert subject.held
        assert subject.asked == asked + 1


def test_a_slow_loop_is_waited_for(served: Served) -> None:
    served.working.clear()
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(served.client().status().phase))
    thread.start()
    eventually(lambda: served.calls._waiting, 30, what="the call waits")
    assert found == []
    served.working.set()
    thread.join()
    assert found == ["in charge"]


def test_requests_that_wait_are_answered_when_the_bridge_stops(path: Path) -> None:
    errors: list[str] = []

    def request(served: Served) -> None:
        try:
            served.client().status()
        except NoBridge as error:
            errors.append(str(error))

    with serving(path) as served:
        served.working.clear()
        threads = [threading.Thread(target=request, args=(served,)) for _ in range(5)]
        for each in threads:
            each.start()
        eventually(lambda: len(served.calls._waiting) == 5, 30, what="all wait")
        served.calls.close("the bridge is stopping")
        served.server.stop()
        for each in threads:
            each.join()
        served.server.join(LONG)
        assert not path.exists()
    assert errors == [f"the bridge at {path}: the bridge is stopping"] * 5


def test_a_request_that_never_ends_does_not_keep_the_server(path: Path) -> None:
    with serving(path) as served, socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.sendall(b"POST /v1/status HTTP/1.1\r\nContent-Le")
        served.server.stop()
        served.server.join(LONG)
        assert not path.exists()


def test_200_requests_at_a_time_are_all_answered(served: Served) -> None:
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(served.client().status().phase))
        for _ in range(200)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == ["in charge"] * 200


def test_an_error_that_nobody_foresaw_is_500_without_its_text(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Wrong(Subject):
        def status(self) -> Status:
            return object()  # type: ignore[return-value]  # nothing that can be encoded

    with serving(path, Wrong(), opened=False):
        eventually(path.is_socket, 30)
        code, body = ask(path, "GET /v1/status")
    assert (code, body["detail"]) == (500, "an error that was not foreseen: see the bridge's log")
    assert any(record.exc_info for record in caplog.records)


def test_a_socket_that_was_taken_away_is_opened_anew(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridge.api.server, "_LOOK", 0)
    with serving(path) as served:
        path.unlink()
        eventually(lambda: answers(served.client()), 30, what="it is there again")


def test_a_place_that_is_taken_is_said_once_and_used_once_it_is_free(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(bridge.api.server, "_AGAIN", Every())
    other = open_socket(path)
    with serving(path, opened=False) as served:
        eventually(lambda: Every.asked >= 3, 30, what="it was tried again")
        other.remove()
        eventually(lambda: answers(served.client()), 30, what="it is open")
    said = [r for r in caplog.records if r.getMessage().startswith("no API")]
    assert len(said) == 1


def test_without_file_descriptors_there_is_no_api_until_there_are_some_and_nothing_ends(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(bridge.api.server, "_AGAIN", Every())
    run, attempts = asyncio.run, iter(range(2))

    def too_many(main: Coroutine[Any, Any, None]) -> None:
        if next(attempts, None) is None:
            run(main)
        else:
            main.close()
            raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(asyncio, "run", too_many)
    with serving(path) as served:
        assert answers(served.client())
    (said,) = [r for r in caplog.records if r.getMessage().startswith("no API")]
    assert "Too many open files" in str(vars(said))


def test_a_socket_that_may_not_be_removed_ends_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path, missing_ok: bool = False) -> None:
        del missing_ok
        raise OSError(errno.EROFS, "Read-only file system")

    with serving(path):
        monkeypatch.setattr(Path, "unlink", refuse)
    assert path.is_socket()


class Every:
    """A pause that is short, and counted."""

    asked = 0

    def pause(self, failures: int, rng: object) -> float:
        del failures, rng
        Every.asked += 1
        return 0.01


# -- the client alone


def test_where_no_socket_is_nobody_answers_and_it_is_said_what_to_do(path: Path) -> None:
    client = Client([path, path.with_name("other.sock")])
    assert not client.found
    with pytest.raises(NoBridge, match=r"there is no .*b\.sock or .*other\.sock\. Is it running"):
        client.status()


def test_a_socket_that_a_killed_bridge_left_is_told_from_none(path: Path) -> None:
    open_socket(path).socket.close()
    client = Client([path])
    assert client.found
    with pytest.raises(NoBridge, match=r"no bridge answers at .*: it was killed"):
        client.status()


def test_whoever_may_not_ask_is_told_who_may(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("bridge.api.client.os.lstat", refused)
    monkeypatch.setattr(socket.socket, "connect", refused)
    with pytest.raises(NoBridge, match="may be asked by its own user and by root only"):
        Client([path]).status()


def test_a_bridge_that_is_silent_is_given_up(path: Path) -> None:
    opened = open_socket(path)
    with pytest.raises(NoBridge, match=r"did not answer within 0\.1 s: it hangs, or was stop"):
        Client([path], 0.1).status()
    opened.remove()


@pytest.mark.parametrize("piece", [b" ", b"X: y\r\n"])
@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_an_answer_that_comes_for_ever_is_given_up(head: bytes, piece: bytes, path: Path) -> None:
    opened = open_socket(path)
    left = threading.Event()

    def other() -> None:
        connection, _ = opened.socket.accept()
        with connection, suppress(OSError):
            connection.sendall(head)
            for _ in range(90):
                if left.wait(0.05):
                    return
                connection.sendall(piece)

    thread = threading.Thread(target=other)
    thread.start()
    with pytest.raises(NoBridge, match=r"did not answer within 0\.2 s"):
        Client([path], 0.2).status()
    left.set()
    thread.join()
    opened.remove()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"hello\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}",
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnope",
        b"\x00" * 100_000,
    ],
)
def test_what_is_no_bridge_is_said_to_be_none(answer: bytes, path: Path) -> None:
    opened = open_socket(path)

    def other() -> None:
        connection, _ = opened.socket.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(answer)

    thread = threading.Thread(target=other)
    thread.start()
    with pytest.raises(NoBridge):
        Client([path], LONG).approve(MODEL)
    thread.join()
    opened.remove()


def test_a_kind_with_odd_characters_stays_one_part_of_the_path(served: Served) -> None:
    with pytest.raises(ApiError, match="see GET /v1/status"):
        served.client().approve(KindName("x/../../status?"))
