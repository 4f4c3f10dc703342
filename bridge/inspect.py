"""What `check` and `render` say of a source, without a broker.

Pure: the same rules and the same catalog as the running bridge, on one look at the source.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from bridge.catalog import Catalog
from bridge.placement import Rules
from bridge.record import ObjectRecord
from bridge.sources.events import Problem, Survey
from bridge.writer import SnapshotWriter
from nodecast.messages import NONE, unpack
from nodecast.messages.codec import Wire
from nodecast.names import BridgeName, KindName, NodeName
from nodecast.topics import Topics


@dataclass(frozen=True, slots=True)
class Picture:
    """A source as the bridge would serve it."""

    survey: Survey
    catalog: Catalog
    rules: Rules

    @property
    def refused(self) -> list[Problem]:
        """What is not served: bad files and objects, and objects that cannot be placed."""
        unplaced = [
            Problem(record.place, record.problem, record.key)
            for record in self.catalog.records()
            if record.problem
        ]
        return sorted({*self.survey.problems, *unplaced}, key=lambda p: (p.place, p.reason))

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
        return bool(self.refused or self.catalog.dangling() or self.held)

    @property
    def held(self) -> dict[KindName, str]:
        """Kinds that would be held, and why: not seen in full, or placed through one that is."""
        unseen = self.survey.unseen
        through = {
            kind: f"it is placed through {', '.join(sorted(on))}"
            for kind in self.rules.kinds
            if kind not in unseen and (on := self.rules.depends_on(kind) & unseen.keys())
        }
        return {**unseen, **through}


def picture_of(survey: Survey, rules: Rules) -> Picture:
    """Place the objects of a survey."""
    catalog = Catalog(rules)
    catalog.apply(survey.objects)
    return Picture(survey, catalog, rules)


def snapshot(picture: Picture, bridge: str, node: NodeName) -> dict[str, Any]:
    """A node's snapshot as it would be published, but for instance and version."""
    writer = SnapshotWriter(BridgeName(bridge), "", Topics(), compress=False)
    held = tuple(sorted(picture.held))
    content = writer.content(node, picture.catalog.on_node(node), held)
    message = writer.message(node, NONE, content)
    body: dict[str, Any] = orjson.loads(unpack(Wire(message.payload, message.encoding)))
    return body


def render(picture: Picture, bridge: str, nodes: list[NodeName]) -> dict[str, Any]:
    """`{nodes: {name: Snapshot}, skipped, refused, dangling}`, as `render --json` prints it."""
    return {
        "nodes": {node: snapshot(picture, bridge, node) for node in nodes},
        "skipped": dict(sorted(picture.survey.skipped.items())),
        "refused": [{"place": p.place, "key": p.key, "reason": p.reason} for p in picture.refused],
        "dangling": [
            {"owner": each.owner, "target": each.target} for each in picture.catalog.dangling()
        ],
    }
