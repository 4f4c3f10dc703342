"""A process one of whose threads is to die when the test says so: see `sabotage/`."""

from __future__ import annotations

from pathlib import Path

from tests.support.process import Process

_HERE = Path(__file__).parent / "sabotage"
_ROOT = Path(__file__).parents[2]
WITHIN = 60.0
"""Seconds for a process to end: far above what it takes."""


class Sabotage:
    """For `process`, before it starts: the thread whose name begins with `thread`."""

    def __init__(self, process: Process, thread: str, directory: Path) -> None:
        self._process = process
        self._thread = thread
        self._file = directory / "sabotage"
        process.variables |= {
            "PYTHONPATH": f"{_HERE}:{_ROOT}",
            "SABOTAGE": f"{thread}:{self._file}",
        }

    def strike(self) -> None:
        """From now on the thread dies in whatever it does next."""
        self._file.touch()

    def ends_the_process(self) -> None:
        """Wait for its end: it says the error, with its traceback, and which thread it was."""
        assert self._process.wait(WITHIN) == 1
        log = self._process.log
        assert "thread died" in log
        assert "Traceback (most recent call last)" in log
        assert "Sabotage: by the test" in log
        last = log.splitlines()[-1]
        assert f"the thread '{self._thread}" in last
        assert "died: see the error above" in last
