"""When things are said again: coalesced, spread over a fleet, and never in a tight circle.

Pure: the time comes in, in seconds of a monotonic clock, and so does the randomness.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from nodecast.backoff import Backoff

NEVER = float("inf")
_SETTLE = 0.2  # seconds in which the first changes of a burst come together


@dataclass(frozen=True, slots=True)
class ReportTimes:
    """Seconds between reports after changes, of a heartbeat, and of the spread after a new
    instance of the bridge was seen."""

    coalesce: float
    heartbeat: float
    spread: float


class ReportPace:
    """When the next report is due. One report is under way at a time; the latest state wins."""

    def __init__(self, times: ReportTimes, rng: random.Random) -> None:
        self._times = times
        self._rng = rng
        self._due = NEVER
        self._sent = -NEVER
        self._under_way = False
        self._failures = 0
        self._not_before = -NEVER
        self._backoff = Backoff(max(times.coalesce, 1.0), max(times.heartbeat, 1.0))

    def due(self) -> float:
        """When to report next; NEVER while one is under way, or without a connection."""
        return NEVER if self._under_way else max(self._due, self._not_before)

    def busy(self, now: float) -> bool:
        """Whether a report is under way, or due."""
        return self._under_way or self._due <= now

    def connected(self, now: float) -> None:
        """A connection that is subscribed: the bridge hears at once where this node is."""
        self._due, self._not_before, self._under_way = now, -NEVER, False

    def lost(self) -> None:
        self._due, self._under_way = NEVER, False

    def changed(self, now: float) -> None:
        """There is something new to report."""
        if self._due < NEVER:
            at = max(self._sent + self._times.coalesce, now + _SETTLE)
            self._due = min(self._due, at)

    def bridge_changed(self, now: float) -> None:
        """Another instance of the bridge is there: a whole fleet sees it at the same moment."""
        if self._due < NEVER:
            self._due = min(self._due, now + self._rng.uniform(0.0, self._times.spread))

    def hasten(self, now: float) -> None:
        """What was put off goes now, before the process ends."""
        if self._due <= now + self._times.coalesce:
            self._due = now

    def sent(self, now: float) -> None:
        """A report was handed over; what changes from now on is for the next."""
        self._sent, self._under_way = now, True
        self._due = now + self._times.heartbeat * self._rng.uniform(0.9, 1.1)

    def acknowledged(self) -> None:
        self._under_way, self._failures = False, 0

    def refused(self, now: float, *, again: bool) -> None:
        """The broker took no report; `again`: a smaller one may go at once."""
        self._under_way = False
        self._failures += 1
        pause = (
            0.0 if again and self._failures < 5 else self._backoff.pause(self._failures, self._rng)
        )
        self._due, self._not_before = now, now + pause


class Repeating:
    """A thing that may have to be done again and again: the first time soon, then ever later.

    Quiet for `forget` seconds, it starts anew.
    """

    def __init__(self, backoff: Backoff, rng: random.Random, forget: float = 300.0) -> None:
        self._backoff = backoff
        self._rng = rng
        self._forget = forget
        self._times = 0
        self._last = -NEVER
        self.due = NEVER

    def again(self, now: float) -> None:
        """It has to be done once more; several calls before it is due are one."""
        if self.due < NEVER:
            return
        if now - self._last > self._forget:
            self._times = 0
        self._times += 1
        self._last = now
        self.due = now + self._backoff.pause(self._times, self._rng)

    def take(self, now: float) -> bool:
        """Whether it is to be done now; then it is no longer due."""
        if now < self.due:
            return False
        self.due = NEVER
        return True

    def cancel(self) -> None:
        self.due = NEVER

    def over(self) -> None:
        """It went well: the next time is a first time."""
        self.due, self._times = NEVER, 0
