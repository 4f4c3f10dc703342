"""What the agent stands on: the files of its state directory, and a tree that is its alone.

What always holds: nothing is claimed once the store on disk is not the one that is open (somebody
removed or replaced the directory under the agent: what it commits then is lost with the process);
two agents never keep their files in one tree, where each would take away those of the other.

`check` looks at the names on the disk, a few system calls, so each turn of the loop can afford it
before it claims anything. Owned by the loop thread; waits for nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

from agent.lock import FILE as LOCK
from agent.lock import take
from agent.store.database import FILE as STORE
from nodecast.errors import StoreError, TreeInUse
from nodecast.log import Repeats, logger

log = logger(__name__)

_Identity = tuple[int, int]
_MUST_STAY = (LOCK, STORE)
# SQLite makes it with the first transaction, and keeps it as long as the store is open.
_MAY_COME = f"{STORE}-wal"


class OpenFiles:
    """The files of the open store in `state_dir`, as they are when this is made."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._known = {name: self._identity(name) for name in (*_MUST_STAY, _MAY_COME)}

    def check(self) -> None:
        """Raises StoreError where a name on the disk leads to another file, or to none."""
        for name, known in self._known.items():
            try:
                found = self._identity(name)
            except OSError:
                return  # nothing is known; if something is wrong, the store says so
            if found == known:
                continue
            if known is None and name == _MAY_COME:
                self._known[name] = found
                return
            raise StoreError(
                f"{self._state_dir / name} was {'replaced' if found else 'removed'} while the agent"
                " ran: what it would write now were lost; start the agent anew"
            )

    def _identity(self, name: str) -> _Identity | None:
        return _identity(self._state_dir / name)


class TreeLock:
    """The lock of the tree at `root`, held until the end of the `with` block.

    The directory itself is locked: that leaves nothing in the tree, and works on a disk that takes
    nothing now. Where a file system has no locks, that is said once and the agent goes on.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._descriptor: int | None = None
        self._said = Repeats()

    def __enter__(self) -> TreeLock:
        try:
            self._root.mkdir(parents=True, exist_ok=True)
        except OSError as error:  # said with the first file that cannot be written
            log.debug("the tree cannot be made now", root=self._root, error=error)
        self.hold()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._release()

    def hold(self) -> None:
        """Take the lock, unless it is held; that of another directory which came in its place.

        Raises TreeInUse where another agent has it. No tree, no lock: nothing is written either.
        """
        try:
            there = _identity(self._root)
            if there is None or there == self._held():
                return
            descriptor = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:  # said with the first file that cannot be written
            log.debug("the tree cannot be opened now", root=self._root, error=error)
            return
        self._release()
        self._descriptor = descriptor
        try:
            taken = take(descriptor)
        except OSError as error:
            if self._said.new("lock", error.strerror or str(error)):
                log.warning("the tree cannot be locked", root=self._root, error=error.strerror)
            return
        if not taken:
            raise TreeInUse(
                f"another agent keeps its files in {self._root}: stop it, or give this one a"
                " resources_dir of its own"
            )

    def _held(self) -> _Identity | None:
        if self._descriptor is None:
            return None
        found = os.fstat(self._descriptor)
        return found.st_dev, found.st_ino

    def _release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _identity(path: Path) -> _Identity | None:
    """Which file the name leads to; None where it leads to none. Raises OSError."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino
