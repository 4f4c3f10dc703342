"""What the loop does at each turn for those outside: systemd hears that it lives and how it is,
and whoever asked over the API is answered.

The loop's thread calls everything here but the API's socket, which has a thread of its own. READY
is said once the process works, which needs no broker: one that is away is what `STATUS` is for, and
a unit that waited for it would be killed and started again to no purpose.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

from bridge.api.calls import Calls
from bridge.api.routes import Routes
from bridge.api.server import ApiServer
from bridge.standing import Standing
from bridge.status import line
from nodecast.log import logger
from nodecast.notify import Notifier
from nodecast.threads import Fail

log = logger(__name__)

_TELL = 1.0
"""Seconds between two looks whether systemd is to be told another line."""
_JOIN = 3.0


class Attendant:
    """See the module. `path` of the API's socket; None: there is no place for one."""

    def __init__(
        self,
        standing: Standing,
        path: Path | None,
        *,
        wake: Callable[[], None],
        fail: Fail,
        rng: random.Random,
        notifier: Notifier | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._standing = standing
        self._clock = clock
        self._notifier = notifier or Notifier.from_environment()
        self._calls = Calls(wake, clock)
        self._server: ApiServer | None = None
        if path is not None:
            routes = Routes(standing, self._calls)
            self._server = ApiServer(lambda: routes.application, path, fail, rng=rng)
        self._line = ""
        self._tell_at = 0.0

    def start(self) -> None:
        """The loop begins."""
        self._tell()
        self._notifier.ready()
        if self._server is not None:
            self._server.start()
        else:
            log.warning(
                "no API, so that no command can ask this bridge: there is no RUNTIME_DIRECTORY and"
                " no XDG_RUNTIME_DIR to put its socket in; set api.socket"
            )

    def attend(self) -> None:
        """One turn of the loop."""
        self._notifier.alive()
        self._calls.work()
        if self._notifier.heard and self._clock() >= self._tell_at:
            self._tell()

    def longest_wait(self, wait: float) -> float:
        """`wait`, or the seconds after which `attend` has to be called if that is less."""
        if not self._notifier.heard:
            return wait
        pause = self._notifier.pause
        return min(wait, _TELL, _TELL if pause is None else pause)

    def leave(self) -> None:
        """The bridge stops: answer what was asked, and take no more. `attend` goes on."""
        self._standing.stage = "stopping"
        self._notifier.stopping("stopping")
        self._calls.close("the bridge is stopping")
        if self._server is not None:
            self._server.stop()

    def close(self) -> None:
        """Wait for the API's end, seconds at the most."""
        if self._server is not None:
            self._server.join(_JOIN)

    def _tell(self) -> None:
        self._tell_at = self._clock() + _TELL
        if (text := line(self._standing.status())) != self._line:
            self._line = text
            self._notifier.status(text)
