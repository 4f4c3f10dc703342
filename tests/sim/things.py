"""The objects of the simulation: three kinds that depend on each other in every way there is.

A Dataset names nodes. A Job names nodes, carries Models and follows a Dataset. A Model names none.
`placement` says where things belong by the definition, and shares no code with the catalog.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from bridge.objects import read_object
from bridge.placement import Rules, make_rule
from bridge.record import ObjectRecord
from nodecast.names import KindName, NodeName, ResourceKey, kind_of

DATASET, JOB, MODEL = KindName("Dataset.sim"), KindName("Job.sim"), KindName("Model.sim")
KINDS = (DATASET, JOB, MODEL)
NODES = tuple(NodeName(f"n{number}") for number in (1, 2, 3))
RULES = Rules(
    [
        make_rule(DATASET, ["nodes[]"]),
        make_rule(JOB, ["nodes[]"], [("Model", "models[]")], [("Dataset", "dataset")]),
        make_rule(MODEL),
    ]
)
NAMES = {
    DATASET: tuple(ResourceKey(f"{DATASET}/d/d{n}") for n in range(6)),
    JOB: tuple(ResourceKey(f"{JOB}/d/j{n}") for n in range(8)),
    MODEL: tuple(ResourceKey(f"{MODEL}/d/m{n}") for n in range(6)),
}
LIMIT = 20_000
"""Bytes of the largest message that the broker takes; a large thing does not fit."""


@dataclass(frozen=True, slots=True)
class Thing:
    """One object as people wrote it. `edition` differs for all that was ever written."""

    key: ResourceKey
    edition: int
    nodes: frozenset[NodeName] = frozenset()
    models: frozenset[ResourceKey] = frozenset()
    dataset: ResourceKey | None = None
    large: bool = False


Things = Mapping[ResourceKey, Thing]


def _name(key: ResourceKey) -> str:
    return key.rpartition("/")[2]


@lru_cache(maxsize=4096)
def record(thing: Thing) -> ObjectRecord:
    """What the bridge makes of a thing."""
    raw = {
        "apiVersion": "sim/v1",
        "kind": kind_of(thing.key).partition(".")[0],
        "metadata": {"namespace": "d", "name": _name(thing.key)},
        "edition": thing.edition,
        "nodes": sorted(thing.nodes),
        "models": sorted(map(_name, thing.models)),
        "dataset": _name(thing.dataset) if thing.dataset else None,
        "padding": "x" * (LIMIT + 1000) if thing.large else "",
    }
    return read_object(raw, RULES, "")


def records(things: Things, kind: KindName) -> dict[ResourceKey, ObjectRecord]:
    """What the bridge makes of all things of a kind."""
    return {key: record(thing) for key, thing in things.items() if kind_of(key) == kind}


def placement(things: Things) -> dict[ResourceKey, set[NodeName]]:
    """Where each thing belongs, by the definition: grow until nothing grows."""
    at = {key: set(thing.nodes) for key, thing in things.items()}
    growing = True
    while growing:
        growing = False
        for key, thing in things.items():
            pairs = [(key, model) for model in thing.models]
            if thing.dataset:
                pairs.append((thing.dataset, key))
            for source, target in pairs:
                if source in at and target in at and not at[source] <= at[target]:
                    at[target] |= at[source]
                    growing = True
    return at


def pairs_placed(things: Things) -> set[tuple[NodeName, ResourceKey]]:
    """(node, key) of everything that belongs somewhere."""
    return {(node, key) for key, nodes in placement(things).items() for node in nodes}


def placed_by_kind(things: Things) -> dict[KindName, int]:
    """How many things of each kind belong somewhere."""
    placed = [kind_of(key) for key, nodes in placement(things).items() if nodes]
    return {kind: placed.count(kind) for kind in KINDS}
