"""What is to be done for which resource, and when: desired beside what is on disk, key by key.

Pure: decides, and is told how it went; it has no clock, file, thread or log. A key is in one state
at a time and is worked on alone, so one that fails never stops the others. Back-off grows per key,
with jitter, and starts anew as soon as something else is wanted: a newer version takes the place
of a failed one at once. Times are seconds of the owner's monotonic clock.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from agent.handlers.outcome import Done, Outcome, Refused, Retry
from nodecast.backoff import Backoff
from nodecast.names import ResourceKey


class State(StrEnum):
    """The states of a resource in reports."""

    PENDING = "Pending"
    APPLIED = "Applied"
    FAILED = "Failed"
    REMOVING = "Removing"


@dataclass(frozen=True, slots=True)
class Put:
    """Make the content of `key` be what has this sum."""

    key: ResourceKey
    sum: str


@dataclass(frozen=True, slots=True)
class Drop:
    """Take `key` off the node."""

    key: ResourceKey


Action = Put | Drop


@dataclass(frozen=True, slots=True)
class Progress:
    """What is known of one key. `since`: when `state` began."""

    state: State
    since: float
    reason: str = ""
    message: str = ""
    attempts: int = 0


@dataclass(slots=True)
class _Entry:
    want: str | None  # the sum of the desired content; None: it is to go
    blocked: str | None  # why nothing may be done for it now
    progress: Progress
    ticket: int | None = None  # of its place in the queue; None: nothing to do


class Reconciler:
    """The work of a node. One owner thread."""

    def __init__(self, backoff: Backoff, rng: random.Random) -> None:
        self._backoff = backoff
        self._rng = rng
        self._entries: dict[ResourceKey, _Entry] = {}
        self._queue: list[tuple[float, int, ResourceKey]] = []
        self._tickets = itertools.count(1)

    @property
    def progress(self) -> dict[ResourceKey, Progress]:
        """Every key and how far it is."""
        return {key: entry.progress for key, entry in self._entries.items()}

    def progress_of(self, key: ResourceKey) -> Progress | None:
        entry = self._entries.get(key)
        return entry.progress if entry is not None else None

    def want(
        self, key: ResourceKey, sum_: str | None, now: float, *, blocked: str | None = None
    ) -> None:
        """`key` shall have the content of `sum_` (None: be gone). `blocked` is the reason why
        nothing may be done for it yet. What is wanted already stays as far as it is."""
        entry = self._entries.get(key)
        if entry is not None and (entry.want, entry.blocked) == (sum_, blocked):
            return
        state = State.REMOVING if sum_ is None else State.PENDING
        if entry is None:
            entry = self._entries[key] = _Entry(sum_, blocked, Progress(state, now))
        since = entry.progress.since if entry.progress.state == state else now
        entry.want, entry.blocked = sum_, blocked
        entry.progress = Progress(state, since, blocked or "")
        self._schedule(key, entry, None if blocked else now)

    def forget(self, key: ResourceKey) -> None:
        """Nothing is wanted of `key` any more."""
        self._entries.pop(key, None)

    def keys(self) -> set[ResourceKey]:
        return set(self._entries)

    def recheck(self, keys: Iterable[ResourceKey], now: float) -> None:
        """Look at what is applied again; it stays Applied unless that fails."""
        for key in keys:
            entry = self._entries.get(key)
            if entry is not None and entry.progress.state == State.APPLIED:
                self._schedule(key, entry, now)

    def next(self, now: float) -> Action | None:
        """The work that is due, oldest first; the owner answers with `finished`."""
        while self._queue and self._queue[0][0] <= now:
            _, ticket, key = heapq.heappop(self._queue)
            entry = self._entries.get(key)
            if entry is not None and entry.ticket == ticket:
                entry.ticket = None
                return Drop(key) if entry.want is None else Put(key, entry.want)
        return None

    def due(self) -> float | None:
        """When there is work next; None: not until something changes."""
        while self._queue:
            when, ticket, key = self._queue[0]
            entry = self._entries.get(key)
            if entry is not None and entry.ticket == ticket:
                return when
            heapq.heappop(self._queue)
        return None

    def finished(self, action: Action, outcome: Outcome, now: float) -> None:
        """How `action` went. An answer to what is no longer wanted is dropped."""
        entry = self._entries.get(action.key)
        wanted = action.sum if isinstance(action, Put) else None
        if entry is None or entry.want != wanted or entry.blocked:
            return
        if isinstance(outcome, Done):
            self._done(action, entry, now)
        else:
            self._failed(action.key, entry, outcome, now)

    def _done(self, action: Action, entry: _Entry, now: float) -> None:
        if isinstance(action, Drop):
            del self._entries[action.key]
        elif entry.progress.state != State.APPLIED:
            entry.progress = Progress(State.APPLIED, now)

    def _failed(
        self, key: ResourceKey, entry: _Entry, outcome: Retry | Refused, now: float
    ) -> None:
        before = entry.progress
        attempts = before.attempts + 1
        # A removal that fails stays Removing, with its reason: Failed would read as "still wanted".
        state = State.REMOVING if entry.want is None else State.FAILED
        since = before.since if before.state == state else now
        entry.progress = Progress(state, since, outcome.reason, outcome.message, attempts)
        if isinstance(outcome, Retry):
            pause = outcome.after
            if pause is None:
                pause = self._backoff.pause(attempts, self._rng)
            self._schedule(key, entry, now + pause)

    def _schedule(self, key: ResourceKey, entry: _Entry, when: float | None) -> None:
        if when is None:
            entry.ticket = None
            return
        entry.ticket = next(self._tickets)
        heapq.heappush(self._queue, (when, entry.ticket, key))
