"""How fast a watch is read: the official client's `Watch`, a bare loop, and the bridge."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import urllib3
from kubernetes import client, watch

from tests.bench.apiserver import ApiServer
from tests.bench.cluster import API_VERSION, GROUP, VERSION
from tests.bench.inprocess import InProcess, key_of_service
from tests.bench.served import SERVICES
from tests.bench.table import median, print_table
from tests.support.wait import eventually

ROUNDS = 7
EVENTS, OBJECTS, NODES, MODELS = 20_000, 2000, 500, 50
PADDING = 0
"""Characters that bring an event to 1.4 KB."""
_CHUNK = 65_536


@dataclass
class Times:
    """Seconds of each round, on the clock and of the processor."""

    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    def add(self, run: Callable[..., float], *arguments: object) -> None:
        """A round; `run` gives the second at which it began."""
        gc.collect()  # what an earlier round left behind is not this one's
        before = time.process_time()
        begin = run(*arguments)
        self.wall.append(time.monotonic() - begin)
        self.processor.append(time.process_time() - before)


def watch_stream(directory: Path) -> None:
    """Every event read, and in the bridge's case placed and catalogued."""
    official, bare, own = Times(), Times(), Times()
    with ApiServer(directory) as server:
        server.serve("streaming", EVENTS, OBJECTS, NODES, MODELS, PADDING)
        server.go()
        size = _size_of_an_event(server.url)
        for _ in range(ROUNDS):
            official.add(_with_official_client, server.url)
            bare.add(_with_bare_loop, server.url)
            server.hold()
            with InProcess(server.kubeconfig()) as bridge:
                bridge.list()
                eventually(lambda: server.watching(SERVICES), 30, what="the watch")
                own.add(_with_bridge, server, bridge)
    rows = [
        [
            *(name, *_figures(times)),
            *(f"{_rate(base, times):.2f}" for base in (official, bare)),
            f"{_thrift(official, times):.2f}",
        ]
        for name, times in (
            ("official client, Watch alone", official),
            ("bare loop: urllib3, split, orjson.loads", bare),
            ("nodecast: read, placed, catalogued", own),
        )
    ]
    print_table(
        f"A watch of {EVENTS:,} events of {size:,} bytes, each a new spec and a chunk of HTTP, over"
        f" {OBJECTS:,} objects on {NODES} nodes;\n  median of {ROUNDS} rounds (goal: 3 times the"
        " official client)",
        ["", "events/s", "µs each", "µs CPU", "of official", "of bare loop", "of official by CPU"],
        rows,
    )
    reached = _rate(official, own) >= 3
    print(f"  goal {'met' if reached else 'NOT met'}")


def _with_official_client(url: str) -> float:
    configuration = client.Configuration()
    configuration.host = url
    begin, count = time.monotonic(), 0
    with client.ApiClient(configuration) as api:
        listing = client.CustomObjectsApi(api).list_cluster_custom_object
        for _ in watch.Watch().stream(listing, GROUP, VERSION, SERVICES):
            count += 1
            if count == EVENTS:
                break
    return begin


def _with_bare_loop(url: str) -> float:
    begin, count, rest = time.monotonic(), 0, b""
    address = f"{url}/apis/{API_VERSION}/{SERVICES}?watch=true"
    with urllib3.PoolManager() as pool:
        answer = pool.request("GET", address, preload_content=False)
        for piece in answer.stream(_CHUNK, decode_content=False):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                orjson.loads(line)
                count += 1
            if count == EVENTS:
                break
        answer.close()
    return begin


def _with_bridge(server: ApiServer, bridge: InProcess) -> float:
    last = key_of_service(OBJECTS)
    begin = server.go()
    bridge.serve_until(last)
    return begin


def _size_of_an_event(url: str) -> int:
    before, count = 0, 0
    answer = urllib3.request(
        "GET", f"{url}/apis/{API_VERSION}/{SERVICES}?watch=true", preload_content=False
    )
    for piece in answer.stream(_CHUNK, decode_content=False):
        before += len(piece)
        count += piece.count(b"\n")
        if count >= EVENTS:
            break
    answer.close()
    return before // count


def _figures(times: Times) -> list[str]:
    wall, processor = median(times.wall), median(times.processor)
    micro = 1e6 / EVENTS
    return [f"{EVENTS / wall:,.0f}", f"{wall * micro:.1f}", f"{processor * micro:.1f}"]


def _rate(base: Times, times: Times) -> float:
    """The median of the rounds' ratios of rates."""
    return median([b / t for b, t in zip(base.wall, times.wall, strict=True)])


def _thrift(base: Times, times: Times) -> float:
    """The same of the processor's time, which others on the machine disturb less."""
    return median([b / t for b, t in zip(base.processor, times.processor, strict=True)])
