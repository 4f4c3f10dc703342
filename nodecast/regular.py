"""Reading what must be a regular file, whatever is in its place: a named pipe is not waited for,
and a directory costs no descriptor."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


@contextmanager
def regular_file(
    path: str | Path, *, follow: bool = True, directory: int | None = None
) -> Iterator[BufferedReader | None]:
    """The file at `path`, open; None: it is no regular one. `follow` symlinks, or raise OSError
    (ELOOP) for one; `directory`: the descriptor of the one that `path` is in.

    Raises OSError.
    """
    descriptor = os.open(path, _FLAGS | (0 if follow else os.O_NOFOLLOW), dir_fd=directory)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            yield None
            return
        with open(descriptor, "rb", closefd=False) as file:
            yield file
    finally:
        # Not by the file object: for a directory there is none, and nothing else would close it.
        os.close(descriptor)
