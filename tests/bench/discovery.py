"""What clients ask an API server before they list anything: groups, kinds, version, namespace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.bench.cluster import API_VERSION, GROUP, VERSION
from tests.bench.served import Collection, empty


def _group(name: str, version: str) -> dict[str, Any]:
    preferred = {"groupVersion": f"{name}/{version}", "version": version}
    return {"name": name, "versions": [preferred], "preferredVersion": preferred}


def _resources(group_version: str, kinds: Mapping[str, str], namespaced: bool) -> dict[str, Any]:
    verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": [
            {
                "name": plural,
                "singularName": kind.lower(),
                "namespaced": namespaced,
                "kind": kind,
                "verbs": verbs,
            }
            for plural, kind in kinds.items()
        ],
    }


_EXTENSIONS = "apiextensions.k8s.io"
DEFINITIONS = Collection(
    "customresourcedefinitions",
    "CustomResourceDefinition",
    api_version=f"{_EXTENSIONS}/v1",
)
NOT_FOUND = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "the server could not find the requested resource",
    "reason": "NotFound",
    "code": 404,
}
DOCUMENTS: dict[str, Any] = {
    "version": {"major": "1", "minor": "36", "gitVersion": "v1.36.0"},
    "api": {"kind": "APIVersions", "versions": ["v1"]},
    "apis": {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_group(GROUP, VERSION), _group(_EXTENSIONS, "v1")],
    },
    "api/v1": _resources("v1", {"namespaces": "Namespace"}, namespaced=False),
    f"apis/{_EXTENSIONS}/v1": _resources(
        f"{_EXTENSIONS}/v1",
        {"customresourcedefinitions": "CustomResourceDefinition"},
        namespaced=False,
    ),
    f"apis/{API_VERSION}": _resources(
        API_VERSION, {plural: each.kind for plural, each in empty().items()}, namespaced=True
    ),
    "api/v1/namespaces/kube-system": {
        "kind": "Namespace",
        "apiVersion": "v1",
        "metadata": {
            "name": "kube-system",
            "uid": "0d3f7a52-6a0e-4a35-8e0b-7f1f6f0a9c11",
            "resourceVersion": "4",
        },
    },
}
