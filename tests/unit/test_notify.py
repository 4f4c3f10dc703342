"""What systemd hears, on a real datagram socket."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodecast.notify import Notifier


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Listener:
    """systemd's end of the socket."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)

    def heard(self) -> list[str]:
        """What arrived; a Unix datagram is there as soon as it was sent."""
        words = []
        while True:
            try:
                words.append(self._socket.recv(4096).decode())
            except BlockingIOError:
                return words

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Listener]:
    listener = Listener(str(tmp_path / "notify"))
    yield listener
    listener.close()


def test_ready_and_its_status_come_in_one_datagram(systemd: Listener) -> None:
    Notifier.from_environment({"NOTIFY_SOCKET": systemd.address}).ready("serving 3 resources")

    assert systemd.heard() == ["READY=1\nSTATUS=serving 3 resources"]


def test_stopping_is_said(systemd: Listener) -> None:
    Notifier.from_environment({"NOTIFY_SOCKET": systemd.address}).stopping()

    assert systemd.heard() == ["STOPPING=1"]


def test_a_name_in_the_abstract_namespace_is_reached() -> None:
    listener = Listener(f"@nodecast-test-{os.getpid()}")
    try:
        Notifier.from_environment({"NOTIFY_SOCKET": listener.address}).ready()

        assert listener.heard() == ["READY=1"]
    finally:
        listener.close()


def test_a_line_break_in_a_status_begins_no_other_word(systemd: Listener) -> None:
    Notifier(systemd.address).status("refused:\nWATCHDOG=trigger")

    assert systemd.heard() == ["STATUS=refused: WATCHDOG=trigger"]


def test_a_status_that_is_too_long_for_systemd_is_cut_between_two_characters(
    systemd: Listener,
) -> None:
    Notifier(systemd.address).ready("x" + "ü" * 3000)

    (said,) = systemd.heard()
    assert said == "READY=1\nSTATUS=x" + "ü" * 1499


def test_signs_of_life_go_out_at_a_third_of_the_limit(systemd: Listener) -> None:
    clock = Clock()
    environ = {"NOTIFY_SOCKET": systemd.address, "WATCHDOG_USEC": "30000000"}
    notifier = Notifier.from_environment(environ, clock=clock)

    assert notifier.pause == 0
    notifier.alive()
    assert (systemd.heard(), notifier.pause) == (["WATCHDOG=1"], 10)
    clock.now += 9
    notifier.alive()
    assert (systemd.heard(), notifier.pause) == ([], 1)
    clock.now += 1
    notifier.alive()
    assert systemd.heard() == ["WATCHDOG=1"]


def test_a_watchdog_meant_for_this_process_is_fed(systemd: Listener) -> None:
    environ = {
        "NOTIFY_SOCKET": systemd.address,
        "WATCHDOG_USEC": "30000000",
        "WATCHDOG_PID": str(os.getpid()),
    }
    Notifier.from_environment(environ).alive()

    assert systemd.heard() == ["WATCHDOG=1"]


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"},
        {"WATCHDOG_USEC": "soon"},
        {"WATCHDOG_USEC": "0"},
    ],
)
def test_no_watchdog_of_ours_is_not_fed(systemd: Listener, environ: dict[str, str]) -> None:
    notifier = Notifier.from_environment({"NOTIFY_SOCKET": systemd.address, **environ}, pid=7)
    notifier.alive()

    assert (systemd.heard(), notifier.pause) == ([], None)


@pytest.mark.parametrize("address", [None, "", "relative/path"])
def test_without_a_socket_of_systemd_nothing_happens(
    address: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "relative").mkdir()
    listener = Listener("relative/path")
    notifier = Notifier.from_environment({} if address is None else {"NOTIFY_SOCKET": address})
    notifier.ready("x")
    notifier.alive()
    notifier.stopping()

    assert listener.heard() == []
    listener.close()


def test_a_socket_that_is_gone_is_said_once_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    notifier = Notifier(str(tmp_path / "gone"), watchdog=30)
    notifier.ready()
    notifier.alive()

    assert [r.getMessage() for r in caplog.records] == ["systemd cannot be told"]


def test_a_sign_of_life_that_did_not_go_out_goes_a_second_later(tmp_path: Path) -> None:
    clock = Clock()
    notifier = Notifier(str(tmp_path / "notify"), watchdog=30, clock=clock)
    notifier.alive()
    listener = Listener(str(tmp_path / "notify"))

    assert notifier.pause == 1
    clock.now += 1
    notifier.alive()
    assert listener.heard() == ["WATCHDOG=1"]
    listener.close()


def test_a_loop_without_systemd_waits_for_no_watchdog() -> None:
    assert Notifier.from_environment({"WATCHDOG_USEC": "30000000"}).pause is None


def test_a_full_socket_does_not_block_the_loop(systemd: Listener) -> None:
    notifier = Notifier(systemd.address)
    for _ in range(5000):
        notifier.status("busy")

    assert 0 < len(systemd.heard()) < 5000
