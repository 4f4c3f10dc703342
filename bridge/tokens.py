"""What the bridge gives a publish or subscribe, to know it again by its outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from nodecast.messages import Version
from nodecast.names import NodeName


class SnapshotToken(NamedTuple):
    """A node's snapshot. One is made for every publish, so it is of the cheapest kind."""

    node: NodeName
    version: Version


@dataclass(frozen=True, slots=True)
class Control:
    """Something of the bridge's own."""

    what: str


LEDGER = Control("ledger")
PROBE = Control("probe")
BIRTH = Control("birth")
LEAVING = Control("leaving")
REPORTS = Control("reports")
REPLAY = Control("replay")
