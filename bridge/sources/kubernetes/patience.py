"""Calls that may never return, given up after a time: a kubeconfig may name a program to log in,
and the official client waits for it without a limit.

Each call is made in a daemon thread `login`, which stays behind where it is given up. While one is,
no other is made: a program that hangs is started once, and once it has ended all goes on. Whoever
calls waits, but never longer than the limit.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from nodecast.threads import supervised

T = TypeVar("T")


class Overdue(TimeoutError):
    """There was no end within the limit, or one that was given up still runs."""


class Patience:
    """Waits at most `limit` seconds for a call; several callers wait for each other. Any thread."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._left_behind: queue.SimpleQueue[Any] | None = None

    def call(self, function: Callable[[], T], *expected: type[Exception]) -> T:
        """What `function` gives. Raises what it raises of `expected`, and Overdue.

        Any other error of it is raised as ThreadDied.
        """
        with self._lock:
            if self._left_behind is not None and self._left_behind.empty():
                raise Overdue("the program that logs in still runs: see what keeps it")
            self._left_behind = None
            ends = _begin(function, expected)
            try:
                end = ends.get(timeout=self._limit)
            except queue.Empty:
                self._left_behind = ends
                raise Overdue(
                    f"the program that logs in has not ended within {self._limit:g} s:"
                    " run it by hand"
                ) from None
        return end()


def _begin(
    function: Callable[[], T], expected: tuple[type[Exception], ...]
) -> queue.SimpleQueue[Callable[[], T]]:
    """Where the end of the call will be: a function that gives its value, or raises its error."""
    ends: queue.SimpleQueue[Callable[[], T]] = queue.SimpleQueue()

    def fail(error: Exception) -> None:
        def again() -> T:
            raise error

        ends.put(again)

    def run() -> None:
        try:
            value = function()
        except expected as error:
            fail(error)
        else:
            ends.put(lambda: value)

    supervised("login", run, fail).start()
    return ends
