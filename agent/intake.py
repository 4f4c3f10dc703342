"""What an agent does with a snapshot that it was sent: accept, leave, or refuse it.

Pure: no clock, thread, log, socket or file. Newer means a greater (epoch, revision) of the same
bridge; a version is the same only with the same digest (README, Topics and messages). What came
from another bridge, or speaks of another node, changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from nodecast.messages import Snapshot, Version
from nodecast.names import BridgeName, NodeName


@dataclass(frozen=True, slots=True)
class Standing:
    """What the agent has accepted so far. `incomplete`: the same version may be accepted again,
    because a record was lost, files are there that no snapshot explains, or the store is old."""

    bridge: BridgeName
    node: NodeName
    version: Version
    digest: str
    incomplete: bool


@dataclass(frozen=True, slots=True)
class Accept:
    """Make it the desired set. `live`: the bridge speaks now, so orphans may go."""

    live: bool


@dataclass(frozen=True, slots=True)
class Current:
    """It is what the agent has, completely."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """The bridge's word, but not to be followed: reported to the bridge."""

    reason: str


@dataclass(frozen=True, slots=True)
class Foreign:
    """Not meant for this agent: left alone, and reported, since it took the place of what is."""

    reason: str


_FIRST = Version(1, 1)

Decision = Accept | Current | Refuse | Foreign


def decide(standing: Standing, snapshot: Snapshot, *, retained: bool) -> Decision:
    """What to do with `snapshot`; `retained`: its retain flag (a replay, not the bridge's word
    of now)."""
    if snapshot.bridge != standing.bridge:
        return Foreign(
            f"it is from bridge {snapshot.bridge!r}, this agent is of {standing.bridge!r}: set the"
            f" agent's bridge to {snapshot.bridge!r}, or let {standing.bridge!r} serve this node"
        )
    if snapshot.node != standing.node:
        return Foreign(f"it is for node {snapshot.node!r}, this is {standing.node!r}")
    if snapshot.version.epoch < 1 or snapshot.version.revision < 1:
        return Refuse(f"{snapshot.version} is below {_FIRST}")
    if snapshot.version > standing.version:
        return Accept(live=not retained)
    if snapshot.version < standing.version:
        return Refuse(f"older than the accepted {standing.version}")
    if snapshot.digest != standing.digest:
        return Refuse("the accepted version with another digest")
    return Accept(live=not retained) if standing.incomplete else Current()
