"""What the live table shows: the nodes, what each has and should have, models and their ops.

Pure: made from a view of the broker and from what is on the agents' disks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nodecast.messages import Report, Snapshot
from observer import View

Disks = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""The resources on the disk of each node with an agent, by key."""

NO_AGENT = "no agent"
ON_DISK = "on disk"
AT_BROKER = "at broker"


@dataclass(frozen=True, slots=True)
class ResourceLine:
    """One resource of a node; `digest` tells one content from another."""

    key: str
    state: str
    digest: str


@dataclass(frozen=True, slots=True)
class ModelLine:
    """One model of a node's ModelSet."""

    name: str
    state: str


@dataclass(frozen=True, slots=True)
class OpLine:
    """One model op that was heard."""

    node: str
    seq: int
    text: str


@dataclass(frozen=True, slots=True)
class NodePicture:
    """One node. `revision`: what its agent has, and what it should have where that differs."""

    name: str
    agent: str
    revision: str
    resources: tuple[ResourceLine, ...]
    models: tuple[ModelLine, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything at one moment."""

    broker: str
    bridge: str
    nodes: tuple[NodePicture, ...]
    ops: tuple[OpLine, ...]


def picture(view: View, disks: Disks) -> Picture:
    """The picture of all nodes with a snapshot or a disk."""
    names = sorted({*view.snapshots, *view.presences, *disks})
    return Picture(
        "connected" if view.connected else "away",
        "not seen" if view.bridge is None else "online" if view.bridge.online else "offline",
        tuple(_node(name, view, disks.get(name)) for name in names),
        tuple(OpLine(op.node, op.seq, f"{op.op} {op.model}") for op in view.ops),
    )


def _node(name: str, view: View, disk: Mapping[str, Mapping[str, Any]] | None) -> NodePicture:
    presence = view.presences.get(name)
    snapshot, report = view.snapshots.get(name), view.reports.get(name)
    models = view.models.get(name)
    if presence is None:
        agent = NO_AGENT if disk is None else "not seen"
    else:
        agent = "online" if presence.online else "offline"
    return NodePicture(
        name,
        agent,
        _revision(snapshot, report),
        tuple(_resources(snapshot, report, disk)),
        tuple(ModelLine(each.name, each.state) for each in models.models) if models else (),
    )


def _revision(snapshot: Snapshot | None, report: Report | None) -> str:
    wanted = None if snapshot is None else snapshot.version
    has = None if report is None or report.epoch == 0 else report.version
    if wanted is None and has is None:
        return "-"
    if wanted == has or wanted is None:
        return f"{has.revision if has else '-'}"
    return f"{has.revision if has else '-'} of {wanted.revision}"


def _resources(
    snapshot: Snapshot | None, report: Report | None, disk: Mapping[str, Mapping[str, Any]] | None
) -> Iterator[ResourceLine]:
    wanted = {str(r.key): r.digest for r in snapshot.resources} if snapshot else {}
    failed = {r.key: r.reason for r in report.resources if r.state == "Failed"} if report else {}
    there = {key: str(value.get("digest", "")) for key, value in (disk or {}).items()}
    for key in sorted({*wanted, *there}):
        digest = there.get(key, "")
        if disk is None:
            state = AT_BROKER
        elif key in failed:
            state = f"failed: {failed[key]}"
        else:
            state = _state(wanted.get(key), there.get(key), snapshot is not None)
        yield ResourceLine(key, state, digest)


def _state(wanted: str | None, there: str | None, known: bool) -> str:
    if wanted == there or (not known and there is not None):
        return ON_DISK
    if there is None:
        return "comes"
    return "goes" if wanted is None else "changes"
