"""Waiting until what is there is what was expected, with a time limit.

A check says what differs, or None where nothing does, so that a failure can say what was expected
and what is there. A signal ends every wait: it only sets a flag, so that it never comes between
the start of a process and the note that it runs. The main thread only.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Protocol

_EVERY = 0.05

Difference = str | None
"""What differs from what was expected; None: nothing."""


class DemoFailed(Exception):
    """The demo cannot go on, or a step has not come out as expected; the text says how."""


class Interrupted(Exception):
    """Somebody wants the demo to end."""


class Watched(Protocol):
    """Something that must go on while we wait."""

    def check(self) -> None:
        """Raise DemoFailed when it does not."""


class Waits:
    """All waiting of the demo; `interrupt` ends it, from a signal handler."""

    def __init__(self) -> None:
        self._interrupted = threading.Event()

    def interrupt(self) -> None:
        """Let the wait that is under way, and every later one, raise Interrupted."""
        self._interrupted.set()

    def pause(self, seconds: float) -> None:
        """Let `seconds` pass. Raises Interrupted."""
        if self._interrupted.wait(seconds):
            raise Interrupted

    def until(
        self, check: Callable[[], Difference], within: float, watched: Iterable[Watched] = ()
    ) -> None:
        """Call `check` until nothing differs.

        Raises DemoFailed after `within` seconds with what differs still, and at once when one of
        `watched` has failed; Interrupted.
        """
        watched = list(watched)
        deadline = time.monotonic() + within
        while (difference := check()) is not None:
            for each in watched:
                each.check()
            if time.monotonic() >= deadline:
                raise DemoFailed(f"not within {within:g} s:\n{difference}")
            self.pause(_EVERY)
