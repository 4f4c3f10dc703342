"""The bridge and a script on kopf, each as a process, on the same stream, to a real broker."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from nodecast.messages import Wire, decode_snapshot
from tests.bench.apiserver import ApiServer
from tests.bench.cluster import API_VERSION
from tests.bench.listener import Listener
from tests.bench.served import SERVICES
from tests.bench.table import median, print_table
from tests.bench.watching import EVENTS, MODELS, NODES, OBJECTS, PADDING
from tests.support.mosquitto import Broker
from tests.support.mqtt import Observer, observing
from tests.support.process import command, environment
from tests.support.wait import eventually

ROUNDS = 3
_QUIET = 3.0
"""Seconds without a publish after which there is nothing more to come."""
_BATCH = 200
"""Topics to subscribe to at once; Mosquitto drops what is beyond about a thousand."""
_TICKS = os.sysconf("SC_CLK_TCK")
_SCRIPT = Path(__file__).with_name("kopf_script.py")


@dataclass(frozen=True)
class Run:
    """Seconds from the start of the stream to the last publish, seconds of the processor, publishes
    during it, and how many objects' last states the broker has at the end."""

    wall: float
    processor: float
    publishes: int
    current: int


@dataclass(frozen=True)
class Rival:
    """A process to measure. `topics` and `specs_in` say where it puts what."""

    name: str
    command: list[str]
    variables: dict[str, str]
    filter: str
    topic: Callable[[dict[str, Any]], str]
    specs_in: Callable[[Observer], dict[str, Any]]


def kopf(directory: Path) -> None:
    """From the start of the stream until the broker has the last state of everything."""
    with ApiServer(directory) as server:
        server.serve("streaming", EVENTS, OBJECTS, NODES, MODELS, PADDING)
        runs: dict[str, list[Run]] = {}
        for number in range(ROUNDS):
            with Broker(directory / f"broker-{number}") as broker:
                for rival in _rivals(server, broker):
                    runs.setdefault(rival.name, []).append(_run(rival, server, broker, directory))
    rows = [[name, *_figures(each), _ratio(runs, name)] for name, each in runs.items()]
    print_table(
        f"{EVENTS:,} events over {OBJECTS:,} objects on {NODES} nodes, until the broker has the"
        f" last publish; median of {ROUNDS} rounds",
        ["", "events/s", "µs processor an event", "publishes", "last states", "of kopf"],
        rows,
    )


def _rivals(server: ApiServer, broker: Broker) -> Iterator[Rival]:
    config = str(server.kubeconfig())
    yield Rival(
        "kopf and paho, the script",
        [sys.executable, "-m", "kopf", "run", "--standalone", "-A", "-q", str(_SCRIPT)],
        {"KUBECONFIG": config, "BROKER_PORT": str(broker.port)},
        "node/+/JointInferenceService/+",
        lambda obj: f"node/{_node(obj)}/JointInferenceService/{obj['metadata']['name']}",
        _specs_of_objects,
    )
    yield Rival(
        "nodecast-bridge",
        [
            *(command("nodecast-bridge"), "run", "--hold", "0", "--log-format", "text"),
            *("--kubeconfig", config, "--mqtt-url", broker.url),
        ],
        {},
        "node/+/resources",
        lambda obj: f"node/{_node(obj)}/resources",
        _specs_of_snapshots,
    )


def _run(rival: Rival, server: ApiServer, broker: Broker, directory: Path) -> Run:
    server.hold()
    listener = Listener(broker.port, rival.filter)
    with _process(rival, directory) as process:
        eventually(lambda: server.watching(SERVICES), 60, what=f"{rival.name} watches")
        eventually(lambda: listener.publishes() >= NODES, 60, every=0.3, what="the first objects")
        eventually(lambda: listener.quiet(_QUIET), 60, what="the first objects are out")
        before, begun = listener.publishes(), _processor(process.pid)
        begin = server.go()
        eventually(lambda: listener.last > begin, 60, what="a publish")
        eventually(lambda: listener.quiet(_QUIET), 600, every=0.1, what="the last publish")
        processor = _processor(process.pid) - begun
    listener.close()
    current = _current(rival, server, broker.port)
    return Run(listener.last - begin, processor, listener.publishes() - before, current)


@contextmanager
def _process(rival: Rival, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (directory / f"{rival.name.split()[0]}.log").open("ab") as log:
        process = subprocess.Popen(
            rival.command, env=environment({}) | rival.variables, stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _processor(pid: int) -> float:
    """Seconds of the processor that a process took so far, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _current(rival: Rival, server: ApiServer, port: int) -> int:
    """How many services stand on the broker as the server has them."""
    with urllib.request.urlopen(f"{server.url}/apis/{API_VERSION}/{SERVICES}") as answer:
        objects = orjson.loads(answer.read())["items"]
    topics = sorted({rival.topic(each) for each in objects})
    found: dict[str, Any] = {}
    for begin in range(0, len(topics), _BATCH):
        some = topics[begin : begin + _BATCH]
        with observing(port, *some) as observer:
            deadline = time.monotonic() + 10
            while len(observer.retained) < len(some) and time.monotonic() < deadline:
                time.sleep(0.01)
            found |= rival.specs_in(observer)
    return sum(found.get(each["metadata"]["name"]) == each["spec"] for each in objects)


def _specs_of_objects(observer: Observer) -> dict[str, Any]:
    objects = map(orjson.loads, observer.retained.values())
    return {each["metadata"]["name"]: each["spec"] for each in objects}


def _specs_of_snapshots(observer: Observer) -> dict[str, Any]:
    specs = {}
    for topic in observer.retained:
        seen = observer.latest(topic)
        assert seen is not None
        snapshot = decode_snapshot(Wire(seen.payload, seen.properties.get("encoding")))
        for each in snapshot.resources:
            obj = orjson.loads(each.body)
            if obj["kind"] == "JointInferenceService":
                specs[obj["metadata"]["name"]] = obj["spec"]
    return specs


def _node(obj: dict[str, Any]) -> str:
    node: str = obj["spec"]["edgeWorker"]["template"]["spec"]["nodeName"]
    return node


def _figures(runs: list[Run]) -> list[str]:
    return [
        f"{EVENTS / median([run.wall for run in runs]):,.0f}",
        f"{median([run.processor for run in runs]) / EVENTS * 1e6:.0f}",
        f"{median([run.publishes for run in runs]):,.0f}",
        f"{min(run.current for run in runs):,} of {OBJECTS + 1:,}",
    ]


def _ratio(runs: Mapping[str, list[Run]], name: str) -> str:
    base, *_ = runs.values()
    return f"{median([b.wall / o.wall for b, o in zip(base, runs[name], strict=True)]):.1f}"
