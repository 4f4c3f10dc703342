"""Discovery documents: which groups, versions and resources are served, by what version.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from tests.fakes.answers import TEXT, Answer, json_answer, page_not_found
from tests.fakes.resources import SERVICE_ACCOUNTS, Body, Resource
from tests.fakes.rights import PUBLIC_PATHS

_VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.0+fake",
    "gitCommit": "0000000000000000000000000000000000000000",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "go1.26",
    "compiler": "gc",
    "platform": "linux/amd64",
}
_CORE = {
    "kind": "APIVersions",
    "versions": ["v1"],
    "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}],
}


def document(path: str, resources: Iterable[Resource]) -> Answer:
    """The answer to a GET of a path that belongs to no resource; plain 404 for an unknown one."""
    path = path.rstrip("/")
    if path == "/version":
        return json_answer(200, _VERSION)
    if path in PUBLIC_PATHS:
        return Answer(200, b"ok", TEXT)
    if path == "/api":
        return json_answer(200, _CORE)
    if path == "/api/v1":
        return _resource_list("", "v1", resources)
    if path == "/apis":
        names = dict.fromkeys(each.group for each in resources if each.group)
        groups = [_group(name, resources) for name in names]
        return json_answer(200, {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
    parts = path.strip("/").split("/")
    if parts[0] == "apis" and len(parts) == 2 and any(r.group == parts[1] for r in resources):
        body = {"kind": "APIGroup", "apiVersion": "v1", **_group(parts[1], resources)}
        return json_answer(200, body)
    if parts[0] == "apis" and len(parts) == 3:
        return _resource_list(parts[1], parts[2], resources)
    raise page_not_found()


def _group(name: str, resources: Iterable[Resource]) -> Body:
    versions = dict.fromkeys(each.version for each in resources if each.group == name)
    shown = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": shown, "preferredVersion": shown[0]}


def _resource_list(group: str, version: str, resources: Iterable[Resource]) -> Answer:
    found = [each for each in resources if (each.group, each.version) == (group, version)]
    if not found:
        raise page_not_found()
    rows = [row for resource in found for row in _rows(resource)]
    body = {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": found[0].api_version,
        "resources": rows,
    }
    return json_answer(200, body)


def _rows(resource: Resource) -> list[Body]:
    shared = {"namespaced": resource.namespaced, "kind": resource.kind}
    row = {"name": resource.plural, "singularName": resource.kind.lower(), **shared}
    rows: list[Body] = [row | {"verbs": list(resource.verbs)}]
    if resource.status:
        status = {"name": f"{resource.plural}/status", "singularName": "", **shared}
        rows.append(status | {"verbs": ["get", "patch", "update"]})
    if resource is SERVICE_ACCOUNTS:
        token = {"name": f"{resource.plural}/token", "singularName": "", "namespaced": True}
        token |= {"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"}
        rows.append(token | {"verbs": ["create"]})
    return rows
