"""One agent a state directory: a lock that the kernel gives back when its process ends."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nodecast.errors import SettingsError, StateDirInUse, StoreError
from nodecast.threads import sleep as real_sleep

FILE = "agent.lock"
# What a later start may find mended; a wrong setting it would not.
_OF_THE_DISK = frozenset({errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO})
_TRIES = 10
_PAUSE = 0.05  # seconds; a `status` command may hold the lock for a moment


@contextmanager
def locked(state_dir: Path, sleep: Callable[[float], None] = real_sleep) -> Iterator[None]:
    """Make the directory, and hold its lock.

    Raises StateDirInUse when another agent has it, StoreError when the disk does not allow it now,
    SettingsError when this directory never can be used so.
    """
    try:
        state_dir.mkdir(mode=0o750, parents=True, exist_ok=True)
        descriptor = os.open(state_dir / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError as error:
        raise _unusable(state_dir, error) from error
    try:
        for attempt in range(_TRIES):
            if _taken(descriptor, state_dir):
                break
            if attempt == _TRIES - 1:
                raise StateDirInUse(
                    f"another agent runs on {state_dir}: stop it, or give this one a state_dir of"
                    " its own"
                )
            sleep(_PAUSE)
        yield
    finally:
        os.close(descriptor)


def _taken(descriptor: int, state_dir: Path) -> bool:
    try:
        return take(descriptor)
    except OSError as error:  # the file system has no locks, or does not answer
        raise _unusable(state_dir, error) from error


def _unusable(state_dir: Path, error: OSError) -> StoreError | SettingsError:
    if error.errno in _OF_THE_DISK:
        return StoreError(
            f"state_dir {state_dir} cannot be used now: {error.strerror}; free some space, or mend"
            " the disk"
        )
    return SettingsError(
        f"state_dir {state_dir} cannot be used: {error.strerror}; give another, or let this user"
        " write to it"
    )


def agent_runs(state_dir: Path) -> bool:
    """Whether an agent holds the lock of the directory now.

    Raises StoreError where this user may not know.
    """
    try:
        descriptor = os.open(state_dir / FILE, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError as error:
        raise StoreError(
            f"{state_dir / FILE} cannot be read: {error.strerror}; run this as the agent's user"
        ) from error
    except OSError:
        return False
    try:
        return not take(descriptor, fcntl.LOCK_SH)
    except OSError as error:
        raise StoreError(f"{state_dir / FILE} cannot be locked: {error.strerror}") from error
    finally:
        os.close(descriptor)


def take(descriptor: int, kind: int = fcntl.LOCK_EX) -> bool:
    """Lock an open file, or say that another process has the lock. Raises OSError."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise
    return True
