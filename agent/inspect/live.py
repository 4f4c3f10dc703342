"""What the running agent says of itself on its own disk, for `status` and its siblings.

A plain file beside the store, replaced whole but not synced: it is for people, it may be lost with
the power, and nothing in the agent ever reads it back. Whatever is in its place (a symlink, a
named pipe), writing follows nothing and neither side waits for it.

Where the disk takes nothing, the file goes on saying what was. The agent holds a lock on it then,
which needs no room: `out_of_date` looks at that, and a dead agent holds none.
"""

from __future__ import annotations

import fcntl
import os
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from agent.lock import take
from agent.pace import NEVER
from nodecast.backoff import Backoff
from nodecast.log import Repeats, logger
from nodecast.messages import ModelSet, Report
from nodecast.regular import regular_file

log = logger(__name__)

FILE = "status.json"
PAUSE = 1.0
_AGAIN = Backoff(PAUSE, 60.0)
MAX_BYTES = 64 * 1024 * 1024
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class LiveStatus(msgspec.Struct, frozen=True, kw_only=True):
    """`since`: when the connection came or went; `failure`: why there is none. Times are times of
    day."""

    version: str
    instance: str
    started: str
    broker: str
    connected: bool
    since: str
    failure: str | None = None
    written: str
    stopped: bool = False
    ready: bool = False
    behind: bool = False
    left_alone: str | None = None
    store_error: str | None = None
    subscription_error: str | None = None
    models_error: str | None = None
    report: Report
    models: ModelSet
    config_problems: tuple[str, ...] = ()


class LiveFile:
    """Writes the file when it would say something else, at most every `PAUSE` seconds.

    Owned by the loop thread.
    """

    def __init__(self, state_dir: Path, rng: random.Random) -> None:
        self._path = state_dir / FILE
        self._rng = rng
        self._said = Repeats()
        self._failures = 0
        self._locked: int | None = None  # a descriptor of the file that could not be replaced
        self._state: object = None
        self._next = 0.0

    def due(self, state: object) -> float:
        """When to call `tend`; `state` differs whenever the file would say something else."""
        return NEVER if state == self._state else self._next

    def tend(self, state: object, now: float, status: Callable[[], LiveStatus]) -> None:
        """Write what `status` gives, if it is due."""
        if now >= self.due(state):
            self._state, self._next = state, now + PAUSE
            self.write(status())
            if self._failures:
                self._state = None
                self._next = now + _AGAIN.pause(self._failures, self._rng)

    def write(self, status: LiveStatus) -> None:
        """Replace the file. A disk that takes no more is said once, and nothing depends on it."""
        temporary = self._path.with_name(FILE + ".tmp")
        try:
            with suppress(FileNotFoundError):
                temporary.unlink()  # left by a crash, or put there
            with open(os.open(temporary, _WRITE, 0o640), "wb") as file:
                file.write(msgspec.json.encode(status))
            temporary.replace(self._path)
            self._said.over("write")
            self._failures = 0
            self._unlock()
        except OSError as error:
            self._failures += 1
            self._lock()
            if self._said.new("write", str(error)):
                log.warning("status file not written", path=self._path, error=error.strerror)

    def _lock(self) -> None:
        """Mark what is there as out of date."""
        if self._locked is not None:
            return
        try:
            self._locked = os.open(self._path, _READ)
            if not take(self._locked):  # somebody looks at it just now
                self._unlock()
        except OSError as error:
            log.debug("status file not marked", path=self._path, error=error)
            self._unlock()

    def _unlock(self) -> None:
        if self._locked is not None:
            os.close(self._locked)
            self._locked = None


def out_of_date(state_dir: Path) -> bool:
    """Whether the agent that runs could not replace its status file."""
    try:
        descriptor = os.open(state_dir / FILE, _READ)
    except OSError:
        return False  # `read_live` says what is wrong
    try:
        return not take(descriptor, fcntl.LOCK_SH)
    except OSError as error:
        log.debug("status file not looked at", error=error)
        return False
    finally:
        os.close(descriptor)


def read_live(state_dir: Path) -> LiveStatus | str | None:
    """What the agent said last, or why that does not read; None when it never said anything."""
    path = state_dir / FILE
    try:
        with regular_file(path, follow=False) as file:
            if file is None:
                return f"{path} is no regular file"
            return msgspec.json.decode(file.read(MAX_BYTES), type=LiveStatus)
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return f"{path} does not read: {error}"
