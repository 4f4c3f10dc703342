"""How long the first list of a large fleet takes, and what the bridge's memory is then.

As a program (`python -m tests.bench.standing KUBECONFIG`) it is the bridge that is measured: for
each line that it reads it makes a new one, lists, and writes down what that took.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bridge.app import COLLECTOR
from nodecast.log import set_up
from tests.bench.apiserver import ApiServer
from tests.bench.inprocess import InProcess
from tests.bench.table import median, print_table

ROUNDS = 3
OBJECTS, NODES, MODELS = 100_000, 10_000, 1000
PADDING = 574
"""Characters that bring the resource of an object to 1.4 KB."""
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Standing(msgspec.Struct, frozen=True):
    """A bridge whose catalog stands. Bytes and seconds; `encoded`: of all resources together."""

    seconds: float
    processor: float
    resident: int
    peak: int
    objects: int
    nodes: int
    encoded: int


@dataclass(frozen=True)
class _Round:
    """An empty bridge, the same process with the fleet, and the bytes of HTTP in between."""

    empty: Standing
    full: Standing
    wire: int

    @property
    def more(self) -> int:
        return self.full.resident - self.empty.resident


def first_list(directory: Path) -> None:
    """From the first request until every object is in the catalog."""
    with ApiServer(directory) as server:
        rounds = [_round(server) for _ in range(ROUNDS)]
    last = rounds[-1].full
    seconds = median([each.full.seconds for each in rounds])
    rows = [
        ["until the catalog stands", f"{seconds:.1f} s"],
        ["  objects a second", f"{last.objects / seconds:,.0f}"],
        ["  of the processor", f"{median([each.full.processor for each in rounds]):.1f} s"],
        ["resources, encoded", _mb(last.encoded)],
        ["bodies on the wire", _mb(rounds[-1].wire)],
        ["empty bridge, resident", _mb(median([each.empty.resident for each in rounds]))],
        ["with the catalog, resident", _mb(median([each.full.resident for each in rounds]))],
        ["  at its peak", _mb(median([each.full.peak for each in rounds]))],
        ["above the empty bridge", _mb(median([each.more for each in rounds]))],
        ["  of the encoded resources", f"{_share(rounds):.2f}"],
        ["  of the wire", f"{median([each.more / each.wire for each in rounds]):.2f}"],
    ]
    print_table(
        f"First list of {OBJECTS:,} objects, their resources {last.encoded // last.objects:,} bytes"
        f" each, on {last.nodes:,} nodes, and of {MODELS:,} models that they carry;\n  each round a"
        " process of its own; encoded: as resources go into snapshots (goal: 1.80 of that)",
        ["", f"median of {ROUNDS}"],
        rows,
    )
    print(f"  goal {'met' if _share(rounds) <= 1.8 else 'NOT met'}")


def _round(server: ApiServer) -> _Round:
    command = [sys.executable, "-m", "tests.bench.standing", str(server.kubeconfig())]
    root = Path(__file__).parents[2]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=root) as process:
        try:
            server.serve("empty")
            empty = _ask(process)
            server.serve("standing", OBJECTS, NODES, MODELS, PADDING)
            before = server.served()
            full = _ask(process)
            return _Round(empty, full, server.served() - before)
        finally:
            process.kill()


def _ask(process: subprocess.Popen[bytes]) -> Standing:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"list\n")
    process.stdin.flush()
    return msgspec.json.decode(process.stdout.readline(), type=Standing)


def _share(rounds: list[_Round]) -> float:
    return median([each.more / each.full.encoded for each in rounds])


def _mb(size: float) -> str:
    return f"{size / 1e6:,.1f} MB"


def _measure(kubeconfig: Path) -> Standing:
    """List with a new bridge, which stays until the figures are taken."""
    began, processor = time.monotonic(), time.process_time()
    with InProcess(kubeconfig) as bridge:
        bridge.list()
        seconds, processor = time.monotonic() - began, time.process_time() - processor
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
        records = list(bridge.catalog.records())
        return Standing(
            seconds,
            processor,
            resident,
            _peak(),
            len(records),
            len(list(bridge.catalog.nodes())),
            sum(len(record.encoded) for record in records),
        )


def _peak() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("/proc/self/status has no VmHWM")


def main() -> None:
    set_up(level="error")
    gc.set_threshold(*COLLECTOR)
    for _ in sys.stdin:
        standing = _measure(Path(sys.argv[1]))
        print(msgspec.json.encode(standing).decode(), flush=True)


if __name__ == "__main__":
    main()
