"""Objects of the built-in kinds as a person writes them, and their keys."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

KINDS = (
    "Dataset",
    "Model",
    "JointInferenceService",
    "FederatedLearningJob",
    "IncrementalLearningJob",
    "LifelongLearningJob",
)


def made(kind: str, name: str, spec: object, *, namespace: str = "default") -> Object:
    """An object of `sedna.io`, or of the group after the first dot of `kind`."""
    word, _, group = kind.partition(".")
    return {
        "apiVersion": f"{group or 'sedna.io'}/v1alpha1",
        "kind": word,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def dataset(
    name: str, node: str | None, *, url: str = "/data", namespace: str = "default"
) -> Object:
    """A Dataset on `node`, or on none."""
    spec = {"url": url, "format": "csv"} | ({"nodeName": node} if node is not None else {})
    return made("Dataset", name, spec, namespace=namespace)


def model(name: str, *, url: str = "/models/a") -> Object:
    """A Model; it goes where something carries it."""
    return made("Model", name, {"url": url, "format": "onnx"})


def inference(name: str, node: str, model: str) -> Object:
    """A JointInferenceService on `node`, which carries `model`."""
    return made(
        "JointInferenceService",
        name,
        {"edgeWorker": {"nodeName": node, "model": {"name": model}}},
    )


def federated(name: str, *nodes: str) -> Object:
    """A FederatedLearningJob with a training worker on each of `nodes`."""
    return made(
        "FederatedLearningJob", name, {"trainingWorkers": [{"nodeName": node} for node in nodes]}
    )


def key(thing: Object) -> str:
    """The resource key of an object."""
    group = thing["apiVersion"].partition("/")[0]
    metadata = thing["metadata"]
    return f"{thing['kind']}.{group}/{metadata['namespace']}/{metadata['name']}"
