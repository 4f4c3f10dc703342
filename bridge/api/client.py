"""The commands' side of the bridge's API: one request, one answer, and no wait without a limit."""

from __future__ import annotations

import http.client
import os
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import msgspec

from bridge.kind_views import KindView
from bridge.status import Status
from nodecast.errors import ApiError, NoBridge
from nodecast.names import KindName

T = TypeVar("T")

WITHIN = 10.0
"""Seconds that an answer may take: a bridge gives its loop half of that."""
_LARGEST = 64 << 20
"""Bytes of an answer; what says more is no bridge."""


class _Problem(msgspec.Struct):
    detail: str


class Client:
    """Asks the bridge that listens at the first of `paths` that there is."""

    def __init__(self, paths: Sequence[Path], within: float = WITHIN) -> None:
        self._paths = paths
        self._within = within

    def status(self) -> Status:
        """How the bridge is. Raises NoBridge."""
        return self._ask("GET", "/v1/status", Status)

    def approve(self, kind: KindName) -> KindView:
        """The kind as it is after it. Raises NoBridge; ApiError where the bridge says no."""
        return self._ask("POST", f"/v1/kinds/{quote(kind)}/approve", KindView)

    @property
    def found(self) -> bool:
        """Whether there is anything to ask, alive or not."""
        return any(map(_may_be, self._paths))

    def _ask(self, method: str, target: str, answer: type[T]) -> T:
        path = next(filter(_may_be, self._paths), None)
        if path is None:
            where = " or ".join(map(str, self._paths)) or "api.socket, which is not set"
            raise NoBridge(
                f"no bridge answers: there is no {where}. Is it running on this machine, with this"
                " --bridge and --config? In a container, run this command there"
            )
        status, body = _exchange(path, method, target, self._within)
        try:
            if status == HTTPStatus.OK:
                return msgspec.json.decode(body, type=answer)
            problem = msgspec.json.decode(body, type=_Problem)
        except msgspec.DecodeError as error:
            raise NoBridge(
                f"what answers at {path} is no bridge of this release: {status}, {error}"
            ) from error
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise NoBridge(f"the bridge at {path}: {problem.detail}")
        raise ApiError(problem.detail)


def _may_be(path: Path) -> bool:
    """Whether anything is there, as far as this user may know."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except PermissionError:
        pass  # its directory is the bridge's own: connecting says so
    return True


class _Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket; `Host` is a formality."""

    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path
        self._opened: socket.socket | None = None
        self.overdue = False

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._opened = self.sock  # which the answer takes over
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))

    def cut(self) -> None:
        """Any thread: its time is over, also where a part comes now and then."""
        self.overdue = True
        if self._opened is not None:
            with suppress(OSError):  # it is closed already
                self._opened.shutdown(socket.SHUT_RDWR)


def _exchange(path: Path, method: str, target: str, within: float) -> tuple[int, bytes]:
    """(status code, body). Raises NoBridge."""
    connection = _Connection(path, within)
    limit = threading.Timer(within, connection.cut)
    limit.daemon = True
    limit.start()
    try:
        connection.request(method, target)
        answer = connection.getresponse()
        body = answer.read(_LARGEST)
        if connection.overdue:  # cut short, it may look whole
            raise TimeoutError
        return answer.status, body
    except PermissionError as error:
        raise NoBridge(
            f"the bridge at {path} may be asked by its own user and by root only: run this command"
            " as one of them"
        ) from error
    except (ConnectionRefusedError, FileNotFoundError) as error:
        raise NoBridge(
            f"no bridge answers at {path}: it was killed, or is about to start"
        ) from error
    except (OSError, http.client.HTTPException) as error:
        if connection.overdue or isinstance(error, TimeoutError):
            what = f"did not answer within {within:g} s: it hangs, or was stopped"
        else:
            what = f"broke off: {error!r}"
        raise NoBridge(f"the bridge at {path} {what}") from error
    finally:
        limit.cancel()
        connection.close()
