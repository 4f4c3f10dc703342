"""What becomes of the publishes of a connection: the window and the size limits, together.

Each publish that is offered ends as an `Acknowledged`, a `Refused`, or a token in what `died`
gives. One owner thread; nothing here waits.
"""

from __future__ import annotations

from collections.abc import Callable

from nodecast.log import logger
from nodecast.session.events import PACKET_TOO_LARGE, Acknowledged, Outgoing, Refused
from nodecast.session.limits import Flight, Sign, SizeLimits
from nodecast.session.link import Answered, Link
from nodecast.session.packets import wire_size
from nodecast.session.window import Entry, Window

log = logger(__name__)


class Sending:
    """`most`: the own window; `max_packet`: the configured limit in bytes, 0 for none."""

    __slots__ = ("_limits", "_most", "_window")

    def __init__(self, most: int, max_packet: int, clock: Callable[[], float]) -> None:
        self._most = most
        self._limits = SizeLimits(max_packet, clock)
        self._window = Window()

    @property
    def free(self) -> int:
        """How many more publishes fit into the window now."""
        return self._window.free(self._limits.alone_above)

    @property
    def limit(self) -> int | None:
        """Bytes of the largest PUBLISH that may be sent now; None: no limit is known."""
        return self._limits.limit

    @property
    def waiting_since(self) -> float:
        """Since when the next answer has been due; inf: none is."""
        return self._window.waiting_since

    def connected(self, limit: int | None, window: int) -> int:
        """A new connection, as its CONNACK has it; the window that holds for it."""
        self._limits.connected(limit)
        self._window.size = min(self._most, window)
        return self._window.size

    def unreachable(self) -> None:
        """An attempt to connect failed."""
        self._limits.unreachable()

    def offer(self, message: Outgoing, token: object) -> Refused | None:
        """Queue a publish, or refuse it for its size. Raises SessionError if no packet holds it."""
        size = wire_size(message)
        limit = self._limits.limit
        if limit is not None and size > limit:
            reason = f"{size} bytes on the wire are above the limit of {limit}"
            return Refused(token, reason, PACKET_TOO_LARGE, too_large=True)
        self._window.add(Entry(message, token, size))
        return None

    def send(self, link: Link, now: float) -> None:
        """Hand to the link what may go now."""
        window = self._window
        alone_above = self._limits.alone_above
        while (entry := window.take(alone_above)) is not None:
            mid = link.publish(entry.message)
            if mid is None:
                window.add(entry)  # the link has ended: it is one of the unacknowledged
                return
            window.sent(mid, entry, now)

    def answered(self, answer: Answered, now: float) -> Acknowledged | Refused | None:
        """What a PUBACK means for its publish; None for a packet that is none of ours."""
        entry = self._window.answered(answer.mid, now)
        if entry is None:
            return None
        if answer.code < 0x80:
            self._limits.acknowledged(entry.message.topic, entry.size)
            return Acknowledged(entry.token)
        too_large = answer.code == PACKET_TOO_LARGE
        if too_large:
            self._limits.too_large(entry.size)
        return Refused(entry.token, answer.reason, answer.code, too_large)

    def died(self, sign: Sign, proved: bool, now: float) -> tuple[list[object], Refused | None]:
        """The connection is over: the tokens without an answer, and the message that ended it.

        `proved`: something was acknowledged in it.
        """
        flights = self._window.flights(now)
        tokens = self._window.clear()
        if not self._limits.died(sign, flights, proved):
            return tokens, None
        return tokens[1:], self._withhold(tokens[0], flights[0])

    def _withhold(self, token: object, flight: Flight) -> Refused:
        log.warning(
            "size limit learnt", topic=flight.topic, size=flight.size, limit=self._limits.limit
        )
        reason = f"{flight.size} bytes on the wire end the connection: above the broker's limit"
        return Refused(token, reason, PACKET_TOO_LARGE, too_large=True)
