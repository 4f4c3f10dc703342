"""The session as its owner sees it: the same events and the same port as the real one.

Nothing is sent again across connections. A `Lost` comes alone, after all other events; what is
published between the end of the link and it goes into its tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nodecast.session import (
    Acknowledged,
    Connected,
    Event,
    Lost,
    Outgoing,
    Received,
    Subscribed,
    Subscription,
    wire_size,
)
from tests.sim.broker import Answer, Broker, Closed, Goodbye, Link, Publish, Subscribe
from tests.sim.clock import Simulation
from tests.sim.things import LIMIT

_CONNACK_WAIT = 6.0


class Session:
    """Connects by itself, with growing pauses. `wake` is called when there is something to take."""

    def __init__(
        self,
        sim: Simulation,
        broker: Broker,
        client_id: str,
        will: Callable[[], Outgoing | None],
        wake: Callable[[], None],
        *,
        name: str,
        window: int,
        permit: Callable[[], bool] = lambda: True,
    ) -> None:
        self.client_id = client_id
        self._sim = sim
        self._broker = broker
        self._will = will
        self._wake = wake
        self._window = window
        self._permit = permit
        self._rng = sim.rng(name)
        self._link: Link | None = None
        self._up = False
        self._up_at = 0.0
        self._closed = False
        self._most = 1.0
        self._number = 0
        self._in_flight: dict[int, object] = {}
        self._events: list[Event] = []
        self._lost: list[object] | None = None
        self._connect()

    # -- the owner's side

    @property
    def connected(self) -> bool:
        return self._up or self._lost is not None

    @property
    def free(self) -> int:
        return self._window - len(self._in_flight) if self._up else 0

    @property
    def limit(self) -> int | None:
        return LIMIT

    def publish(self, message: Outgoing, token: object) -> None:
        if self._lost is not None:
            self._lost.append(token)
            return
        assert self._permit(), "published without the right to"
        assert self._up, "published without a connection"
        assert self._link is not None
        assert wire_size(message) <= LIMIT, "published more than the broker takes"
        self._number += 1
        self._in_flight[self._number] = token
        self._link.up(Publish(message, self._number))

    def subscribe(self, filters: Sequence[Subscription], token: object) -> None:
        if self._lost is not None:
            return
        assert self._up, "subscribed without a connection"
        assert self._link is not None
        if filters:
            self._link.up(Subscribe(tuple(filters), token))
        else:
            self._tell(Subscribed(token, ()))

    def disconnect(self, reason: str) -> None:
        del reason
        if self._link is not None:
            self._link.up(Goodbye())
            self._end()

    def cut(self) -> None:
        """End the connection without a word."""
        if self._link is not None:
            if self._broker.alive:
                self._broker.drop(self._link)
            self._end()

    def take(self) -> list[Event]:
        """What happened since."""
        events, self._events = self._events, []
        if not events and self._lost is not None:
            events, self._lost = [Lost("the link ended", tuple(self._lost))], None
        return events

    def close(self, *, clean: bool) -> None:
        """The process ends; `clean` with a DISCONNECT."""
        self._closed = True
        link, self._link = self._link, None
        if link is not None:
            if clean:
                link.up(Goodbye())
            elif self._broker.alive:
                self._broker.drop(link)
            link.open_there = False

    # -- the broker's side

    def arrived(self, link: Link, packet: object) -> None:
        if link is not self._link or self._closed:
            return
        match packet:
            case Answer(None):
                self._up, self._up_at = True, self._sim.now
                self._tell(Connected(LIMIT, self._window))
            case Answer(Publish(_, number)):
                if number in self._in_flight:
                    self._tell(Acknowledged(self._in_flight.pop(number)))
            case Answer(Subscribe(_, token)):
                self._tell(Subscribed(token, ()))
            case Received():
                self._tell(packet)
            case Closed():
                self._end()

    def timed_out(self, link: Link) -> None:
        if link is self._link and not self._closed:
            self._end()

    # -- within

    def _connect(self) -> None:
        if self._closed or self._link is not None:
            return
        if self._lost is not None or not self._permit():  # the owner has not taken it yet
            self._sim.after(0.1, self._connect)
            return
        self._link = self._broker.connect(self, self._will())
        if self._link is None:
            self._retry()
        else:
            self._sim.after(_CONNACK_WAIT, self._check, self._link)

    def _check(self, link: Link) -> None:
        if link is self._link and not self._up and not self._closed:
            link.open_there = False
            self._end()

    def _end(self) -> None:
        assert self._link is not None
        self._link.open_there = False
        self._link = None
        if self._up:
            if self._sim.now > self._up_at + 10:
                self._most = 1.0
            self._up = False
            self._lost, self._in_flight = list(self._in_flight.values()), {}
            self._wake()
        self._retry()

    def _retry(self) -> None:
        self._most = min(self._most * 1.7, 15.0)
        self._sim.after(self._rng.uniform(0.3, self._most), self._connect)

    def _tell(self, event: Event) -> None:
        self._events.append(event)
        self._wake()
