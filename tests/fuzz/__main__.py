"""`python -m tests.fuzz [TARGET…] [--seconds N] [--seed N]`, or `TARGET --input HEX`."""

from __future__ import annotations

import argparse
import faulthandler
import logging
import resource
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.fuzz.search import TARGETS, Finding, Search

_MEMORY = 4 << 30
"""Bytes of the whole process: an input of 200 kB that needs more is a finding (MemoryError)."""
_HANGS = 120.0
"""Seconds: a case that takes longer ends the run, and says where it is."""


def main() -> int:
    """The exit code: 0, or 1 where anything was found."""
    options = _options()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    logging.disable(logging.CRITICAL)  # what is refused is warned of
    with tempfile.TemporaryDirectory(prefix="fuzz-") as directory:
        if options.input is not None:
            TARGETS[options.targets[0]].open(Path(directory))(bytes.fromhex(options.input))
            return 0
        share = options.seconds / len(options.targets)
        found = [_search(name, options.seed, share, Path(directory)) for name in options.targets]
    return 1 if any(found) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=float, default=300, help="for all targets together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--input", help="try this input alone, in hex")
    options = parser.parse_args()
    if unknown := set(options.targets) - set(TARGETS):
        parser.error(f"{', '.join(sorted(unknown))}: the targets are {', '.join(TARGETS)}")
    if options.input is not None and len(options.targets) != 1:
        parser.error("--input needs one target")
    options.targets = options.targets or list(TARGETS)
    return options


def _search(name: str, seed: int, seconds: float, directory: Path) -> bool:
    """Try cases until the time is over; whether one was found."""
    place = directory / name
    place.mkdir()
    search = Search(name, seed, place)
    end, number = time.monotonic() + seconds, 0
    print(f"{name}: seed {seed}, {seconds:.0f} s; what is read: {place}/input", flush=True)
    while time.monotonic() < end:
        faulthandler.dump_traceback_later(_HANGS, exit=True)
        try:
            search.attempt(number)
        except Finding as finding:
            traceback.print_exception(finding.__cause__)
            print(finding)
            return True
        finally:
            faulthandler.cancel_dump_traceback_later()
        number += 1
    print(f"{name}: {number} cases, nothing found")
    return False


if __name__ == "__main__":
    sys.exit(main())
