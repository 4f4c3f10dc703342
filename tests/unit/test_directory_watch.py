"""A directory watch ends its wait for whatever may have changed the directory."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from inotify_simple import INotify

from nodecast.dirwatch import DirectoryWatch, Reason
from tests.support.disks import mounted

LONG = 20.0  # seconds: a limit that is only reached when an event was missed
SHORT = 0.05


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "a" / "watched"
    path.mkdir(parents=True)
    return path


@pytest.fixture
def watch(directory: Path) -> Iterator[DirectoryWatch]:
    with DirectoryWatch(directory, settle=0.005) as watch:
        assert watch.wait(LONG) is Reason.START
        yield watch


def replace(path: Path, text: str) -> None:
    new = path.with_name(".new")
    new.write_text(text)
    new.rename(path)


def swap(directory: Path, number: int) -> None:
    """One update of a ConfigMap mount, as kubelet's AtomicWriter makes it."""
    data = directory / f"..{number}"
    data.mkdir()
    (data / "models.json").write_text(str(number))
    (directory / "..data_tmp").symlink_to(data.name)
    (directory / "..data_tmp").rename(directory / "..data")
    if not (directory / "models.json").is_symlink():
        (directory / "models.json").symlink_to("..data/models.json")


def test_the_first_wait_returns_at_once_so_that_reading_comes_after_arming(directory: Path) -> None:
    with DirectoryWatch(directory) as watch:
        assert watch.wait(LONG) is Reason.START


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda d: (d / "new").write_text("x"), id="a file made"),
        pytest.param(lambda d: (d / "old").write_text("x"), id="a file written in place"),
        pytest.param(lambda d: replace(d / "old", "x"), id="a file replaced"),
        pytest.param(lambda d: (d / "old").unlink(), id="a file removed"),
        pytest.param(lambda d: (d / "old").rename(d.parent / "x"), id="a file moved out"),
        pytest.param(lambda d: (d / "old").chmod(0o600), id="a file's mode changed"),
        pytest.param(lambda d: swap(d, 1), id="a ConfigMap swap"),
        pytest.param(lambda d: shutil.rmtree(d), id="the directory removed"),
        pytest.param(lambda d: d.rename(d.with_name("away")), id="the directory moved away"),
        pytest.param(lambda d: d.parent.rename(d.parent.with_name("b")), id="its parent moved"),
    ],
)
def test_a_change_ends_the_wait(directory: Path, change: Callable[[Path], Any]) -> None:
    (directory / "old").write_text("")
    with DirectoryWatch(directory, settle=0.005) as watch:
        watch.wait(LONG)
        change(directory)
        assert watch.wait(LONG) is Reason.EVENTS


def test_a_change_made_before_the_wait_is_not_lost(directory: Path, watch: DirectoryWatch) -> None:
    (directory / "new").write_text("x")
    assert watch.wait(LONG) is Reason.EVENTS


def test_nothing_changed_means_the_slow_poll(watch: DirectoryWatch) -> None:
    assert watch.wait(SHORT) is Reason.POLL


def test_a_burst_is_one_return(directory: Path, watch: DirectoryWatch) -> None:
    for number in range(100):
        (directory / f"{number}").write_text("x")
    assert watch.wait(LONG) is Reason.EVENTS
    assert watch.wait(SHORT) is Reason.POLL


def test_a_burst_is_waited_for_until_it_is_over(directory: Path) -> None:
    done = threading.Event()

    def write() -> None:
        for number in range(500):
            (directory / f"{number}").write_text("x")
        done.set()

    with DirectoryWatch(directory, settle=0.3) as watch:
        watch.wait(LONG)
        thread = from_a_thread(write)
        assert watch.wait(LONG) is Reason.EVENTS
        assert done.is_set()
        thread.join()


def test_each_configmap_swap_is_seen(directory: Path, watch: DirectoryWatch) -> None:
    for number in range(3):
        swap(directory, number)
        assert watch.wait(LONG) is Reason.EVENTS
        assert (directory / "models.json").read_text() == str(number)


def test_a_directory_made_later_and_made_again_is_picked_up(tmp_path: Path) -> None:
    path = tmp_path / "x" / "y" / "z"
    with DirectoryWatch(path, settle=0.005) as watch:
        watch.wait(LONG)
        for _ in range(2):
            path.mkdir(parents=True)
            assert watch.wait(LONG) is Reason.EVENTS
            (path / "file").write_text("x")
            assert watch.wait(LONG) is Reason.EVENTS
            shutil.rmtree(tmp_path / "x")
            assert watch.wait(LONG) is Reason.EVENTS


def test_a_directory_replaced_by_another_is_watched_in_its_place(
    directory: Path, watch: DirectoryWatch
) -> None:
    other = directory.with_name("other")
    other.mkdir()
    directory.rename(directory.with_name("away"))
    other.rename(directory)
    assert watch.wait(LONG) is Reason.EVENTS
    (directory.with_name("away") / "new").write_text("x")  # no longer ours
    assert watch.wait(SHORT) is Reason.POLL
    (directory / "new").write_text("x")
    assert watch.wait(LONG) is Reason.EVENTS


def test_a_link_that_leads_elsewhere_is_followed(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    link = tmp_path / "link"
    link.symlink_to("a")
    with DirectoryWatch(link, settle=0.005) as watch:
        watch.wait(LONG)
        link.unlink()
        link.symlink_to("b")
        assert watch.wait(LONG) is Reason.EVENTS
        (tmp_path / "b" / "new").write_text("x")
        assert watch.wait(LONG) is Reason.EVENTS


def test_what_goes_on_beside_the_directory_wakes_nobody(
    directory: Path, watch: DirectoryWatch
) -> None:
    (directory.parent / "beside").write_text("x")
    (directory.parent.parent / "above").mkdir()
    assert watch.wait(SHORT) is Reason.POLL


def children(directory: Path) -> list[Path]:
    return [path for path in directory.iterdir() if path.is_dir()]


def test_directories_below_are_watched_when_asked_for(directory: Path) -> None:
    with DirectoryWatch(directory, settle=0.005, subdirectories=children) as watch:
        watch.wait(LONG)
        (directory / "one" / "two").mkdir(parents=True)
        assert watch.wait(LONG) is Reason.EVENTS
        (directory / "one" / "two" / "new").write_text("x")
        assert watch.wait(LONG) is Reason.EVENTS


def test_links_that_loop_end(directory: Path) -> None:
    (directory / "loop").symlink_to(directory)
    (directory / "up").symlink_to(directory.parent)
    with DirectoryWatch(directory, settle=0.005, subdirectories=children) as watch:
        assert watch.wait(LONG) is Reason.START
        (directory / "new").write_text("x")
        assert watch.wait(LONG) is Reason.EVENTS


def test_a_subdirectory_that_cannot_be_listed_leaves_the_others_watched(directory: Path) -> None:
    (directory / "bad").mkdir()
    (directory / "good").mkdir()

    def listed(path: Path) -> list[Path]:
        if path.name == "bad":
            raise PermissionError(errno.EACCES, "Permission denied")
        return children(path)

    with DirectoryWatch(directory, settle=0.005, subdirectories=listed) as watch:
        watch.wait(LONG)
        (directory / "good" / "new").write_text("x")
        assert watch.wait(LONG) is Reason.EVENTS


def from_a_thread(call: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=call)
    thread.start()
    return thread


def test_wake_ends_a_wait(watch: DirectoryWatch) -> None:
    thread = from_a_thread(watch.wake)
    assert watch.wait(LONG) is Reason.WOKEN
    thread.join()


def test_a_wake_before_the_wait_counts_once(watch: DirectoryWatch) -> None:
    watch.wake()
    watch.wake()
    assert watch.wait(LONG) is Reason.WOKEN
    assert watch.wait(SHORT) is Reason.POLL


def test_stop_ends_every_wait(watch: DirectoryWatch) -> None:
    thread = from_a_thread(watch.stop)
    assert watch.wait(LONG) is Reason.STOPPED
    thread.join()
    assert watch.wait(LONG) is Reason.STOPPED


def test_a_burst_without_end_is_waited_for_only_so_long(directory: Path) -> None:
    over = threading.Event()

    def write() -> None:
        while not over.is_set():
            (directory / "busy").write_text("x")

    with DirectoryWatch(directory, settle=0.05) as watch:
        watch.wait(LONG)
        thread = from_a_thread(write)
        try:
            assert watch.wait(LONG) is Reason.EVENTS
        finally:
            over.set()
            thread.join()


def test_a_closed_watch_takes_wake_and_stop(directory: Path) -> None:
    watch = DirectoryWatch(directory)
    watch.close()
    watch.wake()
    watch.stop()
    watch.close()
    assert watch.wait(LONG) is Reason.STOPPED


def test_no_descriptor_is_left_open(directory: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with DirectoryWatch(directory) as watch:
        watch.wait(LONG)
        assert len(os.listdir("/proc/self/fd")) > before
    assert len(os.listdir("/proc/self/fd")) == before


def watches() -> int:
    """How many directories this process watches, as the kernel counts them."""
    lines = [path.read_text() for path in Path("/proc/self/fdinfo").iterdir() if path.exists()]
    return sum(text.count("inotify wd:") for text in lines)


def test_what_is_no_longer_there_is_no_longer_watched(
    directory: Path, watch: DirectoryWatch
) -> None:
    before = watches()
    assert before > 0
    for number in range(3):
        directory.rename(directory.parent.parent / f"away{number}")
        directory.mkdir()
        assert watch.wait(LONG) is Reason.EVENTS
    assert watches() == before


class Limited(INotify):
    """inotify whose limit of watches is reached, as long as `full`."""

    full = True

    def add_watch(self, path: Any, mask: int) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return int(super().add_watch(path, mask))


def no_instance() -> INotify:
    raise OSError(errno.EMFILE, "Too many open files")


@pytest.mark.parametrize(
    ("inotify", "sysctl"),
    [(no_instance, "max_user_instances"), (Limited, "max_user_watches")],
)
def test_a_reached_limit_is_one_warning_with_the_sysctl_and_the_poll_goes_on(
    directory: Path,
    caplog: pytest.LogCaptureFixture,
    inotify: Callable[[], INotify],
    sysctl: str,
) -> None:
    with DirectoryWatch(directory, inotify=inotify) as watch:
        watch.wait(LONG)
        assert [watch.wait(SHORT) for _ in range(3)] == [Reason.POLL] * 3
        assert watch.wait(0) is Reason.POLL
    warnings = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert sysctl in str(vars(warnings[0]))


def test_inotify_is_taken_up_again_when_it_can_be_had(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DirectoryWatch(directory, settle=0.005, inotify=Limited) as watch:
        watch.wait(LONG)
        monkeypatch.setattr(Limited, "full", False)
        assert watch.wait(SHORT) is Reason.POLL
        (directory / "new").write_text("x")
        assert watch.wait(LONG) is Reason.EVENTS


def test_an_overflow_means_read_again_even_of_events_that_do_not_count(
    directory: Path, watch: DirectoryWatch
) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    beside = str(directory.parent / "beside")
    for _ in range(limit // 2 + 1):
        os.close(os.open(beside, os.O_WRONLY | os.O_CREAT))
        os.unlink(beside)
    (directory / "lost").write_text("x")
    assert watch.wait(LONG) is Reason.EVENTS
    (directory / "new").write_text("x")
    assert watch.wait(LONG) is Reason.EVENTS


def test_a_wait_of_zero_does_not_block(watch: DirectoryWatch) -> None:
    assert watch.wait(0) is Reason.POLL  # or never


def test_f1_a_directory_that_was_mounted_over_is_watched_after_the_next_poll(
    tmp_path: Path,
) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir()
    # Through a link to a link: where mounting is not permitted, the second leads elsewhere, which
    # gives no event either.
    (tmp_path / "second").symlink_to("before")
    (tmp_path / "link").symlink_to("second")
    with DirectoryWatch(tmp_path / "link", settle=0.005) as watch:
        watch.wait(LONG)
        with mounted(before, "--bind", str(after)) as real:
            if not real:
                (tmp_path / "new").symlink_to("after")
                (tmp_path / "new").replace(tmp_path / "second")
            assert watch.wait(SHORT) is Reason.POLL
            (after / "file").write_text("x")
            assert watch.wait(LONG) is Reason.EVENTS
