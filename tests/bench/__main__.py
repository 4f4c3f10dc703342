"""`python -m tests.bench [NAME…]`: all benchmarks, or those named."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bridge.app import COLLECTOR
from nodecast.log import set_up
from tests.bench import agent, publishing, rivals, standing, watching
from tests.bench.table import machine

BENCHMARKS: dict[str, Callable[[Path], None]] = {
    "changed-nodes": publishing.changed_nodes,
    "burst": publishing.burst,
    "idle-agent": agent.idle_memory,
    "latency": agent.latency,
    "watch-stream": watching.watch_stream,
    "first-list": standing.first_list,
    "kopf": rivals.kopf,
}


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"no benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 64
    set_up(level="error")
    gc.set_threshold(*COLLECTOR)  # as the bridge does; for what it is compared with as well
    print(machine())
    for name in names or BENCHMARKS:
        with tempfile.TemporaryDirectory(prefix="nodecast-bench-") as directory:
            os.environ["RUNTIME_DIRECTORY"] = directory  # the sockets of its bridges
            BENCHMARKS[name](Path(directory))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
