"""A test's own corner of an API server: kinds, namespaces and users that nobody else has.

Everything is done over HTTP, and everything goes again at the end. Nothing counts on controllers
that a bare API server lacks: what a namespace holds is deleted one by one, and the namespace is
finalized by hand.

Users are service accounts with tokens that the server gives (TokenRequest): every API server
since 1.20 has what that takes, or it would not start.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bridge.placement import Rules
from tests.fakes.crds import plural_of
from tests.support.api_calls import MERGE
from tests.support.api_groups import KINDS, VERSION, Group, rules_of
from tests.support.api_servers import Body, Caller, Server
from tests.support.proxies import Proxy

_RBAC = "/apis/rbac.authorization.k8s.io/v1"


class Account:
    """A user: a service account, with a token and what it is known by."""

    def __init__(self, name: str, namespace: str, token: str) -> None:
        self.name, self.namespace, self.token = name, namespace, token

    @property
    def user(self) -> str:
        return f"system:serviceaccount:{self.namespace}:{self.name}"


class Cluster:
    """Two namespaces in a server, objects of a group's kinds, and users. See `corner`."""

    def __init__(self, server: Server, group: Group, directory: Path) -> None:
        self.server, self.admin, self.group = server, server.admin, group
        self.directory = directory
        self.run = secrets.token_hex(4)
        self.namespace, self.other = f"nodecast-{self.run}-a", f"nodecast-{self.run}-b"
        self._groups = [group]
        self._made: list[str] = []
        self._callers: list[Caller] = []

    @property
    def rules(self) -> Rules:
        return rules_of(self.group.name)

    # -- kinds

    def own_group(self, *kinds: str) -> Group:
        """A group for this test alone (its CRDs come and go), with these kinds installed; it is
        the one that everything below is about from now on."""
        self.group = Group(self.server)
        self._groups.append(self.group)
        self.group.install(*(kinds or KINDS))
        return self.group

    def kind(self, short: str) -> str:
        return f"{short}.{self.group.name}"

    def key(self, short: str, name: str, namespace: str = "") -> str:
        """As the bridge names an object."""
        return f"{self.kind(short)}/{namespace or self.namespace}/{name}"

    # -- objects

    def thing(
        self, kind: str, name: str, spec: object, namespace: str = "", **metadata: Any
    ) -> Body:
        """An object, not created."""
        return {
            "apiVersion": f"{self.group.name}/{VERSION}",
            "kind": kind,
            "metadata": {"name": name, "namespace": namespace or self.namespace, **metadata},
            "spec": spec,
        }

    def create(
        self, kind: str, name: str, spec: object, namespace: str = "", **metadata: Any
    ) -> Body:
        path = self.path(kind, namespace=namespace)
        return self.admin.must("POST", path, self.thing(kind, name, spec, namespace, **metadata))

    def camera(
        self, name: str, node: object, *, profile: str = "", namespace: str = "", **metadata: Any
    ) -> Body:
        """Create a Camera on `node`."""
        spec = {"nodeName": node} | ({"profile": profile} if profile else {})
        return self.create("Camera", name, spec, namespace, **metadata)

    def merge(self, kind: str, name: str, patch: object, *, sub: str = "") -> Body:
        return self.admin.must("PATCH", self.path(kind, name, sub=sub), patch, MERGE)

    def delete(self, kind: str, name: str, namespace: str = "") -> None:
        self.admin.must("DELETE", self.path(kind, name, namespace=namespace))

    def path(self, kind: str, name: str = "", *, namespace: str = "", sub: str = "") -> str:
        return self.group.path(kind, namespace or self.namespace, name, sub)

    # -- users

    def account(self, name: str = "tester") -> Account:
        """A user without any right of its own."""
        accounts = f"/api/v1/namespaces/{self.namespace}/serviceaccounts"
        body = {"metadata": {"name": name, "namespace": self.namespace}}
        self.make(accounts, body)
        answer = self.admin.must("POST", f"{accounts}/{name}/token", {"spec": {}})
        return Account(name, self.namespace, answer["status"]["token"])

    def right(self, *verbs: str, kinds: Sequence[str] = KINDS, **more: list[str]) -> Body:
        """A rule of a Role: these verbs on our kinds."""
        resources = [plural_of(kind) for kind in kinds]
        return {
            "apiGroups": [self.group.name],
            "resources": resources,
            "verbs": list(verbs),
            **more,
        }

    def kube_system(self) -> Body:
        """A rule of a Role: to read what tells one cluster from another."""
        rule = {"apiGroups": [""], "resources": ["namespaces"], "resourceNames": ["kube-system"]}
        return {**rule, "verbs": ["get"]}

    def grant(self, account: Account, *rules: Body, namespace: str = "") -> None:
        """Give these rights, and no others, everywhere or in one namespace."""
        self.revoke(account, namespace=namespace)
        kind, name = ("Role" if namespace else "ClusterRole"), self._right_name(account)
        base = f"{_RBAC}/namespaces/{namespace}" if namespace else _RBAC
        collection = f"{base}/{kind.lower()}"
        self.make(f"{collection}s", {"metadata": {"name": name}, "rules": list(rules)})
        body = {
            "metadata": {"name": name},
            "subjects": [
                {"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace}
            ],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        }
        self.make(f"{collection}bindings", body)

    def revoke(self, account: Account, namespace: str = "") -> None:
        """Take back what `grant` gave there."""
        base = f"{_RBAC}/namespaces/{namespace}" if namespace else _RBAC
        kind = "role" if namespace else "clusterrole"
        for table in (f"{kind}bindings", f"{kind}s"):
            path = f"{base}/{table}/{self._right_name(account)}"
            if path in self._made:
                self.admin.must("DELETE", path)
                self._made.remove(path)

    def kubeconfig(self, account: Account | None = None, via: Proxy | None = None) -> Path:
        """A kubeconfig of the admin, or of a user."""
        credentials = None if account is None else {"token": account.token}
        path = self.directory / f"{secrets.token_hex(4)}.kubeconfig"
        return self.server.kubeconfig(path, credentials, via)

    def caller(self, account: Account, token: str | None = None) -> Caller:
        """Calls as a user; with another token, where one is given."""
        bearer = None if token is None else f"Bearer {token}"
        self._callers.append(Caller(self.kubeconfig(account), bearer))
        return self._callers[-1]

    # -- its life

    def open(self) -> None:
        for namespace in (self.namespace, self.other):
            self.make("/api/v1/namespaces", {"metadata": {"name": namespace}})

    def close(self) -> None:
        """Take everything away that was made here. Raises AssertionError where something stays."""
        for caller in self._callers:
            caller.close()
        left: list[str] = []
        for number, group in enumerate(self._groups):
            with _noted(left):
                self._empty(group)
                if number:  # the first one is not ours alone
                    group.uninstall()
        for path in reversed(self._made):
            with _noted(left):
                self._remove(path)
        assert left == []

    def make(self, collection: str, body: Body) -> Body:
        """Create something that is to go at the end."""
        path = f"{collection}/{body['metadata']['name']}"
        self._made.append(path)
        return self.admin.must("POST", collection, body)

    def _empty(self, group: Group) -> None:
        for kind in KINDS:
            for namespace in (self.namespace, self.other):
                collection = group.path(kind, namespace)
                listed = self.admin.get(collection)
                for item in listed.body["items"] if listed.status == 200 else ():
                    path = f"{collection}/{item['metadata']['name']}"
                    self.admin.call("DELETE", path)
                    self.admin.merge(path, {"metadata": {"finalizers": None}})

    def _remove(self, path: str) -> None:
        reply = self.admin.call("DELETE", path)
        assert reply.status in (200, 202, 404), f"DELETE {path}: {reply.status} {reply.body}"
        if path.startswith("/api/v1/namespaces/") and path.count("/") == 4:
            left = self.admin.get(path)
            if left.status == 200:  # nobody is there to finalize it
                body = {**left.body, "spec": {"finalizers": []}}
                self.admin.call("PUT", f"{path}/finalize", body)

    def _right_name(self, account: Account) -> str:
        return f"nodecast-{self.run}-{account.name}"


@contextmanager
def _noted(left: list[str]) -> Iterator[None]:
    """One thing that cannot be taken away stops no other."""
    try:
        yield
    except AssertionError as error:
        left.append(str(error))


@contextmanager
def corner(server: Server, group: Group, directory: Path) -> Iterator[Cluster]:
    """A corner of a server for the length of a `with`."""
    cluster = Cluster(server, group, directory)
    try:
        cluster.open()
        yield cluster
    finally:
        cluster.close()


@contextmanager
def served_group(server: Server) -> Iterator[Group]:
    """A group with all its kinds installed, for many tests."""
    group = Group(server)
    try:
        group.install()
        yield group
    finally:
        with suppress(AssertionError):
            group.uninstall()
