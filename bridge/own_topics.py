"""What the bridge says and hears on its own topics: probe, ledger, presence, subscriptions.

No socket, no clock: the core brings outcomes and the time. Whatever the broker refuses here is said
once and tried again after a growing pause; without ledger and probe there is no taking charge, so
there the connection is given up instead.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence, Set
from typing import Protocol

import msgspec

from bridge.charge import READING_WAIT, Charge, Identity, Phase
from bridge.guard import Counts
from bridge.ledger import LedgerBook
from bridge.publisher import Port
from bridge.replay import Replay
from bridge.tokens import BIRTH, LEAVING, LEDGER, PROBE, REPLAY, REPORTS, Control
from nodecast import __version__
from nodecast.backoff import Backoff
from nodecast.errors import MessageError
from nodecast.log import Repeats, logger
from nodecast.messages import Ledger, Presence, Wire, decode, encode, pack
from nodecast.names import NodeName
from nodecast.session import Outgoing, Subscription
from nodecast.topics import Topic, Topics

log = logger(__name__)

_ECHO = Backoff(2 * READING_WAIT, 20 * READING_WAIT)
"""Seconds in which the echo after a batch of reports must come back."""


class BridgePort(Port, Protocol):
    """What the bridge needs of a session."""

    @property
    def limit(self) -> int | None: ...

    def subscribe(self, filters: Sequence[Subscription], token: object) -> None: ...

    def disconnect(self, reason: str) -> None: ...


class OwnTopics:
    """One for a process. One owner thread."""

    def __init__(
        self,
        identity: Identity,
        charge: Charge,
        topics: Topics,
        port: BridgePort,
        *,
        since: str,
        again: Backoff,
        rng: random.Random,
    ) -> None:
        """`since`: when this process started, for people. `again`: pauses after a refusal."""
        self._identity = identity
        self._charge = charge
        self._topics = topics
        self._port = port
        self._since = since
        self._again = again
        self._rng = rng
        self._said = Repeats()
        self._replay = Replay(topics, identity.instance)
        self._reading_since = math.inf
        self._echo_by = math.inf
        self._echoes_missed = 0
        self._failures: dict[Control, int] = {}
        self.refusals: dict[str, str] = {}
        """What the broker does not let this bridge have of its own, and why."""
        self._subscribe_at = math.inf
        self._birth_at = math.inf
        self._births = 0
        self._overwrites = 0
        self.book = LedgerBook()
        self.open_nodes: frozenset[NodeName] = frozenset()
        """The nodes that may be sent something: in the acknowledged ledger, and heard."""
        self.leaving = False
        """Whether the broker has still to acknowledge that we go."""

    @property
    def ledger(self) -> Topic:
        return self._topics.ledger(self._identity.bridge)

    @property
    def probe(self) -> Topic:
        return self._topics.probe(self._identity.bridge)

    @property
    def state(self) -> Topic:
        return self._topics.bridge_state(self._identity.bridge)

    # -- the connection

    def connected(self, now: float) -> None:
        """First of all: what does the ledger say?"""
        self._reading_since = now
        self._port.subscribe([Subscription(self.ledger), Subscription(self.state)], LEDGER)

    def disconnected(self) -> None:
        self.book.disconnected()
        self._replay.reset()
        self.open_nodes = frozenset()
        self._reading_since = self._subscribe_at = self._birth_at = self._echo_by = math.inf

    def subscribed(self, what: Control, refused: tuple[str, ...], now: float) -> None:
        """The broker answered a subscribe."""
        if refused:
            self.refused(what, f"the broker refused {', '.join(refused)}", now)
            return
        self._works(what)
        if what == LEDGER:
            self._port.subscribe([Subscription(self.probe)], PROBE)
            self._send_probe(self._charge.probe)
        elif what == REPLAY:
            self._send_probe(self._replay.probe)

    def acknowledged(self, what: Control) -> None:
        """The broker took a publish."""
        self._works(what)
        if what == LEDGER:
            self.book.acknowledged()
            self._reopen()
        elif what == LEAVING:
            self.leaving = False

    def refused(self, what: Control, reason: str, now: float) -> None:
        """The broker did not take a publish or a subscribe."""
        failures = self._failures[what] = self._failures.get(what, 0) + 1
        self.refusals[what.what] = reason
        if self._said.new(what, reason):
            log.error(
                "the broker refused what the bridge needs: look at its ACL and limits",
                what=what.what,
                reason=reason,
            )
        until = now + self._again.pause(failures, self._rng)
        reading = self._charge.phase is Phase.READING
        if what in (LEDGER, PROBE) and reading:
            self._port.disconnect(f"{what.what}: {reason}")
        elif what == LEDGER:
            self.book.refused(until)
        elif what == BIRTH:
            self._birth_at = until
        elif what in (REPORTS, REPLAY, PROBE):
            self._subscribe_at = until
            self._replay.give_up()  # better to serve nodes unheard than not at all
            self._reopen()
        elif what == LEAVING:
            self.leaving = False

    def _works(self, what: Control) -> None:
        if self._failures.pop(what, 0):
            self._said.over(what)
            del self.refusals[what.what]

    def _reopen(self) -> None:
        self.open_nodes = self.book.names & self._replay.heard

    def _send_probe(self, payload: bytes) -> None:
        self._port.publish(Outgoing(self.probe, payload, retain=False), PROBE)

    def echoed(self, payload: bytes, now: float) -> bool:
        """A probe came back; whether more nodes were heard by it."""
        if self._charge.phase is not Phase.READING:
            self._reading_since = math.inf
        if not self._replay.echoed(payload):
            return False
        self._echoes_missed = 0
        self._reopen()
        self._replay_next(now)
        return True

    # -- in charge

    def in_charge(self, now: float) -> None:
        """The ledger is written: say our birth, and hear the reports."""
        self._birth_at, self._births, self._overwrites = now, 0, 0
        self._subscribe()

    def _subscribe(self) -> None:
        self._subscribe_at = math.inf
        self._port.subscribe([Subscription(self._topics.every_status(), replay=False)], REPORTS)

    def _replay_next(self, now: float) -> None:
        if not self._replay.under_way:
            self._echo_by = math.inf
        if batch := self._replay.next_batch():
            self._port.subscribe(batch, REPLAY)
            self._echo_by = now + _ECHO.pause(self._echoes_missed + 1, self._rng)

    def _replay_again(self) -> None:
        self._echoes_missed += 1
        nodes = self._replay.again()
        if nodes <= 1:
            self._replay.give_up()  # better to serve nodes unheard than not at all
            self._reopen()
            log.error(
                "the broker lets no report be heard: nodes are served all the same, also those of"
                " another bridge; raise its max_queued_messages"
            )
            return
        log.warning(
            "the broker dropped the end of a replay: fewer reports at a time are asked for;"
            " raise its max_queued_messages",
            nodes=nodes,
        )

    def work(self, nodes: Set[NodeName], now: float) -> float:
        """Do what is due; the monotonic second of the next. `nodes`: all that are to be heard."""
        if now >= self._reading_since + READING_WAIT:
            self._reading_since = math.inf
            self._port.disconnect("the probe did not come back: the ACL must let it through")
        elif now >= self._birth_at:
            self._birth_at = math.inf
            self._port.publish(self.presence(online=True), BIRTH)
        elif now >= self._subscribe_at:
            self._subscribe()
        if self._charge.phase is Phase.IN_CHARGE:
            self._replay.want(nodes)
            if self._replay.under_way and now >= self._echo_by:
                self._replay_again()
            self._replay_next(now)
        due = min(self._birth_at, self._subscribe_at, self._echo_by)
        return min(self._reading_since + READING_WAIT, due)

    # -- the ledger

    def write_ledger(
        self, nodes: Set[NodeName], mark: int, counts: Callable[[float], Counts], now: float
    ) -> float:
        """Write it if it is due; the monotonic second at which it will be."""
        if (idle := self.book.idle_until(nodes)) > now:
            return idle
        placed = counts(now)
        due = self.book.due(nodes, mark, placed, now)
        if due > now:
            return due
        self.book.write(nodes, mark, placed, now)
        ledger = Ledger(
            bridge=self._identity.bridge,
            source=self._identity.source,
            instance=self._identity.instance,
            epoch=self._charge.epoch or 0,
            mark=mark,
            paused=self.book.paused,
            nodes=sorted(nodes),
            kinds=dict(placed.kinds) if placed.sure else {},
            at_least=msgspec.UNSET if placed.sure else dict(placed.kinds),
        )
        payload, encoding = pack(encode(ledger), compress=True)
        self._port.publish(Outgoing(self.ledger, payload, retain=True, encoding=encoding), LEDGER)
        return math.inf

    def ledger_overwritten(self, now: float) -> None:
        """Someone cleared or replaced the ledger under us: it is written again, paced."""
        self._overwrites += 1
        self.book.overwritten(now + self._again.pause(self._overwrites, self._rng))

    # -- presence

    def presence(self, online: bool) -> Outgoing:
        """The retained state: said at birth and at leaving, and by the will."""
        epoch = self._charge.epoch
        presence = Presence(
            online=online,
            instance=self._identity.instance,
            since=self._since,
            version=__version__,
            epoch=msgspec.UNSET if epoch is None else epoch,
        )
        return Outgoing(self.state, encode(presence), retain=True)

    def state_came(self, wire: Wire, now: float) -> None:
        """Whoever sees its own state say something else says its birth again, paced."""
        if self._charge.phase is not Phase.IN_CHARGE or self._birth_at < math.inf:
            return
        try:
            seen = decode(Presence, wire)
        except MessageError:
            seen = None
        if seen is None or not seen.is_birth_of(self._identity.instance):
            self._births += 1
            self._birth_at = now + self._again.pause(self._births, self._rng)

    def leave(self) -> None:
        """Say that we go."""
        self.leaving = True
        self._port.publish(self.presence(online=False), LEAVING)
