"""People: who makes, edits, moves, hands over and deletes objects, and changes model configs.

Pure: what they do follows from a random.Random alone. At the beginning there is a fleet's worth of
objects; afterwards they work at a pace that differs from run to run.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

from nodecast.names import NodeName, ResourceKey
from tests.chaos.acts import Config, Edit, How, Step
from tests.chaos.things import (
    DATASET,
    FOLLOWERS,
    KINDS,
    MODEL,
    MOST_MODELS,
    MOST_NODES,
    Thing,
    key_of,
    kind_of,
)

NAMESPACES = ("default", "plant-2")
PACES = ((0.1, 0.8), (0.3, 2.0), (1.0, 5.0))
_NAMES = 10
"""Objects of a kind in each namespace, at the most."""
_FIRST = 110
_MODELS = ("yolo", "whisper", "resnet", "bert", "ü-net", "a/b+c")

Missing = Callable[[str, float], bool]
"""Whether a kind cannot be written at that second."""


class People:
    """Their own picture of the objects; `missing` says what the source does not serve."""

    def __init__(
        self, rng: random.Random, nodes: tuple[NodeName, ...], agents: tuple[NodeName, ...]
    ) -> None:
        self._rng = rng
        self._nodes = nodes
        self._agents = agents
        self._edition = 0
        self._uris = 0
        self._pace = rng.choice(PACES)
        self._deletes = rng.choice([0.1, 0.15, 0.35])
        self.things: dict[ResourceKey, Thing] = {}

    def begin(self) -> Edit:
        """What is there before anything runs."""
        for _ in range(_FIRST):
            self._keep(self._draw(self._any_key()))
        return Edit(tuple(self.things.values()))

    def configs(self) -> list[Config]:
        return [self._config(node, How.RENAMED) for node in self._agents]

    def work(self, seconds: float, missing: Missing) -> Iterator[Step]:
        """All that they do until then, in order."""
        at = 0.0
        while (at := at + self._rng.uniform(*self._pace)) < seconds:
            if self._rng.random() < 0.12:
                for act in self._configure():
                    yield Step(min(at, seconds), act)
                    at += self._rng.uniform(0.05, 1.0)
                continue
            for act in self._edits():
                kinds = {each.kind for each in act.put} | {kind_of(key) for key in act.drop}
                if kinds and not any(missing(kind, at) for kind in kinds):
                    self._do(act)
                    yield Step(min(at, seconds), act)
                at += self._rng.choice([0.0, 0.05, 0.3, 1.5])

    def _do(self, act: Edit) -> None:
        for key in act.drop:
            self.things.pop(key, None)
        for thing in act.put:
            self._keep(thing)

    def _keep(self, thing: Thing) -> None:
        self.things[thing.key] = thing

    def _edits(self) -> list[Edit]:
        dice = self._rng.random()
        if dice < 0.15:
            return self._hand_over()
        if dice < 0.20:
            return [self._burst()]
        if dice < 0.24:
            return [self._several_gone()]
        if dice < 0.255:
            return [self._most_gone()]
        return [self._edit(self._any_key())]

    def _edit(self, key: ResourceKey) -> Edit:
        old, dice = self.things.get(key), self._rng.random()
        if old is None:
            return Edit((self._draw(key),))
        if dice < self._deletes:
            return Edit(drop=(key,))
        if dice < (1 + self._deletes) / 2:
            return Edit((self._draw(key),))  # moved, and its references changed
        return Edit((self._renewed(old),))

    def _burst(self) -> Edit:
        """Many at once, some of them written, some deleted."""
        keys = {self._any_key() for _ in range(self._rng.randint(4, 12))}
        edits = [self._edit(key) for key in sorted(keys)]
        put = tuple(thing for each in edits for thing in each.put)
        return Edit(put, tuple(key for each in edits for key in each.drop))

    def _several_gone(self) -> Edit:
        """Two or three of a kind at once: no guard minds."""
        kind = self._rng.choice(KINDS)
        there = sorted(key for key in self.things if kind_of(key) == kind)
        return Edit(drop=tuple(self._rng.sample(there, min(len(there), 3))))

    def _most_gone(self) -> Edit:
        """Most of a kind at once, and meant: what a guard holds until somebody approves."""
        kind = self._rng.choice(KINDS)
        there = sorted(key for key in self.things if kind_of(key) == kind)
        return Edit(drop=tuple(self._rng.sample(there, len(there) * 5 // 6)))

    def _hand_over(self) -> list[Edit]:
        """A job stays on a node for another reason: the new one first, the old one away later."""
        jobs = [t for t in self.things.values() if t.dataset in self.things and not t.bad]
        jobs = [t for t in jobs if t.dataset and self.things[t.dataset].nodes]
        if not jobs:
            return [self._edit(self._any_key())]
        job = self._rng.choice(jobs)
        assert job.dataset is not None
        dataset = self.things[job.dataset]
        if self._rng.random() < 0.5:
            first = replace(self._renewed(job), nodes=job.nodes | dataset.nodes)
            return [Edit((first,)), Edit((replace(self._renewed(dataset), nodes=frozenset()),))]
        where = frozenset(sorted(job.nodes | dataset.nodes)[:1])
        first = replace(self._renewed(dataset), nodes=where)
        return [Edit((first,)), Edit((replace(self._renewed(job), nodes=frozenset()),))]

    def _any_key(self) -> ResourceKey:
        kind = self._rng.choice(KINDS)
        number = self._rng.randrange(_NAMES)
        return key_of(kind, self._rng.choice(NAMESPACES), f"{kind[:3].lower()}-{number}")

    def _renewed(self, thing: Thing) -> Thing:
        self._edition += 1
        return replace(thing, edition=self._edition)

    def _draw(self, key: ResourceKey) -> Thing:
        rng, kind = self._rng, kind_of(key)
        namespace = key.split("/")[1]
        most = MOST_NODES[kind]
        count = min(most, rng.choice([0, 1, 1, 1, 2, 3, 4]))
        models = [self._named(MODEL, namespace) for _ in range(MOST_MODELS.get(kind, 0))]
        follows = kind in FOLLOWERS and rng.random() < 0.5
        return self._renewed(
            Thing(
                key,
                0,
                frozenset(rng.sample(self._nodes, count)),
                frozenset(models[: rng.randint(0, len(models))]),
                self._named(DATASET, namespace) if follows else None,
                bad=bool(most) and rng.random() < 0.03,
            )
        )

    def _named(self, kind: str, namespace: str) -> ResourceKey:
        return key_of(kind, namespace, f"{kind[:3].lower()}-{self._rng.randrange(_NAMES)}")

    def _configure(self) -> list[Config]:
        node = self._rng.choice(self._agents)
        good = self._config(node, self._rng.choice([How.RENAMED, How.IN_PLACE, How.PIECES]))
        if self._rng.random() < 0.4:
            return [Config(node, self._rng.choice([How.BROKEN, How.MISSING])), good]
        return [good]

    def _config(self, node: NodeName, how: How) -> Config:
        chosen = self._rng.sample(_MODELS, self._rng.randint(0, len(_MODELS)))
        self._uris += 1
        return Config(
            node,
            how,
            tuple((name, f"s3://{self._uris - self._rng.randint(0, 2)}") for name in chosen),
        )
