"""The objects of a run: all six built-in kinds, as people write them and as nodes must have them.

Pure. A `Thing` says where it belongs and what it refers to; `manifest` writes that down in one of
the ways there are (each field that can name a node is used by some edition), and `expected` is what
a node's file must hold of it. Neither shares code with the bridge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nodecast.names import NodeName, ResourceKey

Body = dict[str, Any]

GROUP = "sedna.io"
API_VERSION = f"{GROUP}/v1alpha1"
DATASET, MODEL = "Dataset", "Model"
INFERENCE, FEDERATED = "JointInferenceService", "FederatedLearningJob"
INCREMENTAL, LIFELONG = "IncrementalLearningJob", "LifelongLearningJob"
KINDS = (DATASET, MODEL, INFERENCE, FEDERATED, INCREMENTAL, LIFELONG)
PLURALS = {kind: f"{kind.lower()}s" for kind in KINDS}
MOST_NODES = {DATASET: 1, MODEL: 0, INFERENCE: 2, FEDERATED: 4, INCREMENTAL: 3, LIFELONG: 3}
"""How many nodes an object of the kind names at the most."""
MOST_MODELS = {INFERENCE: 1, INCREMENTAL: 2}
FOLLOWERS = (INCREMENTAL, LIFELONG)
"""The kinds that go wherever their Dataset is."""

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_PADDING = 3000
"""Bytes that make a snapshot worth compressing."""


@dataclass(frozen=True, slots=True)
class Thing:
    """One object. `edition` differs for all that was ever written; `bad`: its node field is no node
    name, so it belongs nowhere, whatever refers to it."""

    key: ResourceKey
    edition: int
    nodes: frozenset[NodeName] = frozenset()
    models: frozenset[ResourceKey] = frozenset()
    dataset: ResourceKey | None = None
    bad: bool = False

    @property
    def kind(self) -> str:
        return kind_of(self.key)

    @property
    def name(self) -> str:
        return name_of(self.key)

    @property
    def namespace(self) -> str:
        return self.key.split("/")[1]


Things = Mapping[ResourceKey, Thing]


def key_of(kind: str, namespace: str, name: str) -> ResourceKey:
    return ResourceKey(f"{kind}.{GROUP}/{namespace}/{name}")


def kind_of(key: ResourceKey) -> str:
    """The kind without its group."""
    return key.partition(".")[0]


def name_of(key: ResourceKey) -> str:
    return key.rpartition("/")[2]


def manifest(thing: Thing) -> Body:
    """The object as a person writes it, with what must not reach a node."""
    body = expected(thing)
    if thing.edition % 2:
        annotations = body["metadata"].setdefault("annotations", {})
        annotations[LAST_APPLIED] = f'{{"edition": {thing.edition - 1}}}'
    if thing.edition % 5 == 0:
        body["status"] = {"phase": f"of edition {thing.edition}"}
    return body


def expected(thing: Thing) -> Body:
    """What a node has of it, without what its source and the bridge add."""
    metadata: Body = {"name": thing.name, "namespace": thing.namespace}
    spec: Body = {"parameters": [{"key": "edition", "value": f"Nº {thing.edition}"}]}
    if thing.edition % 3:
        metadata["labels"] = {"edition": str(thing.edition), "tier": "edge"}
    if thing.edition % 4 == 0:
        spec["padding"] = "x" * _PADDING
    annotations = _WRITERS[thing.kind](thing, spec)
    if annotations:
        metadata["annotations"] = annotations
    return {"apiVersion": API_VERSION, "kind": thing.kind, "metadata": metadata, "spec": spec}


def _nodes(thing: Thing) -> list[str]:
    return ["Not/A+Node#"] if thing.bad else sorted(thing.nodes)


def _dataset(thing: Thing, spec: Body) -> Body:
    spec |= {"url": f"/data/{thing.edition}", "format": "csv"}
    for node in _nodes(thing):
        spec["nodeName"] = node
    return {}


def _model(thing: Thing, spec: Body) -> Body:
    spec |= {"url": f"s3://models/{thing.name}/{thing.edition}", "format": "onnx"}
    return {}


def _inference(thing: Thing, spec: Body) -> Body:
    worker: Body = {"hardExampleMining": {"name": "IBT"}}
    for index, node in enumerate(_nodes(thing)):
        if (index + thing.edition) % 2:
            worker["nodeName"] = node
        else:
            worker["template"] = _template(node)
    for key in thing.models:
        worker["model"] = {"name": name_of(key)}
    spec["edgeWorker"] = worker
    return {}


def _federated(thing: Thing, spec: Body) -> Body:
    spec["trainingWorkers"] = [
        {"template": _template(node)} if (index + thing.edition) % 2 else {"nodeName": node}
        for index, node in enumerate(_nodes(thing))
    ]
    return {}


_PARTS = ("trainSpec", "evalSpec", "deploySpec")
_NOTES = ("sedna.io/Train", "sedna.io/Eval", "sedna.io/Deploy")


def _learning(thing: Thing, spec: Body) -> Body:
    annotations: Body = {}
    for index, node in enumerate(_nodes(thing)):
        slot = (index + thing.edition) % 7
        if slot < 3:
            spec[_PARTS[slot]] = {"template": _template(node)}
        elif slot < 6:
            annotations[_NOTES[slot - 3]] = node
        else:
            spec["nodeName"] = node
    if thing.dataset:
        spec["dataset"] = {"name": name_of(thing.dataset), "trainProb": 0.8}
    first, *rest = [name_of(key) for key in sorted(thing.models)] or [None]
    if first:
        spec["initialModel"] = {"name": first}
    for name in rest:
        spec.setdefault("deploySpec", {})["model"] = {"name": name}
    return annotations


def _template(node: str) -> Body:
    return {"spec": {"nodeName": node, "containers": [{"image": "worker:1"}]}}


_WRITERS = {
    DATASET: _dataset,
    MODEL: _model,
    INFERENCE: _inference,
    FEDERATED: _federated,
    INCREMENTAL: _learning,
    LIFELONG: _learning,
}
