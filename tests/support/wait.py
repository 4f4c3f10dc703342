"""Waiting on a condition with a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(
    condition: Callable[[], T], within: float = 20.0, *, every: float = 0.01, what: str = ""
) -> T:
    """Call `condition` until it gives something true, and return that.

    Raises AssertionError with `what` and the last value after `within` seconds.
    """
    deadline = time.monotonic() + within
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {within:g} s: {what or condition!r}, last: {value!r}")
        time.sleep(every)
