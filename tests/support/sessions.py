"""A session with an owner that remembers every event, for tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from nodecast.session import Event, MqttSettings, Outgoing, Session
from tests.support.wait import eventually

E = TypeVar("E", bound=Event)


class Owner:
    """Polls a session, and keeps what it said.

    `timeout` is that of each poll, in seconds: 0 for a session whose clock stands still.
    """

    def __init__(self, session: Session, timeout: float = 0.05) -> None:
        self.session = session
        self.timeout = timeout
        self.events: list[Event] = []
        self._taken: dict[type, int] = {}

    def pump(self) -> None:
        self.events += self.session.poll(self.timeout)

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    def until(self, condition: Callable[[], Any], within: float = 20.0, what: str = "") -> None:
        """Poll until the condition holds."""

        def pumped() -> bool:
            if not condition():
                self.pump()
            return bool(condition())

        eventually(pumped, within, every=0.001, what=what or f"events so far: {self.events[-5:]}")

    def next(self, kind: type[E], within: float = 20.0) -> E:
        """The first event of this kind that `next` has not given yet; polls until it is there."""
        taken = self._taken.get(kind, 0)
        self.until(lambda: len(self.of(kind)) > taken, within, what=f"a {kind.__name__}")
        self._taken[kind] = taken + 1
        return self.of(kind)[taken]


@contextmanager
def owner(
    url: str, client_id: str = "tested", will: Outgoing | None = None, **settings: Any
) -> Iterator[Owner]:
    """An owner of a session with quick pauses, closed at the end."""
    quick: dict[str, Any] = {"reconnect_min": 0.05, "reconnect_max": 0.5, **settings}
    session = Session(MqttSettings(url=url, **quick), client_id, will=lambda: will)
    try:
        yield Owner(session)
    finally:
        session.close(time.monotonic() + 1)


def message(topic: str, size: int = 20, *, retain: bool = True) -> Outgoing:
    """A message with a body of `size` bytes."""
    return Outgoing(topic, b"x" * size, retain)
