"""The fake API server where no recording covers it: pages under change, selectors, rights,
writes, CRDs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config

from tests.fakes.apiserver import ApiServer
from tests.fakes.crds import crd
from tests.support.api_calls import Caller
from tests.support.objects import dataset
from tests.support.wait import eventually

DATASETS = "/apis/sedna.io/v1alpha1/datasets"
IN_DEFAULT = "/apis/sedna.io/v1alpha1/namespaces/default/datasets"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """A server with Datasets and a namespace `other`."""
    with ApiServer() as running:
        running.install(crd("Dataset"))
        running.namespace("other")
        yield running


@pytest.fixture
def admin(server: ApiServer) -> Caller:
    return Caller(server.port, server.admin_token)


def caller(server: ApiServer, user: str) -> Caller:
    return Caller(server.port, server.token(user))


def some(server: ApiServer, *names: str, namespace: str = "default") -> None:
    for name in names:
        server.create(dataset(name, "edge-1", namespace=namespace))


def rule(*verbs: str, resource: str = "datasets", **more: list[str]) -> dict[str, list[str]]:
    return {"apiGroups": ["sedna.io"], "resources": [resource], "verbs": list(verbs), **more}


# Lists.


def test_pages_show_one_moment_although_objects_come_change_and_go(
    server: ApiServer, admin: Caller
) -> None:
    some(server, "a", "b", "c", "d")
    first = admin.get(f"{DATASETS}?limit=2")
    server.delete("Dataset", "default", "c")
    server.merge("Dataset", "default", "d", {"spec": {"url": "/new"}})
    some(server, "e")
    rest = admin.get(f"{DATASETS}?limit=2&continue={first.body['metadata']['continue']}")
    assert (first.names, rest.names) == (["a", "b"], ["c", "d"])
    assert rest.body["items"][1]["spec"]["url"] == "/data"
    versions = [page.body["metadata"]["resourceVersion"] for page in (first, rest)]
    assert versions[0] == versions[1]


def test_an_inconsistent_token_goes_on_with_what_is_there_now(
    server: ApiServer, admin: Caller
) -> None:
    some(server, "a", "b", "c", "d")
    first = admin.get(f"{DATASETS}?limit=2")
    server.delete("Dataset", "default", "c")
    server.compact()
    gone = admin.get(f"{DATASETS}?limit=2&continue={first.body['metadata']['continue']}")
    assert (gone.status, gone.reason) == (410, "Expired")
    rest = admin.get(f"{DATASETS}?limit=2&continue={gone.body['metadata']['continue']}")
    assert rest.names == ["d"]
    assert rest.body["metadata"]["resourceVersion"] == str(server.version)


def test_a_list_of_all_namespaces_is_ordered_by_namespace_and_name(
    server: ApiServer, admin: Caller
) -> None:
    some(server, "b", "a")
    some(server, "c", namespace="other")
    some(server, "z")
    assert admin.get(DATASETS).names == ["a", "b", "z", "c"]
    assert admin.get("/apis/sedna.io/v1alpha1/namespaces/other/datasets").names == ["c"]


def test_a_list_at_an_exact_version_shows_the_past(server: ApiServer, admin: Caller) -> None:
    some(server, "a")
    version = server.version
    some(server, "b")
    at = f"{DATASETS}?resourceVersion={version}"
    assert admin.get(f"{at}&resourceVersionMatch=Exact").names == ["a"]
    assert admin.get(f"{at}&resourceVersionMatch=NotOlderThan").names == ["a", "b"]


def test_a_list_at_a_version_to_come_is_504(server: ApiServer, admin: Caller) -> None:
    reply = admin.get(f"{DATASETS}?resourceVersion={server.version + 10}")
    assert (reply.status, reply.reason) == (504, "Timeout")


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("tier=gold", ["gold"]),
        ("tier==gold", ["gold"]),
        ("tier!=gold", ["none", "tin"]),
        ("tier in (gold,tin)", ["gold", "tin"]),
        ("tier notin (gold,tin)", ["none"]),
        ("tier", ["gold", "tin"]),
        ("!tier", ["none"]),
        ("tier,tier!=tin", ["gold"]),
    ],
)
def test_a_label_selector_chooses(
    server: ApiServer, admin: Caller, selector: str, names: list[str]
) -> None:
    some(server, "none")
    for tier in ("gold", "tin"):
        body = dataset(tier, "edge-1")
        body["metadata"]["labels"] = {"tier": tier}
        server.create(body)
    text = selector.replace(" ", "%20").replace("!", "%21").replace("=", "%3D")
    assert admin.get(f"{DATASETS}?labelSelector={text}").names == names


def test_a_selector_that_is_none_is_400(admin: Caller) -> None:
    assert admin.get(f"{DATASETS}?labelSelector=a%20b").status == 400


# Watches.


def test_a_watch_of_a_namespace_sees_only_that(server: ApiServer, admin: Caller) -> None:
    path = f"{IN_DEFAULT}?watch=1&resourceVersion={server.version}"
    with admin.watch(path) as stream:
        some(server, "theirs", namespace="other")
        some(server, "ours")
        eventually(lambda: stream.events)
        assert stream.seen == [("ADDED", "ours")]


def test_a_quiet_watch_lives_through_a_compaction(server: ApiServer, admin: Caller) -> None:
    with admin.watch(f"{DATASETS}?watch=1&resourceVersion={server.version}") as stream:
        eventually(lambda: server.watches("datasets"))
        server.namespace("raises-the-version")
        server.compact()
        some(server, "a")
        eventually(lambda: stream.events)
        assert stream.seen == [("ADDED", "a")]


def test_bookmarks_come_in_intervals_and_carry_the_newest_version() -> None:
    with ApiServer(bookmark_every=0.05) as server:
        server.install(crd("Dataset"))
        admin = Caller(server.port, server.admin_token)
        path = f"{DATASETS}?watch=1&resourceVersion={server.version}&allowWatchBookmarks=true"
        with admin.watch(path) as stream:
            server.namespace("raises-the-version")
            version = str(server.version)
            eventually(
                lambda: [
                    event["object"]["metadata"]
                    for event in stream.events
                    if event["object"]["metadata"] == {"resourceVersion": version}
                ]
            )
            assert {kind for kind, _ in stream.seen} == {"BOOKMARK"}


def test_watches_that_are_closed_by_the_client_are_noticed(
    server: ApiServer, admin: Caller
) -> None:
    with admin.watch(f"{DATASETS}?watch=1"):
        eventually(lambda: server.watches("datasets"))
    eventually(lambda: not server.watches("datasets"))


# Rights.


def test_a_right_is_for_its_verb_and_resource_alone(server: ApiServer) -> None:
    some(server, "a")
    server.grant("reader", [rule("list", "patch"), rule("get", resource="datasets/status")])
    reader = caller(server, "reader")
    statuses = {
        "list": reader.get(DATASETS).status,
        "watch": reader.get(f"{DATASETS}?watch=1").status,
        "get": reader.get(f"{IN_DEFAULT}/a").status,
        "status": reader.get(f"{IN_DEFAULT}/a/status").status,
        "patch": reader.merge(f"{IN_DEFAULT}/a", {"spec": {}}).status,
        "patch status": reader.merge(f"{IN_DEFAULT}/a/status", {"status": {}}).status,
    }
    assert statuses == {
        "list": 200,
        "watch": 403,
        "get": 403,
        "status": 200,
        "patch": 200,
        "patch status": 403,
    }


def test_a_right_in_a_namespace_is_for_that_alone(server: ApiServer) -> None:
    server.grant("local", [rule("list")], namespace="other")
    local = caller(server, "local")
    assert local.get("/apis/sedna.io/v1alpha1/namespaces/other/datasets").status == 200
    assert local.get(IN_DEFAULT).status == 403
    assert local.get(DATASETS).status == 403


def test_a_right_to_named_objects_is_for_these(server: ApiServer) -> None:
    body = {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]}
    server.grant("one", [{**body, "resourceNames": ["kube-system"]}])
    one = caller(server, "one")
    assert one.get("/api/v1/namespaces/kube-system").body["metadata"]["uid"]
    refused = one.get("/api/v1/namespaces/default")
    assert refused.body["message"] == (
        'namespaces "default" is forbidden: User "one" cannot get resource "namespaces" '
        'in API group "" in the namespace "default"'
    )


def test_rights_come_and_go_with_the_objects_that_give_them(
    server: ApiServer, admin: Caller
) -> None:
    user = caller(server, "late")
    assert user.get(DATASETS).status == 403
    role = {"metadata": {"name": "r"}, "rules": [rule("list")]}
    assert admin.call("POST", f"{RBAC}/clusterroles", role).status == 201
    binding = {
        "metadata": {"name": "b"},
        "subjects": [{"kind": "Group", "name": "system:authenticated"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
    }
    assert admin.call("POST", f"{RBAC}/clusterrolebindings", binding).status == 201
    assert user.get(DATASETS).status == 200
    assert admin.call("DELETE", f"{RBAC}/clusterrolebindings/b").status == 200
    assert user.get(DATASETS).status == 403


def test_revoked_rights_do_not_end_a_running_watch(server: ApiServer) -> None:
    server.grant("watcher", [rule("watch")])
    with caller(server, "watcher").watch(f"{DATASETS}?watch=1") as stream:
        server.revoke("watcher")
        some(server, "a")
        eventually(lambda: stream.events)


def test_a_user_may_ask_what_it_may_do(server: ApiServer) -> None:
    server.grant("asker", [rule("list")])
    asker = caller(server, "asker")

    def may(verb: str) -> bool:
        spec = {"resourceAttributes": {"group": "sedna.io", "resource": "datasets", "verb": verb}}
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        return bool(asker.call("POST", path, {"spec": spec}).body["status"]["allowed"])

    assert (may("list"), may("watch")) == (True, False)


def test_a_service_accounts_token_lives_as_long_as_the_account(
    server: ApiServer, admin: Caller
) -> None:
    accounts = "/api/v1/namespaces/other/serviceaccounts"
    admin.call("POST", accounts, {"metadata": {"name": "bridge"}})
    request = admin.call("POST", f"{accounts}/bridge/token", {"spec": {}})
    account = Caller(server.port, request.body["status"]["token"])
    server.grant("system:serviceaccount:other:bridge", [rule("list")])
    assert account.get(DATASETS).status == 200
    admin.call("DELETE", f"{accounts}/bridge")
    assert account.get(DATASETS).status == 401


def test_a_token_expires_and_can_be_revoked() -> None:
    clock = Clock()
    with ApiServer(clock=clock) as server:
        short, other = server.token("a", lifetime=10), server.token("a")
        assert Caller(server.port, short).get("/version").status == 200
        clock.now = 10
        assert Caller(server.port, short).get("/version").status == 401
        assert Caller(server.port, other).get("/version").status == 200
        server.revoke_token(other)
        assert Caller(server.port, other).get("/version").status == 401


def test_discovery_is_for_whoever_has_a_token_and_health_for_all(server: ApiServer) -> None:
    anybody, nobody = caller(server, "anybody"), Caller(server.port, None)
    assert [anybody.get(path).status for path in ("/apis", "/api/v1", "/version")] == [200] * 3
    assert [nobody.get(path).status for path in ("/apis", "/healthz")] == [403, 200]


def test_discovery_says_what_is_served(admin: Caller) -> None:
    rows = admin.get("/apis/sedna.io/v1alpha1").body["resources"]
    assert [(row["name"], row["kind"]) for row in rows] == [
        ("datasets", "Dataset"),
        ("datasets/status", "Dataset"),
    ]
    assert "sedna.io" in [group["name"] for group in admin.get("/apis").body["groups"]]
    assert admin.get("/apis/neptune.io").body == "404 page not found\n"


# Writes.


def test_a_strategic_merge_of_a_custom_resource_is_415(server: ApiServer, admin: Caller) -> None:
    some(server, "a")
    kind = "application/strategic-merge-patch+json"
    assert admin.call("PATCH", f"{IN_DEFAULT}/a", {}, kind).status == 415


def test_a_put_needs_the_version_and_the_uid(server: ApiServer, admin: Caller) -> None:
    body = server.create(dataset("a", "edge-1"))
    other_uid = {**body, "metadata": {**body["metadata"], "uid": "other"}}
    assert admin.call("PUT", f"{IN_DEFAULT}/a", other_uid).status == 409
    del body["metadata"]["resourceVersion"]
    assert admin.call("PUT", f"{IN_DEFAULT}/a", body).status == 422


def test_a_merge_patch_does_not_look_at_the_uid(server: ApiServer, admin: Caller) -> None:
    some(server, "a")
    reply = admin.merge(f"{IN_DEFAULT}/a", {"metadata": {"uid": "other"}, "spec": {"url": "/n"}})
    assert (reply.status, reply.body["spec"]["url"]) == (200, "/n")
    assert reply.body["metadata"]["uid"] != "other"


def test_fields_that_the_schema_lacks_go_with_a_warning() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"spec": {"type": "object"}}}
    with ApiServer() as server:
        server.install(crd("Dataset", schema=schema))
        reply = Caller(server.port, server.admin_token).call(
            "POST", IN_DEFAULT, dataset("a", "edge-1")
        )
        assert (reply.status, reply.body["spec"]) == (201, {})
        assert 'unknown field \\"spec.nodeName\\"' in reply.headers["Warning"]


def test_an_object_for_a_missing_namespace_is_404(admin: Caller) -> None:
    path = "/apis/sedna.io/v1alpha1/namespaces/nowhere/datasets"
    reply = admin.call("POST", path, dataset("a", "edge-1", namespace="nowhere"))
    assert (reply.status, reply.body["message"]) == (404, 'namespaces "nowhere" not found')


def test_a_namespace_takes_its_objects_with_it(server: ApiServer, admin: Caller) -> None:
    some(server, "a", namespace="other")
    with admin.watch(f"{DATASETS}?watch=1&resourceVersion={server.version}") as stream:
        assert admin.call("DELETE", "/api/v1/namespaces/other").status == 200
        eventually(lambda: stream.seen == [("DELETED", "a")])
    assert admin.get("/api/v1/namespaces/other").status == 404


def test_an_event_stands_in_the_namespace_of_what_it_is_about(admin: Caller) -> None:
    body = {
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Dataset", "name": "a", "namespace": "other"},
    }
    reply = admin.call("POST", "/api/v1/namespaces/default/events", body)
    assert (reply.status, reply.reason) == (422, "Invalid")


def test_a_lease_of_no_duration_is_422(admin: Caller) -> None:
    body = {"metadata": {"name": "l"}, "spec": {"leaseDurationSeconds": 0}}
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    assert admin.call("POST", path, body).status == 422


# CRDs.


def test_a_kind_that_is_not_served_any_more_is_404_and_its_watches_end(
    server: ApiServer, admin: Caller
) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/datasets.sedna.io"
    versions = crd("Dataset")["spec"]["versions"]
    with admin.watch(f"{DATASETS}?watch=1") as stream:
        eventually(lambda: server.watches("datasets"))
        patch = {"spec": {"versions": [{**versions[0], "served": False}]}}
        assert admin.merge(path, patch).status == 200
        eventually(lambda: stream.end == "clean")
    assert admin.get(DATASETS).body == "404 page not found\n"


def test_any_change_of_a_crd_ends_its_watches(server: ApiServer, admin: Caller) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/datasets.sedna.io"
    with admin.watch(f"{DATASETS}?watch=1") as stream:
        eventually(lambda: server.watches("datasets"))
        assert admin.merge(path, {"metadata": {"labels": {"a": "b"}}}).status == 200
        eventually(lambda: stream.end == "clean")
    assert admin.get(DATASETS).status == 200


def test_a_kind_comes_and_goes_with_its_crd_over_http(admin: Caller) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    models = "/apis/sedna.io/v1alpha1/models"
    assert admin.get(models).status == 404
    assert admin.call("POST", path, crd("Model")).status == 201
    eventually(lambda: admin.get(models).status == 200)
    status = admin.get(f"{path}/models.sedna.io").body["status"]
    assert [each["type"] for each in status["conditions"]] == ["NamesAccepted", "Established"]
    assert admin.call("DELETE", f"{path}/models.sedna.io").status == 200
    eventually(lambda: admin.get(models).status == 404)
    assert admin.get(f"{path}/models.sedna.io").status == 404


# What tests are told, and other ways in.


def test_the_verbs_of_a_user_are_recorded(server: ApiServer) -> None:
    some(server, "a")
    bridge = caller(server, "bridge")
    bridge.get(DATASETS)
    with bridge.watch(f"{DATASETS}?watch=1"):
        bridge.merge(f"{IN_DEFAULT}/a/status", {"status": {}})
    bridge.get("/api/v1/namespaces/kube-system")
    bridge.get("/version")
    assert server.verbs_used("bridge") == {
        ("sedna.io", "datasets", "list"),
        ("sedna.io", "datasets", "watch"),
        ("sedna.io", "datasets/status", "patch"),
        ("", "namespaces", "get"),
    }
    assert server.requests(user="bridge", verb="patch")[0].wish.name == "a"


@pytest.mark.parametrize("in_a_file", [False, True])
def test_a_kubeconfig_opens_the_server_to_the_official_client(
    server: ApiServer, tmp_path: Path, in_a_file: bool
) -> None:
    server.grant("someone", [rule("list")])
    token_file = tmp_path / "token" if in_a_file else None
    path = server.kubeconfig(tmp_path / "kubeconfig", user="someone", token_file=token_file)
    some(server, "a")
    with config.new_client_from_config(str(path)) as api:
        found = client.CustomObjectsApi(api).list_cluster_custom_object(
            "sedna.io", "v1alpha1", "datasets"
        )
    assert [item["metadata"]["name"] for item in found["items"]] == ["a"]


def test_it_runs_as_a_process_of_its_own() -> None:
    command = [sys.executable, "-m", "tests.fakes.apiserver", "--crds"]
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        try:
            assert process.stdout is not None
            url, token = (process.stdout.readline().strip() for _ in range(2))
            port = int(url.rpartition(":")[2])
            assert Caller(port, token).get(DATASETS).status == 200
        finally:
            process.kill()
