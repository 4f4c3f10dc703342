"""RBAC: may this user do this? Worked out from the roles and bindings in the store.

Always holds: a changed role or binding counts from the next request on. `system:masters` may do
everything; every authenticated user may read discovery and ask what it may do; everybody may ask
for health and version. Runs in the thread of the request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.fakes.answers import Refused, details_of, refused
from tests.fakes.identities import AUTHENTICATED, MASTERS, User
from tests.fakes.resources import (
    ACCESS_REVIEWS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    ROLES,
    Resource,
)
from tests.fakes.storage import Store, Table, key_of

PUBLIC_PATHS = frozenset({"/healthz", "/livez", "/readyz", "/version"})
_DISCOVERY = ("/api", "/apis", "/openapi")
_TABLES = (ROLES, ROLE_BINDINGS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)


@dataclass(frozen=True, slots=True)
class Wish:
    """What a request wants, to RBAC; `resource` with its subresource (`datasets/status`)."""

    verb: str
    group: str
    resource: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class _Grant:
    subjects: Sequence[Mapping[str, Any]]
    namespace: str | None  # None: everywhere
    rules: Sequence[Mapping[str, Any]]


class Rights:
    """Evaluates the RBAC objects of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: tuple[int, ...] = ()
        self._grants: list[_Grant] = []

    def allows(self, user: User, wish: Wish) -> bool:
        if MASTERS in user.groups:
            return True
        if wish.resource == ACCESS_REVIEWS.plural and AUTHENTICATED in user.groups:
            return wish.verb == "create" and wish.group == ACCESS_REVIEWS.group
        return any(
            _concerns(grant, user, wish.namespace)
            and any(_fits(rule, wish) for rule in grant.rules)
            for grant in self._current()
        )

    def allows_path(self, user: User, path: str) -> bool:
        """The right to GET a path that belongs to no resource."""
        if path in PUBLIC_PATHS or MASTERS in user.groups:
            return True
        return AUTHENTICATED in user.groups and path.startswith(_DISCOVERY)

    def _current(self) -> list[_Grant]:
        with self._store.lock:
            tables = [self._store.table(resource) for resource in _TABLES]
            seen = tuple(table.changed for table in tables)
            if seen != self._seen:
                self._grants = list(_grants(*tables))
                self._seen = seen
            return self._grants


def _grants(
    roles: Table, bindings: Table, cluster_roles: Table, cluster_bindings: Table
) -> Iterator[_Grant]:
    for table, everywhere in ((bindings, False), (cluster_bindings, True)):
        for entry in table.entries.values():
            binding = entry.body()
            namespace = binding["metadata"].get("namespace", "")
            to = binding["roleRef"]
            if to["kind"] == "ClusterRole":
                role = cluster_roles.entries.get(key_of("", to["name"]))
            else:
                role = roles.entries.get(key_of(namespace, to["name"]))
            if role is not None:
                rules = role.body().get("rules") or ()
                subjects = binding.get("subjects") or ()
                yield _Grant(subjects, None if everywhere else namespace, rules)


def _concerns(grant: _Grant, user: User, namespace: str) -> bool:
    if grant.namespace is not None and grant.namespace != namespace:
        return False
    return any(_is(subject, user) for subject in grant.subjects)


def _is(subject: Mapping[str, Any], user: User) -> bool:
    if subject["kind"] == "Group":
        return subject["name"] in user.groups
    if subject["kind"] == "ServiceAccount":
        name = f"system:serviceaccount:{subject.get('namespace', '')}:{subject['name']}"
        return user.name == name
    return bool(subject["name"] == user.name)


def _fits(rule: Mapping[str, Any], wish: Wish) -> bool:
    def among(field: str, *wanted: str) -> bool:
        given = rule.get(field) or ()
        return "*" in given or any(each in given for each in wanted)

    sub = wish.resource.partition("/")[2]
    wanted = [wish.resource] + ([f"*/{sub}"] if sub else [])
    names = rule.get("resourceNames") or ()
    return (
        among("verbs", wish.verb)
        and among("apiGroups", wish.group)
        and among("resources", *wanted)
        and (not names or wish.name in names)
    )


def forbidden(user: User, wish: Wish) -> Refused:
    """The 403 of a resource, in a real server's words."""
    plural = wish.resource.partition("/")[0]
    shown = Resource(wish.group, "", plural, "")
    what = f'{shown.qualified} "{wish.name}"' if wish.name else shown.qualified
    where = f'in the namespace "{wish.namespace}"' if wish.namespace else "at the cluster scope"
    message = (
        f'{what} is forbidden: User "{user.name}" cannot {wish.verb} resource "{wish.resource}" '
        f'in API group "{wish.group}" {where}'
    )
    return refused(403, "Forbidden", message, details_of(shown, wish.name))


def forbidden_path(user: User, verb: str, path: str) -> Refused:
    """The 403 of a path that belongs to no resource."""
    message = f'forbidden: User "{user.name}" cannot {verb} path "{path}"'
    return refused(403, "Forbidden", message, {})
