"""Objects as an API server sends them, with all that one adds: services and their models."""

from __future__ import annotations

from typing import Any

import orjson

GROUP, VERSION = "sedna.io", "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
NAMESPACE = "factory"
FIRST_VERSION = 1_000_000
"""The version of what is there at the start; each event has the next one."""

_TIME = "2026-03-02T08:15:00Z"
_SPEC_FIELDS: dict[str, Any] = {
    "f:edgeWorker": {
        ".": {},
        "f:model": {".": {}, "f:name": {}},
        "f:template": {".": {}, "f:spec": {}},
    }
}


def service(number: int, node: int, models: int, version: int, padding: int) -> dict[str, Any]:
    """A JointInferenceService on one node; `padding` characters of it are an annotation.

    About 1,400 bytes without padding, 830 of them its resource. `version` is its
    resourceVersion, and stands in its spec: each version has another content.
    """
    name = f"inspection-{number:06d}"
    annotations = {"sedna.io/line": f"line-{number % 17}"}
    if padding:
        annotations["sedna.io/parameters"] = ("threshold=0.5;window=32;" * 100)[:padding]
    containers = [
        {
            "name": "little-model",
            "image": "registry.example.com/vision/surface-inspection:v0.4.2",
            "imagePullPolicy": "IfNotPresent",
            "env": [
                {"name": "input_shape", "value": "416,736"},
                {"name": "video_url", "value": f"rtsp://camera-{number:06d}.example.com/main"},
                {"name": "revision", "value": str(version)},
            ],
            "resources": {"limits": {"memory": "2Gi"}, "requests": {"cpu": "100m"}},
        }
    ]
    spec = {
        "edgeWorker": {
            "model": {"name": f"surface-{number % models:04d}"},
            "template": {"spec": {"containers": containers, "nodeName": f"edge-{node:05d}"}},
        }
    }
    status = {"active": 1, "failed": 0, "startTime": _TIME}
    return _object("JointInferenceService", name, version, annotations, spec, status)


def model(number: int) -> dict[str, Any]:
    """A Model, which services name."""
    spec = {
        "format": "onnx",
        "url": f"s3://models.example.com/surface/{number:04d}/model.onnx",
        "credentialName": "models-reader",
    }
    return _object("Model", f"surface-{number:04d}", FIRST_VERSION, {}, spec, {})


def _object(
    kind: str,
    name: str,
    version: int,
    annotations: dict[str, str],
    spec: dict[str, Any],
    status: dict[str, Any],
) -> dict[str, Any]:
    managed = [_managed("kubectl-client-side-apply", {"f:spec": _SPEC_FIELDS})]
    if status:
        written = _managed("sedna-gm", {"f:status": {".": {}}})
        managed.append(written | {"subresource": "status"})
    metadata = {
        "annotations": annotations,
        "creationTimestamp": _TIME,
        "generation": version - FIRST_VERSION + 1,
        "labels": {"app.kubernetes.io/name": "inspection", "line": "press-shop"},
        "managedFields": managed,
        "name": name,
        "namespace": NAMESPACE,
        "resourceVersion": str(version),
        "uid": f"6f1d2c1e-8a57-4f0b-9d3e-{hash_of(name):012x}",
    }
    whole = {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
    return whole | {"status": status} if status else whole


def _managed(manager: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        "manager": manager,
        "operation": "Update",
        "time": _TIME,
    }


def hash_of(name: str) -> int:
    """A number of 48 bits, the same in each process."""
    value = 0
    for byte in name.encode():
        value = (value * 131 + byte) & 0xFFFF_FFFF_FFFF
    return value


def encode(value: object) -> bytes:
    """As an API server writes custom resources: keys sorted, no spaces."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
