"""A candidate for a Lease: asks the server what the elector wants to know, and says how it goes.

One daemon thread, `lease`, asks; it may wait for the server, and whoever reads `right` never does:
what a silent server was last heard to grant ends by the clock. That clock (CLOCK_BOOTTIME) counts
while the process is stopped, and while the machine sleeps.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

from bridge.lease import Elector, Right, Terms
from bridge.sources.kubernetes.failures import ApiFailure, Refusal
from bridge.sources.kubernetes.leases import LeaseClient, why_not
from nodecast.log import Repeats, gist, logger
from nodecast.threads import Fail, supervised

log = logger(__name__)

_STOP_LIMIT = 2.0
"""Seconds that `stop` waits for the Lease to be released; if it is not, it runs out by itself."""


def boot_clock() -> float:
    """Seconds since the machine was started, its sleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Candidate:
    """See the module, and `bridge.lease.Leadership`. `changed` is called, in the thread, when the
    right was won or lost."""

    def __init__(
        self,
        client: LeaseClient,
        me: str,
        terms: Terms,
        changed: Callable[[], None],
        fail: Fail,
        *,
        rng: random.Random,
        clock: Callable[[], float] = boot_clock,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._me = me
        self._elector = Elector(me, terms, rng)
        self._changed = changed
        self._clock = clock
        self._wall_clock = wall_clock
        self._said = Repeats()
        self._halt = threading.Event()
        self._thread = supervised("lease", self._run, fail)

    @property
    def right(self) -> Right | None:
        return self._elector.right

    def now(self) -> float:
        return self._clock()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._halt.set()
        if self._thread.ident is not None:
            self._thread.join(_STOP_LIMIT)
            if self._thread.is_alive():
                log.warning("the lease is not released: it runs out", lease=self._client.place)

    # -- the thread

    def _run(self) -> None:
        while not self._halt.wait(max(0.0, self._elector.next_at - self._clock())):
            before = self._elector.right
            try:
                self._ask()
            except (ApiFailure, Refusal) as error:
                self._elector.failed(self._clock())
                self._say_trouble(error)
            else:
                self._say_over()
            self._tell(before)
        self._release()

    def _ask(self) -> None:
        elector = self._elector
        wanted = elector.ask(self._clock())
        if wanted is None:
            elector.found(self._client.read(), self._clock())
            return
        try:
            lease = self._client.write(wanted, self._time())
        except Refusal as refusal:
            if refusal.status == 409 or (refusal.status == 404 and wanted.old is not None):
                elector.refused(self._clock())
                return
            raise
        elector.wrote(lease, wanted, self._clock())

    def _release(self) -> None:
        wanted = self._elector.release(self._clock())
        if wanted is None:
            return
        try:
            self._client.write(wanted, self._time())
            log.info("lease released", lease=self._client.place)
        except (ApiFailure, Refusal) as error:
            log.warning(
                "the lease is not released: it runs out", lease=self._client.place, reason=error
            )

    def _time(self) -> str:
        return datetime.fromtimestamp(self._wall_clock(), UTC).isoformat(timespec="microseconds")

    # -- what is said of it

    def _tell(self, before: Right | None) -> None:
        now, holder = self._elector.right, self._elector.holder
        others = now is None and holder not in ("", self._me)
        if others and self._said.new("holder", holder):
            log.info(
                "standing by: another instance holds the lease",
                lease=self._client.place,
                holder=holder,
            )
        if (before and before.term) != (now and now.term):
            if now is not None:
                self._said.over("holder")
                log.info("lease acquired", lease=self._client.place, holder=self._me, term=now.term)
            self._changed()

    def _say_trouble(self, error: Exception) -> None:
        reason = why_not(error, self._client.place)
        if self._said.new("trouble", gist(reason)):
            log.error(
                "the lease cannot be had or kept now, trying again",
                lease=self._client.place,
                reason=reason,
            )

    def _say_over(self) -> None:
        if self._said.over("trouble"):
            log.info("the lease can be used again", lease=self._client.place)
