"""Kinds for tests: what they look like, how they are placed, and an API group that serves them.

A group has a random name, so that it is nobody else's.
"""

from __future__ import annotations

import secrets
from functools import partial

from bridge.placement import Rules, make_rule
from tests.fakes.crds import crd, plural_of
from tests.support.api_servers import Body, Server
from tests.support.wait import eventually

VERSION = "v1"
KINDS = ("Camera", "Profile", "Site")
"""A Camera names a node and carries a Profile, a Site names nodes. Where a Site is served has to
be discovered. A Profile has no status subresource, a Site has a schema."""
RULES: tuple[Body, ...] = (
    {
        "kind": "Camera",
        "nodes": ["spec.nodeName"],
        "carries": [{"kind": "Profile", "path": "spec.profile"}],
        "version": VERSION,
        "plural": "cameras",
    },
    {"kind": "Profile", "version": VERSION, "plural": "profiles"},
    {"kind": "Site", "nodes": ["spec.nodes[]"]},
)
READ = ("list", "watch")
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_SITE_SCHEMA: Body = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["nodes"],
            "properties": {
                "nodes": {"type": "array", "items": {"type": "string"}},
                "note": {"type": "string"},
            },
        },
        "status": {"type": "object", "properties": {"samples": {"type": "integer"}}},
    },
}


def definition(kind: str, group: str) -> Body:
    """The CRD of one of our kinds."""
    schema = _SITE_SCHEMA if kind == "Site" else None
    return crd(kind, group, version=VERSION, status=kind != "Profile", schema=schema)


def rules_of(group: str) -> Rules:
    """The placement rules of our kinds."""
    return Rules(
        make_rule(
            f"{each['kind']}.{group}",
            each.get("nodes", ()),
            [(other["kind"], other["path"]) for other in each.get("carries", ())],
            version=each.get("version"),
            plural=each.get("plural"),
        )
        for each in RULES
    )


class Group:
    """An API group of ours, and the CRDs of its kinds."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.name = f"t{secrets.token_hex(4)}.nodecast.test"

    def install(self, *kinds: str) -> None:
        """Create CRDs (none named: all), and wait until their kinds are served, and discovered."""
        for kind in kinds or KINDS:
            self.server.admin.must("POST", _CRDS, definition(kind, self.name))
        for kind in kinds or KINDS:
            eventually(partial(self._served, kind), 30, what=f"{kind} is served")

    def uninstall(self, *kinds: str) -> None:
        """Delete CRDs, and wait until their kinds are gone."""
        for kind in kinds or KINDS:
            self.server.admin.call("DELETE", f"{_CRDS}/{plural_of(kind)}.{self.name}")
        for kind in kinds or KINDS:
            eventually(partial(self._gone, kind), 30, what=f"{kind} is gone")

    def path(self, kind: str, namespace: str = "", name: str = "", sub: str = "") -> str:
        """Of a collection, or of an object in it."""
        inside = f"/namespaces/{namespace}" if namespace else ""
        whole = f"/apis/{self.name}/{VERSION}{inside}/{plural_of(kind)}"
        return "/".join(part for part in (whole, name, sub) if part)

    def _served(self, kind: str) -> bool:
        admin = self.server.admin
        group, document = f"/apis/{self.name}", f"/apis/{self.name}/{VERSION}"
        # A list of version 0, and a watch, come from a cache that is ready later than the rest.
        paths = (group, document, self.path(kind), f"{self.path(kind)}?resourceVersion=0")
        if any(admin.get(path).status != 200 for path in paths):
            return False
        return kind in {each["kind"] for each in admin.get(document).body["resources"]}

    def _gone(self, kind: str) -> bool:
        admin = self.server.admin
        crd_path = f"{_CRDS}/{plural_of(kind)}.{self.name}"
        return admin.get(crd_path).status == 404 and admin.get(self.path(kind)).status == 404
