"""Subscribes that wait for their answer.

One subscribe of the owner may need several packets, since a SUBSCRIBE counts against the broker's
packet limit too; its answer is one all the same. No I/O of its own. One owner thread.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from nodecast.log import logger
from nodecast.session.events import Subscribed, Subscription
from nodecast.session.link import Granted, Link
from nodecast.session.packets import subscribe_size

log = logger(__name__)


@dataclass(slots=True)
class _Pending:
    token: object
    since: float
    packets: int = 0
    refused: list[str] = field(default_factory=list)


class Subscribing:
    """What was asked, by packet id."""

    __slots__ = ("_asked",)

    def __init__(self) -> None:
        self._asked: dict[int, tuple[_Pending, tuple[str, ...]]] = {}

    @property
    def waiting_since(self) -> float:
        """When the oldest subscribe without an answer was begun; inf: there is none."""
        oldest = next(iter(self._asked.values()), None)
        return math.inf if oldest is None else oldest[0].since

    def begin(
        self,
        link: Link,
        filters: Sequence[Subscription],
        token: object,
        limit: int | None,
        now: float,
    ) -> None:
        """Queue the packets. Raises SessionError for a filter that is none."""
        pending = _Pending(token, now)
        for part in _parts(filters, limit):
            mid = link.subscribe(part)
            if mid is not None:
                pending.packets += 1
                self._asked[mid] = (pending, tuple(each.filter for each in part))

    def answered(self, answer: Granted) -> Subscribed | None:
        """The owner's answer once all its packets have theirs."""
        pending, filters = self._asked.pop(answer.mid, (None, ()))
        if pending is None:
            return None
        pending.packets -= 1
        pending.refused += [
            each for each, code in zip(filters, answer.codes, strict=False) if code >= 0x80
        ]
        if pending.packets:
            return None
        if pending.refused:
            log.warning(
                "the broker refused subscriptions",
                filters=len(pending.refused),
                first=pending.refused[0],
            )
        return Subscribed(pending.token, tuple(pending.refused))

    def clear(self) -> None:
        """The connection is gone, and with it all subscriptions."""
        self._asked.clear()


def _parts(filters: Sequence[Subscription], limit: int | None) -> Iterator[list[Subscription]]:
    part: list[Subscription] = []
    size = subscribe_size([])
    for each in filters:
        more = subscribe_size([each.filter]) - subscribe_size([])
        if part and limit is not None and size + more > limit:
            yield part
            part, size = [], subscribe_size([])
        part.append(each)
        size += more
    if part:
        yield part
