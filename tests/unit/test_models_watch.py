from __future__ import annotations

import os
import queue
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.models import watch
from agent.models.configfile import MAX_BYTES, ConfigSeen
from agent.models.watch import ModelsWatch, is_mount_point, look
from nodecast import regular
from nodecast.errors import NodecastError, ThreadDied
from tests.support.wait import eventually

WITHIN = 20.0


class Seen:
    """What a watch of `directory` told, in order."""

    def __init__(self, directory: Path, poll: float = 60.0) -> None:
        self.told: queue.Queue[ConfigSeen] = queue.Queue()
        self.errors: list[NodecastError] = []
        self.watch = ModelsWatch(directory, self.told.put, self.errors.append, poll=poll)
        self.watch.start()

    def next(self) -> ConfigSeen:
        return self.told.get(timeout=WITHIN)

    def until(self, raw: bytes) -> None:
        """Wait for `raw`; a write in place may be seen half done before."""
        while self.next().raw != raw:
            pass


@pytest.fixture
def watching() -> Iterator[Callable[..., Seen]]:
    made: list[Seen] = []

    def watching(directory: Path, **more: float) -> Seen:
        made.append(Seen(directory, **more))
        return made[-1]

    yield watching
    for each in made:
        assert each.watch.stop(WITHIN)
        assert each.errors == []


Watching = Callable[..., Seen]


def test_the_file_is_read_at_the_start(tmp_path: Path, watching: Watching) -> None:
    (tmp_path / "models.json").write_bytes(b"[]")
    assert watching(tmp_path).next() == ConfigSeen(b"[]")


def test_f5_a_directory_that_appears_later_is_read(tmp_path: Path, watching: Watching) -> None:
    seen = watching(tmp_path / "x")
    assert seen.next() == ConfigSeen()
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "models.json").write_bytes(b"[]")
    seen.until(b"[]")
    (tmp_path / "x" / "models.json").unlink()
    assert seen.next() == ConfigSeen()


def test_f1_every_swap_of_a_config_map_mount_is_seen(tmp_path: Path, watching: Watching) -> None:
    def swap(version: int) -> None:
        data = tmp_path / f"..v{version}"
        data.mkdir()
        (data / "models.json").write_text(f"[{version}]")
        (tmp_path / "..data_tmp").symlink_to(data.name)
        (tmp_path / "..data_tmp").rename(tmp_path / "..data")

    swap(0)
    (tmp_path / "models.json").symlink_to("..data/models.json")
    seen = watching(tmp_path)
    seen.until(b"[0]")
    for version in (1, 2, 3):
        swap(version)
        seen.until(f"[{version}]".encode())


def test_f3_a_rename_and_a_write_in_place_are_seen(tmp_path: Path, watching: Watching) -> None:
    path = tmp_path / "models.json"
    path.write_bytes(b"[0]")
    seen = watching(tmp_path)
    seen.until(b"[0]")
    for version in range(1, 6):
        new = tmp_path / "new"
        new.write_text(f"[{version}]")
        new.rename(path)
        seen.until(f"[{version}]".encode())
        path.write_text(f"[{version}, 0]")
        seen.until(f"[{version}, 0]".encode())


def test_f2_only_content_is_told(tmp_path: Path, watching: Watching) -> None:
    path = tmp_path / "models.json"
    path.write_bytes(b"[1]")
    seen = watching(tmp_path)
    seen.until(b"[1]")
    os.utime(path, (1, 1))
    (tmp_path / "other.json").write_bytes(b"{}")
    before = path.stat()
    (tmp_path / "new").write_bytes(b"[2]")
    os.utime(tmp_path / "new", ns=(before.st_atime_ns, before.st_mtime_ns))
    (tmp_path / "new").rename(path)
    assert seen.next() == ConfigSeen(b"[2]")


def test_f2_a_poll_without_a_change_tells_nothing(
    tmp_path: Path, watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[ConfigSeen] = []

    def counted(path: Path) -> ConfigSeen:
        looks.append(look(path))
        return looks[-1]

    monkeypatch.setattr(watch, "look", counted)
    seen = watching(tmp_path, poll=0.01)
    assert seen.next() == ConfigSeen()
    eventually(lambda: len(looks) > 3)
    assert seen.told.empty()


def test_f7_the_slow_poll_sees_what_gives_no_event(tmp_path: Path, watching: Watching) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "real.json").write_bytes(b"[1]")
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "models.json").symlink_to(elsewhere / "real.json")
    seen = watching(tmp_path / "config", poll=0.05)
    seen.until(b"[1]")
    (elsewhere / "real.json").write_bytes(b"[2]")
    seen.until(b"[2]")


def test_an_unexpected_error_ends_the_thread_loudly(tmp_path: Path) -> None:
    def fail(_: ConfigSeen) -> None:
        raise RuntimeError("a bug")

    errors: list[NodecastError] = []
    failing = ModelsWatch(tmp_path, fail, errors.append)
    failing.start()
    eventually(lambda: errors)
    assert isinstance(errors[0], ThreadDied)
    assert failing.stop(WITHIN)


def test_a_watch_that_never_started_stops(tmp_path: Path) -> None:
    assert ModelsWatch(tmp_path, print, print).stop(WITHIN)


def test_what_is_no_file_is_an_error_and_never_blocks(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "directory").mkdir()
    for name in ("pipe", "directory"):
        found = look(tmp_path / name)
        assert found.raw is None
        assert found.error


def test_a_loop_of_links_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "models.json").symlink_to("models.json")
    assert look(tmp_path / "models.json").error


def test_a_huge_file_is_read_only_to_the_limit(tmp_path: Path) -> None:
    with open(tmp_path / "models.json", "wb") as file:
        file.truncate(MAX_BYTES * 10)
    assert len(look(tmp_path / "models.json").raw or b"") == MAX_BYTES + 1


def test_f7_a_file_that_is_a_mount_point_is_known(tmp_path: Path) -> None:
    path = tmp_path / "a b" / "models.json"
    line = "36 35 98:0 /data {} rw,noatime - ext4 /dev/root rw\n"
    mounts = tmp_path / "mountinfo"
    mounts.write_text(line.format(str(path).replace(" ", "\\040")))
    assert is_mount_point(path, mounts)
    mounts.write_text(line.format(path.parent))
    assert not is_mount_point(path, mounts)
    assert not is_mount_point(path, tmp_path / "missing")


def test_f7_a_file_that_is_a_mount_point_is_warned_of_at_the_start(
    tmp_path: Path,
    watching: Watching,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    watching(tmp_path)
    assert caplog.records == []
    monkeypatch.setattr(watch, "is_mount_point", lambda _: True)
    watching(tmp_path)
    assert ["mount point" in r.getMessage() for r in caplog.records] == [True]


def test_a_file_that_gives_nothing_without_being_waited_for_is_invalid_and_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As /proc/kmsg does, which says that it is a regular file.
    os.mkfifo(tmp_path / "models.json")
    writer = os.open(tmp_path / "models.json", os.O_RDWR)
    monkeypatch.setattr(regular.stat, "S_ISREG", lambda _mode: True)
    seen = look(tmp_path / "models.json")
    os.close(writer)
    assert seen == ConfigSeen(error="it gives nothing without being waited for")
