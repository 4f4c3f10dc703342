"""List, then watch, for ever: one kind in one namespace, or in all.

What always holds:
- A list is made of all its pages, each a List of this kind, or it does not count.
- A watch goes on from the last version seen; a broken one is resumed, one that the server has no
  past for (410) is replaced by a list. Nothing is taken from a line that did not come whole.
- Everything has a time limit: a watch is asked to end by itself within a minute, and a peer that
  is silent for longer is given up. A list is made every half hour all the same, since a watch can
  be silent for ever after the cluster's store was restored.
- Every end is followed by a pause that `Retries` gives.

One daemon thread an informer. It waits for the server; `stop` and `relist` break into that, except
while the headers of an answer are awaited.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from bridge.placement import Rule
from bridge.sources.events import KindStatus
from bridge.sources.kubernetes.answers import Garbled, Lines, pages_of, selection
from bridge.sources.kubernetes.api import WHOLE, Api, Response, chunks
from bridge.sources.kubernetes.discovery import find
from bridge.sources.kubernetes.failures import ApiFailure, Refusal
from bridge.sources.kubernetes.identity import Identity
from bridge.sources.kubernetes.kinds import KindTeller
from bridge.sources.kubernetes.reasons import in_words, status_of, why_held
from bridge.sources.kubernetes.resources import Resource
from bridge.sources.kubernetes.retrying import Retries
from bridge.sources.kubernetes.scope import Namespace, Tuning
from bridge.sources.kubernetes.sight import Contradiction
from bridge.sources.kubernetes.troubles import Troubles
from nodecast.log import logger
from nodecast.threads import Fail, supervised

log = logger(__name__)

_LIST_AFTER = 3
"""Every so many failures in a row a list decides, whatever they were."""
_EXPECTED = (ApiFailure, Refusal, Garbled, Contradiction)


class Informer:
    """See the module. `start`, `relist` and `stop`: any thread."""

    def __init__(
        self,
        api: Api,
        identity: Identity,
        rule: Rule,
        namespace: Namespace,
        selector: str,
        teller: KindTeller,
        troubles: Troubles,
        *,
        tuning: Tuning,
        fail: Fail,
        rng: random.Random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._identity = identity
        self._server = api.servers
        self._rule = rule
        self._namespace = namespace
        self._selector = selector
        self._teller = teller
        self._sight = teller.sight(namespace, self._break_off)
        self._troubles = troubles
        self._tuning = tuning
        self._rng = rng
        self._clock = clock
        self._retries = Retries(rng, tuning.backoff, tuning.enough)
        self._name = str(rule.kind) + (f" in {namespace}" if namespace is not None else "")
        self._thread = supervised(f"informer {self._name}", self._run, fail)
        self._halt = threading.Event()
        self._asked = threading.Event()
        self._lock = threading.Lock()
        self._response: Response | None = None  # what is read just now
        self._watching = False
        self._until = math.inf  # when its time is over
        self._resource: Resource | None = None
        self._said_unreadable: dict[str, str] = {}
        self._must_list = True
        self._relist_at = 0.0
        self._unwatched = ""  # why it may not be watched
        self._verb = "list"
        self._asked_at = 0.0
        self._opened_at: float | None = None
        self._cut_short = False  # the trouble is that watches do not last

    def start(self) -> None:
        self._thread.start()

    def relist(self) -> None:
        """Make a list that begins after now."""
        self._asked.set()
        self._break_off()

    def stop(self) -> None:
        """Begin to stop: see `join`."""
        self._halt.set()
        self._asked.set()
        with self._lock:
            self._interrupt()

    def join(self, timeout: float) -> bool:
        """Whether it has ended, within `timeout` seconds."""
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    # -- the loop

    def _run(self) -> None:
        while not self._halt.is_set():
            self._round()

    def _round(self) -> None:
        """List if need be, watch until that ends, and pause."""
        self._opened_at = None
        error: Exception | None = None
        try:
            self._list_then_watch()
        except _EXPECTED as expected:
            error = expected
        if self._halt.is_set() or (self._asked.is_set() and self._opened_at is not None):
            return  # the end was our own wish
        lasted = 0.0 if self._opened_at is None else self._clock() - self._opened_at
        pause = self._retries.pause(error, lasted)
        self._ended(error, lasted, pause)
        # Where the server does answer, whoever asks for a list need not wait.
        answered = status_of(error, self._verb) is not None
        (self._asked if answered else self._halt).wait(pause)

    def _list_then_watch(self) -> None:
        if self._server != self._api.servers:  # another one knows nothing of our versions
            self._server, self._must_list = self._api.servers, True
        if self._asked.is_set():  # whoever asked waits for a list, and pauses are whole again
            self._asked.clear()
            self._must_list = True
        self._verb, self._asked_at = "find", self._clock()
        if self._resource is None:
            self._resource = find(self._api, self._rule)
        self._verb = "list"
        if self._must_list or self._asked.is_set() or self._clock() >= self._relist_at:
            self._list(self._resource)
        self._verb = "watch"
        self._watch(self._resource)

    def _list(self, resource: Resource) -> None:
        self._must_list = True  # until it is whole: who asked for it waits for it
        self._asked.clear()
        asked_at = self._asked_at = self._clock()
        collected = self._sight.begin_list()
        version = collected.fill(
            pages_of(
                lambda query: self._read(resource, query),
                resource,
                selection(self._selector),
                self._tuning.page,
            )
        )
        self._identity.confirm()  # after it: what it says is of this cluster
        self._must_list = False
        self._relist_at = asked_at + self._tuning.resync * self._rng.uniform(0.9, 1.1)
        self._teller.listed(self._namespace, collected, version, asked_at, self._unwatched)
        self._say_unreadable()
        log.debug("listed", of=self._name, objects=len(self._sight.objects), version=version)

    def _watch(self, resource: Resource) -> None:
        seconds = math.ceil(self._tuning.watch * self._rng.uniform(0.75, 1.0))
        query = selection(self._selector) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._sight.version,
            "timeoutSeconds": str(seconds),
        }
        self._sight.begin_watch()
        try:
            with self._open(resource, query, seconds + self._tuning.grace, True) as response:
                self._accepted()
                self._follow(response)
        finally:
            self._teller.finish(self._namespace)
            self._say_unreadable()

    def _follow(self, response: Response) -> None:
        lines = Lines()
        for piece in chunks(response):
            self._teller.events(self._namespace, lines.feed(piece))
            if self._cut_short:
                self._proved()
            self._say_unreadable()
            if self._asked.is_set() or self._clock() > self._until:  # `stop` asks, too
                return

    def _read(self, resource: Resource, query: Mapping[str, str]) -> dict[str, Any]:
        with self._open(resource, query, self._tuning.silence) as response:
            return self._api.json_of(response)

    @contextmanager
    def _open(
        self, resource: Resource, query: Mapping[str, str], read: float, watching: bool = False
    ) -> Iterator[Response]:
        """An answer that `stop` (and `relist`, where it is a watch) can break off."""
        path = resource.path(self._namespace)
        with self._api.open(path, query, read=read) as response:
            with self._lock:
                self._response, self._watching = response, watching
                self._until = self._clock() + (read if watching else WHOLE)
                if self._halt.is_set() or (watching and self._asked.is_set()):
                    self._interrupt()
            try:
                yield response
            finally:
                with self._lock:
                    self._response, self._watching = None, False

    def expire(self) -> None:
        """Break off an answer whose time is over, in the middle of a piece too. Any thread."""
        with self._lock:
            if self._clock() > self._until:
                self._interrupt()

    def _break_off(self) -> None:
        """End the watch, if there is one. Any thread."""
        with self._lock:
            if self._watching:
                self._interrupt()

    def _interrupt(self) -> None:
        """Wake the thread out of a read; under the lock."""
        if self._response is not None:
            try:
                self._response.shutdown()
            except (OSError, ValueError, RuntimeError) as error:  # it has ended by itself
                log.debug("nothing to break off", of=self._name, reason=str(error))

    # -- how it went

    def _say_unreadable(self) -> None:
        if self._sight.unreadable or self._said_unreadable:
            now = self._teller.unreadable(self._namespace)
            if now != self._said_unreadable:
                self._said_unreadable = now
                self._troubles.unreadable(self._name, now)

    def _accepted(self) -> None:
        """The server lets us watch."""
        self._opened_at = self._clock()
        self._teller.interrupted(self._namespace, False)
        if not self._cut_short:
            self._troubles.over(self._name)
        if self._unwatched:
            self._unwatched = ""
            self._teller.watched(self._namespace)

    def _proved(self) -> None:
        """Let what was wrong be over, once a watch has lasted."""
        opened_at, enough = self._opened_at, self._tuning.enough
        if self._cut_short and opened_at is not None and self._clock() - opened_at >= enough:
            self._cut_short = False
            self._troubles.over(self._name)

    def _met(self, reason: str, pause: float) -> None:
        self._cut_short = self._opened_at is not None
        self._troubles.met(self._name, reason, pause)

    def _ended(self, error: Exception | None, lasted: float, pause: float) -> None:
        """Draw the conclusions from the end of a round. A pause of nothing is no news."""
        self._proved()
        status = status_of(error, self._verb)
        if error is not None and status is None:
            self._teller.interrupted(self._namespace, True)
        if isinstance(error, Refusal) and status is not None:
            self._refused(error, status)
        elif error is None and lasted < self._tuning.enough:
            if self._retries.failures > 1:
                self._met("the server ends each watch at once", pause)
        elif (
            error is not None and pause and (self._opened_at is None or self._retries.failures > 1)
        ):
            self._met(in_words(error, self._api), pause)
        failures = self._retries.failures
        if (failures and failures % _LIST_AFTER == 0) or _wants_a_list(error):
            self._must_list = True

    def _refused(self, refusal: Refusal, status: KindStatus) -> None:
        """The kind is not there, or not for us: it is held, and asked for again."""
        self._cut_short = False
        self._troubles.over(self._name)  # said where the kind is held
        reason = why_held(refusal, self._verb, self._resource)
        if status is KindStatus.MISSING:
            self._resource = None
        elif status is KindStatus.FORBIDDEN:
            self._unwatched = reason if self._verb == "watch" else ""
        self._teller.refused(self._namespace, status, reason, self._asked_at)


def _wants_a_list(error: Exception | None) -> bool:
    """Whether what is known may be wrong, or cannot be watched from."""
    if isinstance(error, Refusal):
        return error.status not in (401, 429) and error.status < 500
    return isinstance(error, Garbled | Contradiction)
