"""An operator who looks at the bridge now and then, and approves what it holds.

One who knows what they do: they look at the cluster too, and say nothing while the bridge's view
of a kind is behind it. After the faults everything that is still held is approved.
"""

from __future__ import annotations

from collections.abc import Callable

from bridge.sources.events import KindStatus
from nodecast.names import KindName, kind_of
from tests.sim.accidents import Accidents
from tests.sim.bridges import BridgeProcess
from tests.sim.clock import Simulation
from tests.sim.things import KINDS, placement
from tests.sim.truth import Truth


class Operator:
    """Approves until `until` by chance (in some runs never), and from then on everything."""

    def __init__(
        self,
        sim: Simulation,
        truth: Truth,
        accidents: Accidents,
        bridge: Callable[[], BridgeProcess | None],
        until: float,
    ) -> None:
        self._sim = sim
        self._truth = truth
        self._accidents = accidents
        self._bridge = bridge
        self._until = until
        self._rng = sim.rng("operator")
        self._chance = self._rng.choice([0.0, 0.25, 0.25])
        sim.after(self._rng.uniform(5, 25), self._work)

    def _work(self) -> None:
        self.look()
        self._sim.after(self._rng.uniform(5, 25), self._work)

    def look(self) -> None:
        """Approve what there is to approve."""
        process = self._bridge()
        if process is None or process.frozen:
            return
        for kind in KINDS:
            chance = self._chance if self._sim.now < self._until else 1.0
            if self._rng.random() < chance and self._to_approve(process, kind):
                process.approve(kind)
                self._accidents.approved(kind, last=not process.core.holding.guarded)

    def _to_approve(self, process: BridgeProcess, kind: KindName) -> bool:
        core = process.core
        missing = core.holding.view(kind).status is KindStatus.MISSING
        guarded = kind in core.holding.guarded
        known = {
            each.key
            for each in core.catalog.records()
            if each.kind == kind and core.catalog.is_placed(each.key)
        }
        shown = placement(self._truth.shown)
        there = {key for key, nodes in shown.items() if nodes and kind_of(key) == kind}
        approvable = core.holding.approvable(kind)
        return approvable and ((guarded and known == there) or (missing and not there))
