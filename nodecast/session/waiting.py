"""Sleep until the broker's socket, a wake-up from another thread, or a time.

A pair of sockets is the wake-up: `poke` may be called from any thread and from a signal handler,
before, while or after somebody waits, and even after `close`. Everything else belongs to one
owner thread.
"""

from __future__ import annotations

import math
import select
import socket
from typing import NamedTuple

_LONGEST = 3600.0


class Ready(NamedTuple):
    """What a wait ended with; all False: the time was over."""

    readable: bool
    writable: bool


class Waiter:
    """Waits on at most one socket besides the wake-up."""

    __slots__ = ("_fd", "_inside", "_mask", "_outside", "_poller", "_poller_wake")

    def __init__(self) -> None:
        self._inside, self._outside = socket.socketpair()
        self._inside.setblocking(False)
        self._outside.setblocking(False)
        self._poller_wake = self._inside.fileno()
        self._poller = select.poll()
        self._poller.register(self._poller_wake, select.POLLIN)
        self._fd = -1
        self._mask = 0

    def watch(self, fd: int) -> None:
        """Wait on this socket from now on, in place of the one before."""
        self.unwatch()
        self._poller.register(fd, select.POLLIN)
        self._fd, self._mask = fd, select.POLLIN

    def unwatch(self) -> None:
        """Forget the socket, open or closed: its number may be another file's by now."""
        if self._fd >= 0:
            self._poller.unregister(self._fd)
            self._fd = -1

    def wait(self, seconds: float, to_write: bool) -> Ready:
        """Wait at most `seconds`, `to_write`: also until the socket takes more bytes."""
        self._set_mask(select.POLLIN | select.POLLOUT if to_write else select.POLLIN)
        wait = math.ceil(min(max(seconds, 0.0), _LONGEST) * 1000)
        readable = writable = False
        for fd, events in self._poller.poll(wait):
            if fd == self._poller_wake:
                self._drain()
            else:
                writable = bool(events & select.POLLOUT)
                readable = bool(events & ~select.POLLOUT)
        return Ready(readable, writable)

    def poke(self) -> None:
        """End the wait of now, or the next one."""
        try:
            self._outside.send(b".")
        except OSError:
            pass  # full: a wake-up is pending already; closed: nobody waits any more

    def close(self) -> None:
        self.unwatch()
        self._inside.close()
        self._outside.close()

    def _set_mask(self, mask: int) -> None:
        if self._fd >= 0 and mask != self._mask:
            self._poller.modify(self._fd, mask)
            self._mask = mask

    def _drain(self) -> None:
        try:
            while self._inside.recv(4096):
                pass
        except BlockingIOError:
            pass  # drained
