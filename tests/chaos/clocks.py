"""A wrong time of day for one process: what Python calls the time is moved, from its start on.

Not by libfaketime: it breaks `time.sleep` (EINVAL), and what fails then is no fault of a clock.
"""

from __future__ import annotations

from pathlib import Path

_MODULE = """\
import os
import time

_true, _off = time.time, float(os.environ["CHAOS_CLOCK"])
time.time = lambda: _true() + _off
"""


def wrong_clock(root: Path, seconds: float) -> dict[str, str]:
    """The variables of a Python process whose clock is off by that much."""
    directory = root / "clock"
    directory.mkdir(exist_ok=True)
    (directory / "sitecustomize.py").write_text(_MODULE)
    return {"PYTHONPATH": str(directory), "CHAOS_CLOCK": str(seconds)}
