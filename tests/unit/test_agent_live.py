"""The status file: nothing in its place is written through, and nobody waits for it."""

from __future__ import annotations

import errno
import itertools
import os
import random
import stat
from pathlib import Path

import pytest

from agent.inspect.live import LiveFile, LiveStatus, out_of_date, read_live
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
    LiveFile(tmp_path, random.Random(1)).write(STATUS)
    assert read_live(tmp_path) == STATUS
    assert stat.S_IMODE((tmp_path / "status.json").stat().st_mode) & ~0o640 == 0


@pytest.mark.parametrize("name", ["status.json", "status.json.tmp"])
def test_a_symlink_in_the_place_of_the_file_is_not_written_through(
    tmp_path: Path, name: str
) -> None:
    other = tmp_path / "other"
    other.write_text("precious")
    (tmp_path / name).symlink_to(other)
    LiveFile(tmp_path, random.Random(1)).write(STATUS)
    assert other.read_text() == "precious"
    assert read_live(tmp_path) == STATUS


@pytest.mark.parametrize("name", ["status.json", "status.json.tmp"])
def test_a_named_pipe_in_the_place_of_the_file_blocks_nobody(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    LiveFile(tmp_path, random.Random(1)).write(STATUS)
    assert read_live(tmp_path) == STATUS


def test_a_symlink_is_not_followed_by_a_reader(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("{}")
    (tmp_path / "status.json").symlink_to(tmp_path / "other")
    assert "cannot be read" in str(read_live(tmp_path))


def test_no_file_is_no_problem(tmp_path: Path) -> None:
    assert read_live(tmp_path) is None


def test_e6_a_file_that_cannot_be_replaced_is_known_to_be_out_of_date_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = LiveFile(tmp_path, random.Random(1))
    live.tend(1, 10.0, lambda: STATUS)
    assert not out_of_date(tmp_path)
    tries: list[float] = []
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", _read_only)
        now = 20.0
        for _ in range(5):
            tries.append(now)
            live.tend(2, now, lambda: STATUS)
            assert out_of_date(tmp_path)
            assert read_live(tmp_path) == STATUS
            now = live.due(2)
    pauses = [later - earlier for earlier, later in itertools.pairwise(tries)]
    assert pauses[-1] > 2 * pauses[0]
    live.tend(2, now, lambda: STATUS)
    assert not out_of_date(tmp_path)
    assert live.due(2) == float("inf")


def _read_only(_path: Path, _target: Path) -> None:
    raise OSError(errno.EROFS, "Read-only file system")


def test_a_look_at_the_file_says_nothing_of_it_where_there_is_none(tmp_path: Path) -> None:
    assert not out_of_date(tmp_path)
    (tmp_path / "status.json").mkdir()
    assert not out_of_date(tmp_path)
    assert "no regular file" in str(read_live(tmp_path))
