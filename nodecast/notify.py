"""Tells systemd how the service is: ready, alive, stopping (sd_notify(3)).

One datagram a word, to the socket that systemd names in NOTIFY_SOCKET; where it names none, nothing
happens. The protocol is one `sendto`, stable by systemd's own promise, so it is written here: a
package for it would be larger than this module.

`alive` belongs into the loop that does the work, and nowhere else: a watchdog fed by a thread of
its own says only that this thread lives. One owner thread; nothing here blocks, and nothing raises:
what cannot be said is logged, and systemd's own time limits judge.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping

from nodecast.log import logger

log = logger(__name__)

_RETRY = 1.0
_LONGEST = 3000
"""Bytes of a status: systemd ignores a datagram of 4096 as a whole."""


class Notifier:
    """Speaks to `address` (a path, or `@name` in the abstract namespace; None: to nobody).

    `watchdog` is systemd's limit in seconds between two signs of life; None: it wants none.
    """

    def __init__(
        self,
        address: str | None,
        watchdog: float | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._address = address
        self._pause = None if watchdog is None or address is None else watchdog / 3
        self._clock = clock
        self._due = float("-inf")
        self._failed = False

    @classmethod
    def from_environment(
        cls,
        environ: Mapping[str, str] = os.environ,
        *,
        pid: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> Notifier:
        """As NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID say for the process `pid` (this one)."""
        address = environ.get("NOTIFY_SOCKET") or None
        if address and address[0] not in "/@":
            log.warning("NOTIFY_SOCKET is neither a path nor @name: not used", value=address)
            address = None
        watchdog = _watchdog(environ, os.getpid() if pid is None else pid)
        return cls(address, watchdog, clock=clock)

    @property
    def heard(self) -> bool:
        """Whether there is anybody to tell."""
        return self._address is not None

    def ready(self, status: str = "") -> None:
        """The service does its work from now on; units ordered after it may start."""
        self._send("READY=1", status)

    def stopping(self, status: str = "") -> None:
        """The service ends; no sign of life is expected but its exit."""
        self._send("STOPPING=1", status)

    def status(self, text: str) -> None:
        """One line for people, shown by `systemctl status`."""
        self._send("", text)

    def alive(self) -> None:
        """Call at every turn of the working loop; a sign goes out at a third of the limit."""
        if self._pause is None or self._clock() < self._due:
            return
        sent = self._send("WATCHDOG=1", "")
        # Soon again after a failure, but never at once: the loop waits for `pause`.
        self._due = self._clock() + (self._pause if sent else min(_RETRY, self._pause))

    @property
    def pause(self) -> float | None:
        """How long, in seconds, the loop may wait until `alive` is due; None: for ever."""
        return None if self._pause is None else max(0.0, self._due - self._clock())

    def _send(self, word: str, status: str) -> bool:
        if self._address is None:
            return False
        # A line break would begin another assignment.
        text = " ".join(status.split()).encode()[:_LONGEST].decode(errors="ignore")
        lines = [line for line in (word, text and f"STATUS={text}") if line]
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
                out.setblocking(False)
                out.sendto("\n".join(lines).encode(), _socket_address(self._address))
        except OSError as error:
            if not self._failed:
                log.warning("systemd cannot be told", word=word or "STATUS", reason=error)
            self._failed = True
            return False
        self._failed = False
        return True


def _socket_address(name: str) -> str:
    return "\0" + name[1:] if name.startswith("@") else name


def _watchdog(environ: Mapping[str, str], pid: int) -> float | None:
    """The limit in seconds, or None where none is set, or it is meant for another process."""
    limit, meant_for = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    if not limit or meant_for not in ("", str(pid)):
        return None
    if not limit.isdecimal() or int(limit) == 0:
        log.warning("WATCHDOG_USEC is no number of microseconds: not used", value=limit)
        return None
    return int(limit) / 1_000_000
