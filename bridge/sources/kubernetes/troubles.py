"""What the log says of an API server: each trouble once, however many informers meet it.

Any thread. Kinds that are held are said by the bridge; here it is what has no answer (the network,
credentials, a server that fails), and objects that cannot be read.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from nodecast.log import gist, logger

log = logger(__name__)


class Troubles:
    """Remembers who has which trouble."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._lock = threading.Lock()
        self._of: dict[str, str] = {}
        self._unreadable: dict[str, dict[str, str]] = {}

    def met(self, informer: str, reason: str, pause: float) -> None:
        """An informer cannot go on; it tries again after `pause` seconds."""
        with self._lock:
            news = gist(reason) not in self._of.values()
            self._of[informer] = gist(reason)
        if news:
            log.warning(
                "API server cannot be used now, trying again",
                server=self._host,
                of=informer,
                reason=reason,
                pause=round(pause, 1),
            )

    def over(self, informer: str) -> None:
        """It goes on."""
        with self._lock:
            reason = self._of.pop(informer, None)
            last = reason is not None and reason not in self._of.values()
        if last:
            log.info("API server can be used again", server=self._host, of=informer)

    def unreadable(self, informer: str, objects: Mapping[str, str]) -> None:
        """Objects that an informer cannot read, by `namespace/name`, with the reason: all of them,
        each time."""
        with self._lock:
            before = self._unreadable.get(informer, {})
            if before == objects:
                return
            self._unreadable[informer] = dict(objects)
        for name, reason in objects.items():
            if before.get(name) != reason:
                log.warning("object refused", of=informer, object=name, reason=reason)
        for name in before.keys() - objects.keys():
            log.info("object is refused no more", of=informer, object=name)
