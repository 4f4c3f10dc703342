"""What the bridge knows of one kind: how it is seen, and why it is held or waits.

Pure, and decides nothing: `bridge.holding` keeps one of each kind, and works out what is held.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from bridge.guard import KindGuard
from bridge.sources.events import KindStatus


@dataclass(slots=True)
class KindState:
    """What is known of one kind. `listed_at`: the newest whole list was asked for then."""

    guard: KindGuard
    ruled: bool = True
    status: KindStatus | None = None
    reason: str = ""  # of a status other than OK
    approved: bool = False  # its absence from the server is meant
    answered_at: float = -math.inf
    listed_at: float = -math.inf
    lost_at: float = -math.inf  # when an object went, or came back, last
    interrupted: bool = False  # news of it may be missing
    resumed_at: float = -math.inf  # when that was over last
    glimpsed: bool = False  # a cause came, and may have gone, since the last update
    caused: bool = False  # there is a cause of its own to hold it
    cause_at: float = -math.inf  # when one was seen last, or seen gone
    held_itself: bool = False
    held: bool = False  # itself, or with a kind that it depends on
    empty_since: float | None = None
    waiting_since: float | None = None

    @property
    def seen(self) -> bool:
        """Whether its absences mean something: seen in full, or approved as missing."""
        return self.status is KindStatus.OK or self.approved

    @property
    def in_doubt(self) -> bool:
        """Whether what was there before still counts."""
        return self.held or self.waiting_since is not None

    def came_back(self, now: float) -> None:
        """An object came back: others may follow, one by one."""
        self.lost_at = now
