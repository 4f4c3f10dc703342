"""Rights for a user in one call: the role and the binding that a person would write.

Runs in the test's thread; what it makes are RBAC objects in the store, seen by watches and lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.fakes.api import Api
from tests.fakes.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    ROLES,
    Resource,
)
from tests.fakes.storage import key_of

Rule = Mapping[str, Sequence[str]]


def grant(api: Api, user: str, rules: Sequence[Rule], namespace: str) -> None:
    """Give `user` exactly `rules`, in `namespace` or ("") everywhere."""
    revoke(api, user, namespace)
    name = _name(user)
    role, binding = _resources(namespace)
    api.create(role, namespace, {"metadata": {"name": name}, "rules": [dict(r) for r in rules]})
    body = {
        "metadata": {"name": name},
        "subjects": [{"kind": "User", "name": user}],
        "roleRef": {"apiGroup": role.group, "kind": role.kind, "name": name},
    }
    api.create(binding, namespace, body)


def revoke(api: Api, user: str, namespace: str) -> None:
    """Take back what `grant` gave there."""
    key = key_of(namespace, _name(user))
    role, binding = _resources(namespace)
    with api.store.lock:
        for table in (api.store.table(binding), api.store.table(role)):
            if key in table.entries:
                api.store.remove(table, key)


def _name(user: str) -> str:
    return f"grant:{user}"


def _resources(namespace: str) -> tuple[Resource, Resource]:
    if namespace:
        return ROLES, ROLE_BINDINGS
    return CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS
