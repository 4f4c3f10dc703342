"""How large a message may be, as far as it is known, said or learnt.

A broker may say its limit at the connection, or not: then the connection dies when the message
arrives, with a sign (reason code 0x95, or an answer that cannot be read) or with a bare close. So
after a death that sizes may explain, the session is *wary*: a message larger than any that was ever
acknowledged goes alone, and the one that was alone at the next death was it. A link that flaps
must not teach anything, which is why:

- a death by time-out, by the owner or with an unrelated reason is no evidence;
- a bare close counts only soon after sending something large, on a connection that had acknowledged
  something, and twice for the same topic without the broker having been out of reach between;
- a size that was acknowledged is innocent, until the broker shows that it now takes less;
- a learnt limit is forgotten after an hour, and what it held back goes alone once more.

Sizes are bytes of the whole PUBLISH packet. The clock comes in from outside; no I/O, no thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

SOON = 5.0
"""Seconds after sending within which a bare close may be the answer to what was sent."""

RETRY_AFTER = 3600.0
"""Seconds for which a learnt limit holds."""

SMALLEST_LIMIT = 256
"""Bytes: no broker refuses less for its size; a limit below would silence presence itself."""

SMALLEST_BY_CLOSE = 16 * 1024
"""Bytes: a bare close has too many causes to judge less by it (brokers that restart in a row)."""

_STRIKES = 2
_MOST_STRIKES = 1000


class Sign(Enum):
    """What the end of a connection says about what was in flight."""

    TOO_LARGE = "too large"
    """0x95, or an acknowledgement that does not decode."""
    CLOSED = "closed"
    """A bare end or reset of the stream: many causes."""
    TAKEN_OVER = "taken over"
    """0x8E: another client with the same client id."""
    UNRELATED = "unrelated"
    """A time-out, our own leave, or a reason that sizes cannot explain."""


@dataclass(frozen=True, slots=True)
class Flight:
    """A publish without acknowledgement when its connection died; `age` is seconds since sent."""

    topic: str
    size: int
    age: float


class SizeLimits:
    """The largest PUBLISH that may be sent now. One owner thread."""

    __slots__ = (
        "_announced",
        "_clock",
        "_configured",
        "_disproofs",
        "_learnt",
        "_proven",
        "_strikes",
        "_suspected",
        "_until",
    )

    def __init__(self, configured: int, clock: Callable[[], float]) -> None:
        self._configured = configured or None
        self._clock = clock
        self._announced: int | None = None
        self._learnt: int | None = None
        self._until = 0.0
        self._proven = 0
        self._suspected = 0
        self._disproofs = 0
        self._strikes: dict[str, int] = {}

    @property
    def limit(self) -> int | None:
        """Bytes of the largest PUBLISH that may be sent now; None: no limit is known."""
        if self._learnt is not None and self._clock() >= self._until:
            self._learnt = None
        known = [x for x in (self._configured, self._announced, self._learnt) if x is not None]
        return min(known) if known else None

    @property
    def alone_above(self) -> int | None:
        """Messages larger than this go alone; None: nothing is under suspicion."""
        return self._proven if self._suspected > self._proven else None

    def connected(self, announced: int | None) -> None:
        """A new connection, with the limit that its CONNACK gave."""
        self._announced = announced

    def unreachable(self) -> None:
        """The broker did not answer a connection: the deaths before had that cause, not a size."""
        self._strikes.clear()
        self._disproofs = 0

    def acknowledged(self, topic: str, size: int) -> None:
        """The broker took a message of `size`."""
        if size > self._proven:
            self._proven = size
            if self._learnt is not None and size > self._learnt:
                self._learnt = None
        if self._strikes:
            self._strikes.pop(topic, None)

    def too_large(self, size: int) -> None:
        """The broker refused a message of `size` for its size, and lived."""
        self._learn(size - 1)

    def died(self, sign: Sign, flights: Sequence[Flight], healthy: bool) -> bool:
        """A connection died with `flights`; `healthy`: it had acknowledged something before.

        True: there was one message, and it is above the limit that is learnt from it now.
        """
        if not self._counts(sign, flights):
            return False
        largest = max(flight.size for flight in flights)
        if largest <= self._proven and not self._disproved(sign):
            return False
        self._suspected = max(self._suspected, largest)
        smallest = SMALLEST_BY_CLOSE if sign is Sign.CLOSED else SMALLEST_LIMIT
        if len(flights) > 1 or largest <= smallest:
            return False
        if sign is Sign.CLOSED and not (healthy and self._struck_out(flights[0].topic)):
            return False
        self._learn(largest - 1)
        return True

    def _counts(self, sign: Sign, flights: Sequence[Flight]) -> bool:
        if sign is Sign.TOO_LARGE:
            return bool(flights)
        return sign is Sign.CLOSED and any(flight.age <= SOON for flight in flights)

    def _disproved(self, sign: Sign) -> bool:
        """Only innocent sizes were in flight: does the broker take less than it did?"""
        self._disproofs += _STRIKES if sign is Sign.TOO_LARGE else 1
        if self._disproofs < _STRIKES:
            return False
        self._disproofs = 0
        self._proven = 0
        return True

    def _struck_out(self, topic: str) -> bool:
        if len(self._strikes) >= _MOST_STRIKES:
            self._strikes.clear()
        self._strikes[topic] = self._strikes.get(topic, 0) + 1
        return self._strikes[topic] >= _STRIKES

    def _learn(self, limit: int) -> None:
        self._learnt = limit if self._learnt is None else min(limit, self._learnt)
        self._until = self._clock() + RETRY_AFTER
        self._proven = min(self._proven, limit)
        self._strikes.clear()
