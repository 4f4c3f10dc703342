"""The rights that docker/kubernetes/base gives are those that the bridge uses: no less, no more.

On the fake server alone, which takes down what each user asks, and on which the built-in kinds may
be installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.fakes.apiserver import ApiServer
from tests.support.api_servers import Caller
from tests.support.fleet import BRIDGE_SETTINGS, Look
from tests.support.manifests_base import Document, Right, granted, rendered, the
from tests.support.mosquitto import Broker
from tests.support.mqtt import Observer
from tests.support.objects import dataset, inference, model
from tests.support.process import Process
from tests.support.wait import eventually

pytestmark = pytest.mark.broker

COLLECTIONS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
}
"""What of the base a bare API server needs; the Deployment and its settings run elsewhere."""


def collection(document: Document) -> str:
    namespace = document["metadata"].get("namespace", "")
    return COLLECTIONS[document["kind"]].format(namespace=namespace)


@pytest.fixture
def admin(tmp_path: Path) -> Iterator[tuple[ApiServer, Caller]]:
    """A server with the base applied to it."""
    with ApiServer() as server, ExitStack() as stack:
        caller = Caller(server.kubeconfig(tmp_path / "admin.kubeconfig"))
        stack.callback(caller.close)
        for document in rendered():
            if document["kind"] in COLLECTIONS:
                caller.must("POST", collection(document), document)
        lists = [
            f"/apis/sedna.io/v1alpha1/{document['spec']['names']['plural']}"
            for document in rendered()
            if document["kind"] == "CustomResourceDefinition"
        ]
        eventually(lambda: all(caller.get(path).status == 200 for path in lists))
        yield server, caller


@pytest.fixture
def account(admin: tuple[ApiServer, Caller], tmp_path: Path) -> tuple[str, Path]:
    """The base's service account: its name as a user, and a kubeconfig with a token of it."""
    server, caller = admin
    document = the("ServiceAccount")
    name, namespace = document["metadata"]["name"], document["metadata"]["namespace"]
    body = caller.must("POST", f"{collection(document)}/{name}/token", {"spec": {}})
    token = body["status"]["token"]
    path = server.kubeconfig(tmp_path / "bridge.kubeconfig", user=name, token=token)
    return f"system:serviceaccount:{namespace}:{name}", path


def used(server: ApiServer, user: str) -> set[Right]:
    """What a user asked for, as a Role names it."""
    wishes = [each.wish for each in server.requests(user=user)]
    return {(each.verb, each.group, each.resource, each.name or None) for each in wishes}


def test_the_bridge_uses_exactly_the_rights_that_it_is_given(
    admin: tuple[ApiServer, Caller],
    account: tuple[str, Path],
    broker: Broker,
    observer: Observer,
    tmp_path: Path,
) -> None:
    server, _ = admin
    user, kubeconfig = account
    server.load([dataset("d", "edge-1"), inference("i", "edge-1", "m"), model("m")])
    arguments = ["nodecast-bridge", "run", "--kubeconfig", str(kubeconfig)]
    lease = {"lease.mode": "on", "lease.namespace": the("ServiceAccount")["metadata"]["namespace"]}
    process = Process(
        tmp_path / "bridge.log",
        [*arguments, "--mqtt-url", broker.url],
        {**BRIDGE_SETTINGS, "kubernetes.watch": 2, **lease, "lease.retry": 0.2},
    )
    look = Look(observer)
    try:
        process.start()
        eventually(lambda: (s := look.snapshot("edge-1")) and len(s.resources) == 3, 20)
        server.load([dataset("e", "edge-2")])
        eventually(lambda: (s := look.snapshot("edge-2")) and len(s.resources) == 1, 20)
        watches = {each.resource.kind for each in server.watches()}
        assert len(watches) == 6
        eventually(lambda: server.requests(user=user, resource="leases", verb="update"))
        assert process.stop() == 0
    finally:
        process.end()
    assert "cannot be seen in full" not in process.log
    assert used(server, user) == granted()
