"""Finds where a kind is served.

A rule may say version and plural, as the built-in ones do. Otherwise they are discovered: the
group's preferred version that has the kind, else any other.
"""

from __future__ import annotations

from typing import Any

from bridge.placement import Rule
from bridge.sources.kubernetes.api import Api
from bridge.sources.kubernetes.failures import Refusal
from bridge.sources.kubernetes.resources import Resource, group_path
from nodecast.names import KindName


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
        where = f"{group_path(group)}/{version}"
        for each in _items(_document(api, where), "resources"):
            plural = each.get("name")
            # `datasets/status` is of the same kind.
            if each.get("kind") != short or not isinstance(plural, str) or "/" in plural:
                continue
            if rule.plural in (None, plural):
                _check_scope(rule, each, where)
                return Resource(rule.kind, version, plural)
    raise NotServed(rule.kind, group_path(group))


def _versions(api: Api, rule: Rule, group: str) -> list[str]:
    if rule.version is not None:
        return [rule.version]
    if not group:
        return ["v1"]
    document = _document(api, group_path(group))
    found = [each.get("version") for each in _items(document, "versions")]
    preferred = document.get("preferredVersion")
    first = preferred.get("version") if isinstance(preferred, dict) else None
    named = [version for version in found if isinstance(version, str)]
    return sorted(named, key=lambda version: version != first)


def _document(api: Api, path: str) -> dict[str, Any]:
    """A discovery document; empty where the server has none."""
    try:
        return api.read(path)
    except Refusal as refusal:
        if refusal.status == 404:
            return {}
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


def _items(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    items = document.get(name)
    return [each for each in items if isinstance(each, dict)] if isinstance(items, list) else []
