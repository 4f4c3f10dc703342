"""The clock of a process, set and set again while it runs, by Debian's faketime.

Only the time of day is false: the monotonic clock runs on, as it does on a machine whose clock is
set.
"""

from __future__ import annotations

import subprocess
from pathlib import Path


def _library() -> str:
    """The library that `faketime` loads into a process."""
    done = subprocess.run(
        ["faketime", "-f", "+0d", "env"],
        capture_output=True,
        check=True,
        encoding="utf-8",
        timeout=30,
    )
    (line,) = (each for each in done.stdout.splitlines() if each.startswith("LD_PRELOAD="))
    return line.removeprefix("LD_PRELOAD=")


class WallClock:
    """What the time is for the processes with these `variables` (of environment)."""

    def __init__(self, root: Path) -> None:
        self._file = root / "clock"
        self.variables = {
            "LD_PRELOAD": _library(),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        self.set("+0d")

    def set(self, time: str) -> None:
        """As faketime takes it: `+3650d` and `-2h` from the true time, `@1970-01-01 00:00:05`."""
        temporary = self._file.with_name("clock.new")
        temporary.write_text(time + "\n")
        temporary.replace(self._file)
