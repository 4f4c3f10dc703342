"""The status file: nothing in its place is written through, and nobody waits for it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from agent.inspect.live import LiveFile, LiveStatus, read_live
from nodecast.messages import ConfigState, ModelSet, Report

STATUS = LiveStatus(
    version="1",
    instance="i",
    started="then",
    broker="mqtt://b",
    connected=True,
    since="noon",
    written="later",
    report=Report(bridge="default", node="edge-a", instance="i", seq=0, epoch=5, revision=1),
    models=ModelSet(
        node="edge-a", store="s", seq=1, config=ConfigState(path="/models.json", state="ok")
    ),
)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    LiveFile(tmp_path).write(STATUS)
    assert read_live(tmp_path) == STATUS
    assert stat.S_IMODE((tmp_path / "status.json").stat().st_mode) & ~0o640 == 0


@pytest.mark.parametrize("name", ["status.json", "status.json.tmp"])
def test_a_symlink_in_the_place_of_the_file_is_not_written_through(
    tmp_path: Path, name: str
) -> None:
    other = tmp_path / "other"
    other.write_text("precious")
    (tmp_path / name).symlink_to(other)
    LiveFile(tmp_path).write(STATUS)
    assert other.read_text() == "precious"
    assert read_live(tmp_path) == STATUS


@pytest.mark.parametrize("name", ["status.json", "status.json.tmp"])
def test_a_named_pipe_in_the_place_of_the_file_blocks_nobody(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    LiveFile(tmp_path).write(STATUS)
    assert read_live(tmp_path) == STATUS


def test_a_symlink_is_not_followed_by_a_reader(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("{}")
    (tmp_path / "status.json").symlink_to(tmp_path / "other")
    assert "cannot be read" in str(read_live(tmp_path))


def test_no_file_is_no_problem(tmp_path: Path) -> None:
    assert read_live(tmp_path) is None
