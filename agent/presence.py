"""What the broker tells others about this node, kept true.

The birth follows every connection; whoever sees the own `state` say anything else (offline, another
instance, nothing) says it again, ever more slowly where somebody keeps on saying otherwise. Pure
but for the log; the time comes in.
"""

from __future__ import annotations

import random

from agent.pace import NEVER, Repeating
from nodecast.backoff import Backoff
from nodecast.log import Repeats, logger
from nodecast.messages import Presence
from nodecast.names import NodeName

log = logger(__name__)

ECHO_WAIT = 10.0
"""Seconds after the SUBACK in which the own birth must have come back."""
_AGAIN = Backoff(1.0, 120.0)


class OwnState:
    """The own `state` topic, as one connection after the other shows it."""

    def __init__(self, node: NodeName, instance: str, rng: random.Random) -> None:
        self.echoed = False
        """The birth came back on this connection, and with it all that was retained before."""
        self.echo_due = NEVER
        self._node = node
        self._instance = instance
        self._births = Repeating(_AGAIN, rng)
        self._said = Repeats()
        self._leaving = False

    def due(self) -> float:
        return self._births.due

    def connecting(self) -> None:
        self.echoed = False

    def born(self, now: float) -> None:
        """The birth was said for the first time on this connection."""
        self.echo_due = now + ECHO_WAIT

    def lost(self) -> None:
        self.echo_due = NEVER
        self._births.cancel()

    def leave(self) -> None:
        """Offline is the truth from now on."""
        self._leaving = True
        self._births.cancel()

    def refused(self, now: float) -> None:
        """The broker did not take the birth."""
        self._births.again(now)

    def take(self, now: float) -> bool:
        """Whether the birth is to be said again now."""
        return self._births.take(now)

    def take_echo(self, now: float) -> bool:
        """Whether the wait for the birth's echo is over now: it came, or it will not."""
        if now < self.echo_due:
            return False
        self.echo_due = NEVER
        return True

    def shown(self, presence: Presence | None, *, retained: bool, now: float) -> None:
        """What `state` says now; None: nothing, or nothing that reads."""
        if presence is not None and presence.online and presence.instance == self._instance:
            if not retained:
                self.echoed = True
                self.echo_due = min(self.echo_due, now)
                self._births.cancel()
            return
        if not self.echoed or self._leaving:
            return  # before the echo it is what was there before the birth, which replaced it
        self._births.again(now)
        if presence is not None and presence.online and self._said.new("twin"):
            log.warning(
                "another agent speaks for this node: two devices from one image, or the same node"
                " name given twice",
                node=self._node,
                instance=presence.instance,
            )
