"""What `check` and `render` say of a source, without a broker.

Pure: the same rules and the same catalog as the running bridge, on one look at the source.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import Any

import orjson

from bridge.catalog import Catalog, Dangling
from bridge.placement import Rules
from bridge.record import ObjectRecord
from bridge.sources.events import Problem, Survey
from bridge.writer import SnapshotWriter
from nodecast.messages import NONE, unpack
from nodecast.messages.codec import Wire
from nodecast.names import BridgeName, KindName, NodeName, ResourceKey, kind_of
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
        """Good objects that are on no node: they name none, and nothing takes them along. Of a
        held kind that is not known."""
        held = self.held
        return (
            record
            for record in self.catalog.records()
            if record.placeable
            and record.kind not in held
            and not self.catalog.nodes_of(record.key)
        )

    @property
    def nodes(self) -> list[NodeName]:
        return sorted(self.catalog.nodes())

    @property
    def problem(self) -> bool:
        """Whether there is anything to put right."""
        return bool(self.refused or self.catalog.dangling() or self.held)

    @property
    def empty(self) -> bool:
        """Whether nothing at all was found, though something was seen."""
        found = self.survey.objects or self.survey.problems or self.survey.skipped
        return not found and not set(self.rules.kinds) <= self.survey.unseen.keys()

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


def findings(picture: Picture) -> Iterator[str]:
    """All that there is to say, a line each: what would be served, and what is wrong."""
    catalog, held = picture.catalog, picture.held
    yield from _held(picture)
    for kind in picture.rules.kinds:
        if kind not in held and (catalog.count(kind) or kind in picture.survey.seen):
            yield f"served     {kind}: {_known(catalog, kind)}"
    for node in picture.nodes:
        yield f"node       {node}: {_objects(len(catalog.on_node(node)))}"
    for record in picture.nowhere:
        place = f" ({record.place})" if record.place else ""
        yield f"nowhere    {record.key}{place}: no node named, nothing takes it along"
    yield from _faults(picture)


def wrong(picture: Picture) -> Iterator[str]:
    """What is wrong, a line each."""
    yield from _held(picture)
    yield from _faults(picture)


def _held(picture: Picture) -> Iterator[str]:
    held, catalog = picture.held, picture.catalog
    reasons = set(held.values())
    if len(reasons) == 1 and len(held) == len(picture.rules.kinds):
        known = len(picture.survey.objects)
        suffix = f" ({_objects(known)} known)" if known else ""
        yield f"incomplete {reasons.pop()}: every kind is held{suffix}"
        return
    for kind, reason in sorted(held.items()):
        known = catalog.count(kind)
        suffix = f" (known of it: {_known(catalog, kind)})" if known else ""
        yield f"held       {kind}: {reason}{suffix}"


def _faults(picture: Picture) -> Iterator[str]:
    for kind, count in sorted(picture.survey.skipped.items()):
        short = kind.partition(".")[0]
        hint = f": the rule for {short!r} has no group" if short in picture.rules.kinds else ""
        yield f"skipped    {kind}: {_objects(count)}, no placement rule{hint}"
    refused = picture.refused
    for problem in refused:
        key = problem.key if problem.key and problem.key not in problem.reason else ""
        yield f"refused    {': '.join(filter(None, (problem.place, key, problem.reason)))}"
    without = {problem.key for problem in refused}
    for each in picture.catalog.dangling():
        yield f"dangling   {each.owner} refers to {each.target}, {_why(picture, each, without)}"


def _why(picture: Picture, dangling: Dangling, refused: Set[ResourceKey | None]) -> str:
    """What is the matter with the target of a reference that leads nowhere."""
    if dangling.target in refused:
        return "which was refused"
    if picture.catalog.get(dangling.target) is not None:
        return "which is being deleted"
    if kind_of(dangling.target) in picture.survey.unseen:
        return "which cannot be seen now"
    return "which is not there"


def _known(catalog: Catalog, kind: KindName) -> str:
    count = catalog.count(kind)
    return _objects(count) + (f", {catalog.placed(kind)} on nodes" if count else "")


def _objects(count: int) -> str:
    return f"{count} object" if count == 1 else f"{count} objects"


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
