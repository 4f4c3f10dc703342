"""One run: the plan is played on real processes, then all faults end, then everything must equal
the oracle.

The run's own thread plays and checks; the watch of the trees and the recorder have threads of their
own. Anything that went wrong is in `Outcome.wrong`, whatever else went well.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nodecast.names import NodeName, ResourceKey
from tests.chaos import checks, settings
from tests.chaos.accidents import Accidents
from tests.chaos.acts import ACCIDENTS, ACCIDENTS_END, Config, Edit, Fault, Step
from tests.chaos.approvals import approve_all
from tests.chaos.configs import ConfigFiles
from tests.chaos.faults import Faults
from tests.chaos.plan import AGENTS, NODES, Plan
from tests.chaos.processes import SUPERSEDED, Host, Processes
from tests.chaos.source import make_source
from tests.chaos.things import KINDS
from tests.chaos.trees import TreeWatch
from tests.chaos.truth import Truth
from tests.chaos.wire import Recorder
from tests.support.fleet import Look
from tests.support.mqtt import observing

_STAYS = 4.0
"""Seconds for which all must stay as it is once it is right."""
_OPERATOR = 6.0
"""Seconds between two looks of the operator at what is held."""
_TRACEBACK = re.compile(r"^Traceback|^Fatal Python error", re.MULTILINE)

Say = Callable[[str], None]


@dataclass(slots=True)
class Outcome:
    """What a run gave. `wrong`: lines; none if all went well. `converged`: seconds it took."""

    wrong: list[str] = field(default_factory=list)
    converged: float | None = None
    acts: Counter[str] = field(default_factory=Counter)
    messages: Counter[str] = field(default_factory=Counter)
    starts: Counter[str] = field(default_factory=Counter)
    counts: dict[str, int] = field(default_factory=dict)
    last: list[str] = field(default_factory=list)


class Run:
    """Plays one plan below `root`. Everything that it started has ended when `play` returns."""

    def __init__(self, plan: Plan, root: Path, say: Say) -> None:
        self._plan = plan
        self._say = say
        self._truth = Truth()
        self._accidents = Accidents(settings.GUARD_NUMBER)
        self._owed = threading.Lock()  # the truth, between this thread and the watch's
        self._source = make_source(plan.source, root)
        more = settings.LEASE if plan.lease else {}
        self._processes = Processes(root, self._source.options, more)
        trees = {node: host.agent.tree for node, host in self._processes.agents.items()}
        self._trees = TreeWatch(trees, self._why_wrong)
        self._configs = ConfigFiles(self._processes)
        self.outcome = Outcome()
        self._began = 0.0

    def play(self) -> Outcome:
        """The whole run."""
        processes = self._processes
        try:
            processes.broker.start()
            self._recorder = Recorder(processes.broker.port)
            self._faults = Faults(processes, self._source, self._trees, self._recorder)
            with self._recorder, self._trees:
                self._begin()
                self._go_on()
                self._calm_down()
                self._converge()
        except AssertionError as error:
            # A wait without an end: a process that does not start, or does not stop.
            self.outcome.wrong.append(f"the run was given up: {error}")
        finally:
            processes.end()
            self._source.close()
        self._sum_up()
        return self.outcome

    # -- the plan

    def _begin(self) -> None:
        self._recorder.listens()
        self._edit(self._plan.things)
        for config in self._plan.configs:
            self._configs.write(config)
        for host in self._processes.bridges[: 2 if self._plan.lease else 1]:
            host.start()
        for host in self._processes.agents.values():
            host.start()
        self._began = time.monotonic()

    def _go_on(self) -> None:
        for step in self._plan.steps:
            self._wait_until(step.at)
            self._say(f"{self._now:7.2f}  {step.act}")
            self.outcome.last = [*self.outcome.last[-29:], f"{self._now:7.2f}  {step.act}"]
            self.outcome.acts[step.act.kind] += 1
            self._take(step)
        self._wait_until(self._plan.seconds)

    def _take(self, step: Step) -> None:
        match step.act:
            case Edit():
                self._edit(step.act)
            case Config():
                self._configs.write(step.act)
            case Fault():
                self._note_accident(step.act)
                if (said := self._faults.strike(step.act)) is not None:
                    self._say(f"{'':9}{said}")
                if step.act.what in ACCIDENTS_END:
                    self._accident_over()

    def _note_accident(self, fault: Fault) -> None:
        """Before an accident begins, or ends."""
        if fault.what in ACCIDENTS:
            kinds = (fault.target,) if fault.target else KINDS
            with self._owed:
                self._accidents.begin(kinds, self._truth.wanted, time.monotonic())

    def _accident_over(self) -> None:
        with self._owed:
            self._accidents.end(time.monotonic())

    def _edit(self, edit: Edit) -> None:
        with self._owed:
            self._truth.announce(edit.put, edit.drop, time.monotonic())
        self._source.put(edit.put)
        self._source.drop(edit.drop)
        with self._owed:
            self._truth.made(time.monotonic())

    def _why_wrong(self, node: NodeName, key: ResourceKey, now: float) -> str | None:
        with self._owed:
            reason = self._truth.why_wrong(node, key, now)
            accidents, processes = self._accidents, self._processes
            accidents.bridge_starts = [at for each in processes.bridges for at in each.starts]
            accidents.broker_losses = processes.broker_losses
            if reason and accidents.excuse(node, key, self._truth.wanted, now):
                return None
        if reason:
            self._say(f"{now - self._began:7.2f}  WRONG: {node} lost {key}: {reason}")
        return reason

    @property
    def _now(self) -> float:
        return time.monotonic() - self._began

    def _wait_until(self, second: float) -> None:
        while True:
            self._supervise()
            if (left := second - self._now) <= 0:
                return
            time.sleep(min(left, 0.2))

    def _supervise(self) -> None:
        for host in self._processes.hosts:
            code = host.supervise()
            if code is not None:
                self._judge_end(host, code)
                self._say(f"{self._now:7.2f}  {host.name} ended by itself, exit code {code}")

    def _judge_end(self, host: Host, code: int) -> None:
        # Which of two bridges is the newer one, their ledger says: clocks and stores go back here.
        others = [each for each in self._processes.bridges if each is not host and each.starts]
        superseded = code == SUPERSEDED and bool(others)
        if host not in self._processes.bridges or not superseded or self._plan.lease:
            self.outcome.wrong.append(f"{host.name} ended by itself, exit code {code}")

    # -- the end

    def _calm_down(self) -> None:
        """Everything runs, and nothing is in its way."""
        self._say(f"{self._now:7.2f}  all faults end")
        self._faults.end_all()
        self._accident_over()
        self._configs.mend()

    def _converge(self) -> None:
        began = time.monotonic()
        right_since: float | None = None
        operator_comes = began + _OPERATOR
        with observing(self._processes.broker.port) as observer:
            look = Look(observer)
            while True:
                self._supervise()
                now, wrong = time.monotonic(), self._differences(look)
                if wrong and now >= operator_comes:
                    operator_comes = now + _OPERATOR
                    for kind in approve_all(self._processes.bridges):
                        self._say(f"{self._now:7.2f}  an operator approves {kind}")
                right_since = None if wrong else right_since or now
                if right_since is not None and now >= right_since + _STAYS:
                    self.outcome.converged = right_since - began
                    return
                if now >= began + settings.CONVERGES and wrong:
                    self.outcome.wrong += wrong
                    return
                time.sleep(0.2)

    def _differences(self, look: Look) -> list[str]:
        lines = checks.bridge_in_charge(AGENTS, look)
        if not any(host.process.running for host in self._processes.bridges):
            lines.append("bridge: none runs")
        for node in NODES:
            wanted = checks.Wanted(self._truth.on(node), self._configs.models.get(node, {}))
            if node not in self._processes.agents:
                lines += checks.node_without_agent(node, wanted, look)
            else:
                consumer = self._recorder.consumers[node]
                lines += checks.node_with_agent(node, wanted, look, self._processes, consumer)
        return lines

    def _sum_up(self) -> None:
        outcome, processes = self.outcome, self._processes
        outcome.wrong += self._trees.wrong
        outcome.wrong += self._recorder.wrong
        if self._trees.failed is not None:
            outcome.wrong.append(f"the watch of the trees failed: {self._trees.failed!r}")
        for host in processes.hosts:
            outcome.starts[host.name] = len(host.starts)
            # A bridge may find another one in charge just when it is asked to stop.
            right = {0, SUPERSEDED} if host in processes.bridges else {0}
            outcome.wrong += [
                f"{host.name} was asked to stop, exit code {code}"
                for code in host.stopped
                if code not in right
            ]
            if _TRACEBACK.search(host.process.log):
                outcome.wrong.append(f"{host.name}: a traceback is in its log")
        outcome.messages = self._recorder.counts
        outcome.counts = {
            "removals judged": self._trees.removals,
            "looks at the trees": self._trees.looks,
            "model ops recorded": self._recorder.operations,
            "ModelSets a consumer needed": sum(c.gaps for c in self._recorder.consumers.values()),
            "objects at the end": len(self._truth.wanted),
        }
