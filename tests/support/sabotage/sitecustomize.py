"""Python imports this before anything else in a process that has this directory on PYTHONPATH.

SABOTAGE names a thread and a file, with a colon between them: once the file is there, the thread
meets an error that nobody foresaw, in the next line of ours that it runs.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

from nodecast import threads

_VICTIM, _, _FILE = os.environ["SABOTAGE"].partition(":")
_OURS = tuple(f"{os.sep}{package}{os.sep}" for package in ("nodecast", "bridge", "agent"))
_supervised = threads.supervised


class Sabotage(Exception):
    """No code expects it."""


def _trace(frame: Any, _event: str, _argument: object) -> Any:
    if not any(package in frame.f_code.co_filename for package in _OURS):
        return None
    if os.path.exists(_FILE):
        raise Sabotage("by the test")
    return _trace


def _sabotaged(name: str, run: Callable[[], None], fail: threads.Fail) -> Any:
    def traced() -> None:
        sys.settrace(_trace)
        run()

    return _supervised(name, traced if name.startswith(_VICTIM) else run, fail)


threads.supervised = _sabotaged
