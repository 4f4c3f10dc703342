"""How long an answer of the broker is waited for. Pure: the times come in, in monotonic seconds."""

from __future__ import annotations

_STILL_COMING = 10.0
"""Seconds: while parts of a large packet come at this pace, what is behind it is not late..."""
_MUST_HAVE_COME = 30
"""...up to so many times the time that an answer may take: no packet may come for ever."""


def answer_due(waiting_since: float, timeout: float, receiving_at: float) -> float:
    """When a broker that has not answered by then will not: the packet or its answer is lost,
    however well the link looks.

    `waiting_since`: since when the answer has been the next to come (inf: none is due);
    `receiving_at`: when a part of a packet came last (-inf: never).
    """
    coming = min(receiving_at + _STILL_COMING, waiting_since + _MUST_HAVE_COME * timeout)
    return max(waiting_since + timeout, coming)
