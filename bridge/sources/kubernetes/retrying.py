"""When an informer asks again: growing, jittered pauses for every kind of end.

Pure: time comes in as seconds that something lasted. An end is judged by how long the work went
well, not by what it brought: a server that sends one event and closes is no better than one that
sends none.
"""

from __future__ import annotations

import random

from bridge.sources.kubernetes.failures import Refusal
from bridge.sources.kubernetes.scope import BACKOFF, LASTED
from nodecast.backoff import Backoff

_LONGEST_RETRY_AFTER = 60.0


class Retries:
    """Counts failures in a row and gives pauses. One owner thread.

    `enough`: seconds after which a watch has proved itself.
    """

    __slots__ = ("_backoff", "_enough", "_failures", "_gone", "_rng")

    def __init__(
        self, rng: random.Random, backoff: Backoff = BACKOFF, enough: float = LASTED
    ) -> None:
        self._rng = rng
        self._backoff = backoff
        self._enough = enough
        self._failures = 0
        self._gone = False

    @property
    def failures(self) -> int:
        """In a row, up to now."""
        return self._failures

    def pause(self, error: Exception | None, lasted: float) -> float:
        """Seconds to wait after list and watch ended, with or without an error.

        `lasted`: seconds for which the watch had been open.
        """
        if lasted >= self._enough:
            self._failures, self._gone = 0, False
            if error is None:
                return 0.0
        if isinstance(error, Refusal):
            if error.status == 410 and not self._gone:
                self._gone = True  # the first costs a list, the second a pause too
                return 0.0
            if error.retry_after is not None:  # it says itself when: nothing to grow
                asked = min(error.retry_after, _LONGEST_RETRY_AFTER)
                return max(asked, self._backoff.first / 2) * self._rng.uniform(1.0, 1.25)
        self._failures += 1
        return self._backoff.pause(self._failures, self._rng)
