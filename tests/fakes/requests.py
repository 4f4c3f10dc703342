"""A request as the fake API server understands it, and the record that is kept of each.

Pure: the path, the method and the query say which verb on which resource is meant (RequestInfo
of a real server)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.fakes.rights import Wish

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get"}
_NAMESPACE_SUBRESOURCES = ("status", "finalize")
TRUE = ("1", "true", "True")


@dataclass(frozen=True, slots=True)
class Target:
    """What a path names: empty fields where it names none."""

    group: str = ""
    version: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    sub: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """One request; `verb` is RBAC's (`list`, `watch`, `deletecollection`, …)."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str] = field(
        repr=False
    )  # names in lower case; one of them holds the token
    body: bytes = field(repr=False)
    target: Target
    verb: str

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip()

    @property
    def wish(self) -> Wish:
        target = self.target
        resource = f"{target.resource}/{target.sub}" if target.sub else target.resource
        return Wish(self.verb, target.group, resource, target.namespace, target.name)


@dataclass(frozen=True, slots=True)
class Record:
    """One request that came in; `user` is empty where its token was not good. `at` is a
    monotonic second."""

    method: str
    path: str
    query: Mapping[str, str]
    user: str
    wish: Wish
    at: float


def understood(method: str, raw_path: str, headers: Mapping[str, str], body: bytes) -> Request:
    parts = urlsplit(raw_path)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    target = _target([unquote(each) for each in parts.path.strip("/").split("/")])
    verb = _verb(method, target, query)
    if verb in ("list", "watch") and not target.name:
        named = _named(query.get("fieldSelector", ""))
        target = Target(
            target.group, target.version, target.resource, target.namespace, named, target.sub
        )
    return Request(method, parts.path, query, headers, body, target, verb)


def _target(parts: list[str]) -> Target:
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return Target()
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    resource, name, sub = (*rest, "", "")[:3]
    return Target(group, version, resource, namespace, name, sub)


def _verb(method: str, target: Target, query: Mapping[str, str]) -> str:
    if method == "GET" and target.resource:
        if query.get("watch") in TRUE:
            return "watch"
        return "get" if target.name else "list"
    if method == "DELETE" and target.resource and not target.name:
        return "deletecollection"
    return _VERBS.get(method, method.lower())


def _named(field_selector: str) -> str:
    for part in field_selector.split(","):
        key, _, value = part.replace("==", "=").partition("=")
        if key == "metadata.name":
            return value
    return ""
