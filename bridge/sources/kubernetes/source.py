"""The Kubernetes source: informers for every kind that has a rule, in every namespace asked for.

What it tells is what `bridge.sources.events` says of any source. Each informer has a thread of its
own, and `emit` is called from all of them, for one kind never from two at once.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable

from bridge.placement import Rules
from bridge.sources.events import Emit, SourceEvent
from bridge.sources.kubernetes.api import Api
from bridge.sources.kubernetes.identity import Identity
from bridge.sources.kubernetes.informer import Informer
from bridge.sources.kubernetes.kinds import KindTeller
from bridge.sources.kubernetes.scope import Scope, Tuning
from bridge.sources.kubernetes.troubles import Troubles
from nodecast.log import logger
from nodecast.names import KindName
from nodecast.threads import Fail, supervised

log = logger(__name__)

_LOOK = 1.0
"""Seconds between two looks at the informers' time limits."""
_STOP_LIMIT = 0.9
"""Seconds that `stop` waits for informers that wait for the server."""


class KubernetesSource:
    """Tells what a cluster says, and goes on. `fail` takes the error that ended a thread."""

    def __init__(
        self,
        api: Api,
        scope: Scope,
        rules: Rules,
        emit: Emit,
        *,
        fail: Fail,
        tuning: Tuning,
        rng: random.Random,
        identity: Identity | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        troubles, identity = Troubles(api.host), identity or Identity(api)
        self._clock = clock
        self._emit = emit
        self._stopped = threading.Event()
        self._limits = supervised("time limits", self._watch_over, fail)
        self._informers: dict[KindName, list[Informer]] = {}
        for rule in rules:
            namespaces = scope.of(namespaced=rule.namespaced)
            teller = KindTeller(rule.kind, namespaces, rules, self._tell)
            self._informers[rule.kind] = [
                Informer(
                    api,
                    identity,
                    rule,
                    namespace,
                    scope.selects(rule.kind),
                    teller,
                    troubles,
                    tuning=tuning,
                    fail=fail,
                    rng=rng,
                    clock=clock,
                )
                for namespace in namespaces
            ]

    def start(self) -> None:
        """Begin to list and tell."""
        for informer in self._all():
            informer.start()
        self._limits.start()

    def relist(self, kinds: Iterable[KindName]) -> None:
        """Ask for lists of kinds that are made after now. Any thread."""
        for kind in kinds:
            for informer in self._informers.get(kind, ()):
                informer.relist()

    def stop(self) -> None:
        """Tell nothing more; returns within a second. Any thread but the informers' own."""
        self._stopped.set()
        for informer in self._all():
            informer.stop()
        deadline = self._clock() + _STOP_LIMIT
        left = [i for i in self._all() if not i.join(max(0.0, deadline - self._clock()))]
        if left:
            log.warning("informers still waiting for the server, left behind", count=len(left))

    def _watch_over(self) -> None:
        """Break off what takes too long: a peer that trickles keeps its informer in a read."""
        while not self._stopped.wait(_LOOK):
            for informer in self._all():
                informer.expire()

    def _tell(self, event: SourceEvent) -> None:
        if not self._stopped.is_set():  # one that was left behind may still have its answer
            self._emit(event)

    def _all(self) -> list[Informer]:
        return [informer for each in self._informers.values() for informer in each]
