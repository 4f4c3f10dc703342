"""What the broker tells others about this node, kept true.

The birth follows every connection; whoever sees the own `state` say anything else (offline, another
instance, nothing) says it again, ever more slowly where somebody keeps on saying otherwise. The
will says offline for this instance when the process is gone, and so does the last word of one that
leaves.

Owned by the loop thread; waits for nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from agent.pace import NEVER, Repeating
from nodecast import __version__
from nodecast.backoff import Backoff
from nodecast.log import Repeats, logger
from nodecast.messages import Presence, encode
from nodecast.names import BridgeName, NodeName
from nodecast.session import Outgoing, Refused
from nodecast.topics import Topic

log = logger(__name__)

ECHO_WAIT = 10.0
"""Seconds after the SUBACK in which the own birth must have come back."""
_AGAIN = Backoff(1.0, 120.0)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who speaks. `instance` is new at every start of the process, which was at `since` (for
    people)."""

    node: NodeName
    bridge: BridgeName
    instance: str
    since: str


@dataclass(frozen=True, slots=True)
class PresenceToken:
    """Names a presence that was handed over, by what it said."""

    online: bool


class OwnState:
    """The own `state` topic, as one connection after the other shows it, and what is said on it."""

    def __init__(
        self,
        identity: Identity,
        topic: Topic,
        *,
        publish: Callable[[Outgoing, object], None],
        rng: random.Random,
    ) -> None:
        self.echoed = False
        """The birth came back on this connection, and with it all that was retained before."""
        self.offline_said = False
        """The last word was answered."""
        self._me = identity
        self._topic = topic
        self._publish = publish
        self._births = Repeating(_AGAIN, rng)
        self._echo_due = NEVER
        self._said = Repeats()
        self._leaving = False

    def due(self) -> float:
        """When `work` or `take_echo` has something to do."""
        return min(self._births.due, self._echo_due)

    # --- events

    def connecting(self) -> None:
        """A new connection, before its subscriptions are answered."""
        self.echoed = False

    def born(self, now: float) -> None:
        """The subscriptions were answered for the first time on this connection: say the birth."""
        self._say(online=True)
        self._echo_due = now + ECHO_WAIT

    def lost(self) -> None:
        self._echo_due = NEVER
        self._births.cancel()

    def leave(self) -> None:
        """Offline is the truth from now on."""
        self._leaving = True
        self._births.cancel()

    def acknowledged(self, token: PresenceToken) -> None:
        if token.online:
            self._said.over("birth")
        else:
            self.offline_said = True

    def refused(self, token: PresenceToken, event: Refused, now: float) -> None:
        """The broker did not take a presence; the last word is not said twice."""
        if not token.online:
            self.offline_said = True
            return
        self._births.again(now)
        if self._said.new("birth", str(event.code)):
            log.warning(
                "the broker refuses the birth",
                topic=self._topic,
                reason=event.reason,
                do=event.remedy,
            )

    def shown(self, presence: Presence | None, *, retained: bool, now: float) -> None:
        """What `state` says now; None: nothing, or nothing that reads."""
        if presence is not None and presence.is_birth_of(self._me.instance):
            if not retained:
                self.echoed = True
                self._echo_due = min(self._echo_due, now)
                self._births.cancel()
            return
        if not self.echoed or self._leaving:
            return  # before the echo it is what was there before the birth, which replaced it
        self._births.again(now)
        if presence is not None and presence.online and self._said.new("twin"):
            log.warning(
                "another agent speaks for this node: two devices from one image, or the same node"
                " name given twice",
                node=self._me.node,
                instance=presence.instance,
            )

    # --- what it says

    def work(self, now: float) -> None:
        """Say the birth again, when it is due."""
        if self._births.take(now):
            self._say(online=True)

    def take_echo(self, now: float) -> bool:
        """Whether the wait for the birth's echo is over now: it came, or it will not."""
        if now < self._echo_due:
            return False
        self._echo_due = NEVER
        return True

    def say_offline(self) -> None:
        """The last word."""
        self._say(online=False)

    def presence(self, *, online: bool) -> Outgoing:
        """What is said of this node; the will is the one that is not online."""
        body = encode(
            Presence(
                online=online,
                instance=self._me.instance,
                since=self._me.since,
                version=__version__,
            )
        )
        return Outgoing(self._topic, body, retain=True)

    def _say(self, *, online: bool) -> None:
        self._publish(self.presence(online=online), PresenceToken(online))
