"""A link without a broker: a test says what happens on it, and sees what was sent."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Sequence

from nodecast.errors import SessionError
from nodecast.session import MqttSettings, Outgoing, Subscription
from nodecast.session.limits import Sign
from nodecast.session.link import Answered, Ended, Happening, Opened


class FakeLink:
    """See `nodecast.session.link.Link`."""

    def __init__(self) -> None:
        self.happened: deque[Happening] = deque()
        self.sent: dict[int, Outgoing] = {}
        self.subscribed: dict[int, Sequence[Subscription]] = {}
        self.left = False
        self.dropped = self.aborted = False
        self.received_a_part_at = float("-inf")
        self._near, self._far = socket.socketpair()
        self._mid = 0

    @property
    def fd(self) -> int:
        return self._near.fileno()

    @property
    def receiving_at(self) -> float:
        return self.received_a_part_at

    @property
    def wants_write(self) -> bool:
        return False

    def accept(self, limit: int | None = None, window: int = 100) -> None:
        """The CONNACK says yes."""
        self.happened.append(Opened(0, "Success", limit, window))

    def refuse(self, code: int, reason: str) -> None:
        """The CONNACK says no."""
        self.happened.append(Opened(code, reason, None, 1))

    def answer(self, message: Outgoing, code: int = 0) -> None:
        """The PUBACK of a message that was sent."""
        mid = next(mid for mid, sent in self.sent.items() if sent is message)
        self.happened.append(Answered(mid, code, "" if code < 0x80 else "no"))

    def end(self, sign: Sign = Sign.CLOSED, reason: str = "gone") -> None:
        self.happened.append(Ended(reason, sign))

    def publish(self, message: Outgoing) -> int | None:
        self._mid += 1
        self.sent[self._mid] = message
        return self._mid

    def subscribe(self, filters: Sequence[Subscription]) -> int | None:
        self._mid += 1
        self.subscribed[self._mid] = filters
        return self._mid

    def read(self) -> None: ...

    def write(self) -> None: ...

    def tick_in(self) -> float:
        return 3600.0

    def tick(self) -> None: ...

    def leave(self) -> None:
        self.left = True

    def abort(self) -> None:
        self.aborted = True
        self.drop()

    def restrict(self, permit: Callable[[], bool]) -> None: ...

    def drop(self) -> None:
        self.dropped = True
        self._near.close()
        self._far.close()


class FakeNetwork:
    """The connect seam: every attempt takes the next outcome, or fails when there is none."""

    def __init__(self) -> None:
        self.attempts = 0
        self.outcomes: deque[FakeLink | SessionError] = deque()
        self.wills: list[Outgoing | None] = []

    def link(self) -> FakeLink:
        """The link of the next attempt."""
        link = FakeLink()
        self.outcomes.append(link)
        return link

    def connect(self, _settings: MqttSettings, _client_id: str, will: Outgoing | None) -> FakeLink:
        self.attempts += 1
        self.wills.append(will)
        outcome = self.outcomes.popleft() if self.outcomes else SessionError("nobody listens")
        if isinstance(outcome, SessionError):
            raise outcome
        return outcome


class Clock:
    """A time that moves when a test says so."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
