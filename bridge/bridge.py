"""The bridge's core: events of the source and of the session in, publishes out.

It has no thread, socket or clock of its own: the loop of `bridge.app` owns it, brings it events
with the monotonic time, and lets it `work`. Data goes one way through it: source → catalog →
holding → publisher → session; what comes back from the nodes goes to `reports` and from there,
as a node to look at, to the publisher.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

import msgspec

from bridge.catalog import Catalog, Delta
from bridge.charge import LISTING_WAIT, READING_WAIT, Charge, Identity, Phase
from bridge.holding import Holding
from bridge.ledger import LedgerBook
from bridge.listing import Listing
from bridge.placement import Rules
from bridge.publisher import Port, Publisher, PublishPolicy
from bridge.replay import Replay
from bridge.reports import Judgement, Reports, judge
from bridge.settle import Settle
from bridge.sources.events import Changed, Findings, Listed, SourceEvent
from bridge.tokens import BIRTH, LEAVING, LEDGER, PROBE, REPLAY, REPORTS, Control, SnapshotToken
from bridge.writer import SnapshotWriter
from nodecast import __version__
from nodecast.backoff import Backoff
from nodecast.errors import InvalidName, MessageError
from nodecast.log import Repeats, logger
from nodecast.messages import Ledger, Presence, Report, Wire, decode, encode, pack
from nodecast.names import KindName, NodeName, ResourceKey, node_name, parse_key
from nodecast.session import (
    Acknowledged,
    Connected,
    Event,
    Lost,
    Outgoing,
    Received,
    Refused,
    Subscribed,
    Subscription,
)
from nodecast.topics import Topics

log = logger(__name__)


class BridgePort(Port, Protocol):
    """What the core needs of a session."""

    @property
    def limit(self) -> int | None: ...

    def subscribe(self, filters: Sequence[Subscription], token: object) -> None: ...

    def disconnect(self, reason: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Policy:
    """The times of the contract, in seconds, and whether bodies are compressed."""

    hold: float = 60.0
    settle: float = 1.0
    settle_max: float = 10.0
    lag: float = 60.0
    compress: bool = True
    publish: PublishPolicy = field(default_factory=PublishPolicy)
    again: Backoff = field(default_factory=lambda: Backoff(first=2.0, most=300.0))
    """Pauses between answers to one node, and after what the broker refused."""


class Bridge:
    """See the module. One owner thread; nothing here waits."""

    def __init__(
        self,
        identity: Identity,
        rules: Rules,
        topics: Topics,
        policy: Policy,
        port: BridgePort,
        relist: Callable[[frozenset[KindName]], None],
        *,
        rng: random.Random,
        wall_clock: Callable[[], float],
    ) -> None:
        """`relist` asks the source for lists; their `asked_at` is not before the call."""
        self._identity = identity
        self._rules = rules
        self._topics = topics
        self._policy = policy
        self._port = port
        self._rng = rng
        self._wall_clock = wall_clock
        self._said = Repeats()
        self._since = datetime.fromtimestamp(wall_clock(), UTC).isoformat(timespec="seconds")
        self.catalog = Catalog(rules)
        self.holding = Holding(rules, self.catalog, policy.hold)
        self.charge = Charge(identity)
        self.book = LedgerBook()
        self.reports = Reports(policy.lag, policy.again, rng)
        self.publisher = Publisher(
            self.catalog,
            self.holding,
            Settle(rules, self.catalog, self.holding, policy.settle, policy.settle_max),
            SnapshotWriter(identity.bridge, identity.instance, topics, compress=policy.compress),
            policy.publish,
            rng,
        )
        self._listing = Listing(relist)
        self._replay = Replay(topics, identity.instance)
        self._reading_since = math.inf
        self._failures: dict[Control, int] = {}
        self._not_before: dict[Control, float] = {}
        self._birth_due = math.inf
        self._births = 0
        self._held: tuple[KindName, ...] = ()
        self._waiting: frozenset[KindName] = frozenset()
        self._leaving = False
        self.findings = Findings((), {})

    # -- the source

    def source_event(self, event: SourceEvent, now: float) -> None:
        """Something that the source says."""
        match event:
            case Findings():
                self._found(event)
            case Changed(key, record):
                self._changed(self.catalog.apply({key: record}), now)
            case Listed(kind, _, objects):
                self.holding.listed(event)
                if objects is not None:
                    self._changed(self.catalog.replace(kind, objects), now)
                self._say_status(event)
                self.publisher.recheck()

    def _changed(self, delta: Delta, now: float) -> None:
        self.holding.changed(delta, now)
        self.publisher.dirty(delta.dirty)

    def _found(self, findings: Findings) -> None:
        self.findings = findings

    def _say_status(self, listed: Listed) -> None:
        if listed.reason:
            if self._said.new(listed.kind, listed.reason):
                log.error(
                    "kind cannot be seen in full: it is held, nodes keep what they have of it",
                    kind=listed.kind,
                    status=listed.status.value,
                    reason=listed.reason,
                )
        elif self._said.over(listed.kind):
            log.info("kind is seen in full again", kind=listed.kind)

    def may_connect(self, waited: float) -> bool:
        """Whether enough is known to take charge, `waited` seconds after the start."""
        answered = [self.holding.view(kind) for kind in self._rules.kinds]
        if all(view.status is not None for view in answered):
            return True
        return waited > LISTING_WAIT and any(view.listed_at > -math.inf for view in answered)

    # -- the session

    def session_event(self, event: Event, now: float) -> None:
        """Something that the session says. Raises SettingsError or Unavailable: stop."""
        match event:
            case Received():
                self._received(event, now)
            case Acknowledged(SnapshotToken() as token):
                self.publisher.acknowledged(token)
            case Acknowledged(Control() as what):
                self._acknowledged(what, now)
            case Refused(SnapshotToken() as token):
                self.publisher.refused(token, event, now)
            case Refused(Control() as what):
                self._control_refused(what, event.reason, now)
            case Subscribed(Control() as what, refused):
                self._subscribed(what, refused, now)
            case Connected():
                self._connected(now)
            case Lost(_, tokens):
                self._lost(tokens)

    def _connected(self, now: float) -> None:
        self.charge.connected()
        self._reading_since = now
        own = (self._topics.ledger(self._identity.bridge), self._own_state)
        self._port.subscribe([Subscription(topic) for topic in own], LEDGER)

    def _lost(self, tokens: Iterable[object]) -> None:
        self.charge.disconnected()
        self.book.disconnected()
        self.publisher.lost(tokens)
        self._reading_since = self._birth_due = math.inf
        self._not_before.clear()

    def _subscribed(self, what: Control, refused: tuple[str, ...], now: float) -> None:
        if refused:
            self._control_refused(what, f"the broker refused {', '.join(refused)}", now)
        elif what == LEDGER:
            probe = self._topics.probe(self._identity.bridge)
            self._port.subscribe([Subscription(probe)], PROBE)
            self._probe(self.charge.probe)
        elif what == REPLAY:
            self._probe(self._replay.probe)

    def _probe(self, payload: bytes) -> None:
        probe = self._topics.probe(self._identity.bridge)
        self._port.publish(Outgoing(probe, payload, retain=False), PROBE)

    def _control_refused(self, what: Control, reason: str, now: float) -> None:
        """Without ledger or probe there is no taking charge; the rest is tried again."""
        failures = self._failures[what] = self._failures.get(what, 0) + 1
        if self._said.new(("refused", what), reason):
            log.error("the broker's ACL must let the bridge do this", what=what.what, reason=reason)
        until = now + self._policy.again.pause(failures, self._rng)
        self._not_before[what] = until
        if what == LEDGER and self.charge.phase in (Phase.WRITING, Phase.IN_CHARGE):
            self.book.refused(until)
        elif what in (LEDGER, PROBE):
            self._port.disconnect(f"{what.what}: {reason}")
        elif what == BIRTH:
            self._birth_due = until

    def _acknowledged(self, what: Control, now: float) -> None:
        if self._failures.pop(what, 0):
            self._said.over(("refused", what))
        if what == LEAVING:
            self._leaving = False
        if what == LEDGER:
            self.book.acknowledged()
            self.publisher.recheck()
            if self.charge.phase is Phase.WRITING:
                self._in_charge(now)

    def _received(self, event: Received, now: float) -> None:
        wire = Wire(event.payload, event.encoding)
        if event.topic == self._topics.ledger(self._identity.bridge):
            self.charge.ledger_came(wire)
        elif event.topic == self._topics.probe(self._identity.bridge):
            self._echoed(event.payload, now)
        elif event.topic == self._own_state:
            self._own_state_came(wire, now)
        elif (parsed := self._topics.parse_node(event.topic)) and parsed[1] == "status":
            self._report_came(parsed[0], wire, now)

    # -- taking charge

    def _echoed(self, payload: bytes, now: float) -> None:
        if self.charge.echoed(payload, now):
            self._reading_since = math.inf
            if self.charge.phase is Phase.LISTING:
                self._listing.want(dict.fromkeys(self._rules.kinds, now))
        elif self._replay.echoed(payload):
            self._replay_next()

    def _finish_listing(self, now: float) -> None:
        """Once a process: every kind was listed anew, or had its time."""
        since = self.charge.listing_since
        late = [k for k in self._rules.kinds if self.holding.view(k).answered_at < since]
        if late and now < since + LISTING_WAIT:
            return
        for kind in late:
            log.error("kind did not answer in time: it is held until it does", kind=kind)
            self.holding.view(kind).status = None
        ledger = self.charge.ledger
        self.charge.listed(self._wall_clock())
        assert self.charge.epoch is not None
        self.publisher.epoch = self.charge.epoch
        self.holding.take_charge(ledger.kinds if ledger else None, now)
        self.book.paused = ledger.paused if ledger else False
        if self.book.paused:
            log.warning("paused: no snapshot goes out until it is resumed")
        self.publisher.dirty(_names(ledger.nodes if ledger else ()))
        self.publisher.dirty(list(self.catalog.nodes()))
        log.info(
            "taking charge",
            bridge=self._identity.bridge,
            epoch=self.charge.epoch,
            ledger="read" if ledger else "none: every kind is held at first",
            nodes=len(self.publisher.nodes),
        )

    def _in_charge(self, now: float) -> None:
        """The ledger holds our epoch: from here on snapshots may go out."""
        self.charge.written()
        self.publisher.connected(self._port.limit)
        mark = self.charge.mark
        self.publisher.again(
            [
                node
                for node, state in self.publisher.nodes.items()
                if mark is None or not state.acknowledgement or state.acknowledgement > mark
            ]
        )
        self._birth_due, self._births = now, 0
        self._subscribe_reports()

    def _subscribe_reports(self) -> None:
        self._port.subscribe([Subscription(self._topics.every_status(), replay=False)], REPORTS)
        self._replay.start(self.publisher.nodes)
        self._replay_next()

    def _replay_next(self) -> None:
        if batch := self._replay.next_batch():
            self._port.subscribe(batch, REPLAY)

    # -- presence

    @property
    def _own_state(self) -> str:
        return self._topics.bridge_state(self._identity.bridge)

    def presence(self, online: bool) -> Outgoing:
        """The retained state: said at birth and at leaving, and by the will."""
        epoch = self.charge.epoch
        presence = Presence(
            online=online,
            instance=self._identity.instance,
            since=self._since,
            version=__version__,
            epoch=msgspec.UNSET if epoch is None else epoch,
        )
        return Outgoing(self._own_state, encode(presence), retain=True)

    def leave(self) -> None:
        """Say that we go; `work` is not called any more."""
        self._port.publish(self.presence(online=False), LEAVING)
        self._leaving = True

    @property
    def busy(self) -> bool:
        """Whether the broker has still to acknowledge snapshots or the leaving."""
        return self._leaving or any(state.in_flight for state in self.publisher.nodes.values())

    def _own_state_came(self, wire: Wire, now: float) -> None:
        """Whoever sees its own state say something else says its birth again, paced."""
        if self.charge.phase is not Phase.IN_CHARGE or self._birth_due < math.inf:
            return
        try:
            seen = decode(Presence, wire)
        except MessageError:
            seen = None
        if seen is None or not seen.online or seen.instance != self._identity.instance:
            self._births += 1
            self._birth_due = now + self._policy.again.pause(self._births, self._rng)

    # -- reports

    def _report_came(self, node: NodeName, wire: Wire, now: float) -> None:
        try:
            report = decode(Report, wire)
        except MessageError as error:
            if self._said.new((node, "report"), str(error)):
                log.warning("report ignored", node=node, reason=str(error))
            return
        if report.node != node or report.bridge != self._identity.bridge:
            if self._said.new((node, "report"), report.bridge):
                log.warning(
                    "report refused: the node says it belongs to another bridge",
                    node=node,
                    bridge=report.bridge,
                )
            return
        self._said.over((node, "report"))
        if self.charge.phase is Phase.IN_CHARGE and self.reports.arrived(node, report, now):
            self.holding.reported(_keys(report), now)
            self._judge(node, report, now)

    def _judge(self, node: NodeName, report: Report, now: float) -> None:
        state = self.publisher.nodes.get(node)
        if state is None or state.content is None:
            self.publisher.expect(node, report.version)
            return
        judgement = judge(report, state)
        if not self.reports.answers(node, judgement, now):
            return
        log.info(
            "answering a report",
            node=node,
            because=judgement.name.lower(),
            reported=f"{report.epoch}.{report.revision}",
            published=f"{state.version.epoch}.{state.version.revision}",
        )
        if judgement is Judgement.AHEAD:
            self.publisher.renew(node, report.version)
        else:
            self.publisher.again((node,))

    # -- the work between events

    def work(self, now: float) -> float:
        """Do what is due; the monotonic second at which to be called again at the latest."""
        self._update_holding(now)
        phase = self.charge.phase
        if phase is Phase.LISTING:
            self._finish_listing(now)
            self._update_holding(now)
            phase = self.charge.phase
        if now >= self._reading_since + READING_WAIT:
            self._reading_since = math.inf
            self._port.disconnect("the probe did not come back: the ACL must let it through")
        times = [
            self.holding.next_change(now),
            self._reading_since + READING_WAIT,
            now + 1 if phase is Phase.LISTING else math.inf,
        ]
        if phase in (Phase.WRITING, Phase.IN_CHARGE):
            times.append(self._write_ledger(now))
        if phase is Phase.IN_CHARGE:
            times += [self._say_birth(now), self._resubscribe(now), self._publish(now)]
        times.append(self._ask_lists(now))
        return min(times)

    def _update_holding(self, now: float) -> None:
        self.holding.update(now)
        held, waiting = self.holding.held, self.holding.waiting
        if held != self._held:
            log.info("held kinds", held=", ".join(held) or "none")
            self.publisher.dirty(list(self.publisher.nodes))
        if waiting - self._waiting:
            log.info("kinds are empty: a second list decides", kinds=", ".join(sorted(waiting)))
        if (held, waiting) != (self._held, self._waiting):
            self._held, self._waiting = held, waiting
            self.publisher.recheck()

    def _write_ledger(self, now: float) -> float:
        names, mark = self.publisher.nodes.keys(), self.publisher.acknowledgements
        counts = self.holding.counts(now)
        due = self.book.due(names, mark, counts, now)
        if due > now:
            return due
        self.book.write(names, mark, counts, now)
        ledger = Ledger(
            bridge=self._identity.bridge,
            source=self._identity.source,
            instance=self._identity.instance,
            epoch=self.publisher.epoch,
            mark=mark,
            paused=self.book.paused,
            nodes=sorted(names),
            kinds=counts,
        )
        payload, encoding = pack(encode(ledger), compress=True)
        topic = self._topics.ledger(self._identity.bridge)
        self._port.publish(Outgoing(topic, payload, retain=True, encoding=encoding), LEDGER)
        return math.inf

    def _say_birth(self, now: float) -> float:
        if now < self._birth_due:
            return self._birth_due
        self._birth_due = math.inf
        self._port.publish(self.presence(online=True), BIRTH)
        return math.inf

    def _resubscribe(self, now: float) -> float:
        due = min(self._not_before.get(what, math.inf) for what in (REPORTS, REPLAY))
        if now < due:
            return due
        self._not_before.clear()
        self._subscribe_reports()
        return math.inf

    def _publish(self, now: float) -> float:
        for node in self.reports.due(now):
            self._judge(node, self.reports.newest(node), now)
        self.publisher.limit_changed(self._port.limit)
        if self.book.paused:
            return self.reports.next_at
        return min(self.publisher.pump(now, self._port, self.book.names), self.reports.next_at)

    def _ask_lists(self, now: float) -> float:
        self._listing.want(self.publisher.lists_wanted)
        self._listing.want(self.holding.wanted_lists(now))
        self.publisher.lists_wanted.clear()
        return self._listing.ask(now)


def _names(nodes: Iterable[str]) -> list[NodeName]:
    """The names of a ledger that are names."""
    names = []
    for node in nodes:
        try:
            names.append(node_name(node))
        except InvalidName as error:
            log.warning("name in the ledger ignored", reason=str(error))
    return names


def _keys(report: Report) -> Iterator[ResourceKey]:
    """The keys in a report that are keys."""
    for resource in report.resources:
        try:
            yield parse_key(resource.key)
        except InvalidName:
            log.debug("key in a report ignored", node=report.node, key=resource.key[:80])
