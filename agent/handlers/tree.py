"""The resource tree on disk: files replaced whole and durably, and nothing outside touched.

What always holds: a file is its old content or its new one, never half of it, through any loss of
power (temporary, fsync, rename, fsync of the directory); each step goes from one open directory to
the next without following a symlink, so nothing in the tree can lead out of it; what is no
resource file of ours stays. A file that was written is durable only after `settle`: one sync of a
directory serves all that was written there. Runs on the loop thread; a write and each directory
settled wait for the disk (about 3 ms each).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from agent.handlers.paths import SUFFIX, TreePath
from nodecast.errors import ApplyError
from nodecast.log import logger
from nodecast.messages import MAX_BODY
from nodecast.regular import regular_file

log = logger(__name__)

TEMPORARY = ".nodecast.tmp"
"""The one temporary name of a directory; a name of a resource never starts with a dot."""
STAMP = ".nodecast.json"
MAX_FILE = MAX_BODY + 1
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A FIFO in the place of a file must not block the loop.
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

DISK_FULL = "DiskFull"
_REASONS = {
    errno.ENOSPC: (DISK_FULL, "free some space; it is tried again"),
    errno.EDQUOT: (DISK_FULL, "the quota is used up; it is tried again"),
    errno.EROFS: ("ReadOnly", "the file system is read-only; it is tried again"),
    errno.EACCES: ("NotPermitted", "give the agent's user the directory; it is tried again"),
    errno.EPERM: ("NotPermitted", "give the agent's user the directory; it is tried again"),
    errno.ELOOP: ("Blocked", "a symlink is in the way: move it away"),
    errno.ENOTDIR: ("Blocked", "what is in the way is no directory: move it away"),
    errno.EISDIR: ("Blocked", "a directory is in the way: move it away"),
    errno.ENOTEMPTY: ("Blocked", "a directory is in the way: move it away"),
    errno.EEXIST: ("Blocked", "something is in the way: move it away"),
}


Parts = tuple[str, ...]
"""A directory of the tree, by the names that lead to it."""


class Tree:
    """The tree below `root`, which is made when it is not there. Methods raise ApplyError.

    `sync` makes what is behind a descriptor durable.
    """

    def __init__(self, root: Path, *, sync: Callable[[int], None] = os.fsync) -> None:
        self.root = root
        self._sync = sync
        self._unsettled: set[Parts] = set()

    def read(self, path: TreePath) -> bytes | None:
        """The content of a file; None where no regular file of a sane size is."""
        with self._doing("read", path):
            try:
                with self._directory(path, make=False) as directory:
                    return _read_at(directory, path.file)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                    return None
                raise

    def write(self, path: TreePath, content: bytes) -> None:
        """Replace the file, or make it, directories included; durable after `settle`."""
        with self._doing("write", path), self._directory(path, make=True) as directory:
            self._unsettled.add(path.directory)
            self._replace_at(directory, path.file, content)

    def settle(self) -> dict[Parts, ApplyError]:
        """Make durable what was written; the directories where that failed, and why."""
        failed: dict[Parts, ApplyError] = {}
        for parts in sorted(self._unsettled):
            try:
                with self._doing("sync", "/".join(parts)), self._walk(parts, make=False) as there:
                    self._sync(there)
            except ApplyError as error:
                failed[parts] = error
        self._unsettled.clear()
        return failed

    def remove(self, path: TreePath) -> None:
        """Take the file away, and directories that became empty; no file there is fine."""
        with self._doing("remove", path):
            try:
                with self._directory(path, make=False) as directory:
                    self._unlink(directory, path)
            except OSError as error:
                # A parent that is no directory of ours holds no file of ours.
                if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                    raise

    def read_stamp(self) -> bytes | None:
        """The stamp of the tree, None when there is none."""
        with self._doing("read", STAMP):
            try:
                with _opened(self.root, _DIRECTORY & ~os.O_NOFOLLOW) as root:
                    return _read_at(root, STAMP)
            except FileNotFoundError:
                return None

    def has_stamp(self) -> bool:
        """Whether there is a stamp, whatever is in it."""
        try:
            return stat.S_ISREG(os.lstat(self.root / STAMP).st_mode)
        except OSError:
            return False

    def write_stamp(self, content: bytes) -> None:
        """Replace the stamp. On a full disk it is written over in place: a removal must need no
        room. If that is cut short, the stamp does not read, which a start takes for a doubt."""
        with self._doing("write", STAMP), self._root() as root:
            try:
                self._replace_at(root, STAMP, content)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not self.has_stamp():
                    raise
                self._overwrite_at(root, STAMP, content)
            self._sync(root)

    def scan(self) -> Iterator[TreePath]:
        """Every place of the tree where a `.json` file could be ours, in name order.

        Temporaries that a crash left are taken away on the way. What cannot be read is passed
        over: it is no file that the agent could know.
        """
        try:
            with _opened(self.root, _DIRECTORY & ~os.O_NOFOLLOW) as root:
                kinds = _names(root)
                _drop_temporary(root)
        except OSError:
            return
        for kind in kinds:
            for namespace in self._names_in(kind):
                for name in self._names_in(kind, namespace, clean=True):
                    if name.endswith(SUFFIX) and not name.startswith("."):
                        yield TreePath(kind, namespace, name)

    def _names_in(self, *parts: str, clean: bool = False) -> list[str]:
        try:
            with self._walk(parts, make=False) as directory:
                if clean:
                    _drop_temporary(directory)
                return _names(directory)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                log.warning("directory passed over", path="/".join(parts), error=error.strerror)
            return []

    @contextmanager
    def _doing(self, what: str, path: object) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason, advice = _REASONS.get(error.errno or 0, ("DiskError", "it is tried again"))
            text = f"cannot {what} {self.root}/{path}: {error.strerror}; {advice}"
            raise ApplyError(reason, text) from error

    @contextmanager
    def _root(self) -> Iterator[int]:
        if not self.root.is_dir():
            self.root.mkdir(parents=True, exist_ok=True)
            with _opened(self.root.parent, _DIRECTORY & ~os.O_NOFOLLOW) as parent:
                self._sync(parent)
        with _opened(self.root, _DIRECTORY & ~os.O_NOFOLLOW) as descriptor:
            yield descriptor

    @contextmanager
    def _directory(self, path: TreePath, *, make: bool) -> Iterator[int]:
        with self._walk(path.directory, make=make) as descriptor:
            yield descriptor

    @contextmanager
    def _walk(self, parts: Parts, *, make: bool) -> Iterator[int]:
        """The directory at `parts`, reached without following a symlink."""
        opener = self._root() if make else _opened(self.root, _DIRECTORY & ~os.O_NOFOLLOW)
        with opener as root:
            current = os.dup(root)
            try:
                for part in parts:
                    below = self._enter(current, part, make=make)
                    os.close(current)
                    current = below
                yield current
            finally:
                os.close(current)

    def _enter(self, directory: int, name: str, *, make: bool) -> int:
        try:
            return os.open(name, _DIRECTORY, dir_fd=directory)
        except FileNotFoundError:
            if not make:
                raise
        os.mkdir(name, 0o755, dir_fd=directory)
        self._sync(directory)
        return os.open(name, _DIRECTORY, dir_fd=directory)

    def _replace_at(self, directory: int, name: str, content: bytes) -> None:
        """Put `content` in the place of `name`; the directory is not synced."""
        try:
            descriptor = _open_temporary(directory)
            with open(descriptor, "wb", buffering=0) as file:
                _write_all(file.fileno(), content)
                self._sync(descriptor)
            os.rename(TEMPORARY, name, src_dir_fd=directory, dst_dir_fd=directory)
        except OSError:
            _drop_temporary(directory)
            raise

    def _overwrite_at(self, directory: int, name: str, content: bytes) -> None:
        """Put `content` into the file `name`, which is there."""
        descriptor = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        with open(descriptor, "wb", buffering=0):
            _write_all(descriptor, content)
            os.ftruncate(descriptor, len(content))
            self._sync(descriptor)

    def _unlink(self, directory: int, path: TreePath) -> None:
        try:
            if stat.S_ISDIR(os.stat(path.file, dir_fd=directory, follow_symlinks=False).st_mode):
                return  # somebody's directory, no file of ours
            os.unlink(path.file, dir_fd=directory)
        except FileNotFoundError:
            pass
        self._sync(directory)
        self._prune(path)

    def _prune(self, path: TreePath) -> None:
        """Take away the directories of `path` that are empty now. Only tidiness: may fail."""
        for parts in (path.directory, (path.kind,)):
            try:
                with self._walk(parts[:-1], make=False) as above:
                    os.rmdir(parts[-1], dir_fd=above)
            except OSError:
                return


@contextmanager
def _opened(path: str | Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _read_at(directory: int, name: str) -> bytes | None:
    try:
        with regular_file(name, follow=False, directory=directory) as file:
            if file is None or os.fstat(file.fileno()).st_size > MAX_FILE:
                return None
            return file.read(MAX_FILE)
    except OSError as error:
        # ENXIO: a socket. ELOOP: a symlink, which is no file of ours.
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO):
            return None
        raise


def _open_temporary(directory: int) -> int:
    try:
        return os.open(TEMPORARY, _WRITE, 0o644, dir_fd=directory)
    except FileExistsError:  # a crash left it
        _drop_temporary(directory)
        return os.open(TEMPORARY, _WRITE, 0o644, dir_fd=directory)


def _write_all(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _drop_temporary(directory: int) -> None:
    try:
        os.unlink(TEMPORARY, dir_fd=directory)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EROFS, errno.EACCES):
            log.debug("temporary file stays", error=error.strerror)


def _names(directory: int) -> list[str]:
    return sorted(name for name in os.listdir(directory) if not name.startswith("."))
