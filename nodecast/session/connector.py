"""Connects in a thread, so that the owner never waits for a resolver or a peer that is silent.

A short-lived daemon thread `mqtt-connect` makes one link and hands it over in a slot under the
lock, then wakes the owner. At most one runs at a time; one whose result nobody wants any more
closes what it made. An error that nobody foresaw is an outcome too: the owner raises it. An attempt
that hangs, as some resolvers of names do, is left behind after a time that no good one takes; where
several are, the process ends, and its supervisor starts a fresh one.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

from nodecast.errors import NodecastError, SessionError, ThreadDied
from nodecast.session.events import Outgoing
from nodecast.session.link import Connect, Link
from nodecast.session.settings import MqttSettings
from nodecast.threads import supervised

_RESOLVER, _ADDRESSES = 60.0, 10
"""Seconds for a name; and for how many addresses of it there is time."""
_MOST_LEFT_BEHIND = 5


class Connector:
    """One attempt at a time. `wake` is called from the thread when there is an outcome."""

    def __init__(
        self, settings: MqttSettings, client_id: str, connect: Connect, wake: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._client_id = client_id
        self._connect = connect
        self._wake = wake
        self._limit = _RESOLVER + _ADDRESSES * settings.connect_timeout
        self._lock = threading.Lock()
        self._attempt: object | None = None
        """The one whose outcome is waited for."""
        self._outcome: Link | NodecastError | None = None
        self._left_behind = 0
        self.overdue_at = math.inf
        """When the attempt that runs counts as one that hangs."""

    @property
    def busy(self) -> bool:
        """Whether an attempt runs, or its outcome was not taken yet."""
        return self._attempt is not None

    def start(self, will: Outgoing | None, now: float) -> None:
        """Begin an attempt; only when not `busy`."""
        attempt = self._attempt = object()
        self.overdue_at = now + self._limit

        def run() -> None:
            hand_over(self._connect(self._settings, self._client_id, will))

        def hand_over(outcome: Link | NodecastError) -> None:
            self._hand_over(attempt, outcome)

        supervised("mqtt-connect", run, hand_over).start()

    def take(self, now: float) -> Link | SessionError | None:
        """The outcome, once; None: none yet.

        Raises ThreadDied, also where too many attempts hang.
        """
        with self._lock:
            outcome, self._outcome = self._outcome, None
            if outcome is None and now >= self.overdue_at:
                outcome = self._leave_behind()
            if outcome is not None:
                self._attempt, self.overdue_at = None, math.inf
        if isinstance(outcome, NodecastError) and not isinstance(outcome, SessionError):
            raise outcome
        return outcome

    def abandon(self) -> None:
        """Nobody will take an outcome any more."""
        with self._lock:
            self._attempt = None
            outcome, self._outcome = self._outcome, None
        _discard(outcome)

    def _leave_behind(self) -> NodecastError:
        self._left_behind += 1
        if self._left_behind > _MOST_LEFT_BEHIND:
            return ThreadDied(
                f"{self._left_behind} attempts to connect hang: this process must start anew"
            )
        return SessionError(
            f"an attempt to connect hangs, for {self._limit:g} s by now: look at the resolver of"
            f" names (attempts left behind: {self._left_behind})"
        )

    def _hand_over(self, attempt: object, outcome: Link | NodecastError) -> None:
        with self._lock:
            wanted = attempt is self._attempt or isinstance(outcome, ThreadDied)
            if wanted:
                self._outcome = outcome
            else:
                self._left_behind -= 1
        if not wanted:
            _discard(outcome)
        self._wake()


def _discard(outcome: Link | NodecastError | None) -> None:
    if outcome is not None and not isinstance(outcome, NodecastError):
        outcome.drop()
