"""How fast changed nodes are published, and what a burst costs."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from nodecast.session import Outgoing
from tests.bench.baseline import publish_on_a_socket, publish_with_paho
from tests.bench.fleet import Fleet, dataset, dataset_of_snapshot
from tests.bench.table import median, print_table
from tests.support.mosquitto import Broker

ROUNDS = 9


def changed_nodes(directory: Path, nodes: int = 5000) -> None:
    """Every node of a fleet changes; until every snapshot is acknowledged."""
    with Broker(directory / "changed") as broker:
        fleet = Fleet(broker.url, [dataset_of_snapshot(n, "0", 1024) for n in range(nodes)])
        fleet.run(lambda: fleet.settled(nodes))
        own, paho, raw = [], [], []
        sizes = set()
        for number in range(1, ROUNDS + 1):
            records = [dataset_of_snapshot(n, str(number), 1024) for n in range(nodes)]
            time.sleep(0.6)  # the interval between two snapshots of a node is over
            goal = fleet.published + nodes
            for record in records:
                fleet.change(record)
            own.append(fleet.run(lambda goal=goal: fleet.published >= goal))
            messages = fleet.messages()
            sizes |= {len(message.payload) for message in messages}
            paho.append(publish_with_paho(broker.port, messages))
            raw.append(publish_on_a_socket(broker.port, messages))
        fleet.close()
    rows = [
        [name, f"{nodes / median(t):,.0f}", f"{median(t) / nodes * 1e6:.0f}", _ratio(paho, t)]
        for name, t in (("nodecast bridge", own), ("bare paho", paho), ("bare socket", raw))
    ]
    print_table(
        f"{nodes:,} changed nodes, snapshots of {min(sizes)} to {max(sizes)} bytes, QoS 1,"
        f" retained, until all are acknowledged; median of {ROUNDS} rounds (goal: 0.70)",
        ["", "a second", "µs each", "of bare paho"],
        rows,
    )


def _ratio(base: list[float], times: list[float]) -> str:
    """The median of the rounds' ratios of rates."""
    return f"{median([b / t for b, t in zip(base, times, strict=True)]):.2f}"


def burst(directory: Path, changes: int = 10_000, nodes: int = 1000) -> None:
    """Changes as fast as a source gives them."""
    with Broker(directory / "burst") as broker:
        first = [dataset(n, n, "0", 400) for n in range(nodes)]
        fleet = Fleet(broker.url, first)
        fleet.run(lambda: fleet.settled(nodes))
        records = [dataset(i % nodes, i % nodes, f"change {i}", 400) for i in range(changes)]
        time.sleep(0.6)
        before = fleet.published
        said = threading.Event()

        def source() -> None:
            for record in records:
                fleet.change(record)
            said.set()

        thread = threading.Thread(target=source, name="source")
        begin = time.perf_counter()
        thread.start()
        fleet.run(lambda: said.is_set() and fleet.current())
        seconds = time.perf_counter() - begin
        thread.join()
        published = fleet.published - before
        template = fleet.messages()
        fleet.close()
        singly = _singly(broker.port, template, changes)
    own = [f"{published:,}", f"{published / nodes:.2f}", f"{seconds:.2f} s"]
    bare = [f"{changes:,}", f"{changes / nodes:.2f}", f"{singly:.2f} s"]
    print_table(
        f"{changes:,} changes over {nodes:,} nodes, as fast as a source gives them"
        " (goal: at most 3 publishes a node)",
        ["", "publishes", "a node", "until all topics hold the last state"],
        [
            ["nodecast bridge", *own],
            ["each change singly (bare paho)", *bare],
        ],
    )


def _singly(port: int, template: list[Outgoing], changes: int) -> float:
    return publish_with_paho(port, [template[i % len(template)] for i in range(changes)])
