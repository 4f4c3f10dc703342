"""File systems of a test's own: small ones that can be filled, and mounts over a path.

Mounting needs root with the right to mount. Where that is missing (`mounted` gives False, a
`SmallDisk` is not `real`) the same error comes from elsewhere: a process whose file size limit is
zero (RLIMIT_FSIZE) can write to no file, just as on a disk that takes nothing.
"""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_BLOCK = bytes(4096)


@contextmanager
def mounted(target: Path, *arguments: str) -> Iterator[bool]:
    """`mount <arguments> <target>` for the length of a `with`; False where it is not permitted.

    A process of its own takes it away when its input ends: also where the tests are killed.
    """
    done = subprocess.run(
        ["mount", *arguments, str(target)], capture_output=True, check=False, timeout=30
    )
    if done.returncode != 0:
        yield False
        return
    keeper = subprocess.Popen(
        ["sh", "-c", 'read line; exec umount -l "$0"', str(target)],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield True
    finally:
        keeper.communicate(timeout=30)
        assert keeper.returncode == 0, f"{target} stays mounted"


def remount(target: Path, options: str) -> None:
    """Change the options of a mount: `ro`, `rw`."""
    subprocess.run(["mount", "-o", f"remount,{options}", str(target)], check=True, timeout=30)


def take_nothing(pid: int) -> None:
    """From now on the process can make no file longer than it is, and write nothing into one."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, hard))


def take_all(pid: int) -> None:
    """The end of `take_nothing`."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))


class SmallDisk:
    """The file system at `path`, where `real`; it is filled for the processes that are named."""

    def __init__(self, path: Path, *, real: bool) -> None:
        self.path = path
        self.real = real

    def fill(self, pid: int, *, files: bool = False) -> None:
        """Leave no room, or with `files` no inode, until `free`. `pid` 0: of no process yet."""
        if not self.real:
            if pid:
                take_nothing(pid)
        elif files:
            self._fill_with_files()
        else:
            self._fill()

    def free(self, pid: int) -> None:
        """Give back what `fill` took."""
        if not self.real:
            if pid:
                take_all(pid)
            return
        for path in self.path.glob(".filler*"):
            path.unlink()

    def _fill(self) -> None:
        with (self.path / ".filler").open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(_BLOCK)

    def _fill_with_files(self) -> None:
        with suppress(OSError):
            for number in range(1_000_000):
                (self.path / f".filler{number}").touch()


@contextmanager
def small_disk(path: Path, *, megabytes: int = 6, files: int = 0) -> Iterator[SmallDisk]:
    """A disk of so many megabytes, and so many inodes where given, at the new directory `path`."""
    path.mkdir(parents=True)
    options = f"size={megabytes}m,nr_inodes={files},mode=0755"
    with mounted(path, "-t", "tmpfs", "-o", options, "none") as real:
        yield SmallDisk(path, real=real)
