"""Who is in charge: the election of one holder by a Lease, as a state machine.

The server's part is to take a write only from who knows its newest version; the rest is time, and
each candidate goes by its own clock alone. What always holds:

- The right of a holder ends `renew` seconds after the *beginning* of its last write that was
  acknowledged, whether or not it can ask anybody: a silent server keeps no right alive.
- Another's right is over once its Lease was released, or was not seen to change for the `duration`
  that it names: that is longer than `renew` by more than clocks differ in speed.
- A Lease that names us counts like another's where we have no right by it: it may come from a
  backup of the cluster, or from an answer that came too late. So does one that was deleted.
- Each time that the right is won is a term of its own, also when nobody had it in between.

Pure: time comes in as seconds of a clock that never jumps and that counts while this machine
sleeps. One owner thread; `right` may be read from any.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from nodecast.backoff import Backoff

JITTER = 0.2
"""How much shorter or longer than `retry` a pause may be, as a share of it."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Seconds. `duration`: how long the Lease must have stood still before another takes it;
    `renew`: how long a write of the holder gives the right; `retry`: between two requests."""

    duration: int = 15
    renew: float = 10.0
    retry: float = 2.0


@dataclass(frozen=True, slots=True)
class Lease:
    """The Lease as the server has it. `holder`: empty for nobody; `duration`: seconds, None where
    it has none; the times are for people; `version`: another one means that it was written."""

    holder: str
    duration: float | None
    acquired: str
    renewed: str
    transitions: int
    version: str
    metadata: Mapping[str, object] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Right:
    """To be in charge, before the second `until`. `term`: the how-manieth that this process has."""

    term: int
    until: float


NO_END = Right(1, math.inf)


@dataclass(frozen=True, slots=True)
class Write:
    """Write it: over the version of `old`, or (None) where there is none. `holder` empty: release
    it. `anew`: the holder is another one than before."""

    began: float
    old: Lease | None
    holder: str
    duration: int
    anew: bool


class Elector:
    """One candidate. Its owner asks what `ask` says when `next_at` has come, and tells the answer
    by one of `found`, `wrote`, `refused` and `failed`."""

    def __init__(self, me: str, terms: Terms, rng: random.Random) -> None:
        """`me`: a name that no other process has ever had."""
        self._me = me
        self._terms = terms
        self._rng = rng
        self._backoff = Backoff(first=terms.retry, most=max(terms.retry, terms.duration))
        self._seen: Lease | None = None  # as it was seen last
        self._missing = False  # it was gone after that
        self._changed_at = -math.inf  # when that was seen for the first time
        self._fresh = False  # and nothing else is to be expected: it may be written
        self._refusals = self._failures = self._term = 0
        self.right: Right | None = None
        self.next_at = -math.inf

    @property
    def holder(self) -> str:
        """Who is named as the holder; empty for nobody."""
        return "" if self._seen is None or self._missing else self._seen.holder

    def holds(self, now: float) -> bool:
        return self.right is not None and now < self.right.until

    def ask(self, now: float) -> Write | None:
        """What is to be asked of the server now: to write the Lease, or (None) to read it."""
        if not self.holds(now):
            self.right = None
        if self._fresh and (self.right is not None or self._free_at <= now):
            old = None if self._missing else self._seen
            anew = old is None or old.holder != self._me
            return Write(now, old, self._me, self._terms.duration, anew)
        return None

    def release(self, now: float) -> Write | None:
        """Give the right up; what is to be written for it, None where the Lease is not ours now."""
        held, self.right = self.holds(now), None
        if not held or not self._fresh or self._missing:
            return None
        self._fresh = False
        return Write(now, self._seen, "", 1, True)

    # -- the answers

    def found(self, lease: Lease | None, now: float) -> None:
        """A read was answered; None: there is no such Lease."""
        self._saw(lease, now)
        self._failures = 0
        held = self.holds(now)
        if not held or (lease is not None and lease.holder != self._me):
            self.right = None
        free_at = now if self.right is not None else self._free_at
        self._fresh = free_at <= now
        self.next_at = max(now, min(free_at, now + self._pause()))

    def wrote(self, lease: Lease, asked: Write, now: float) -> None:
        """A write of ours was taken: this is what the server has now."""
        self._saw(lease, now)
        self._fresh = True
        self._refusals = self._failures = 0
        until = asked.began + self._terms.renew
        if now >= until:
            self.right, self._fresh = None, False  # too late to be of use
        elif self.holds(now):
            self.right = Right(self._term, until)
        else:
            self._term += 1
            self.right = Right(self._term, until)
        self.next_at = now + self._pause()

    def refused(self, now: float) -> None:
        """A write was based on what is not so any more: look again, at once the first time."""
        self._fresh = False
        self._refusals += 1
        self.next_at = now if self._refusals == 1 else now + self._pause()

    def failed(self, now: float) -> None:
        """There was no answer, or none that says anything of the Lease: a write may be done."""
        self._fresh = False
        self._failures += 1
        if self.holds(now):  # time is short
            self.next_at = now + self._pause() / 2
        else:
            self.next_at = now + self._backoff.pause(self._failures, self._rng)

    # -- within

    def _saw(self, lease: Lease | None, now: float) -> None:
        if lease is None:
            if self._seen is None:
                self._missing = True  # it was never there: nobody has a right by it
            elif not self._missing:
                self._missing, self._changed_at = True, now
        elif self._missing or self._seen is None or self._seen.version != lease.version:
            self._seen, self._missing, self._changed_at = lease, False, now

    @property
    def _free_at(self) -> float:
        """From when on nobody has the right, by what was seen."""
        seen = self._seen
        if seen is None or (not seen.holder and not self._missing):
            return -math.inf
        if seen.duration is None or self._missing:  # who had it last, and how, is not known
            return self._changed_at + max(self._terms.duration, seen.duration or 0)
        return self._changed_at + seen.duration

    def _pause(self) -> float:
        return self._terms.retry * self._rng.uniform(1 - JITTER, 1 + JITTER)


class Leadership(Protocol):
    """The right to be in charge, as the bridge's loop sees it."""

    @property
    def right(self) -> Right | None:
        """As it was won or renewed last; it is over at its `until`, whatever stands here."""

    def now(self) -> float:
        """Seconds of the clock that `until` is of."""

    def start(self) -> None:
        """Begin to be a candidate."""

    def stop(self) -> None:
        """Give the right up; returns within a few seconds."""


class Unshared:
    """Where there is no Lease: nobody is asked, and the ledger decides."""

    right = NO_END

    def now(self) -> float:
        return 0.0

    def start(self) -> None:
        """Nothing to begin."""

    def stop(self) -> None:
        """Nothing to give up."""
