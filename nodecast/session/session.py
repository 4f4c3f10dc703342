"""The connection to the broker, as a pump of events with no thread of its own for I/O.

One owner thread calls `poll` again and again; all reading, writing, keep-alive and reconnecting
happens in there, and it never waits longer than it was told to. Only connecting, which blocks, is
done by `connector`. What always holds:

- Every connection is new and starts clean: the owner subscribes and publishes anew after each
  `Connected`. The session sends nothing twice.
- Each publish ends in exactly one of `Acknowledged`, `Refused`, or a place in `Lost`.
- `connected` is what the owner has been told: while it holds, `publish` and `subscribe` raise
  nothing, also when the link has just died; the `Lost` that follows names those publishes too.
- What is above the known or learnt size limit is answered without being sent.
- Nothing is sent, and no connection is begun, while `permit` says no: it is asked before every
  write to the socket, since this process may have stood still since anything else was looked at.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

from nodecast.errors import SessionError
from nodecast.log import logger
from nodecast.session.backoff import Pauses
from nodecast.session.connection import connect as connect_with_paho
from nodecast.session.connector import Connector
from nodecast.session.events import (
    Connected,
    Event,
    Lost,
    Outgoing,
    Received,
    Subscribed,
    Subscription,
)
from nodecast.session.limits import Sign
from nodecast.session.link import Answered, Connect, Ended, Granted, Happening, Link, Opened
from nodecast.session.patience import answer_due
from nodecast.session.reconnect import Reconnect
from nodecast.session.sending import Sending
from nodecast.session.settings import MqttSettings
from nodecast.session.subscribing import Subscribing
from nodecast.session.waiting import Waiter

log = logger(__name__)


def _always() -> bool:
    return True


class Session:
    """See the module. `will` is asked in the owner thread before each connection."""

    def __init__(
        self,
        settings: MqttSettings,
        client_id: str,
        *,
        will: Callable[[], Outgoing | None],
        permit: Callable[[], bool] = _always,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
        connect: Connect = connect_with_paho,
    ) -> None:
        self._settings = settings
        self._client_id = client_id
        self._will = will
        self._permit = permit
        self._clock = clock
        pauses = Pauses(settings.reconnect_min, settings.reconnect_max, rng or random.Random())
        self._reconnect = Reconnect(pauses, client_id)
        self._sending = Sending(settings.window, settings.max_packet, clock)
        self._subscribing = Subscribing()
        self._waiter = Waiter()
        self._connector = Connector(settings, client_id, connect, self._waiter.poke)
        self._link: Link | None = None
        self._up = False
        self._proved = False
        self._opened_at = 0.0
        self._events: list[Event] = []
        self._lost: tuple[str, list[object]] | None = None
        self._woken = False
        self._closed = False

    @property
    def connected(self) -> bool:
        """Whether the owner may publish: from `Connected` until `poll` has given `Lost`."""
        return self._up or self._lost is not None

    @property
    def free(self) -> int:
        """How many more publishes fit into the window now; 0 without a connection."""
        return self._sending.free if self._up else 0

    @property
    def limit(self) -> int | None:
        """Bytes of the largest PUBLISH (see `wire_size`), as configured, said or learnt."""
        return self._sending.limit

    @property
    def failure(self) -> str | None:
        """Why there is no connection now, as it was seen last; None while nothing has failed."""
        return self._reconnect.failure

    def wake(self) -> None:
        """Make a waiting `poll`, or the next one, return. Any thread, or a signal handler."""
        self._woken = True
        self._waiter.poke()

    def poll(self, timeout: float) -> list[Event]:
        """Do what there is to do, and wait at most `timeout` seconds for events.

        Raises SessionError after `close`, and ThreadDied.
        """
        if self._closed:
            raise SessionError("the session is closed")
        now = self._clock()
        deadline = now + timeout
        while True:
            self._advance(now)
            self._exchange(min(deadline, self._next_due(now)) - now)
            now = self._clock()
            if self._events or self._lost is not None or self._woken or now >= deadline:
                self._woken = False
                return self._take_events()

    def publish(self, message: Outgoing, token: object) -> None:
        """Queue a publish; never blocks. Beyond the window it waits here.

        Raises SessionError without a connection, and for a message that no packet can hold.
        """
        if self._lost is not None:
            self._lost[1].append(token)
            return
        if not self._up:
            raise SessionError("not connected to the broker: publish after Connected")
        refused = self._sending.offer(message, token)
        if refused is not None:
            self._events.append(refused)

    def subscribe(self, filters: Sequence[Subscription], token: object) -> None:
        """Subscribe to all `filters`; one `Subscribed` answers, unless the link dies before.

        Raises SessionError without a connection, and for a filter that is none.
        """
        if self._lost is not None:
            return
        if not self._up or self._link is None:
            raise SessionError("not connected to the broker: subscribe after Connected")
        if filters:
            limit, now = self._sending.limit, self._clock()
            self._subscribing.begin(self._link, filters, token, limit, now)
        else:
            self._events.append(Subscribed(token, ()))

    def disconnect(self, reason: str) -> None:
        """Drop the connection now, without a will; connects again after a pause.

        With a frozen broker the DISCONNECT may not get out: then the will comes after all.
        """
        if self._link is not None:
            self._link.leave()
            self._proved = False  # whatever was acknowledged: the owner finds it of no use
            self._end(reason, Sign.UNRELATED)

    def cut(self, reason: str) -> None:
        """End the connection now, without a word: what was queued, here or in the kernel, is thrown
        away. The will stands, unless this client is back before its delay is over."""
        if self._link is not None:
            self._link.abort()
            self._end(reason, Sign.UNRELATED)

    def close(self, deadline: float) -> None:
        """Leave for good, without a will: send what is queued and a DISCONNECT.

        Waits for the socket to take them until `deadline` (a time of the session's clock), but for
        no acknowledgement: drain before.
        """
        if self._closed:
            return
        self._closed = True
        self._connector.abandon()
        if self._link is not None:
            self._leave(self._link, deadline)
        self._up = False
        self._lost = None
        self._link = None
        self._waiter.close()

    def _leave(self, link: Link, deadline: float) -> None:
        if self._up:
            self._sending.send(link, self._clock())
            link.leave()
            while link.wants_write and (rest := deadline - self._clock()) > 0:
                self._waiter.wait(rest, to_write=True)
                link.write()
        link.drop()

    def _take_events(self) -> list[Event]:
        events, self._events = self._events, []
        if self._lost is not None and not events:
            reason, tokens = self._lost
            self._lost = None
            events.append(Lost(reason, tuple(tokens)))
        return events

    def _advance(self, now: float) -> None:
        """Take every step that needs no waiting."""
        link = self._link
        if link is None:
            if self._lost is None:
                self._connect(now)
        elif self._up:
            self._sending.send(link, now)
            link.tick()
        elif now - self._opened_at >= self._settings.connect_timeout:
            self._end("no CONNACK in time: is it an MQTT broker?", Sign.UNRELATED)

    def _connect(self, now: float) -> None:
        outcome = self._connector.take(now)
        if isinstance(outcome, SessionError):
            self._sending.unreachable()
            self._reconnect.failed(str(outcome), now)
        elif outcome is not None and not self._permit():
            outcome.drop()
        elif outcome is not None:
            outcome.restrict(self._permit)
            self._link = outcome
            self._opened_at = now
            self._waiter.watch(outcome.fd)
        elif now >= self._reconnect.due and not self._connector.busy and self._permit():
            self._connector.start(self._will(), now)

    def _next_due(self, now: float) -> float:
        """The time at which there is something to do without any event."""
        if self._events or self._lost is not None:
            return now
        if self._link is None:
            if self._connector.busy:
                return self._connector.overdue_at
            return self._reconnect.due if self._permit() else float("inf")
        if self._up:
            return min(now + self._link.tick_in(), self._answer_due(self._link))
        return self._opened_at + self._settings.connect_timeout

    def _answer_due(self, link: Link) -> float:
        since = min(self._sending.waiting_since, self._subscribing.waiting_since)
        return answer_due(since, self._settings.answer_timeout, link.receiving_at)

    def _exchange(self, wait: float) -> None:
        link = self._link
        if link is None:
            self._waiter.wait(wait, to_write=False)
            return
        if link.wants_write:
            link.write()
        ready = self._waiter.wait(0.0 if link.happened else wait, link.wants_write)
        if ready.readable:
            link.read()  # before writing, which may fail and hide a reason that has come
        if ready.writable:
            link.write()
        happened = link.happened
        while happened and self._link is link:
            self._handle(happened.popleft())
        if self._up and not ready.readable and self._clock() >= self._answer_due(link):
            self._end("the broker did not answer a publish or subscribe in time", Sign.UNRELATED)

    def _handle(self, what: Happening) -> None:
        if isinstance(what, Ended):
            self._end(what.reason, what.sign)
        elif isinstance(what, Opened) is self._up:
            order = "a second CONNACK" if self._up else "a packet before its CONNACK"
            self._end(f"the broker broke the protocol: {order}", Sign.UNRELATED)
        elif isinstance(what, Answered):
            self._tell(self._sending.answered(what, self._clock()))
        elif isinstance(what, Received):
            self._events.append(what)
        elif isinstance(what, Granted):
            self._tell(self._subscribing.answered(what))
        else:
            self._opened(what)

    def _tell(self, event: Event | None) -> None:
        """An answer of the broker: the connection has proved itself."""
        if event is not None:
            self._proved = True
            self._events.append(event)

    def _opened(self, answer: Opened) -> None:
        if answer.code >= 0x80:
            self._drop_link()
            self._sending.unreachable()
            self._reconnect.refused(answer.reason, answer.code, self._clock())
            return
        self._up = True
        self._proved = False
        window = self._sending.connected(answer.limit, answer.window)
        log.info(
            "connected to the broker",
            broker=str(self._settings.endpoint),
            client=self._client_id,
            limit=self._sending.limit,
            window=window,
            failures_before=self._reconnect.succeeded(),
        )
        self._events.append(Connected(answer.limit, window))

    def _end(self, reason: str, sign: Sign) -> None:
        """The link is over: say so, and plan the next."""
        now = self._clock()
        was_up = self._up
        self._drop_link()
        if not was_up:
            self._sending.unreachable()
            self._reconnect.failed(reason, now)
            return
        tokens, withheld = self._sending.died(sign, self._proved, now)
        if withheld is not None:
            self._events.append(withheld)
        self._lost = (reason, tokens)
        self._subscribing.clear()
        log.warning(
            "connection to the broker lost",
            broker=str(self._settings.endpoint),
            reason=reason,
            unacknowledged=len(tokens),
        )
        self._reconnect.lost(reason, sign, now - self._opened_at, self._proved, now)

    def _drop_link(self) -> None:
        if self._link is not None:
            self._waiter.unwatch()
            self._link.drop()
            self._link = None
        self._up = False
