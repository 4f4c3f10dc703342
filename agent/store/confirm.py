"""What is on disk and not yet in the store, and how the store is doing.

A file that was written or removed is confirmed in one transaction for many; while the store takes
nothing, that waits, with a growing pause, and nothing is lost by it: the next start looks at the
files again. Owned by the loop thread; a flush waits for the disk.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from agent.store.resources import ResourceStore
from nodecast.backoff import Backoff
from nodecast.errors import StoreBroken, StoreError
from nodecast.log import logger
from nodecast.names import ResourceKey

log = logger(__name__)


class StoreHealth:
    """Whether the store takes changes, and when to try again. `told` is called when that turns."""

    def __init__(self, backoff: Backoff, rng: random.Random, told: Callable[[], None]) -> None:
        self.error: str | None = None
        self.due = 0.0
        self._backoff = backoff
        self._rng = rng
        self._told = told
        self._failures = 0

    def failed(self, error: StoreError, now: float) -> None:
        """Raises `error` where no trying again can help."""
        if isinstance(error, StoreBroken):
            raise error
        self._failures += 1
        self.due = now + self._backoff.pause(self._failures, self._rng)
        if self.error != str(error):
            self.error = str(error)
            log.error("the store does not take a change", error=error)
            self._told()

    def works(self) -> None:
        if self.error is not None:
            log.info("the store works again", failures=self._failures)
            self._told()
        self._failures, self.due, self.error = 0, 0.0, None


class Confirmations:
    """The keys whose files are as they should be, on their way into the store."""

    def __init__(self, store: ResourceStore, health: StoreHealth) -> None:
        self._store = store
        self._health = health
        self._applied: dict[ResourceKey, str] = {}
        self._removed: set[ResourceKey] = set()

    @property
    def waiting(self) -> bool:
        return bool(self._applied or self._removed)

    def applied(self, key: ResourceKey, sum_: str) -> None:
        self._applied[key] = sum_

    def removed(self, key: ResourceKey) -> None:
        self._removed.add(key)

    def prune(self) -> None:
        """The rows changed: what was done for an earlier desire must not confirm this one."""
        rows = self._store.rows
        self._removed = {k for k in self._removed if k in rows and rows[k].leaving}
        self._applied = {k: s for k, s in self._applied.items() if k in rows and rows[k].sum == s}

    def flush(self, now: float) -> None:
        """Into the store, unless that has to wait. Raises StoreBroken."""
        if not self.waiting or now < self._health.due:
            return
        try:
            self._store.applied(self._applied)
            self._store.removed(self._removed)
        except StoreError as error:
            self._health.failed(error, now)
            return
        self._applied, self._removed = {}, set()
        self._health.works()
