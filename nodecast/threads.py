"""Threads that end their process when something nobody foresaw ends them.

What always holds: a thread of ours never dies in silence. It is made by `supervised`, has a name,
and an error that leaves its function goes to `fail`, which hands it to the main thread and wakes
it; the main thread raises it, so that the process leaves in order and whoever supervises it starts
it again. This is the top of every thread but the main one, whose top is `nodecast.command`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from nodecast.errors import NodecastError, ThreadDied
from nodecast.log import logger

log = logger(__name__)

Fail = Callable[[NodecastError], None]
"""Takes the error that ended a thread, in that thread: hand it over and wake the main thread."""


def supervised(name: str, run: Callable[[], None], fail: Fail) -> threading.Thread:
    """A daemon thread, yet to be started, that runs `run` once.

    `fail` gets a NodecastError as it is, since it says all itself; any other error is logged with
    its traceback and comes as ThreadDied.
    """

    def top() -> None:
        try:
            run()
        except NodecastError as error:
            fail(error)
        except BaseException as error:  # noqa: BLE001 - the top; Python ignores SystemExit here
            log.crash("thread died", thread=name)
            died = ThreadDied(f"the thread {name!r} died: see the error above")
            died.__cause__ = error
            fail(died)

    return threading.Thread(target=top, name=name, daemon=True)


def sleep(seconds: float) -> None:
    """Wait, by the monotonic clock. Under libfaketime, which fakes the time of day alone, the
    standard library's `time.sleep` fails with EINVAL."""
    threading.Event().wait(seconds)
