"""One run: a fleet meets the faults of a plan, then calm, then what must hold is checked.

An agent that is off to the end has only its retained snapshot checked.

During the run: no wrong removal at any node, no version that goes back or says two things, no new
revision for equal content, no file written twice. At calm: every node's files, and its retained
snapshot, are the placement of what is wanted; nothing is held; a deletion arrives in time; nobody
publishes without end.

What nothing can tell from what is wanted is left out of the worlds: accidents while the watches are
still silent after a restored backup of the cluster, and a CRD removed so shortly before calm that
its objects are back before it is missing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import orjson

from nodecast.messages import Snapshot, Wire, decode_snapshot
from nodecast.names import KindName, NodeName, ResourceKey
from tests.sim.accidents import MOST, Accidents
from tests.sim.bridges import GUARD, HOLD, TOPICS, BridgeProcess, Host, Shared
from tests.sim.broker import Broker
from tests.sim.clock import Simulation
from tests.sim.devices import Device
from tests.sim.leases import LeaseServer
from tests.sim.operators import Operator
from tests.sim.people import People
from tests.sim.plan import FAULTS_END, Fault, Plan, What
from tests.sim.readers import RELIST
from tests.sim.things import KINDS, NODES, Thing, placement
from tests.sim.truth import Truth

CALM = 130.0
"""Seconds after the last fault by which all must be well: a kind that does not answer in time,
its hold, and the longest pause between reconnections."""
SOON = 12.0
"""Seconds within which a deletion arrives at calm: settle, 5 s for what was the last of its kind,
the lists, and the way."""
QUIET = 60.0


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that must not happen."""

    at: float
    what: str
    detail: str


class Fleet:
    """Everything of one run."""

    def __init__(self, plan: Plan, *, tracing: bool = False) -> None:
        self.plan = plan
        self.violations: list[Violation] = []
        sim = self.sim = Simulation(plan.seed, tracing=tracing)
        self._rng = sim.rng("fleet")
        self._broker = Broker(sim)
        self._truth = Truth(sim)
        self._accidents = Accidents(sim, self._truth, HOLD, GUARD, self._known)
        self._people = People(sim, self._truth, self._accidents, FAULTS_END)
        self._operator = Operator(sim, self._truth, self._accidents, self._bridge, FAULTS_END)
        self._silent_until = 0.0
        self._gone: set[NodeName] = set()
        self._saved: tuple[dict[ResourceKey, Thing], int] = ({}, 0)
        shared = Shared(
            sim,
            self._broker,
            self._truth,
            plan.world.directory,
            self._violate,
            self._accidents.counted,
            LeaseServer() if plan.world.leased else None,
        )
        self._hosts = [Host(shared, name) for name in "PQ"[: plan.world.bridges]]
        self._devices = {
            node: Device(sim, self._broker, self._truth, node, self._violate) for node in NODES
        }

    def run(self) -> list[Violation]:
        """Play the plan; what went wrong, in the order of time."""
        sim = self.sim
        self._save()
        for host in self._hosts[: 2 if self.plan.world.leased else 1]:
            host.start()
        for node, device in self._devices.items():
            sim.after(self._rng.uniform(0, 20), self._start_agent, node)
            sim.after(self._rng.uniform(20, 60), device.back_up)
        for fault in self.plan.faults:
            sim.after(fault.at, self._strike, fault)
        sim.run(FAULTS_END)
        self._calm_down()
        sim.run(FAULTS_END + CALM)
        self._check_state()
        self._check_deletion()
        published = self._broker.published
        sim.run(sim.now + QUIET)
        if (late := self._broker.published - published) > 6:
            self._violate("publishing without end", f"{late} messages in {QUIET:.0f} s")
        return self.violations

    def _violate(self, what: str, detail: str) -> None:
        self.sim.say("VIOLATION", what, detail=detail)
        self.violations.append(Violation(self.sim.now, what, detail))

    # -- faults

    def _strike(self, fault: Fault) -> None:
        self.sim.say("fault", fault.what)
        if fault.what in _AT_BROKER:
            self._strike_broker(fault)
        elif fault.what in _AT_SOURCE:
            self._strike_source(fault)
        elif fault.what in _AT_BRIDGE:
            self._strike_bridge(fault)
        else:
            self._strike_agent(fault)

    def _strike_broker(self, fault: Fault) -> None:
        lasts, broker = fault.between(0.5, 10), self._broker
        if fault.what is What.CUT:
            links = [broker.links[name] for name in sorted(broker.links)]
            if links:
                links[fault.pick % len(links)].cut(fault.between(1, 15))
            return
        if not broker.alive:
            return
        stores = {What.BROKER_OLDER: "older", What.BROKER_EMPTY: "empty", What.BROKER_KEEPS: "kept"}
        store = stores.get(fault.what) or ("older", "empty", "kept")[fault.pick % 3]
        broker.kill(store, lasts)
        if fault.what is What.POWER:
            self._host(fault).kill(self._rng.uniform(0, lasts + 5))

    def _strike_source(self, fault: Fault) -> None:
        accidents = self._accidents
        match fault.what:
            case What.GAP | What.SILENCE:
                if process := self._host(fault).process:
                    kinds = _kinds(fault.pick // 2)
                    noticed = fault.what is What.GAP
                    process.gap(kinds, fault.between(1, 15), noticed=noticed)
            case What.CRD if not self._silent_now:
                accidents.crd_removed(_kinds(fault.pick), self._rng)
            case What.EMPTIED if not self._silent_now:
                accidents.deleted(_kinds(fault.pick), self._rng)
                self._perhaps_kill(fault)
            case What.THINNED if not self._silent_now:
                accidents.deleted(_kinds(fault.pick), self._rng, MOST)
                self._perhaps_kill(fault)
            case What.NARROWED:
                accidents.narrowed(_kinds(fault.pick), self._rng, lambda: self._restart(fault))
            case What.FORBIDDEN:
                accidents.forbidden(_kinds(fault.pick), fault.between(3, 60))
            case What.DIRECTORY:
                accidents.directory_gone(fault.between(3, 60))
            case What.CLEARED:
                self._people.clear(NODES[fault.pick % len(NODES)])
            case What.REWIND:
                if not accidents.running:
                    self._truth.rewind(*self._saved)
                    self._silent_until = self.sim.now + RELIST[1]

    def _perhaps_kill(self, fault: Fault) -> None:
        """Whether the bridge is restarted into an accident."""
        if fault.pick % 7 < 2:
            self._restart(fault)

    def _restart(self, fault: Fault) -> None:
        self._host(fault).kill(fault.between(0.5, 10))

    @property
    def _silent_now(self) -> bool:
        """Whether watches may still be silent after a restored backup of the cluster."""
        return self.sim.now <= self._silent_until

    def _strike_bridge(self, fault: Fault) -> None:
        host = self._host(fault)
        match fault.what:
            case What.BRIDGE:
                host.kill(fault.between(0.5, 20))
            case What.BRIDGE_CLOCK:
                host.offset = (0.0, -2000.0, -2000.0, 10.0**6)[fault.pick % 4]
                host.kill(fault.between(0.5, 5))
            case What.FREEZE:
                if host.process:
                    host.process.freeze(fault.between(2, 25))
            case What.SECOND:
                for each in self._hosts:
                    each.start()

    def _strike_agent(self, fault: Fault) -> None:
        node, what = NODES[fault.pick % len(NODES)], fault.what
        device = self._devices[node]
        device.kill()
        match what:
            case What.BACK_UP:
                device.back_up()
            case What.RESTORE | What.RESTORE_STORE:
                device.restore(fault.pick // 3, files=what is What.RESTORE)
            case What.WIPE | What.WIPE_STORE | What.WIPE_FILES:
                device.wipe(store=what is not What.WIPE_FILES, files=what is not What.WIPE_STORE)
            case What.AGENT_GONE:
                self._gone.add(node)
        away = fault.between(30, 120) if what is What.AGENT_AWAY else fault.between(0.5, 10)
        self.sim.after(away, self._start_agent, node)

    def _start_agent(self, node: NodeName) -> None:
        if node not in self._gone:
            self._devices[node].start()

    def _host(self, fault: Fault) -> Host:
        return self._hosts[fault.pick % len(self._hosts)]

    def _save(self) -> None:
        """The cluster's backup, now and then."""
        if not self._accidents.running:
            self._saved = dict(self._truth.wanted), self._truth.version
        if self.sim.now < FAULTS_END:
            self.sim.after(self._rng.uniform(20, 80), self._save)

    def _calm_down(self) -> None:
        """Everything is up again, all clocks are right, and every accident is over."""
        self.sim.say("fleet", "calm")
        self._accidents.end()
        self._broker.start()
        for host in self._hosts:
            host.offset = 0.0
            if host.process:
                host.process.thaw()
        if not any(host.process for host in self._hosts):
            self._hosts[0].start()
        for node in NODES:
            self._devices[node].fragile = False
            self._start_agent(node)

    # -- checks

    def _bridge(self) -> BridgeProcess | None:
        processes = [host.process for host in self._hosts]
        return next((p for p in processes if p is not None and p.in_charge), None)

    def _known(self, kind: KindName) -> int:
        """How many objects of a kind the bridge in charge knows to be placed."""
        process = self._bridge()
        return process.core.catalog.placed(kind) if process else 0

    def _retained(self, node: NodeName) -> Snapshot | None:
        message = self._broker.retained.get(TOPICS.resources(node))
        if message is None:
            return None
        return decode_snapshot(Wire(message.payload, message.encoding))

    def _expected(self, node: NodeName) -> dict[ResourceKey, Thing]:
        at = placement(self._truth.wanted)
        return {key: self._truth.wanted[key] for key, nodes in at.items() if node in nodes}

    def _check_state(self) -> None:
        if self._bridge() is None:
            self._violate("nobody in charge", "")
        for node in NODES:
            self._check_node(node, self._expected(node))

    def _check_node(self, node: NodeName, expected: dict[ResourceKey, Thing]) -> None:
        small = {key for key, thing in expected.items() if not thing.large}
        snapshot = self._retained(node)
        if snapshot is None:
            if expected:
                self._violate("stale snapshot", f"{node} has none")
        else:
            if snapshot.held_kinds:
                self._violate("held for ever", f"{node} {sorted(snapshot.held_kinds)}")
            if {each.key for each in snapshot.resources} != small:
                keys = {each.key for each in snapshot.resources} ^ small
                self._violate("stale snapshot", f"{node} differs in {sorted(keys)}")
        if node not in self._gone:
            self._check_files(node, expected, small)

    def _check_files(
        self, node: NodeName, expected: dict[ResourceKey, Thing], small: set[ResourceKey]
    ) -> None:
        files = self._devices[node].disk.files.content
        for key in sorted(small | files.keys()):
            if key in small and _edition(files.get(key)) != expected[key].edition:
                self._violate("stale agent", f"{node} has not {key}")
            elif key not in expected:
                self._violate("stale agent", f"{node} still has {key}")

    def _check_deletion(self) -> None:
        """Delete something that is on a node: it arrives in time."""
        at = {k: nodes for k, nodes in placement(self._truth.wanted).items() if nodes}
        if not at or self._bridge() is None:
            return
        key = self._rng.choice(sorted(at))
        self._truth.put(key, None)
        self.sim.run(self.sim.now + SOON)
        for node in [each for each in NODES if each not in self._gone]:
            extra = self._devices[node].disk.files.content.keys() - self._expected(node).keys()
            if extra:
                self._violate("slow removal", f"{node} still has {sorted(extra)} without {key}")


_AT_BROKER = {What.BROKER_KEEPS, What.BROKER_OLDER, What.BROKER_EMPTY, What.POWER, What.CUT}
_AT_SOURCE = {What.GAP, What.SILENCE, What.CRD, What.FORBIDDEN, What.DIRECTORY, What.REWIND}
_AT_SOURCE |= {What.CLEARED, What.EMPTIED, What.THINNED, What.NARROWED}
_AT_BRIDGE = {What.BRIDGE, What.BRIDGE_CLOCK, What.FREEZE, What.SECOND}


def _kinds(pick: int) -> frozenset[KindName]:
    """One kind, mostly, or all of them."""
    choice = pick % (len(KINDS) + 2)
    return frozenset(KINDS) if choice >= len(KINDS) else frozenset({KINDS[choice]})


def _edition(content: bytes | None) -> int | None:
    return None if content is None else int(orjson.loads(content)["edition"])


@contextmanager
def quiet() -> Iterator[None]:
    """Without the log of what is being simulated."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def play(plan: Plan) -> list[Violation]:
    """Run a plan; what went wrong."""
    with quiet():
        return Fleet(plan).run()
