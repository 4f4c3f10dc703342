"""What the agent stands on: a store that is the one on the disk, and a tree that is its alone."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.footing import OpenFiles, TreeLock
from agent.lock import locked
from nodecast.errors import StoreError, TreeInUse
from tests.support.device import Device, resource, snapshot

A = "Dataset.sedna.io/default/a"


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Device]:
    made = Device(tmp_path)
    with locked(made.state):
        made.start()
        yield made
        made.kill()


def test_a_store_at_work_is_the_one_on_the_disk(device: Device) -> None:
    files = OpenFiles(device.state)
    device.receive(snapshot((5, 1), [resource(A, 1)]))
    device.agent.store.give_room_back()
    files.check()
    device.receive(snapshot((5, 2), [resource(A, 2)]))
    files.check()


@pytest.mark.parametrize("name", ["agent.lock", "agent.db", "agent.db-wal"])
def test_a_file_that_is_gone_under_the_agent_is_said(device: Device, name: str) -> None:
    files = OpenFiles(device.state)
    (device.state / name).unlink()
    with pytest.raises(StoreError, match=f"{name} was removed while the agent ran"):
        files.check()


def test_a_store_that_was_restored_under_the_agent_is_said(device: Device) -> None:
    files = OpenFiles(device.state)
    shutil.copy(device.state / "agent.db", device.state / "copy")
    (device.state / "copy").rename(device.state / "agent.db")
    with pytest.raises(StoreError, match=r"agent\.db was replaced"):
        files.check()


def test_the_log_of_the_store_may_come_later(device: Device) -> None:
    wal = device.state / "agent.db-wal"
    wal.rename(device.state / "kept")
    files = OpenFiles(device.state)
    (device.state / "kept").rename(wal)
    files.check()
    wal.unlink()
    with pytest.raises(StoreError, match="removed"):
        files.check()


def test_a_disk_that_does_not_answer_is_no_other_store(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = OpenFiles(device.state)

    def refuse(*_args: object, **_kwargs: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "stat", refuse)
        files.check()
    files.check()


def test_a_second_agent_on_a_tree_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    root = tmp_path / "below" / "tree"
    with (
        TreeLock(root),
        pytest.raises(TreeInUse, match="give this one a resources_dir of its own") as caught,
        TreeLock(root),
    ):
        pass
    assert caught.value.exit_code == 69
    with TreeLock(root):
        pass
    assert list(root.iterdir()) == []


def test_a_tree_that_was_made_anew_is_locked_anew(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    with TreeLock(root) as lock:
        root.rename(tmp_path / "old")
        lock.hold()
        root.mkdir()
        lock.hold()
        with pytest.raises(TreeInUse), TreeLock(root):
            pass
        with TreeLock(tmp_path / "old"):
            pass


def test_a_tree_that_another_agent_made_anew_is_its_own(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    with TreeLock(root) as lock:
        root.rename(tmp_path / "old")
        with TreeLock(root), pytest.raises(TreeInUse):
            lock.hold()


def test_a_tree_that_cannot_be_made_yet_is_locked_once_it_is_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    root = tmp_path / "file" / "tree"
    with TreeLock(root) as lock:
        (tmp_path / "file").unlink()
        root.mkdir(parents=True)
        lock.hold()
        with pytest.raises(TreeInUse), TreeLock(root):
            pass


def test_a_file_system_without_locks_is_said_once_and_keeps_nobody_from_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_args: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with TreeLock(tmp_path / "tree") as lock:
        (tmp_path / "tree").rename(tmp_path / "old")
        (tmp_path / "tree").mkdir()
        lock.hold()
    assert [r.message for r in caplog.records] == ["the tree cannot be locked"]
