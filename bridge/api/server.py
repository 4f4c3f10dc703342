"""The thread that serves the API: it opens the socket, and runs uvicorn on it.

The bridge serves its nodes without an API too: a socket that cannot be opened is a warning, and
tried again after a pause that grows; one that somebody took away is opened anew. uvicorn has no
signal handlers outside the main thread, and logs errors alone, through the log of the process. A
connection gets one answer and is closed: a body that nobody reads keeps none open.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from bridge.api.place import Opened, open_socket
from nodecast.backoff import Backoff
from nodecast.errors import ApiError
from nodecast.log import Repeats, logger
from nodecast.threads import Fail, supervised

log = logger(__name__)

_AGAIN = Backoff(first=1.0, most=60.0)
_LOOK = 5
"""Seconds between two looks whether the socket is still in its place."""
_AT_ONCE = 512
"""Connections; a further one is told to come later. Each takes a file descriptor."""
_GRACE = 1
"""Seconds that answers under way have when the bridge stops."""


class ApiServer:
    """See the module. `application` is made in its thread; `fail` as `supervised` has it."""

    def __init__(
        self,
        application: Callable[[], Starlette],
        path: Path,
        fail: Fail,
        *,
        rng: random.Random,
    ) -> None:
        self._application = application
        self._path = path
        self._rng = rng
        self._said = Repeats()
        self._stopping = threading.Event()
        self._server: uvicorn.Server | None = None
        self._thread = supervised("api", self._run, fail)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Take no more requests; `join` waits until those under way are answered."""
        self._stopping.set()
        if self._server is not None:
            self._server.should_exit = True

    def join(self, timeout: float) -> None:
        """Wait for the end of the thread, `timeout` seconds at the most."""
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _run(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            failures = 0 if self._once() else failures + 1
            if failures:
                self._stopping.wait(_AGAIN.pause(failures, self._rng))

    def _once(self) -> bool:
        """Serve until the end, or until the socket is not in its place; whether it was opened."""
        try:
            opened = open_socket(self._path)
        except ApiError as error:
            self._say_none(str(error))
            return False
        try:
            asyncio.run(self._serve(opened))
        except OSError as error:  # no file descriptor is left, for one
            self._say_none(f"{self._path} cannot be served: {error.strerror or error}")
            return False
        finally:
            opened.remove()
        return True

    def _say_none(self, reason: str) -> None:
        if self._said.new("opening", reason):
            log.warning(
                "no API: nodes are served all the same, commands that need it are not",
                reason=reason,
            )

    async def _serve(self, opened: Opened) -> None:
        async def look() -> None:
            if not opened.in_place:
                log.warning("the API's socket was taken away: opened anew", socket=str(opened.path))
                server.should_exit = True

        server = uvicorn.Server(
            uvicorn.Config(
                self._application(),
                http="h11",
                ws="none",
                loop="asyncio",
                lifespan="off",
                log_config=None,
                log_level="error",
                access_log=False,
                proxy_headers=False,
                server_header=False,
                headers=[("Connection", "close")],
                limit_concurrency=_AT_ONCE,
                timeout_graceful_shutdown=_GRACE,
                callback_notify=look,
                timeout_notify=_LOOK,
            )
        )
        self._said.over("opening")
        log.info("API opened", socket=str(self._path))
        self._server = server
        if not self._stopping.is_set():
            await server.serve([opened.socket])
