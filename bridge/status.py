"""How a bridge is, as a value: what its API answers, `check` shows and systemd is told.

Pure: counted from what the core knows, at a monotonic second. Texts and times of day in it are for
people.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from itertools import islice
from typing import Literal

import msgspec

from bridge.kind_views import KindView
from bridge.nodes import NodeState
from nodecast.names import NodeName

Phase = Literal[
    "starting", "listing", "standing by", "connecting", "taking charge", "in charge", "stopping"
]
"""`starting`: the source is not known yet; `listing`: no kind, or not every one, was listed yet;
`standing by`: the Lease is not held, so that there is no connection;
`taking charge`: connected, and the ledger is read or written."""

NAMED = 20
"""So many refused nodes are named."""
STILL = 10.0
"""Seconds: a broker that has not acknowledged a snapshot for so long stands still."""


class RefusedNode(msgspec.Struct, frozen=True):
    """A node whose snapshots the broker does not take."""

    node: str
    reason: str


class NodesStatus(msgspec.Struct, frozen=True, rename="camel"):
    """How far the nodes are. `unacknowledged`: without the broker's word for their newest version;
    `waiting`: to be looked at, now or at their time; `in_flight`: sent, and not acknowledged, the
    oldest for `oldest` seconds; `refused`: by the broker, so many of them are named in
    `refused_first`; `foreign`: another bridge's, they get nothing."""

    known: int = 0
    unacknowledged: int = 0
    waiting: int = 0
    in_flight: int = 0
    oldest: float | None = None
    refused: int = 0
    refused_first: list[RefusedNode] = []
    foreign: int = 0


class BrokerStatus(msgspec.Struct, frozen=True):
    """The connection: `since` when, or why there is none (`failure`). `refused`: what the bridge
    needs for itself and the broker does not let it have, with the reasons."""

    url: str
    connected: bool = False
    since: str | None = None
    failure: str | None = None
    refused: dict[str, str] = {}


class Status(msgspec.Struct, frozen=True):
    """A bridge. `origin` says where its objects come from, `source` is what the ledger holds."""

    bridge: str
    instance: str
    version: str
    started: str
    origin: str
    phase: Phase
    broker: BrokerStatus
    source: str | None = None
    epoch: int | None = None
    paused: bool = False
    kinds: list[KindView] = []
    nodes: NodesStatus = NodesStatus()

    @property
    def for_people(self) -> bool:
        """Whether somebody must do something: approve, or let the bridge in at the broker."""
        guarded = any(kind.guarded for kind in self.kinds)
        return guarded or bool(self.nodes.refused or self.broker.refused)


def nodes_status(
    nodes: Mapping[NodeName, NodeState], waiting: int, foreign: Set[NodeName], now: float
) -> NodesStatus:
    """Count the nodes; nobody waits for what another bridge's have."""
    in_flight = [state.sent_at for state in nodes.values() if state.in_flight]
    refused = [(node, state.refusal) for node, state in nodes.items() if state.failures]
    return NodesStatus(
        known=len(nodes),
        unacknowledged=sum(not s.confirmed and node not in foreign for node, s in nodes.items()),
        waiting=waiting,
        in_flight=len(in_flight),
        oldest=round(now - min(in_flight), 1) if in_flight else None,
        refused=len(refused),
        refused_first=[RefusedNode(*each) for each in islice(sorted(refused), NAMED)],
        foreign=len(foreign),
    )


def line(status: Status) -> str:
    """One line on all that matters, for `systemctl status`."""
    guarded = [
        f"held: {kind.kind}: {'; '.join(kind.reasons)}" for kind in status.kinds if kind.guarded
    ]
    others = [kind.kind for kind in status.kinds if kind.held and not kind.guarded]
    held = [*guarded, *([f"held: {', '.join(others)}"] if others else [])]
    return "; ".join((summary(status), *troubles(status), *held))


def summary(status: Status) -> str:
    """How far the bridge is."""
    failure = status.broker.failure
    match status.phase:
        case "starting":
            return "asking what the source is"
        case "listing":
            return "waiting for the first lists of the source"
        case "standing by":
            return "standing by: not the holder of the lease"
        case "connecting":
            return "not connected to the broker" + (f": {failure}" if failure else "")
        case "taking charge":
            after = f"; the last connection ended with: {failure}" if failure else ""
            return f"connected to the broker, taking charge{after}"
        case "in charge":
            paused = ", paused: no snapshot goes out" if status.paused else ""
            return f"in charge of {_nodes(status.nodes.known)}{paused}"
        case "stopping":
            return "stopping"


def troubles(status: Status) -> Iterator[str]:
    """What keeps nodes from having what they should, but for held kinds; a text each."""
    nodes, charged = status.nodes, status.phase == "in charge"
    if charged and nodes.unacknowledged:
        yield f"{_nodes(nodes.unacknowledged)} without the broker's acknowledgement"
    if charged and nodes.oldest is not None and nodes.oldest >= STILL:
        yield f"the broker has not answered for {nodes.oldest:.0f} s"
    if nodes.refused:
        first = ", ".join(f"{each.node}: {each.reason}" for each in nodes.refused_first[:3])
        yield f"the broker refuses the snapshots of {_nodes(nodes.refused)} ({first})"
    for what, reason in status.broker.refused.items():
        yield f"the broker refuses this bridge its {what}: {reason}"
    if nodes.foreign:
        yield f"{_nodes(nodes.foreign)} of another bridge, which get nothing"


def _nodes(count: int) -> str:
    return f"{count} node" if count == 1 else f"{count} nodes"
