"""The bridge's core: events of the source and of the session in, publishes out.

It has no thread, socket or clock of its own: the loop of `bridge.app` owns it, brings it events
with the monotonic time, and lets it `work`. Data goes one way through it: source → catalog →
holding → publisher → session; what comes back from the nodes goes to `feedback` and
from there, as a node to look at, to the publisher.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime

from bridge.backlog import Backlog
from bridge.catalog import Catalog
from bridge.charge import LISTING_WAIT, Charge, Identity, Phase, counts_of, nodes_of
from bridge.feedback import Feedback
from bridge.guard_log import GuardLog
from bridge.holding import Holding
from bridge.kind_views import KindView, kind_views
from bridge.listing import Listing
from bridge.own_topics import BridgePort, OwnTopics
from bridge.placement import Rules
from bridge.policy import Policy
from bridge.publisher import Publisher
from bridge.record import ObjectRecord
from bridge.settle import Settle
from bridge.source_log import SourceLog
from bridge.sources.events import Changed, Findings, Interrupted, KindStatus, Listed, SourceEvent
from bridge.tokens import LEDGER, Control, SnapshotToken
from bridge.writer import SnapshotWriter
from nodecast.log import logger
from nodecast.messages import Wire
from nodecast.names import KindName, ResourceKey
from nodecast.session import (
    Acknowledged,
    Connected,
    Event,
    Lost,
    Received,
    Refused,
    Subscribed,
)
from nodecast.topics import Topics

log = logger(__name__)


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
        self._port = port
        self._wall_clock = wall_clock
        self._log = SourceLog()
        self._guard_log = GuardLog(identity.bridge)
        self.catalog = Catalog(rules)
        self._backlog = Backlog()
        self.holding = Holding(rules, self.catalog, policy.hold, policy.guard)
        self.charge = Charge(identity)
        self.own = OwnTopics(
            identity,
            self.charge,
            topics,
            port,
            since=datetime.fromtimestamp(wall_clock(), UTC).isoformat(timespec="seconds"),
            again=policy.again,
            rng=rng,
        )
        self.publisher = Publisher(
            self.catalog,
            self.holding,
            Settle(rules, self.catalog, self.holding, policy.settle, policy.settle_max),
            SnapshotWriter(identity.bridge, identity.instance, topics, compress=policy.compress),
            policy.publish,
            rng,
        )
        self._feedback = Feedback(
            identity.bridge,
            self.publisher,
            self.holding,
            lag=policy.lag,
            again=policy.again,
            rng=rng,
        )
        self._listing = Listing(relist)
        self._held: tuple[KindName, ...] = ()
        self._holding_at = -math.inf
        self._waiting: frozenset[KindName] = frozenset()

    # -- the source

    def source_event(self, event: SourceEvent, now: float) -> None:
        """Something that the source says."""
        self._holding_at = now
        match event:
            case Findings():
                pass  # said by the source, which knows the places
            case Changed(objects):
                self._apply(objects, now)
            case Listed(kind, _, listed):
                self.holding.listed(event)
                if listed is not None:
                    self._apply(self.catalog.changes(kind, listed), now)
                self._log.listed(event)
                self.publisher.recheck()
            case Interrupted():
                self.holding.interrupted(event, now)
                self.publisher.recheck()

    def _apply(self, changes: Mapping[ResourceKey, ObjectRecord | None], now: float) -> None:
        self._log.objects(changes)
        self._backlog.add(changes, now)
        delta = self.catalog.apply(changes)
        self.holding.changed(delta, now)
        self.publisher.dirty(delta.dirty)

    def may_connect(self, waited: float) -> bool:
        """Whether enough is known to take charge, `waited` seconds after the start."""
        answered = [self.holding.view(kind) for kind in self._rules.kinds]
        if all(view.status is not None for view in answered):
            return True
        return waited > LISTING_WAIT and any(view.listed_at > -math.inf for view in answered)

    # -- operators

    @property
    def source(self) -> str:
        """What tells the source from another."""
        return self._identity.source

    def kind_views(self, now: float) -> list[KindView]:
        """What there is to say of each kind, by name."""
        return kind_views(self._identity.bridge, self.catalog, self.holding, now)

    def approve(self, kind: KindName, now: float) -> None:
        """An operator says that what is seen of a kind now is what is meant: the removal guard
        lets go what is missing, a missing kind counts as empty until it is served again, and a
        hold that only waits for its time ends. The snapshots follow with the next `work`.

        Raises UnknownKind, or NothingToApprove.
        """
        self.holding.check_approval(kind)
        if self.holding.view(kind).status is KindStatus.MISSING:
            self._apply(self.catalog.changes(kind, {}), now)
        guarded = self.holding.guarded.get(kind)
        self.holding.approve(kind)
        self._holding_at = now
        self.own.book.hurry()  # a restart must not ask again
        self._guard_log.approved(kind, self.catalog, guarded)

    # -- the session

    def session_event(self, event: Event, now: float) -> None:
        """Something that the session says. Raises SettingsError or Unavailable: stop."""
        match event:
            case Acknowledged(SnapshotToken() as token):
                self.publisher.acknowledged(token)
            case Received():
                self._received(event, now)
            case Acknowledged(Control() as what):
                self._acknowledged(what, now)
            case Refused(SnapshotToken() as token):
                self.publisher.refused(token, event, now)
            case Refused(Control() as what):
                self.own.refused(what, event.reason, now)
            case Subscribed(Control() as what, refused):
                self.own.subscribed(what, refused, now)
            case Connected():
                self._connected(now)
            case Lost(_, tokens):
                self._lost(tokens)

    def _connected(self, now: float) -> None:
        self.charge.connected()
        self.own.connected(now)

    def step_down(self) -> None:
        """The lease is lost, and the connection with it: whatever is known is kept, what was said
        counts no more. Whoever takes charge next, this process too, takes the next epoch."""
        self.charge.step_down()
        self.holding.step_down()
        self._held, self._waiting = (), frozenset()

    def _lost(self, tokens: Iterable[object]) -> None:
        self.charge.disconnected()
        self.own.disconnected()
        self.publisher.lost(tokens)

    def _acknowledged(self, what: Control, now: float) -> None:
        self.own.acknowledged(what)
        if what == LEDGER:
            self.publisher.recheck()
            if self.charge.phase is Phase.WRITING:
                self._in_charge(now)

    def _received(self, event: Received, now: float) -> None:
        wire = Wire(event.payload, event.encoding)
        if event.topic == self.own.ledger:
            kept, phase = self.charge.ledger_came(wire), self.charge.phase
            if phase is Phase.OFFLINE:
                self._port.disconnect("another instance took charge: the next epoch is to be taken")
            elif phase is Phase.IN_CHARGE and not kept:
                self.own.ledger_overwritten(now)
        elif event.topic == self.own.probe:
            self._echoed(event.payload, now)
        elif event.topic == self.own.state:
            self.own.state_came(wire, now)
        elif self.charge.phase is Phase.IN_CHARGE:
            node = self._topics.parse_node(event.topic)
            if node is not None and node[1] == "status":
                self._holding_at = now
                self._feedback.came(node[0], wire, now)

    # -- taking charge

    def _echoed(self, payload: bytes, now: float) -> None:
        if self.charge.echoed(payload, now):
            if self.charge.phase is Phase.LISTING:
                self._listing.want(dict.fromkeys(self._rules.kinds, now))
            elif self.charge.ledger is not None:
                self.publisher.dirty(nodes_of(self.charge.ledger))
        if self.own.echoed(payload, now):
            self.publisher.recheck()

    def _finish_listing(self, now: float) -> None:
        """Once an epoch: every kind was listed anew, or had its time."""
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
        self.publisher.take_charge(self.charge.epoch)
        self._feedback.take_charge()
        self.holding.take_charge(counts_of(ledger) if ledger else None, now)
        self._holding_at = now
        self.own.book.paused = ledger.paused if ledger else False
        if self.own.book.paused:
            log.warning("paused: no snapshot goes out until it is resumed")
        self.publisher.dirty(nodes_of(ledger) if ledger else ())
        self.publisher.dirty(list(self.catalog.nodes()))
        log.info(
            "taking charge",
            bridge=self._identity.bridge,
            epoch=self.charge.epoch,
            ledger="read" if ledger else "none: every kind is held at first",
            nodes=len(self.publisher.nodes),
        )
        self._log.charge(self.catalog, self._rules.kinds, self.holding)

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
        self.own.in_charge(now)

    def leave(self) -> None:
        """Say that we go; `work` is not called any more."""
        self.own.leave()

    @property
    def busy(self) -> bool:
        """Whether the broker has still to acknowledge snapshots or the leaving."""
        return self.own.leaving or any(each.in_flight for each in self.publisher.nodes.values())

    # -- the work between events

    def work(self, now: float) -> float:
        """Do what is due; the monotonic second at which to be called again at the latest."""
        self._log.flush()
        if self.charge.phase is Phase.LISTING:
            self._finish_listing(now)
        self._update_holding(now)
        self._guard_log.say(self.holding, self.catalog, self.publisher.nodes, now)
        phase = self.charge.phase
        times = [
            self._holding_at,
            now + 1 if phase is Phase.LISTING else math.inf,
        ]
        if phase in (Phase.WRITING, Phase.IN_CHARGE):
            nodes, mark = self.publisher.nodes.keys(), self.publisher.acknowledgements
            times.append(self.own.write_ledger(nodes, mark, self.holding.counts, now))
        if phase is Phase.IN_CHARGE:
            times.append(self._publish(now))
        times.append(self._backlog.work(now))
        times += [self.own.work(self.publisher.nodes.keys(), now), self._ask_lists(now)]
        return min(times)

    def _update_holding(self, now: float) -> None:
        if now < self._holding_at:
            return
        self.holding.update(now)
        self._holding_at = self.holding.next_change(now)
        self._log.doubts(self.holding)
        held, waiting = self.holding.held, self.holding.waiting
        if held != self._held:
            self.publisher.dirty(list(self.publisher.nodes))
        if (held, waiting) != (self._held, self._waiting):
            self._held, self._waiting = held, waiting
            self.publisher.recheck()

    def _publish(self, now: float) -> float:
        judge_at = self._feedback.work(now)
        self.publisher.limit_changed(self._port.limit)
        if self.own.book.paused:
            return judge_at
        return min(self.publisher.pump(now, self._port, self.own.open_nodes), judge_at)

    def _ask_lists(self, now: float) -> float:
        self._listing.want(self.publisher.lists_wanted)
        self._listing.want(self.holding.wanted_lists(now))
        self.publisher.lists_wanted.clear()
        return self._listing.ask(now)
