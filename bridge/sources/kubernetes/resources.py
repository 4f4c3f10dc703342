"""Where a kind is served: group, version and plural.

A rule may say version and plural, as the built-in ones do. Otherwise they are discovered: the
group's preferred version that has the kind, else any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bridge.placement import Rule
from bridge.sources.kubernetes.api import Api
from bridge.sources.kubernetes.failures import Refusal
from nodecast.names import KindName


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind as the API server's paths name it."""

    kind: KindName
    version: str
    plural: str

    @property
    def short(self) -> str:
        """`Dataset` of `Dataset.sedna.io`."""
        return self.kind.partition(".")[0]

    @property
    def group(self) -> str:
        """`sedna.io`; empty for the core group."""
        return self.kind.partition(".")[2]

    @property
    def name(self) -> str:
        """`datasets.sedna.io`: how a Role and a CRD name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None) -> str:
        """Of the collection, in one namespace or (None) in all."""
        inside = f"/namespaces/{namespace}" if namespace is not None else ""
        return f"{_group_path(self.group)}/{self.version}{inside}/{self.plural}"


class NotServed(Refusal):
    """The server has no such kind."""

    def __init__(self, kind: KindName, where: str) -> None:
        super().__init__(404, "NotFound", f"{kind} is not served at {where}: install its CRD")


def find(api: Api, rule: Rule) -> Resource:
    """The resource of a rule's kind. Raises NotServed, Refusal or ApiFailure."""
    if rule.version is not None and rule.plural is not None:
        return Resource(rule.kind, rule.version, rule.plural)
    short, _, group = rule.kind.partition(".")
    for version in _versions(api, rule, group):
        where = f"{_group_path(group)}/{version}"
        for each in _items(_document(api, rule, where), "resources"):
            if each.get("kind") == short and "/" not in str(each.get("name", "/")):
                _check_scope(rule, each, where)
                return Resource(rule.kind, version, str(each["name"]))
    raise NotServed(rule.kind, _group_path(group))


def _versions(api: Api, rule: Rule, group: str) -> list[str]:
    if rule.version is not None:
        return [rule.version]
    if not group:
        return ["v1"]
    document = _document(api, rule, _group_path(group))
    found = [str(each.get("version")) for each in _items(document, "versions")]
    preferred = document.get("preferredVersion")
    first = preferred.get("version") if isinstance(preferred, dict) else None
    return sorted(found, key=lambda version: version != first)


def _document(api: Api, rule: Rule, path: str) -> dict[str, Any]:
    try:
        return api.read(path)
    except Refusal as refusal:
        if refusal.status == 404:
            raise NotServed(rule.kind, path) from refusal
        raise


def _check_scope(rule: Rule, document: dict[str, Any], where: str) -> None:
    served = document.get("namespaced") is True
    if served != rule.namespaced:
        scope = "namespaced" if served else "cluster-scoped"
        raise Refusal(
            404,
            "OtherScope",
            f"{rule.kind} is {scope} at {where}:"
            f" say namespaced = {str(served).lower()} in its rule",
        )


def _group_path(group: str) -> str:
    return f"/apis/{group}" if group else "/api"


def _items(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    items = document.get(name)
    return [each for each in items if isinstance(each, dict)] if isinstance(items, list) else []
