"""Where the bridge's API is: the path of its socket, and how it is opened.

What always holds: only the user of the bridge may connect (mode 0600); what is no socket, and a
socket that somebody listens on, is left alone; one that a killed process left is replaced. Two
bridges that start at the same moment may take the path from each other: who finds that it is not
its own any more (`Opened.in_place`) opens it anew, and then finds the other one.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nodecast.errors import ApiError

MAX_PATH = 107
"""Bytes of the longest path that a Unix socket can have (unix(7): 108 with the NUL)."""
SYSTEM = Path("/run/nodecast-bridge")
"""What systemd makes for the unit, and root for itself."""
_PROBE = 2.0
"""Seconds: who takes a connection that late does listen."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A listening socket and the file that it is."""

    socket: socket.socket
    path: Path
    file: tuple[int, int]
    """Device and inode."""

    @property
    def in_place(self) -> bool:
        """Whether the path still leads here."""
        return _file(self.path) == self.file

    def remove(self) -> None:
        """Close it, and take its file away. One that may not be removed stays: it is replaced when
        a bridge starts there."""
        self.socket.close()
        if self.in_place:
            with suppress(OSError):
                self.path.unlink()


def socket_path(
    setting: str | None, bridge: str, environ: Mapping[str, str], uid: int
) -> Path | None:
    """Where the bridge of that name listens, run by that user; None: there is no place for it."""
    if setting is not None:
        return Path(setting)
    # systemd may name several, with colons: systemd.exec(5).
    if given := environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]:
        directory = Path(given)
    elif uid == 0:
        directory = SYSTEM
    elif user := environ.get("XDG_RUNTIME_DIR"):
        directory = Path(user) / "nodecast-bridge"
    else:
        return None
    return directory / f"{bridge}.sock"


def client_paths(
    setting: str | None, bridge: str, environ: Mapping[str, str], uid: int
) -> tuple[Path, ...]:
    """Where to look for that bridge: this user's place, then the system's, unless it is said."""
    own = socket_path(setting, bridge, environ, uid)
    if own is not None and (setting is not None or environ.get("RUNTIME_DIRECTORY")):
        return (own,)
    return tuple(dict.fromkeys(filter(None, (own, SYSTEM / f"{bridge}.sock"))))


def check_path(path: str) -> None:
    """Whether a socket can have this path. Raises ApiError, whose text begins with the path."""
    if not path.startswith("/") or "\0" in path:
        raise ApiError(f"{path!r} is not an absolute path")
    if (size := len(os.fsencode(path))) > MAX_PATH:
        raise ApiError(
            f"{path!r} has {size} bytes: the path of a Unix socket has at most {MAX_PATH}"
        )


def open_socket(path: Path) -> Opened:
    """Listen at `path`; its directory is made if the one above it is there. Raises ApiError."""
    try:
        check_path(str(path))
    except ApiError as error:
        raise ApiError(f"the API's socket {error}; set api.socket") from error
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        _clear(path)
        return _listen(path)
    except OSError as error:
        raise ApiError(
            f"the API's socket {path} cannot be opened: {error.strerror or error}; set api.socket"
            " to a path that this user can write to"
        ) from error


def _listen(path: Path) -> Opened:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        os.fchmod(listener.fileno(), 0o600)  # before bind: the file is never open to others
        listener.bind(str(path))
        listener.listen()
        found = _file(path)
    except BaseException:
        listener.close()
        raise
    if found is None:
        listener.close()
        raise ApiError(f"the API's socket {path} was taken away as it was opened")
    return Opened(listener, path, found)


def _clear(path: Path) -> None:
    """Remove what a killed process left. Raises ApiError, OSError."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ApiError(f"{path} is there and no socket: set api.socket to another path")
    if _listened_on(path):
        raise ApiError(
            f"another process listens on the API's socket {path}: give this bridge a name or an"
            " api.socket of its own, or stop the other"
        )
    path.unlink(missing_ok=True)


def _listened_on(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as probe:
        probe.settimeout(_PROBE)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except (BlockingIOError, TimeoutError):  # the queue of who listens is full
            return True
        return True


def _file(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
