"""Faults as they strike the processes of a run, the links between them, and the source.

Used by the run's thread alone. A fault whose target is not there (a bridge, where none runs) does
nothing, and says so. `end_all` ends every fault: then everything runs, on clocks that are right.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from nodecast.names import NodeName
from tests.chaos.acts import Fault, What
from tests.chaos.approvals import approve_all
from tests.chaos.clocks import wrong_clock
from tests.chaos.processes import AgentHost, Host, Processes
from tests.chaos.source import Source
from tests.chaos.trees import TreeWatch
from tests.chaos.wire import Recorder

_DAY = 24 * 3600
_CLOCKS = (-2000 * _DAY, -3 * 3600, 3 * 3600, 400 * _DAY)
_DELAYS = (0.02, 0.2, 1.0)
_SKIPPED = "(not there: nothing done)"


class Faults:
    """Strikes what a plan says."""

    def __init__(
        self, processes: Processes, source: Source, trees: TreeWatch, recorder: Recorder
    ) -> None:
        self._processes = processes
        self._source = source
        self._trees = trees
        self._recorder = recorder
        self._down: list[Host] = []

    def strike(self, fault: Fault) -> str | None:
        """Let it happen; a word on what was different than planned."""
        what = fault.what
        if what in _BROKER:
            return _BROKER[what](self, fault.pick)
        if what in _BRIDGE:
            return _BRIDGE[what](self, fault.pick)
        if fault.target in self._processes.agents and what.name.startswith("AGENT"):
            return self._agent(what, NodeName(fault.target), fault.pick)
        if what.name.startswith("LINK"):
            return self._link(what, fault.target, fault.pick)
        if what is What.OPERATOR:
            approved = approve_all(self._processes.bridges)
            return f"approved: {', '.join(approved) or 'nothing'}"
        return self._source.disturb(fault)

    def end_all(self) -> None:
        """Faults are over, whichever they were."""
        self._source.calm()
        for link in (*self._processes.links.values(), *self._source.links.values()):
            link.heal()
        broker = self._processes.broker
        if broker.running:
            broker.thaw()
        else:
            self._broker_up(0)
        for host in self._processes.hosts:
            host.thaw()
        for node in self._processes.agents.values():
            node.start()
        bridges = self._processes.bridges
        for host in bridges:
            self._clock_right(host)
        if not any(host.process.running for host in bridges):
            bridges[0].start()

    # -- the broker

    def _broker_killed(self, _pick: int) -> None:
        self._processes.broker.kill()

    def _broker_stopped(self, _pick: int) -> None:
        self._processes.broker.stop()

    def _broker_frozen(self, _pick: int) -> None:
        self._processes.broker.freeze()

    def _broker_thawed(self, _pick: int) -> None:
        self._processes.broker.thaw()

    def _store_kept(self, _pick: int) -> None:
        self._processes.keep_store()

    def _broker_up(self, _pick: int) -> None:
        """Nobody reaches it before the recorder does: that is to miss nothing."""
        self._recorder.broker_lost()
        self._processes.broker_losses.append(time.monotonic())
        with self._processes.nobody_in():
            self._processes.broker.start()
            self._recorder.listens()

    def _broker_up_empty(self, pick: int) -> None:
        self._processes.broker.wipe()
        self._broker_up(pick)

    def _broker_up_older(self, pick: int) -> str | None:
        stores = self._processes.stores
        if stores:
            self._processes.broker.store.write_bytes(stores[pick % len(stores)])
        self._broker_up(pick)
        return None if stores else "(no older store yet: as it was)"

    # -- the bridges

    def _running(self, pick: int) -> Host | None:
        running = [host for host in self._processes.bridges if host.process.running]
        return running[pick % len(running)] if running else None

    def _bridge_killed(self, pick: int) -> str | None:
        host = self._running(pick)
        if host is None:
            return _SKIPPED
        host.kill()
        self._down.append(host)
        return host.name

    def _bridge_stopped(self, pick: int) -> str | None:
        host = self._running(pick)
        if host is None:
            return _SKIPPED
        host.stop()
        self._down.append(host)
        return host.name

    def _bridge_up(self, _pick: int) -> str | None:
        host = self._down.pop() if self._down else self._processes.bridges[0]
        self._clock_right(host)
        return self._start(host)

    def _bridge_up_clock(self, pick: int) -> str | None:
        host = self._down.pop() if self._down else self._processes.bridges[0]
        offset = _CLOCKS[pick % len(_CLOCKS)]
        host.process.variables = wrong_clock(self._processes.root, offset)
        return f"{self._start(host)}, its clock is off by {offset:+} s"

    def _start(self, host: Host) -> str:
        host.finish()
        host.start()
        return host.name

    @staticmethod
    def _clock_right(host: Host) -> None:
        host.process.variables = {}

    def _bridge_frozen(self, pick: int) -> str | None:
        host = self._running(pick)
        if host is None:
            return _SKIPPED
        host.freeze()
        return host.name

    def _bridge_thawed(self, _pick: int) -> None:
        for host in self._processes.bridges:
            host.thaw()

    def _bridge_second(self, _pick: int) -> str | None:
        idle = [host for host in self._processes.bridges if not host.process.running]
        if not idle:
            return _SKIPPED
        self._clock_right(idle[0])
        return self._start(idle[0])

    # -- the agents

    def _agent(self, what: What, node: NodeName, pick: int) -> str | None:
        host = self._processes.agents[node]
        match what:
            case What.AGENT_UP:
                host.finish()
                host.start()
            case What.AGENT_FROZEN:
                host.freeze()
            case What.AGENT_THAWED:
                host.thaw()
            case What.AGENT_STOPPED:
                host.stop()
            case What.AGENT_KILLED:
                host.kill()
            case What.AGENT_BACKED_UP:
                host.kill()
                host.back_up()
            case _:
                return self._take_state(what, host, node, pick)
        return None

    def _take_state(self, what: What, host: AgentHost, node: NodeName, pick: int) -> str | None:
        host.kill()
        with self._trees.hands_off(node):
            match what:
                case What.AGENT_RESTORED:
                    done = host.restore(pick, files=True)
                case What.AGENT_STORE_RESTORED:
                    done = host.restore(pick, files=False)
                case _:
                    files, store = what in _FILES_WIPED, what in _STORE_WIPED
                    host.wipe(store=store, files=files)
                    done = True
        if not done:
            return "(no backup yet: only killed)"
        self._recorder.store_taken(node, restored=what in _RESTORED)
        return None

    # -- the links

    def _link(self, what: What, name: str, pick: int) -> str | None:
        link = self._processes.links.get(name) or self._source.links[name]
        match what:
            case What.LINK_CUT:
                link.cut()
            case What.LINK_REFUSED:
                link.refuse()
            case What.LINK_FROZEN:
                link.freeze()
            case What.LINK_SLOW:
                link.delay = _DELAYS[pick % len(_DELAYS)]
                return f"by {link.delay} s"
            case What.LINK_DEAF:
                link.drop("up")
            case What.LINK_MUTE:
                link.drop("down")
            case _:
                link.heal()
        return None


_FILES_WIPED = (What.AGENT_WIPED, What.AGENT_FILES_WIPED)
_RESTORED = (What.AGENT_RESTORED, What.AGENT_STORE_RESTORED)
_STORE_WIPED = (What.AGENT_WIPED, What.AGENT_STORE_WIPED)

Way = Callable[[Faults, int], str | None]
_BROKER: Mapping[What, Way] = {
    What.BROKER_KILLED: Faults._broker_killed,
    What.BROKER_STOPPED: Faults._broker_stopped,
    What.BROKER_FROZEN: Faults._broker_frozen,
    What.BROKER_THAWED: Faults._broker_thawed,
    What.BROKER_UP: Faults._broker_up,
    What.BROKER_UP_EMPTY: Faults._broker_up_empty,
    What.BROKER_UP_OLDER: Faults._broker_up_older,
    What.STORE_KEPT: Faults._store_kept,
}
_BRIDGE: Mapping[What, Way] = {
    What.BRIDGE_KILLED: Faults._bridge_killed,
    What.BRIDGE_STOPPED: Faults._bridge_stopped,
    What.BRIDGE_UP: Faults._bridge_up,
    What.BRIDGE_UP_CLOCK: Faults._bridge_up_clock,
    What.BRIDGE_FROZEN: Faults._bridge_frozen,
    What.BRIDGE_THAWED: Faults._bridge_thawed,
    What.BRIDGE_SECOND: Faults._bridge_second,
}
