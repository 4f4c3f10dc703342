"""What docker/kubernetes/base, or an overlay of it, says, as `kubectl kustomize` builds it."""

from __future__ import annotations

import copy
import functools
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

BASE = Path(__file__).parents[2] / "docker" / "kubernetes" / "base"

Document = dict[str, Any]
Right = tuple[str, str, str, str | None]
"""A verb, an API group (core: empty), a resource, and the one name that it is for, if any."""


def rendered() -> list[Document]:
    """Every document, in the order of the output."""
    return copy.deepcopy(_documents())


def of_kind(kind: str) -> list[Document]:
    """The documents of `kind`."""
    return [document for document in rendered() if document["kind"] == kind]


def the(kind: str) -> Document:
    """The only document of `kind`."""
    (document,) = of_kind(kind)
    return document


def granted() -> set[Right]:
    """What the bridge's service account may do: the rules of the roles that are bound to it."""
    account = the("ServiceAccount")["metadata"]
    return {
        right
        for binding in (*of_kind("ClusterRoleBinding"), *of_kind("RoleBinding"))
        if any(_names(subject, account) for subject in binding["subjects"])
        for role in of_kind(binding["roleRef"]["kind"])
        if role["metadata"]["name"] == binding["roleRef"]["name"]
        for rule in role["rules"]
        for right in _rights(rule)
    }


def built(directory: Path) -> list[Document]:
    """What `kubectl kustomize` makes of a directory."""
    result = subprocess.run(
        ["kubectl", "kustomize", directory], capture_output=True, text=True, timeout=60, check=False
    )
    # A warning would stand here too: what is deprecated is not used.
    assert (result.returncode, result.stderr) == (0, "")
    return list(yaml.safe_load_all(result.stdout))


@functools.cache
def _documents() -> list[Document]:
    return built(BASE)


def _names(subject: Document, account: Document) -> bool:
    return subject == {
        "kind": "ServiceAccount",
        "name": account["name"],
        "namespace": account["namespace"],
    }


def _rights(rule: Document) -> Iterator[Right]:
    for verb in rule["verbs"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for name in rule.get("resourceNames", [None]):
                    yield verb, group, resource, name
