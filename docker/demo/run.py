"""The demo: a broker, a bridge and two agents on this machine; a live table, or steps to an end.

`run.py` shows nodes, resources and model ops as they change, and says which files to edit.
`run.py --once` edits them itself, checks at the agents what comes of it, and exits 0 or 1. All of
it lives in a temporary directory; when the demo ends, however it ends, nothing is left running.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from live import show
from nodecast.log import set_up
from stage import Stage
from steps import Walk
from waiting import DemoFailed, Interrupted, Waits

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_INTERRUPTED = 130
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> int:
    """Run the demo; the exit code."""
    parser = argparse.ArgumentParser(description="nodecast on one machine, with three nodes.")
    parser.add_argument("--once", action="store_true", help="go through all steps, and end")
    once = parser.parse_args().once
    waits = Waits()
    with _signals(waits), tempfile.TemporaryDirectory(prefix="nodecast-demo-") as directory:
        try:
            return _run(Path(directory), waits, once)
        except Interrupted:
            print("\ninterrupted", file=sys.stderr)
            return EXIT_INTERRUPTED if once else EXIT_OK
        except DemoFailed as error:
            print(f"the demo failed: {error}", file=sys.stderr)
            return EXIT_FAILED


def _run(directory: Path, waits: Waits, once: bool) -> int:
    with (directory / "observer.log").open("w") as log:
        set_up(stream=log)  # the terminal is for the table and the steps
        stage = Stage(directory, waits)
        try:
            with stage:
                if once:
                    _walk(Walk(stage))
                else:
                    show(stage)
        except DemoFailed:
            print(stage.logs(), file=sys.stderr)
            raise
    return EXIT_OK


def _walk(walk: Walk) -> None:
    started = time.monotonic()
    steps = walk.steps()
    for number, step in enumerate(steps, 1):
        print(f"{number:>2}/{len(steps)}  {step.title:<76}", end="", flush=True)
        try:
            took = walk.run(step)
        except DemoFailed:
            print("  FAILED", flush=True)
            raise
        print(f"  {took:5.1f} s", flush=True)
    print(f"all {len(steps)} steps came out as expected, in {time.monotonic() - started:.0f} s")


@contextmanager
def _signals(waits: Waits) -> Iterator[None]:
    """Signals end the waiting; the way out is taken with none of them in between."""

    def handle(number: int, frame: FrameType | None) -> None:
        del number, frame
        waits.interrupt()

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(main())
