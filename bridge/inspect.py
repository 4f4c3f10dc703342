"""What `check` and `render` say of a directory of manifests, without a broker.

Pure but for reading the directory: the same rules and the same catalog as the running bridge.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from bridge.catalog import Catalog
from bridge.objects import ObjectRecord
from bridge.placement import Rules
from bridge.sources.events import Problem
from bridge.sources.manifests import Reading, read_once
from bridge.writer import SnapshotWriter
from nodecast.messages import NONE, unpack
from nodecast.messages.codec import Wire
from nodecast.names import BridgeName, NodeName
from nodecast.topics import Topics


@dataclass(frozen=True, slots=True)
class Picture:
    """A directory as the bridge would serve it."""

    reading: Reading
    catalog: Catalog

    @property
    def refused(self) -> list[Problem]:
        """What is not served: bad files and objects, and objects that cannot be placed."""
        unplaced = [
            Problem(record.place, record.problem, record.key)
            for record in self.catalog.records()
            if record.problem
        ]
        return sorted({*self.reading.problems, *unplaced}, key=lambda p: (p.place, p.reason))

    @property
    def nowhere(self) -> Iterator[ObjectRecord]:
        """Good objects that are on no node: they name none, and nothing takes them along."""
        return (
            record
            for record in self.catalog.records()
            if record.placeable and not self.catalog.nodes_of(record.key)
        )

    @property
    def nodes(self) -> list[NodeName]:
        return sorted(self.catalog.nodes())

    @property
    def problem(self) -> bool:
        """Whether there is anything to put right."""
        return bool(self.refused or self.catalog.dangling() or not self.reading.complete)


def look(directory: Path, rules: Rules) -> Picture:
    """Read a directory and place its objects."""
    reading = read_once(directory, rules)
    catalog = Catalog(rules)
    catalog.apply(reading.objects)
    return Picture(reading, catalog)


def snapshot(picture: Picture, bridge: str, node: NodeName) -> dict[str, Any]:
    """A node's snapshot as it would be published, but for instance and version."""
    writer = SnapshotWriter(BridgeName(bridge), "", Topics(), compress=False)
    content = writer.content(node, picture.catalog.on_node(node), ())
    message = writer.message(node, NONE, content)
    body: dict[str, Any] = orjson.loads(unpack(Wire(message.payload, message.encoding)))
    return body


def render(picture: Picture, bridge: str, nodes: list[NodeName]) -> dict[str, Any]:
    """`{nodes: {name: Snapshot}, skipped, refused, dangling}`, as `render --json` prints it."""
    return {
        "nodes": {node: snapshot(picture, bridge, node) for node in nodes},
        "skipped": dict(sorted(picture.reading.skipped.items())),
        "refused": [{"place": p.place, "key": p.key, "reason": p.reason} for p in picture.refused],
        "dangling": [
            {"owner": each.owner, "target": each.target} for each in picture.catalog.dangling()
        ],
    }
