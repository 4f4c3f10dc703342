"""Which publish goes next, and which are without acknowledgement.

The window is kept here and not in paho, whose inner queue walks its whole length on every
acknowledgement. Normally first in, first out. With sizes under suspicion (see `limits`) a message
above the proven size goes only when nothing else is in flight, and nothing follows until it is
answered; the smallest goes first, but messages of one topic never overtake each other. Pure: no
clock, no I/O. One owner thread.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from nodecast.session.events import Outgoing
from nodecast.session.limits import Flight


class Entry(NamedTuple):
    """A publish on its way: `size` is bytes on the wire, `token` the owner's."""

    message: Outgoing
    token: object
    size: int


class Window:
    """The queue of a connection and what it has in flight."""

    __slots__ = ("_flying", "_queue", "size", "waiting_since")

    def __init__(self) -> None:
        self.size = 0
        self._queue: deque[Entry] = deque()
        self._flying: dict[int, tuple[Entry, float]] = {}
        self.waiting_since = math.inf
        """Since when the answer to the oldest has been the next to come; inf: none is due.

        Answers come in the order of the publishes (MQTT 5 §4.6), so a full window on a slow link
        is not late as long as it moves.
        """

    def free(self, alone_above: int | None) -> int:
        """How many more publishes fit now.

        None while a wary session still has something queued: else small messages that keep coming
        would hold back the large one that has to go alone.
        """
        if alone_above is not None and self._queue:
            return 0
        return max(0, self.size - len(self._flying) - len(self._queue))

    def add(self, entry: Entry) -> None:
        """Queue a publish; beyond the window it waits here."""
        self._queue.append(entry)

    def take(self, alone_above: int | None) -> Entry | None:
        """The next publish that may be sent now; it must be sent, and told to `sent`."""
        if not self._queue or len(self._flying) >= self.size:
            return None
        if alone_above is None:
            return self._queue.popleft()
        return self._take_warily(alone_above)

    def _take_warily(self, alone_above: int) -> Entry | None:
        if any(entry.size > alone_above for entry, _ in self._flying.values()):
            return None
        heads: dict[str, Entry] = {}
        for entry in self._queue:
            heads.setdefault(entry.message.topic, entry)
        chosen = min(heads.values(), key=lambda entry: entry.size)
        if chosen.size > alone_above and self._flying:
            return None
        for index, entry in enumerate(self._queue):
            if entry is chosen:
                del self._queue[index]
                break
        return chosen

    def sent(self, mid: int, entry: Entry, now: float) -> None:
        """`entry` went out at `now` as packet `mid`."""
        if not self._flying:
            self.waiting_since = now
        self._flying[mid] = (entry, now)

    def answered(self, mid: int, now: float) -> Entry | None:
        """The publish that packet `mid` was; None when it is none of ours."""
        oldest = next(iter(self._flying), None)
        flown = self._flying.pop(mid, None)
        if mid == oldest:
            self.waiting_since = now if self._flying else math.inf
        return None if flown is None else flown[0]

    def flights(self, now: float) -> Sequence[Flight]:
        """What is without acknowledgement, oldest first."""
        return [
            Flight(entry.message.topic, entry.size, now - sent)
            for entry, sent in self._flying.values()
        ]

    def clear(self) -> list[object]:
        """Forget all; the tokens of what was in flight, then of what was queued."""
        tokens = [entry.token for entry, _ in self._flying.values()]
        tokens += [entry.token for entry in self._queue]
        self._flying.clear()
        self.waiting_since = math.inf
        self._queue.clear()
        return tokens
