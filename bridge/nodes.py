"""What the bridge knows of each node: what it was sent, what is under way, what is owed to it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from bridge.contents import Content
from bridge.settle import Leaving
from nodecast.messages import NONE, Version


@dataclass(slots=True)
class NodeState:
    """One node. `content` went out, or is about to, as `version`; `floor`: a version that the
    node already has, so that the next one must be greater; `renew`: it must get a new version even
    if nothing changes; `owed`: it must be sent its version again. `acknowledged`: the
    newest version that the broker has confirmed. `refusal`: why it did not take the last one."""

    content: Content | None = None
    version: Version = NONE
    floor: Version = NONE
    renew: bool = False
    owed: bool = False
    in_flight: bool = False
    changed_in_flight: bool = False
    acknowledged: Version = NONE
    acknowledgement: int = 0  # the how-manieth of this instance it was
    sent_at: float = -math.inf
    not_before: float = -math.inf  # after a refusal
    failures: int = 0
    refusal: str = ""
    leaving: Leaving = field(default_factory=Leaving)

    def stamp(self, content: Content, epoch: int) -> None:
        """Give `content` the next version. Raises OverflowError past the greatest."""
        self.version = max(self.version, self.floor).next_in(epoch)
        self.content, self.renew = content, False

    @property
    def confirmed(self) -> bool:
        """Whether the broker has confirmed the newest version, and nothing is owed since."""
        return self.content is not None and not self.owed and self.acknowledged == self.version
