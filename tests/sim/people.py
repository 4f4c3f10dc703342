"""People who make, edit, move, hand over and delete objects, at a pace of their own."""

from __future__ import annotations

import itertools
from dataclasses import replace

from nodecast.names import NodeName, ResourceKey, kind_of
from tests.sim.accidents import Accidents
from tests.sim.clock import Simulation
from tests.sim.things import DATASET, JOB, MODEL, NAMES, NODES, Thing
from tests.sim.truth import Truth

_FIRST = 45
"""Edits before the run begins."""


class People:
    """Edits what is wanted until `until`, or earlier: then the world stands still amid the faults.

    How fast they work and how much they delete differs from run to run.
    """

    def __init__(self, sim: Simulation, truth: Truth, accidents: Accidents, until: float) -> None:
        self._sim = sim
        self._truth = truth
        self._accidents = accidents
        self._rng = sim.rng("people")
        self._until = self._rng.choice([until, until, self._rng.uniform(0.1, 1) * until])
        self._deletes = self._rng.choice([0.12, 0.12, 0.5])
        self._editions = itertools.count(1)
        self._pace = self._rng.choice([(0.5, 4.0), (2.0, 12.0), (6.0, 30.0), (20.0, 90.0)])
        for _ in range(_FIRST):
            self._edit()
        sim.after(self._rng.uniform(*self._pace), self._work)

    def _work(self) -> None:
        if self._sim.now < self._until:
            self._edit()
            self._sim.after(self._rng.uniform(*self._pace), self._work)

    def _edit(self) -> None:
        rng, wanted = self._rng, self._truth.wanted
        if rng.random() < 0.2:
            self._hand_over()
            return
        key = rng.choice(NAMES[rng.choice([DATASET, JOB, JOB, JOB, MODEL])])
        old, dice = wanted.get(key), rng.random()
        if self._accidents.touch(key):
            return
        if old is not None and dice < self._deletes:
            self._truth.put(key, None)
        elif old is None or dice < (1 + self._deletes) / 2:
            self.write(self._draw(key, old))
        else:
            self.write(old)

    def write(self, thing: Thing) -> None:
        """Write a thing as a new edition of it."""
        if self._rng.random() < 0.15:
            thing = replace(thing, large=not thing.large)
        self._truth.put(thing.key, replace(thing, edition=next(self._editions)))

    def clear(self, node: NodeName) -> None:
        """Take everything off a node."""
        for thing in [each for each in self._truth.wanted.values() if node in each.nodes]:
            self.write(replace(thing, nodes=thing.nodes - {node}))

    def _draw(self, key: ResourceKey, old: Thing | None) -> Thing:
        rng, kind = self._rng, kind_of(key)
        nodes: frozenset[NodeName] = frozenset()
        models: frozenset[ResourceKey] = frozenset()
        dataset = None
        if kind != MODEL:
            nodes = frozenset(rng.sample(NODES, rng.choice([0, 1, 1, 2])))
        if kind == JOB:
            models = frozenset(rng.choice(NAMES[MODEL]) for _ in range(rng.choice([0, 1, 1, 2])))
            dataset = rng.choice(NAMES[DATASET]) if rng.random() < 0.4 else None
        return Thing(key, 0, nodes, models, dataset, large=old.large if old else False)

    def _hand_over(self) -> None:
        """A job stays on a node for another reason: the new one first, the old one away later."""
        rng, wanted = self._rng, self._truth.wanted
        jobs = [t for t in wanted.values() if t.dataset in wanted and wanted[t.dataset].nodes]
        if not jobs or self._accidents.running:
            return
        job = rng.choice(jobs)
        assert job.dataset is not None
        dataset, later = wanted[job.dataset], rng.choice([0.05, 0.3, 1.5, 6.0])
        together = job.nodes | dataset.nodes
        new, old = (job, dataset) if rng.random() < 0.5 else (dataset, job)
        self.write(replace(new, nodes=together))
        self._sim.after(later, self._let_go, old.key)

    def _let_go(self, key: ResourceKey) -> None:
        thing = self._truth.wanted.get(key)
        if thing is not None and not self._accidents.running:
            self.write(replace(thing, nodes=frozenset()))
