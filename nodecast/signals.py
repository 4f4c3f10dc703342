"""SIGTERM and SIGINT end a process in order: its loop is told, and leaves by itself. A second one
tells it to wait for nothing any more."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_on_signal(stop: Callable[[], None]) -> Iterator[None]:
    """Each SIGTERM and SIGINT calls `stop` while this lasts. The main thread only."""

    def handle(number: int, frame: FrameType | None) -> None:
        del number, frame
        stop()

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
