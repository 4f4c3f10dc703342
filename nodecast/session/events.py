"""What goes into a session and what comes out of it.

Values only: no clock, no thread, no paho. A token is the owner's own object; the session hands it
back unread with whatever became of the publish or subscribe that it came with.
"""

from __future__ import annotations

from dataclasses import dataclass

PACKET_TOO_LARGE = 0x95
"""The reason code of MQTT 5 §2.4 for a packet above the receiver's limit."""
RETAIN_NOT_SUPPORTED, QOS_NOT_SUPPORTED = 0x9A, 0x9B
"""The reason codes of a broker without what we need of it (MQTT 5 §3.2.2.2)."""
NOT_AUTHORIZED = 0x87
"""The reason code for a topic that the broker's rules close to this client."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to publish at QoS 1, content type `application/json`.

    `encoding` goes as the user property of that name. `will_delay` (seconds) counts only where the
    message is a will: a return within it publishes no will at all.
    """

    topic: str
    payload: bytes
    retain: bool
    encoding: str | None = None
    will_delay: int = 10


@dataclass(frozen=True, slots=True)
class Subscription:
    """A topic filter at QoS 1; `replay` asks for the retained messages that it matches."""

    filter: str
    replay: bool = True


@dataclass(frozen=True, slots=True)
class Connected:
    """The broker accepted the connection: subscribe anew, nothing is left of the one before.

    `limit`: bytes of the largest packet the broker said it takes, None where it said nothing.
    `window`: how many publishes may be without acknowledgement at a time.
    """

    limit: int | None
    window: int


@dataclass(frozen=True, slots=True)
class Lost:
    """The connection is gone; the last event of it.

    `unacknowledged`: the tokens of all publishes that were neither acknowledged nor refused; those
    of one topic in the order in which they were published. Each may have reached the broker or
    not. The session sends none of them again, and forgets subscribes that were not answered.
    """

    reason: str
    unacknowledged: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The broker has the message (a PUBACK below 0x80; 0x10, nobody subscribed, is one)."""

    token: object


@dataclass(frozen=True, slots=True)
class Refused:
    """The broker will not take this message: sending it again at once changes nothing.

    `code` is the PUBACK's (0x87 not authorised). With `too_large` it is above the known or the
    learnt limit, mostly answered without sending it at all.
    """

    token: object
    reason: str
    code: int
    too_large: bool

    @property
    def remedy(self) -> str:
        """Where a person finds out more."""
        return "look at the broker's " + ("ACL" if self.code == NOT_AUTHORIZED else "log")


@dataclass(frozen=True, slots=True)
class Received:
    """A message from a subscription. `retained`: a replay of the store, not published just now."""

    topic: str
    payload: bytes
    retained: bool
    encoding: str | None


@dataclass(frozen=True, slots=True)
class Subscribed:
    """The broker answered a subscribe; `refused` are the filters that it did not grant."""

    token: object
    refused: tuple[str, ...]


Event = Connected | Lost | Acknowledged | Refused | Received | Subscribed
