"""The files of a directory of manifests, and their bytes.

Files named `*.yaml`, `*.yml` and `*.json` count, in the directory and in those below it. What
starts with `.` or `#` does not: a ConfigMap mount keeps its versions in `..data`, editors their
leftovers.
Links are followed, also to directories; one that leads to where it stands or above is not, and no
directory is entered twice, so links that loop end. Pure but for the file system; no thread.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from bridge.sources.documents import MAX_BYTES
from nodecast.errors import DocumentError
from nodecast.regular import regular_file

_SUFFIXES = (".yaml", ".yml", ".json")
_GONE = (errno.ENOENT, errno.ENOTDIR)
# Of the file system itself where the directory is a mount, and closed to all but root.
_NOT_OURS = frozenset({"lost+found"})


@dataclass(frozen=True, slots=True)
class Tree:
    """One walk. `files`: by place, which is the path below the directory.

    `unlisted`: why, by place of the directories below that could not be listed. `vanished`: places
    of those that went, or were renamed, while the walk was under way.
    """

    files: dict[str, Path] = field(default_factory=dict)
    unlisted: dict[str, str] = field(default_factory=dict)
    vanished: set[str] = field(default_factory=set)


def walk(directory: Path) -> Tree:
    """Find all files. Raises OSError when `directory` itself cannot be listed."""
    tree = Tree()
    seen: set[tuple[int, int]] = set()
    waiting = [directory]
    while waiting:
        path = waiting.pop(0)
        try:
            status = os.stat(path)
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            below, files = _entries(path)
        except OSError as error:
            if path == directory:
                raise
            if is_gone(path):
                tree.vanished.add(_place(directory, path))
            else:
                tree.unlisted[_place(directory, path)] = error.strerror or str(error)
            continue
        waiting += below
        tree.files.update((_place(directory, file), file) for file in files)
    return tree


def directories_below(directory: Path) -> Iterable[Path]:
    """Those directly below `directory` that `walk` would enter. Raises OSError."""
    return _entries(directory)[0]


def read_bytes(path: Path) -> bytes:
    """The content of a file. Raises OSError, and DocumentError for what is not read at all."""
    with regular_file(path) as file:
        if file is None:
            raise DocumentError("is no regular file")
        data: bytes | None = file.read(MAX_BYTES + 1)
    if data is None:  # it would have to wait: some files of the kernel's are like that
        raise DocumentError("gives nothing to read without waiting")
    if len(data) > MAX_BYTES:
        raise DocumentError(f"is larger than {MAX_BYTES} bytes; split it")
    return data


def is_gone(path: Path) -> bool:
    """Nothing has this name any more, not even a link that leads nowhere."""
    try:
        os.lstat(path)
    except OSError as error:
        return error.errno in _GONE
    return False


def _entries(directory: Path) -> tuple[list[Path], list[Path]]:
    """(directories, files) directly below, by name. Raises OSError."""
    below, files = [], []
    with os.scandir(directory) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.name.startswith((".", "#")) or entry.name in _NOT_OURS:
                continue
            if _is_directory(entry):
                if not (entry.is_symlink() and _leads_up(entry.path, directory)):
                    below.append(Path(entry.path))
            elif entry.name.lower().endswith(_SUFFIXES):
                files.append(Path(entry.path))
    return below, files


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError as error:
        # It cannot be said what the link leads to: whoever tries to read it, as what its name
        # says, gets the reason. A link to itself is nothing.
        return error.errno != errno.ELOOP and not entry.name.lower().endswith(_SUFFIXES)


def _leads_up(link: str, directory: Path) -> bool:
    """Whether following `link` would read what stands beside or above the manifests."""
    target = os.path.realpath(link)
    return Path(os.path.realpath(directory)).is_relative_to(target)


def _place(directory: Path, path: Path) -> str:
    """As people see it: bytes that are no text are escaped."""
    return os.fsencode(path.relative_to(directory)).decode(errors="backslashreplace")
