"""The Lease of a world whose bridges share one: what the server holds, and the candidates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bridge.lease import Elector, Lease, Right, Terms, Write
from tests.sim.clock import Simulation
from tests.sim.plan import FAULTS_END

TERMS = Terms()
_LOST = 0.03
"""The share of requests that have no answer, until calm; some of them were done."""
_GIVEN_UP = TERMS.renew / 3


class LeaseServer:
    """Takes a write from who knows the newest version."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.candidates: list[Candidate] = []
        self._versions = 0

    def write(self, wanted: Write) -> Lease | None:
        """What is there after it; None: it was refused."""
        old = wanted.old and wanted.old.version
        if old != (self.lease and self.lease.version):
            return None
        self._versions += 1
        written = Lease(wanted.holder, float(wanted.duration), "", "", 0, str(self._versions))
        self.lease = replace(written)
        return written

    @property
    def holders(self) -> list[str]:
        """Who has the right now."""
        return [each.name for each in self.candidates if each.holds]


class Candidate:
    """The `Leadership` of one process. `frozen_until`: when its thread goes on."""

    def __init__(
        self,
        sim: Simulation,
        server: LeaseServer,
        name: str,
        changed: Callable[[], None],
        frozen_until: Callable[[], float],
    ) -> None:
        self.name = name
        self._sim = sim
        self._server = server
        self._changed = changed
        self._frozen_until = frozen_until
        self._rng = sim.rng(f"{name}/lease")
        self._elector = Elector(name, TERMS, self._rng)
        self._stopped = False

    @property
    def right(self) -> Right | None:
        return self._elector.right

    @property
    def holds(self) -> bool:
        return not self._stopped and self._elector.holds(self._sim.now)

    def now(self) -> float:
        return self._sim.now

    def start(self) -> None:
        self._server.candidates.append(self)
        self._ask()

    def stop(self) -> None:
        self._stopped = True
        if self in self._server.candidates:
            self._server.candidates.remove(self)

    def _ask(self) -> None:
        if self._goes_on(self._ask):
            wanted = self._elector.ask(self._sim.now)
            if self._rng.random() >= _LOST or self._sim.now > FAULTS_END:
                self._sim.after(self._rng.uniform(0.01, 0.5), self._serve, wanted, True)
                return
            if self._rng.random() < 0.5:
                self._sim.after(self._rng.uniform(0.01, 0.5), self._serve, wanted, False)
            self._sim.after(_GIVEN_UP, self._gave_up)

    def _serve(self, wanted: Write | None, answers: bool) -> None:
        there = self._server.lease if wanted is None else self._server.write(wanted)
        if answers:
            self._sim.after(self._rng.uniform(0.01, 0.5), self._answered, wanted, there)

    def _answered(self, wanted: Write | None, there: Lease | None) -> None:
        now = self._sim.now
        if not self._goes_on(self._answered, wanted, there):
            return
        if wanted is None:
            self._elector.found(there, now)
        elif there is None:
            self._elector.refused(now)
        else:
            self._elector.wrote(there, wanted, now)
        self._next()

    def _gave_up(self) -> None:
        if self._goes_on(self._gave_up):
            self._elector.failed(self._sim.now)
            self._next()

    def _next(self) -> None:
        self._changed()
        self._sim.after(self._elector.next_at - self._sim.now, self._ask)

    def _goes_on(self, action: Callable[..., None], *arguments: object) -> bool:
        """Whether the thread runs; if it stands still, it does this later."""
        if self._stopped:
            return False
        if (until := self._frozen_until()) > self._sim.now:
            self._sim.after(until - self._sim.now, action, *arguments)
            return False
        return True
