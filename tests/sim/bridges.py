"""Bridge processes: the real core of the bridge, with a simulated source, session and clock.

A host starts processes and starts them again when they were killed, but not after one that was
superseded. What a process publishes is checked on its way out.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bridge.bridge import Bridge
from bridge.charge import Identity, Phase
from bridge.guard import GuardPolicy
from bridge.lease import Leadership, Unshared
from bridge.policy import Policy
from bridge.publisher import PublishPolicy
from bridge.sources.events import SourceEvent
from bridge.tenure import Tenure
from nodecast.backoff import Backoff
from nodecast.errors import Superseded
from nodecast.messages import Report, Snapshot, Wire, decode, decode_snapshot
from nodecast.names import BridgeName, KindName
from nodecast.session import Outgoing, Received, Subscription
from nodecast.topics import Topics, bridge_client_id
from tests.sim.broker import Broker
from tests.sim.clock import Simulation
from tests.sim.leases import Candidate, LeaseServer
from tests.sim.readers import DirectoryReader, KindReader
from tests.sim.session import Session
from tests.sim.things import KINDS, RULES
from tests.sim.truth import Truth

NAME = BridgeName("default")
TOPICS = Topics()
HOLD = 20.0
GUARD = GuardPolicy(number=4, window=20.0)
POLICY = Policy(
    hold=HOLD,
    guard=GUARD,
    lag=2.5,
    compress=False,
    publish=PublishPolicy(refused=Backoff(1, 5)),
    again=Backoff(0.5, 5),
)


class VersionRules:
    """What one process may not do with versions, whatever happens."""

    def __init__(self, violate: Callable[[str, str], None]) -> None:
        self._violate = violate
        self._last: dict[str, Snapshot] = {}
        self._reported: dict[str, Report] = {}  # of each node, that of the greatest version

    def published(self, message: Outgoing) -> Snapshot:
        """A snapshot goes out: its version against the one before."""
        new = decode_snapshot(Wire(message.payload, message.encoding))
        old = self._last.get(new.node)
        self._last[new.node] = new
        if old is None:
            return new
        if new.version < old.version:
            self._violate("version went back", f"{new.node} {old.version} {new.version}")
        if new.version == old.version and new.digest != old.digest:
            self._violate("one version, two contents", f"{new.node} {new.version}")
        renewed = new.version > old.version and new.digest == old.digest
        if renewed and not self._was_ahead(old):
            self._violate("equal content, new revision", f"{new.node} {new.version}")
        return new

    def reported(self, report: Report) -> None:
        """A report reached the bridge."""
        greatest = self._reported.get(report.node)
        if greatest is None or report.version >= greatest.version:
            self._reported[report.node] = report

    def _was_ahead(self, old: Snapshot) -> bool:
        """A node that has what it was never given may be given its content anew."""
        report = self._reported.get(old.node)
        if report is None or report.version < old.version:
            return False
        return report.version > old.version or report.digest != old.digest


@dataclass(slots=True)
class Shared:
    """What all bridge processes meet in."""

    sim: Simulation
    broker: Broker
    truth: Truth
    directory: bool
    violate: Callable[[str, str], None]
    took_charge: Callable[[Mapping[str, int]], None]
    """Told what the ledger counts, at least, when a process takes charge."""
    leases: LeaseServer | None = None


class BridgeProcess:
    """One start of a bridge."""

    def __init__(self, shared: Shared, name: str, offset: float, ended: Callable[[], None]) -> None:
        sim = self._sim = shared.sim
        self.name = name
        self._shared = shared
        self._offset = offset
        self._ended = ended
        self._started_at = sim.now
        self._frozen_until = 0.0
        self._stopped = False
        self._inbox: list[SourceEvent] = []
        self._turn_at = math.inf
        self._session: Session | None = None
        self._versions = VersionRules(shared.violate)
        instance = f"{sim.rng(name).getrandbits(32):08x}"
        self._leadership: Leadership = Unshared()
        if shared.leases is not None:
            self._leadership = Candidate(
                sim, shared.leases, name, self._wake, lambda: self._frozen_until
            )
        self._tenure = Tenure(self._leadership)
        self.core = Bridge(
            Identity(NAME, "sim", instance, leased=shared.leases is not None),
            RULES,
            TOPICS,
            POLICY,
            self,
            self._relist,
            rng=random.Random(instance),
            wall_clock=self._wall_clock,
        )
        self._readers: dict[KindName, KindReader | DirectoryReader]
        if shared.directory:
            reader = DirectoryReader(sim, shared.truth, self._emit, name)
            self._readers = dict.fromkeys(KINDS, reader)
        else:
            self._readers = {
                kind: KindReader(sim, shared.truth, kind, self._emit, name) for kind in KINDS
            }
        self._wait_for_lists()

    @property
    def in_charge(self) -> bool:
        return self.core.charge.phase is Phase.IN_CHARGE and self._tenure.permits()

    # -- what happens to it

    def freeze(self, lasts: float) -> None:
        """Stop working for a while, without knowing (SIGSTOP)."""
        self._sim.say(self.name, "frozen", lasts=round(lasts, 1))
        self._frozen_until = self._sim.now + lasts

    def thaw(self) -> None:
        self._frozen_until = 0.0
        self._wake()

    @property
    def frozen(self) -> bool:
        return self._sim.now < self._frozen_until

    def approve(self, kind: KindName) -> None:
        """An operator lets go what is missing of a kind."""
        self._sim.say(self.name, "approved", kind=kind)
        self.core.approve(kind, self._sim.now)
        self._wake()

    def gap(self, kinds: frozenset[KindName], lasts: float, *, noticed: bool) -> None:
        """The watches of some kinds tell nothing for a while."""
        for reader in {id(r): r for k, r in self._readers.items() if k in kinds}.values():
            reader.gap(lasts, noticed=noticed)

    def stop(self, *, clean: bool = False) -> None:
        """The process ends, mostly without a word."""
        self._stopped = True
        self._leadership.stop()
        for reader in set(self._readers.values()):
            reader.stop()
        if self._session is not None:
            self._session.close(clean=clean)

    # -- the port of its core

    @property
    def free(self) -> int:
        return self._session.free if self._session else 0

    @property
    def limit(self) -> int | None:
        return self._session.limit if self._session else None

    def publish(self, message: Outgoing, token: object) -> None:
        assert self._session is not None
        if message.topic.endswith("/resources"):
            snapshot = self._versions.published(message)
            if self._shared.leases is not None and len(self._shared.leases.holders) != 1:
                self._shared.violate("not one in charge", f"{self._shared.leases.holders}")
            self._shared.truth.published(snapshot.node, snapshot.version)
            self._say_snapshot(snapshot)
        self._session.publish(message, token)

    def subscribe(self, filters: Sequence[Subscription], token: object) -> None:
        assert self._session is not None
        self._session.subscribe(filters, token)

    def disconnect(self, reason: str) -> None:
        assert self._session is not None
        self._sim.say(self.name, "disconnects", reason=reason)
        self._session.disconnect(reason)

    # -- within

    def _wall_clock(self) -> float:
        """Slow, so that two starts often fall into one second."""
        return 1000 + self._sim.now / 10 + self._offset

    def _relist(self, kinds: frozenset[KindName]) -> None:
        for reader in {id(r): r for k, r in self._readers.items() if k in kinds}.values():
            reader.list()

    def _emit(self, event: SourceEvent) -> None:
        if not self._stopped:
            self._inbox.append(event)
            self._wake()

    def _wait_for_lists(self) -> None:
        if self._stopped:
            return
        if not self.core.may_connect(self._sim.now - self._started_at):
            self._sim.after(0.2, self._wait_for_lists)
            return
        self._leadership.start()
        self._tenure.begin()
        self._session = Session(
            self._sim,
            self._shared.broker,
            bridge_client_id(NAME),
            lambda: self.core.own.presence(online=False),
            self._wake,
            name=f"{self.name}/session",
            window=7,
            permit=self._tenure.permits,
        )

    def _wake(self) -> None:
        self._turn_by(self._sim.now)

    def _turn_by(self, moment: float) -> None:
        moment = max(moment, self._frozen_until)
        if moment < self._turn_at:
            self._turn_at = moment
            self._sim.after(moment - self._sim.now, self._turn, moment)

    def _turn(self, moment: float) -> None:
        """One turn of the loop."""
        if moment != self._turn_at or self._stopped:
            return
        self._turn_at = math.inf
        if self._sim.now < self._frozen_until:
            self._turn_by(self._frozen_until)
            return
        try:
            due = self._work()
        except Superseded:
            self._sim.say(self.name, "superseded")
            if self._shared.leases is not None:
                self._shared.violate("superseded in spite of a lease", self.name)
            self.stop(clean=True)
            self._ended()
            return
        self._turn_by(max(due, self._sim.now + 0.001))

    def _work(self) -> float:
        self._keep_to_the_lease()
        now, held = self._sim.now, self.core.holding.held
        events = self._session.take() if self._session else []
        for event in events:
            if isinstance(event, Received) and event.topic.endswith("/status"):
                self._versions.reported(decode(Report, Wire(event.payload, event.encoding)))
            self.core.session_event(event, now)
        inbox, self._inbox = self._inbox, []
        for each in inbox:
            self.core.source_event(each, now)
        if self._session is None:
            return math.inf
        began = self.core.charge.epoch is None
        due = self.core.work(now)
        if began and self.core.charge.epoch is not None:
            self._versions = VersionRules(self._shared.violate)  # an epoch has its own
            self._shared.took_charge(self._counted)
        if self.core.holding.held != held:
            self._sim.say(self.name, "holds", kinds=",".join(self.core.holding.held))
        due = min(due, now + self._tenure.left)
        return now if events else due  # a Lost may wait behind the events

    def _keep_to_the_lease(self) -> None:
        if self._tenure.end():
            self._sim.say(self.name, "lost the lease")
            if self._session is not None:
                self._session.cut()
            self.core.step_down()
        if self._session is not None:
            self._tenure.begin()

    @property
    def _counted(self) -> Mapping[str, int]:
        ledger = self.core.charge.ledger
        return (ledger.kinds or ledger.at_least or {}) if ledger else {}

    def _say_snapshot(self, snapshot: Snapshot) -> None:
        self._sim.say(
            self.name,
            "snapshot",
            node=snapshot.node,
            version=f"{snapshot.version.epoch}.{snapshot.version.revision}",
            keys=" ".join(sorted(r.key.rpartition("/")[2] for r in snapshot.resources)),
            held=",".join(sorted(snapshot.held_kinds)),
            omitted=" ".join(sorted(k.rpartition("/")[2] for k in snapshot.omitted)),
        )


class Host:
    """Keeps one bridge running, as systemd would."""

    def __init__(self, shared: Shared, name: str) -> None:
        self._shared = shared
        self._name = name
        self._starts = 0
        self.offset = 0.0
        """Seconds by which its wall clock is wrong."""
        self.process: BridgeProcess | None = None

    def start(self) -> None:
        if self.process is None:
            self._starts += 1
            self._shared.sim.say(self._name, "starts", clock=self.offset)
            self.process = BridgeProcess(
                self._shared, f"{self._name}{self._starts}", self.offset, self._ended
            )

    def kill(self, restart_after: float) -> None:
        if self.process is not None:
            self._shared.sim.say(self._name, "killed")
            self.process.stop()
            self.process = None
        self._shared.sim.after(restart_after, self.start)

    def _ended(self) -> None:
        self.process = None
