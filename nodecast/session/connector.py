"""Connects in a thread, so that the owner never waits for a resolver or a peer that is silent.

A short-lived daemon thread `mqtt-connect` makes one link and hands it over in a slot under the
lock, then wakes the owner. At most one runs at a time; one whose result nobody wants any more
closes what it made. An error that nobody foresaw is an outcome too: the owner raises it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from nodecast.errors import NodecastError, SessionError
from nodecast.session.events import Outgoing
from nodecast.session.link import Connect, Link
from nodecast.session.settings import MqttSettings
from nodecast.threads import supervised


class Connector:
    """One attempt at a time. `wake` is called from the thread when there is an outcome."""

    def __init__(
        self, settings: MqttSettings, client_id: str, connect: Connect, wake: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._client_id = client_id
        self._connect = connect
        self._wake = wake
        self._lock = threading.Lock()
        self._busy = False
        self._abandoned = False
        self._outcome: Link | NodecastError | None = None

    @property
    def busy(self) -> bool:
        """Whether an attempt runs, or its outcome was not taken yet."""
        return self._busy

    def start(self, will: Outgoing | None) -> None:
        """Begin an attempt; only when not `busy`."""
        self._busy = True
        supervised("mqtt-connect", lambda: self._run(will), self._hand_over).start()

    def take(self) -> Link | SessionError | None:
        """The outcome, once; None: none yet. Raises ThreadDied."""
        with self._lock:
            outcome, self._outcome = self._outcome, None
        if outcome is not None:
            self._busy = False
        if isinstance(outcome, NodecastError) and not isinstance(outcome, SessionError):
            raise outcome
        return outcome

    def abandon(self) -> None:
        """Nobody will take an outcome any more."""
        with self._lock:
            self._abandoned = True
            outcome, self._outcome = self._outcome, None
        _discard(outcome)

    def _run(self, will: Outgoing | None) -> None:
        self._hand_over(self._connect(self._settings, self._client_id, will))

    def _hand_over(self, outcome: Link | NodecastError) -> None:
        with self._lock:
            abandoned = self._abandoned
            if not abandoned:
                self._outcome = outcome
        if abandoned:
            _discard(outcome)
        self._wake()


def _discard(outcome: Link | NodecastError | None) -> None:
    if outcome is not None and not isinstance(outcome, NodecastError):
        outcome.drop()
