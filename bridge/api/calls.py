"""Calls from other threads to the loop that owns the core: made there, one after the other.

Any thread submits, and waits for the future with a time limit of its own; a call that was cancelled
before the loop came to it is never made. The loop calls `work` at each turn: it waits for nothing,
and makes calls for a slice of time, so that many of them delay the core little.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from nodecast.errors import ApiError, NodecastError

T = TypeVar("T")

_SLICE = 0.05
"""Seconds of one turn of the loop that calls may take; the last one may go over it."""


class Calls:
    """`wake` makes the loop come round, from any thread."""

    def __init__(
        self, wake: Callable[[], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._wake = wake
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._closed = ""

    def submit(self, function: Callable[[], T]) -> Future[T]:
        """Have the loop call `function`. The future holds its result, or the NodecastError that it
        raised; ApiError once the loop takes no more calls."""
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                future.set_exception(ApiError(self._closed))
                return future
            self._waiting.append((future, function))
        self._wake()
        return future

    def work(self) -> None:
        """The loop's thread: make the calls that wait. Whatever a call raises that is no
        NodecastError goes on to the loop."""
        until = self._clock() + _SLICE
        while (call := self._next()) is not None:
            future, function = call
            if future.set_running_or_notify_cancel():
                _make(future, function)
            if self._clock() >= until:
                break
        if self._waiting:
            self._wake()

    def close(self, reason: str) -> None:
        """Answer what waits, and all that comes, with ApiError."""
        with self._lock:
            self._closed = reason
        while (call := self._next()) is not None:
            if call[0].set_running_or_notify_cancel():
                call[0].set_exception(ApiError(reason))

    def _next(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        with self._lock:
            return self._waiting.popleft() if self._waiting else None


def _make(future: Future[T], function: Callable[[], T]) -> None:
    try:
        result = function()
    except NodecastError as error:
        future.set_exception(error)
    except BaseException as error:
        future.set_exception(error)
        raise
    else:
        future.set_result(result)
