"""What the loop's turns do for systemd and for the API, from its start to its end."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from bridge.api.client import Client
from bridge.attendant import Attendant
from bridge.standing import Standing
from nodecast.errors import NoBridge
from nodecast.notify import Notifier
from nodecast.session import Session
from tests.support.api_served import LONG
from tests.support.systemd import Systemd
from tests.support.wait import eventually


class Loop:
    """An attendant whose turns the test takes; `now` is its time."""

    def __init__(self, path: Path | None, notifier: Notifier) -> None:
        self.now = 100.0
        self.woken = threading.Event()
        self.session = SimpleNamespace(failure=None)
        self.standing = Standing("b", "i", "here", "mqtt://x", cast(Session, self.session))
        self.attendant = Attendant(
            self.standing,
            path,
            wake=self.woken.set,
            fail=lambda error: pytest.fail(str(error)),
            rng=random.Random(1),
            notifier=notifier,
            clock=lambda: self.now,
        )


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    with Systemd(tmp_path / "notify") as systemd:
        yield systemd


@pytest.fixture
def loop(tmp_path: Path, systemd: Systemd) -> Iterator[Loop]:
    notifier = Notifier(systemd.variables["NOTIFY_SOCKET"])
    loop = Loop(tmp_path / "b.sock", notifier)
    loop.attendant.start()
    yield loop
    loop.attendant.leave()
    loop.attendant.close()


def test_a_question_is_answered_in_the_loops_turn_and_wakes_it(loop: Loop, tmp_path: Path) -> None:
    eventually((tmp_path / "b.sock").is_socket, 30)
    found: list[str] = []
    client = Client([tmp_path / "b.sock"], LONG)
    asking = threading.Thread(target=lambda: found.append(client.status().phase))
    asking.start()
    assert loop.woken.wait(30)
    assert found == []
    loop.attendant.attend()
    asking.join()
    assert found == ["starting"]


def test_a_question_that_waits_when_the_bridge_stops_is_answered(
    loop: Loop, tmp_path: Path
) -> None:
    eventually((tmp_path / "b.sock").is_socket, 30)
    said: list[str] = []

    def ask() -> None:
        try:
            Client([tmp_path / "b.sock"], LONG).status()
        except NoBridge as error:
            said.append(str(error))

    asking = threading.Thread(target=ask)
    asking.start()
    assert loop.woken.wait(30)
    loop.attendant.leave()
    asking.join(30)
    assert said == [f"the bridge at {tmp_path / 'b.sock'}: the bridge is stopping"]


def test_the_line_is_said_when_it_changes_and_looked_at_once_a_second(
    loop: Loop, systemd: Systemd
) -> None:
    assert systemd.heard == ["STATUS=asking what the source is", "READY=1"]
    loop.standing.stage = "listing"
    loop.attendant.attend()
    assert systemd.status == "asking what the source is"
    loop.now += 1.0
    loop.attendant.attend()
    assert systemd.status == "waiting for the first lists of the source"
    said = len(systemd.heard)
    loop.now += 1.0
    loop.attendant.attend()
    assert len(systemd.heard) == said


def test_the_loop_comes_round_once_a_second_where_systemd_listens(loop: Loop) -> None:
    assert loop.attendant.longest_wait(5.0) == 1.0
    assert loop.attendant.longest_wait(0.2) == 0.2


def test_without_systemd_the_loop_waits_as_long_as_it_likes_and_counts_nothing() -> None:
    loop = Loop(None, Notifier(None))
    loop.standing.status = pytest.fail  # type: ignore[assignment,method-assign]
    assert loop.attendant.longest_wait(5.0) == 5.0
    loop.attendant.attend()


def test_without_a_place_for_the_socket_it_says_so_and_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = Loop(None, Notifier(None))
    loop.attendant.start()
    loop.attendant.attend()
    loop.attendant.leave()
    loop.attendant.close()
    (said,) = (record.getMessage() for record in caplog.records)
    assert said.startswith("no API")
    assert "set api.socket" in said


def test_a_watchdog_shorter_than_a_second_is_fed_in_time(tmp_path: Path) -> None:
    with Systemd(tmp_path / "notify") as systemd:
        notifier = Notifier(systemd.variables["NOTIFY_SOCKET"], 0.3, clock=lambda: 0.0)
        loop = Loop(None, notifier)
        assert loop.attendant.longest_wait(5.0) == 0.0
        loop.attendant.attend()
        assert "WATCHDOG=1" in systemd.heard
        assert loop.attendant.longest_wait(5.0) == pytest.approx(0.1)
