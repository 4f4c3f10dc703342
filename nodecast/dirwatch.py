"""Waits until a directory may have changed; the only importer of inotify_simple.

    with DirectoryWatch(path) as watch:
        while watch.wait(poll) is not Reason.STOPPED:
            read(path)

What always holds:
- The watch is armed before `wait` returns, so a change after that ends the next `wait`: nothing
  falls between arming and reading. The first `wait` returns at once.
- A return means "read it again" and nothing more. Which file, and whether anything changed at all,
  only the content says: events are lost (overflow), doubled, and absent (NFS, a write behind a
  symbolic link, a mount over the directory), and the time limit of `wait` is the slow poll that
  covers those.
- Every arming adds every watch again. The kernel answers with the same descriptor for the same
  inode and a new one for another, so a directory that was replaced, mounted over or made later is
  found without comparing (st_dev, st_ino) here. All directories above are watched too, for the
  name that leads here: they tell when the path appears, goes, or leads elsewhere.
- Where inotify gives nothing (its limits, no permission) one warning names the setting to raise;
  every later arming tries again.

It has no thread of its own: one owner calls `wait` and `close`; `wake` and `stop` are for any
thread. It waits for inotify and its own event descriptor, nothing else.
"""

from __future__ import annotations

import errno
import os
import select
import threading
import time
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from typing import Any, Self

from inotify_simple import INotify, flags

from nodecast.log import Repeats, logger

log = logger(__name__)

_PATH = flags.CREATE | flags.MOVED_TO | flags.DELETE | flags.MOVED_FROM
_CONTENT = _PATH | flags.CLOSE_WRITE | flags.ATTRIB | flags.DELETE_SELF | flags.MOVE_SELF
_LIMITS = {
    errno.EMFILE: "fs.inotify.max_user_instances (or the limit of open files)",
    errno.ENFILE: "fs.file-max",
    errno.ENOSPC: "fs.inotify.max_user_watches",
}
_MAX_SETTLES = 10
"""A burst is waited for at most this many times the settle time."""

_EVERY_NAME = ""
"""Among the names of a watch: all its events count."""


class Reason(Enum):
    """Why `wait` returned."""

    START = "start"
    EVENTS = "events"
    POLL = "poll"
    WOKEN = "woken"
    STOPPED = "stopped"


def _no_subdirectories(_directory: Path) -> Iterable[Path]:
    return ()


class DirectoryWatch:
    """Watches `directory`, which need not exist.

    `subdirectories` gives the directories directly below one that are watched as well (none);
    links may loop, and an OSError out of it leaves that directory's own out. `settle` (seconds):
    after the first event `wait` goes on until it was quiet for so long, at most ten times that.
    `inotify` makes the descriptor. Raises OSError when no event descriptor is to be had.
    """

    def __init__(
        self,
        directory: Path,
        *,
        settle: float = 0.05,
        subdirectories: Callable[[Path], Iterable[Path]] = _no_subdirectories,
        clock: Callable[[], float] = time.monotonic,
        inotify: Callable[[], Any] = INotify,
    ) -> None:
        self._directory = directory.absolute()
        self._settle = settle
        self._subdirectories = subdirectories
        self._clock = clock
        self._open = inotify
        self._inotify: Any = None
        self._names: dict[int, set[str]] = {}  # by watch descriptor: the names that count
        self._said = Repeats()
        self._started = False
        self._stopped = False
        self._woken = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._closed = False
        self._lock = threading.Lock()  # _closed: nobody writes to a descriptor that went

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def wait(self, timeout: float) -> Reason:
        """Wait until the directory may have changed, at most `timeout` seconds, and arm again."""
        if self._stopped:
            return Reason.STOPPED
        reason = self._sleep(timeout) if self._started else Reason.START
        self._started = True
        if reason is not Reason.STOPPED:
            self._arm(timeout)
        return reason

    def wake(self) -> None:
        """End the `wait` that runs, or the next one. Any thread."""
        with self._lock:
            if not self._closed:
                os.eventfd_write(self._woken, 1)

    def stop(self) -> None:
        """Make every `wait` from now on return STOPPED. Any thread."""
        self._stopped = True
        self.wake()

    def close(self) -> None:
        """Give the descriptors back; the owner's last call, which may come twice."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._stopped = True
        os.close(self._woken)
        self._close_inotify()

    # Waiting

    def _sleep(self, timeout: float) -> Reason:
        deadline = self._clock() + timeout
        while True:
            woken, events = self._poll(deadline)
            if self._stopped:
                return Reason.STOPPED
            if woken:
                return Reason.WOKEN
            if events:
                return self._settled()
            if self._clock() >= deadline:
                return Reason.POLL

    def _settled(self) -> Reason:
        """The burst goes on: return when it is over, or has lasted long enough."""
        longest = self._clock() + _MAX_SETTLES * self._settle
        quiet = min(self._clock() + self._settle, longest)
        while self._clock() < quiet:
            woken, events = self._poll(quiet)
            if self._stopped:
                return Reason.STOPPED
            if woken:
                return Reason.WOKEN
            if events:
                quiet = min(self._clock() + self._settle, longest)
        return Reason.EVENTS

    def _poll(self, deadline: float) -> tuple[bool, bool]:
        """Wait once, until `deadline`: (woken, events that count)."""
        poller = select.poll()
        poller.register(self._woken, select.POLLIN)
        if self._inotify is not None:
            poller.register(self._inotify.fileno(), select.POLLIN)
        # Up, so that a rest below a millisecond is slept through and not spun through.
        rest = max(0.0, deadline - self._clock())
        ready = {fd for fd, _ in poller.poll(int(rest * 1000) + 1 if rest else 0)}
        woken = self._woken in ready
        if woken:
            os.eventfd_read(self._woken)
        return woken, bool(ready - {self._woken}) and self._take_events()

    def _take_events(self) -> bool:
        """Empty the queue; whether anything in it counts."""
        counts = False
        for event in self._inotify.read(timeout=0):
            if event.mask & flags.Q_OVERFLOW:
                log.debug("inotify overflow: reading again", directory=self._directory)
                counts = True
                continue
            names = self._names.get(event.wd)  # None: a watch that was taken back meanwhile
            if names is not None and (_EVERY_NAME in names or event.name in names):
                counts = True
        return counts

    # Arming

    def _arm(self, poll: float) -> None:
        before, self._names = self._names, {}
        try:
            if self._inotify is None:
                self._inotify = self._open()
            self._watch_above()
            self._watch_tree()
        except OSError as error:
            self._say_polling(error, poll)
            self._names = before | self._names  # what is watched goes on telling
            if not self._names:
                self._close_inotify()
        else:
            if self._said.over("inotify"):
                log.info("inotify works again", directory=self._directory)
            for wd in before.keys() - self._names.keys():
                self._drop(wd)

    def _watch_above(self) -> None:
        """From the root down: each is watched before the next is looked for."""
        below = self._directory
        chain = []
        for parent in self._directory.parents:
            chain.append((parent, below.name))
            below = parent
        for parent, name in reversed(chain):
            self._add(parent, _PATH | flags.MASK_ADD, name)

    def _watch_tree(self) -> None:
        """Each directory is watched before its own are listed: one made meanwhile is an event."""
        waiting = [self._directory]
        seen: set[int] = set()
        while waiting:
            directory = waiting.pop()
            wd = self._add(directory, _CONTENT, _EVERY_NAME)
            if wd is None or wd in seen:  # the same inode again: links loop
                continue
            seen.add(wd)
            try:
                waiting.extend(self._subdirectories(directory))
            except OSError as error:
                log.debug("directory not listed", directory=directory, reason=error.strerror)

    def _add(self, path: Path, mask: int, name: str) -> int | None:
        """Watch `path`; None when it is no directory, or not ours to see. Raises OSError."""
        try:
            wd: int = self._inotify.add_watch(path, mask | flags.ONLYDIR)
        except OSError as error:
            if error.errno in _LIMITS:
                raise
            # Missing, or no directory, or forbidden: whoever reads it says so, with the path.
            return None
        self._names.setdefault(wd, set()).add(name)
        return wd

    def _drop(self, wd: int) -> None:
        try:
            self._inotify.rm_watch(wd)
        except OSError as error:
            if error.errno != errno.EINVAL:  # EINVAL: the kernel dropped it with its inode
                raise

    def _say_polling(self, error: OSError, poll: float) -> None:
        limit = _LIMITS.get(error.errno or 0)
        reason = f"raise {limit}" if limit else error.strerror or str(error)
        if self._said.new("inotify", reason):
            log.warning(
                "inotify is not to be had, polling instead",
                directory=self._directory,
                reason=reason,
                every_s=poll,
            )

    def _close_inotify(self) -> None:
        if self._inotify is not None:
            self._inotify.close()
            self._inotify = None
        self._names = {}
