"""`nodecast-agent` on a state directory that does not read: one line says why."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest

from agent.cli import agent
from agent.lock import locked
from agent.store.models import SCHEMA
from nodecast.command import run_command
from tests.support.device import Device, resource, snapshot
from tests.support.mosquitto import free_port

A = "Dataset.sedna.io/default/a"
NOBODY = 65534


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Device:
    """A stopped device with one resource."""
    for name in [each for each in os.environ if each.startswith("NODECAST_")]:
        monkeypatch.delenv(name)
    made = Device(tmp_path)
    made.start()
    made.receive(snapshot((5, 1), [resource(A, 1)]))
    made.opened.connection.executescript(SCHEMA)
    made.kill()
    return made


@contextmanager
def _closed(path: Path) -> Iterator[None]:
    """`path` is closed to this process, also where the tests are run by root."""
    mode, user = path.stat().st_mode, os.geteuid()
    path.chmod(0)
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)
        path.chmod(mode)


@contextmanager
def _open_above(path: Path) -> Iterator[None]:
    """The directories that the tests were given are open to everybody meanwhile."""
    own = [each for each in (path, *path.parents) if each.stat().st_uid == os.getuid()]
    modes = {each: each.stat().st_mode for each in own}
    for each, mode in modes.items():
        if mode & 0o055 != 0o055:
            each.chmod(mode | 0o055)
    try:
        yield
    finally:
        for each, mode in modes.items():
            if each.stat().st_mode != mode:
                each.chmod(mode)


def _lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    said = capsys.readouterr()
    return [*said.out.splitlines(), *said.err.splitlines()]


@pytest.mark.parametrize("command", [["status"], ["resources"], ["resources", A], ["models"]])
def test_a_closed_state_directory_is_one_line_and_a_problem(
    device: Device, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    with locked(device.state):
        pass
    with _closed(device.state):
        code = run_command(agent, [*command, "--state-dir", str(device.state)])
    assert code == 1
    (line,) = _lines(capsys)
    assert "cannot be read: Permission denied; run this as the agent's user" in line


def test_check_below_a_closed_directory_says_so(
    device: Device, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--node", "edge-a", "--state-dir", str(device.state / "below" / "state")]
    arguments += ["--model-config-dir", "/nonexistent"]
    arguments += ["--mqtt-url", f"mqtt://127.0.0.1:{free_port()}"]
    with _closed(device.state):
        code = run_command(agent, ["check", *arguments])
    assert code == 1
    (line,) = [each for each in _lines(capsys) if each.startswith("state")]
    assert "Permission denied" in line


def test_a_status_file_that_may_not_be_read_is_a_problem_that_is_said(
    device: Device, capsys: pytest.CaptureFixture[str]
) -> None:
    live = device.state / "status.json"
    live.write_text("{}")
    for file in device.state.glob("agent.db*"):
        file.chmod(0o644)
    with _open_above(device.state), _closed(live):
        code = run_command(agent, ["status", "--state-dir", str(device.state)])
    assert code == 1
    lines = _lines(capsys)
    assert f"problem       {live} cannot be read: Permission denied" in lines
    assert "resources     1 Applied" in lines


def test_a_status_file_that_is_no_status_is_a_problem_that_is_said(
    device: Device, capsys: pytest.CaptureFixture[str]
) -> None:
    (device.state / "status.json").write_bytes(b"\xff")
    assert run_command(agent, ["status", "--state-dir", str(device.state)]) == 1
    assert any("status.json does not read" in each for each in _lines(capsys))


def test_a_named_pipe_as_status_file_does_not_block(
    device: Device, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(device.state / "status.json")
    assert run_command(agent, ["status", "--state-dir", str(device.state)]) == 1
    assert any("status.json is no regular file" in each for each in _lines(capsys))


@pytest.mark.parametrize("column", ["CAST('text' AS TEXT)", "CAST(body AS TEXT)"])
def test_a_resource_whose_body_is_text_is_one_line_and_a_problem(
    device: Device, capsys: pytest.CaptureFixture[str], column: str
) -> None:
    with sqlite3.connect(device.state / "agent.db") as db:
        db.execute(f"UPDATE resources SET body = {column}")
    db.close()
    assert run_command(agent, ["resources", A, "--state-dir", str(device.state)]) == 1
    (line,) = _lines(capsys)
    assert "does not read (the content is no bytes)" in line


@pytest.mark.parametrize(
    ("what", "text"), [("empty", "agent.db is empty"), ("directory", "agent.db is no file")]
)
def test_what_is_no_store_is_said_as_what_it_is_and_set_aside_by_the_next_start(
    device: Device, capsys: pytest.CaptureFixture[str], what: str, text: str
) -> None:
    store = device.state / "agent.db"
    store.unlink()
    store.mkdir() if what == "directory" else store.touch()
    assert run_command(agent, ["status", "--state-dir", str(device.state)]) == 1
    (line,) = _lines(capsys)
    assert text in line
    device.start()
    assert (device.state / "agent.db.bad-1").exists()
    assert orjson.loads(device.files[f"{A}.json"])["spec"]["value"] == 1
    device.kill()
