"""The bridge's core with the real session on a real broker, driven as its loop drives it."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

from bridge.bridge import Bridge
from bridge.charge import Identity, Phase
from bridge.objects import read_object
from bridge.placement import Rules, built_in
from bridge.policy import Policy
from bridge.record import ObjectRecord
from bridge.sources.events import Changed, KindStatus, Listed, SourceEvent
from nodecast.names import BridgeName, KindName, ResourceKey
from nodecast.session import Acknowledged, MqttSettings, Outgoing, Session
from nodecast.topics import Topics

RULES = Rules(built_in())
DATASET = KindName("Dataset.sedna.io")


def dataset(index: int, node: int, content: str, padding: int) -> ObjectRecord:
    """An object of about 200 bytes and `padding`."""
    raw = {
        "apiVersion": "sedna.io/v1alpha1",
        "kind": "Dataset",
        "metadata": {"name": f"dataset-{index}", "namespace": "bench"},
        "spec": {"nodeName": f"node-{node}", "url": content, "format": "x" * padding},
    }
    return read_object(raw, RULES, "")


def dataset_of_snapshot(node: int, content: str, size: int) -> ObjectRecord:
    """An object that makes its node's snapshot nearly `size` bytes."""
    return dataset(node, node, content, size - 390)


class Fleet:
    """A bridge in charge of a broker. `published` counts the acknowledged snapshots."""

    def __init__(self, url: str, objects: list[ObjectRecord]) -> None:
        self._objects: dict[ResourceKey, ObjectRecord] = {each.key: each for each in objects}
        self._inbox: list[SourceEvent] = []
        self._lock = threading.Lock()
        self.published = 0
        self.sent: list[Outgoing] = []
        settings = MqttSettings(url=url)
        self._session = Session(settings, "nodecast-bridge-bench", will=lambda: None)
        self._bridge = Bridge(
            Identity(BridgeName("bench"), "bench", "i"),
            RULES,
            Topics(),
            Policy(hold=0),
            self._session,
            lambda _: self._list(),
            rng=random.Random(1),
            wall_clock=time.time,
        )
        self._list()
        self._turn(0)
        self.run(lambda: self._bridge.charge.phase is Phase.IN_CHARGE)

    def _list(self) -> None:
        now = time.monotonic()
        for kind in RULES.kinds:
            mine = {k: r for k, r in self._objects.items() if r.kind == kind}
            self.say(Listed(kind, KindStatus.OK, mine, now))

    def say(self, event: SourceEvent) -> None:
        """Hand over an event of the source; any thread."""
        with self._lock:
            self._inbox.append(event)
        self._session.wake()

    def change(self, record: ObjectRecord) -> None:
        self._objects[record.key] = record
        self.say(Changed({record.key: record}))

    def run(self, until: Callable[[], bool]) -> float:
        """Turn the loop until a condition holds; the seconds that took."""
        begin, deadline = time.perf_counter(), 0.0
        while not until():
            deadline = self._turn(max(0.0, min(deadline - time.monotonic(), 1.0)))
        return time.perf_counter() - begin

    def _turn(self, wait: float) -> float:
        for event in self._session.poll(wait):
            if isinstance(event, Acknowledged) and not isinstance(event.token, str):
                self.published += hasattr(event.token, "node")
            self._bridge.session_event(event, time.monotonic())
        with self._lock:
            events, self._inbox = self._inbox, []
        for each in events:
            self._bridge.source_event(each, time.monotonic())
        return self._bridge.work(time.monotonic())

    def settled(self, nodes: int) -> bool:
        """Whether every node was published and nothing is under way."""
        states = self._bridge.publisher.nodes
        return len(states) == nodes and all(
            state.acknowledged >= state.version > (0, 0) and not state.in_flight
            for state in states.values()
        )

    def current(self) -> bool:
        """Whether every topic holds what the catalog says."""
        catalog = self._bridge.catalog
        return all(
            not state.in_flight
            and state.acknowledged == state.version
            and state.content is not None
            and [r.digest for r in state.content.records]
            == [r.digest for r in catalog.on_node(node)]
            for node, state in self._bridge.publisher.nodes.items()
        )

    def messages(self) -> list[Outgoing]:
        """The snapshots as they stand on the wire."""
        publisher = self._bridge.publisher
        writer = publisher._writer
        return [
            writer.message(node, state.version, state.content)
            for node, state in publisher.nodes.items()
            if state.content is not None
        ]

    def close(self) -> None:
        self._session.close(time.monotonic() + 2)
