"""What the tests, and the bridge, count on of any API server: the fake one does as the real one.

Each test says what a server does, and runs against both.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.support.api_groups import KINDS, READ, definition
from tests.support.api_servers import Stream
from tests.support.clusters import Cluster
from tests.support.wait import eventually


def _has_seen(stream: Stream, events: list[tuple[str, str]]) -> bool:
    return stream.seen == events


def some(cluster: Cluster, *names: str, **metadata: Any) -> list[str]:
    """Create Cameras; their versions."""
    return [
        cluster.camera(name, "edge-1", **metadata)["metadata"]["resourceVersion"] for name in names
    ]


# -- lists


def test_pages_show_one_moment_although_objects_come_change_and_go(cluster: Cluster) -> None:
    some(cluster, "a", "b", "c", "d", "e")
    path = cluster.path("Camera")
    first = cluster.admin.get(f"{path}?limit=2")
    cluster.delete("Camera", "c")
    cluster.merge("Camera", "d", {"spec": {"nodeName": "edge-2"}})
    some(cluster, "f")
    second = cluster.admin.get(f"{path}?limit=2&continue={first.body['metadata']['continue']}")
    third = cluster.admin.get(f"{path}?limit=2&continue={second.body['metadata']['continue']}")

    assert [page.names for page in (first, second, third)] == [["a", "b"], ["c", "d"], ["e"]]
    assert second.body["items"][1]["spec"]["nodeName"] == "edge-1"
    assert {page.version for page in (first, second, third)} == {first.version}
    assert (first.body["kind"], first.body["apiVersion"]) == (
        "CameraList",
        f"{cluster.group.name}/v1",
    )
    assert first.body["metadata"]["remainingItemCount"] == 3
    assert not third.body["metadata"].get("continue")


def test_a_list_of_all_namespaces_is_ordered_by_namespace_and_name(cluster: Cluster) -> None:
    some(cluster, "b", "a")
    cluster.camera("c", "edge-1", namespace=cluster.other)
    some(cluster, "z")
    assert cluster.admin.get(cluster.group.path("Camera")).names == ["a", "b", "z", "c"]
    assert cluster.admin.get(cluster.path("Camera", namespace=cluster.other)).names == ["c"]


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("tier%3Dgold", ["gold"]),
        ("tier%21%3Dgold", ["none", "tin"]),
        ("tier%20in%20(gold,tin)", ["gold", "tin"]),
        ("tier%20notin%20(gold,tin)", ["none"]),
        ("tier", ["gold", "tin"]),
        ("%21tier", ["none"]),
        ("tier,tier%21%3Dtin", ["gold"]),
    ],
)
def test_a_label_selector_chooses(cluster: Cluster, selector: str, names: list[str]) -> None:
    some(cluster, "none")
    for tier in ("gold", "tin"):
        some(cluster, tier, labels={"tier": tier})
    assert cluster.admin.get(f"{cluster.path('Camera')}?labelSelector={selector}").names == names


def test_a_selector_that_is_none_is_400(cluster: Cluster) -> None:
    assert cluster.admin.get(f"{cluster.path('Camera')}?labelSelector=a%20b").status == 400


# -- watches


def test_a_watch_tells_the_life_of_an_object_in_order(cluster: Cluster) -> None:
    path = cluster.path("Camera")
    version = cluster.admin.get(path).version
    with cluster.admin.watch(f"{path}?watch=1&resourceVersion={version}") as stream:
        some(cluster, "a")
        cluster.merge("Camera", "a", {"spec": {"nodeName": "edge-2"}})
        cluster.merge("Camera", "a", {"status": {"seen": 1}}, sub="status")
        cluster.delete("Camera", "a")
        eventually(lambda: len(stream.events) == 4)

    kinds = [event["type"] for event in stream.events]
    assert kinds == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
    metadata = [event["object"]["metadata"] for event in stream.events]
    assert [each["generation"] for each in metadata] == [1, 2, 2, 2]
    assert len({each["resourceVersion"] for each in metadata}) == 4
    assert len({each["uid"] for each in metadata}) == 1


def test_a_watch_goes_on_from_any_version_that_was_told(cluster: Cluster) -> None:
    first, second, _ = some(cluster, "a", "b", "c")
    path = cluster.path("Camera")
    for version, names in ((first, ["b", "c"]), (second, ["c"])):
        with cluster.admin.watch(f"{path}?watch=1&resourceVersion={version}") as stream:
            expected = [("ADDED", name) for name in names]
            eventually(partial(_has_seen, stream, expected))


def test_a_watch_without_a_version_tells_first_what_is_there(cluster: Cluster) -> None:
    some(cluster, "a", "b")
    with cluster.admin.watch(f"{cluster.path('Camera')}?watch=1") as stream:
        eventually(lambda: len(stream.events) == 2)
        assert sorted(stream.seen) == [("ADDED", "a"), ("ADDED", "b")]


def test_a_watch_of_a_namespace_sees_only_that(cluster: Cluster) -> None:
    path = cluster.path("Camera")
    version = cluster.admin.get(path).version
    with cluster.admin.watch(f"{path}?watch=1&resourceVersion={version}") as stream:
        cluster.camera("theirs", "edge-1", namespace=cluster.other)
        some(cluster, "ours")
        eventually(lambda: stream.events)
        assert stream.seen == [("ADDED", "ours")]


def test_a_watch_with_a_selector_tells_who_leaves_it_and_who_comes_in(cluster: Cluster) -> None:
    some(cluster, "a", labels={"tier": "gold"})
    path = cluster.path("Camera")
    version = cluster.admin.get(path).version
    query = f"watch=1&labelSelector=tier%3Dgold&resourceVersion={version}"
    with cluster.admin.watch(f"{path}?{query}") as stream:
        cluster.merge("Camera", "a", {"metadata": {"labels": {"tier": "tin"}}})
        cluster.merge("Camera", "a", {"spec": {"nodeName": "edge-2"}})
        cluster.merge("Camera", "a", {"metadata": {"labels": {"tier": "gold"}}})
        cluster.merge("Camera", "a", {"spec": {"nodeName": "edge-3"}})
        eventually(lambda: len(stream.events) == 3)
        assert stream.seen == [("DELETED", "a"), ("ADDED", "a"), ("MODIFIED", "a")]


def test_a_watch_ends_cleanly_when_its_time_is_over(cluster: Cluster) -> None:
    path = cluster.path("Camera")
    version = cluster.admin.get(path).version
    query = f"watch=1&resourceVersion={version}&timeoutSeconds=1"
    with cluster.admin.watch(f"{path}?{query}") as stream:
        eventually(lambda: stream.ended)
        assert stream.seen == []


def test_a_watch_from_a_version_to_come_is_silent(cluster: Cluster) -> None:
    path = cluster.path("Camera")
    version = int(cluster.admin.get(path).version) + 1_000_000
    query = f"watch=1&resourceVersion={version}&timeoutSeconds=1"
    with cluster.admin.watch(f"{path}?{query}") as stream:
        some(cluster, "a")
        eventually(lambda: stream.ended)
        assert stream.seen == []


# -- writes


def test_an_object_that_is_not_there_is_404_with_a_status(cluster: Cluster) -> None:
    reply = cluster.admin.get(cluster.path("Camera", "a"))
    assert (reply.status, reply.reason) == (404, "NotFound")
    assert reply.body["message"] == f'cameras.{cluster.group.name} "a" not found'


def test_a_name_is_taken_once(cluster: Cluster) -> None:
    some(cluster, "a")
    body = cluster.thing("Camera", "a", {})
    reply = cluster.admin.call("POST", cluster.path("Camera"), body)
    assert (reply.status, reply.reason) == (409, "AlreadyExists")


def test_an_object_made_anew_has_another_uid(cluster: Cluster) -> None:
    first = cluster.camera("a", "edge-1")
    cluster.delete("Camera", "a")
    assert cluster.camera("a", "edge-1")["metadata"]["uid"] != first["metadata"]["uid"]


def test_an_object_for_a_missing_namespace_is_404(cluster: Cluster) -> None:
    path = cluster.path("Camera", namespace="nodecast-nowhere")
    body = cluster.thing("Camera", "a", {}, "nodecast-nowhere")
    reply = cluster.admin.call("POST", path, body)
    assert (reply.status, reply.body["message"]) == (404, 'namespaces "nodecast-nowhere" not found')


def test_a_put_needs_the_current_version(cluster: Cluster) -> None:
    body = cluster.camera("a", "edge-1")
    cluster.merge("Camera", "a", {"spec": {"nodeName": "edge-2"}})
    stale = cluster.admin.call("PUT", cluster.path("Camera", "a"), body)
    assert (stale.status, stale.reason) == (409, "Conflict")
    del body["metadata"]["resourceVersion"]
    without = cluster.admin.call("PUT", cluster.path("Camera", "a"), body)
    assert (without.status, without.reason) == (422, "Invalid")


def test_a_type_that_the_schema_forbids_is_422(cluster: Cluster) -> None:
    body = cluster.thing("Site", "a", {"nodes": "edge-1"})
    reply = cluster.admin.call("POST", cluster.path("Site"), body)
    assert (reply.status, reply.reason) == (422, "Invalid")
    causes = [each["field"] for each in reply.body["details"]["causes"]]
    assert causes[0] == "spec.nodes"


def test_fields_that_the_schema_lacks_are_not_kept(cluster: Cluster) -> None:
    body = cluster.create("Site", "a", {"nodes": ["edge-1"], "unknown": 1})
    assert body["spec"] == {"nodes": ["edge-1"]}


def test_only_a_new_spec_raises_the_generation(cluster: Cluster) -> None:
    some(cluster, "a")

    def generation(patch: object) -> int:
        found: int = cluster.merge("Camera", "a", patch)["metadata"]["generation"]
        return found

    assert generation({"metadata": {"labels": {"a": "b"}}}) == 1
    assert generation({"spec": {"nodeName": "edge-2"}}) == 2


def test_a_patch_that_changes_nothing_keeps_the_version(cluster: Cluster) -> None:
    (version,) = some(cluster, "a")
    body = cluster.merge("Camera", "a", {"spec": {"nodeName": "edge-1"}})
    assert body["metadata"]["resourceVersion"] == version


def test_a_merge_patch_takes_a_field_away_and_a_strategic_one_is_415(cluster: Cluster) -> None:
    cluster.camera("a", "edge-1", profile="p")
    body = cluster.merge("Camera", "a", {"spec": {"profile": None}})
    assert body["spec"] == {"nodeName": "edge-1"}
    kind = "application/strategic-merge-patch+json"
    assert cluster.admin.call("PATCH", cluster.path("Camera", "a"), {}, kind).status == 415


def test_status_is_written_by_its_subresource_alone(cluster: Cluster) -> None:
    cluster.create("Site", "a", {"nodes": []})
    body = cluster.merge("Site", "a", {"status": {"samples": 1}})
    assert "status" not in body
    body = cluster.merge(
        "Site", "a", {"status": {"samples": 1}, "spec": {"note": "x"}}, sub="status"
    )
    assert body["status"] == {"samples": 1}
    assert (body["spec"], body["metadata"]["generation"]) == ({"nodes": []}, 1)


def test_a_stale_version_in_a_patch_of_status_is_409(cluster: Cluster) -> None:
    body = cluster.create("Site", "a", {"nodes": []})
    version = body["metadata"]["resourceVersion"]
    patch = {"metadata": {"resourceVersion": version}, "status": {"samples": 1}}
    path = cluster.path("Site", "a", sub="status")
    assert cluster.admin.merge(path, patch).status == 200
    assert cluster.admin.merge(path, {**patch, "status": {"samples": 2}}).status == 409


def test_a_kind_without_the_status_subresource_has_none(cluster: Cluster) -> None:
    cluster.create("Profile", "a", {})
    path = cluster.path("Profile", "a", sub="status")
    assert cluster.admin.merge(path, {"status": {}}).status == 404
    body = cluster.merge("Profile", "a", {"status": {"x": 1}})
    assert (body["status"], body["metadata"]["generation"]) == ({"x": 1}, 2)


def test_an_object_with_a_finalizer_goes_when_that_goes(cluster: Cluster) -> None:
    (version,) = some(cluster, "a", finalizers=["nodecast.test/hold"])
    path = f"{cluster.path('Camera')}?watch=1&resourceVersion={version}"
    with cluster.admin.watch(path) as stream:
        cluster.delete("Camera", "a")
        assert (
            "deletionTimestamp" in cluster.admin.get(cluster.path("Camera", "a")).body["metadata"]
        )
        cluster.merge("Camera", "a", {"metadata": {"finalizers": None}})
        eventually(lambda: len(stream.events) == 2)
    assert stream.seen == [("MODIFIED", "a"), ("DELETED", "a")]
    assert cluster.admin.get(cluster.path("Camera", "a")).status == 404


def test_a_lease_is_written_by_who_knows_its_version(cluster: Cluster) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{cluster.namespace}/leases"
    body = cluster.make(path, {"metadata": {"name": "a"}, "spec": {}})
    time = "2026-03-02T08:15:00.000000Z"
    held = {**body, "spec": {"holderIdentity": "me", "renewTime": time, "leaseDurationSeconds": 15}}
    assert cluster.admin.call("PUT", f"{path}/a", held).status == 200
    assert cluster.admin.call("PUT", f"{path}/a", held).status == 409


# -- kinds


def test_a_kind_that_is_not_there_is_404_in_plain_text(cluster: Cluster) -> None:
    reply = cluster.admin.get(f"/apis/{cluster.group.name}/v1/nothings")
    assert (reply.status, reply.body) == (404, "404 page not found\n")
    assert reply.content_type.startswith("text/plain")


def test_discovery_says_what_a_group_serves(cluster: Cluster) -> None:
    group = cluster.admin.get(f"/apis/{cluster.group.name}").body
    assert (group["kind"], group["preferredVersion"]["version"]) == ("APIGroup", "v1")
    rows = cluster.admin.get(f"/apis/{cluster.group.name}/v1").body["resources"]
    kinds = {
        row["name"]: (row["kind"], row["namespaced"]) for row in rows if "/" not in row["name"]
    }
    assert kinds == {f"{kind.lower()}s": (kind, True) for kind in KINDS}
    assert cluster.admin.get("/apis/nothing.nodecast.test").status == 404


def test_a_crd_that_goes_takes_its_objects_with_it_and_comes_back_empty(cluster: Cluster) -> None:
    group = cluster.own_group("Camera", "Profile")
    some(cluster, "a", "b")
    path = cluster.path("Camera")
    version = cluster.admin.get(path).version
    with cluster.admin.watch(f"{path}?watch=1&resourceVersion={version}") as stream:
        group.uninstall("Camera")
        eventually(lambda: stream.ended, 20)
    assert sorted(stream.seen) == [("DELETED", "a"), ("DELETED", "b")]
    assert cluster.admin.get(cluster.path("Profile")).status == 200
    group.install("Camera")
    assert cluster.admin.get(path).names == []


def test_a_new_spec_of_a_crd_ends_the_watches_of_its_kind(cluster: Cluster) -> None:
    group = cluster.own_group("Camera")
    path = cluster.path("Camera")
    version = cluster.admin.get(path).version
    crd = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/cameras.{group.name}"
    names = definition("Camera", group.name)["spec"]["names"] | {"shortNames": ["cam"]}
    with cluster.admin.watch(f"{path}?watch=1&resourceVersion={version}") as stream:
        assert cluster.admin.merge(crd, {"spec": {"names": names}}).status == 200
        eventually(lambda: stream.ended, 20)
    eventually(lambda: cluster.admin.get(path).status == 200)


# -- rights


def test_a_right_is_for_its_verb_and_kind_alone(cluster: Cluster) -> None:
    some(cluster, "a")
    account = cluster.account()
    caller = cluster.caller(account)
    path = cluster.path("Camera")
    assert caller.get(path).status == 403
    cluster.grant(account, cluster.right("list", "patch", kinds=["Camera"]))
    eventually(lambda: caller.get(path).status == 200)
    statuses = {
        "watch": caller.get(f"{path}?watch=1").status,
        "get": caller.get(f"{path}/a").status,
        "patch": caller.merge(f"{path}/a", {"spec": {"nodeName": "edge-2"}}).status,
        "patch of status": caller.merge(f"{path}/a/status", {"status": {}}).status,
        "another kind": caller.get(cluster.path("Site")).status,
        "everywhere": caller.get(cluster.group.path("Camera")).status,
    }
    assert statuses == {
        "watch": 403,
        "get": 403,
        "patch": 200,
        "patch of status": 403,
        "another kind": 403,
        "everywhere": 200,
    }


def test_a_refusal_says_who_may_not_do_what_and_where(cluster: Cluster) -> None:
    account = cluster.account()
    caller = cluster.caller(account)
    words = (
        f'cameras.{cluster.group.name} is forbidden: User "{account.user}" cannot list resource'
        f' "cameras" in API group "{cluster.group.name}"'
    )
    assert caller.get(cluster.group.path("Camera")).body["message"] == (
        f"{words} at the cluster scope"
    )
    assert caller.get(cluster.path("Camera")).body["message"] == (
        f'{words} in the namespace "{cluster.namespace}"'
    )


def test_a_right_in_a_namespace_is_for_that_alone(cluster: Cluster) -> None:
    account = cluster.account()
    caller = cluster.caller(account)
    cluster.grant(account, cluster.right(*READ), namespace=cluster.other)
    eventually(lambda: caller.get(cluster.path("Camera", namespace=cluster.other)).status == 200)
    assert caller.get(cluster.path("Camera")).status == 403
    assert caller.get(cluster.group.path("Camera")).status == 403


def test_a_right_to_one_name_is_for_that_alone(cluster: Cluster) -> None:
    account = cluster.account()
    caller = cluster.caller(account)
    cluster.grant(account, cluster.kube_system())
    eventually(lambda: caller.get("/api/v1/namespaces/kube-system").status == 200)
    assert caller.get("/api/v1/namespaces/default").status == 403


def test_a_right_that_is_taken_back_ends_no_running_watch(cluster: Cluster) -> None:
    account = cluster.account()
    caller = cluster.caller(account)
    path = cluster.path("Camera")
    cluster.grant(account, cluster.right(*READ))
    eventually(lambda: caller.get(path).status == 200)
    version = cluster.admin.get(path).version
    with caller.watch(f"{path}?watch=1&resourceVersion={version}") as stream:
        cluster.revoke(account)
        eventually(lambda: caller.get(path).status == 403)
        some(cluster, "a")
        eventually(lambda: stream.seen == [("ADDED", "a")])


def test_a_user_may_ask_what_it_may_do(cluster: Cluster) -> None:
    account = cluster.account()
    caller = cluster.caller(account)
    cluster.grant(account, cluster.right("list"))

    def may(verb: str) -> bool:
        asked = {"group": cluster.group.name, "resource": "cameras", "verb": verb}
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        reply = caller.call("POST", path, {"spec": {"resourceAttributes": asked}})
        return bool(reply.body["status"]["allowed"])

    eventually(lambda: may("list"))
    assert not may("watch")


def test_a_token_that_nobody_gave_is_401(cluster: Cluster) -> None:
    caller = cluster.caller(cluster.account(), token="nobody-gave-this")
    reply = caller.get(cluster.path("Camera"))
    assert (reply.status, reply.reason) == (401, "Unauthorized")


def test_a_token_lives_as_long_as_its_account(cluster: Cluster) -> None:
    account = cluster.account()
    caller = cluster.caller(account)
    assert caller.get(cluster.path("Camera")).status == 403
    path = f"/api/v1/namespaces/{cluster.namespace}/serviceaccounts/{account.name}"
    cluster.admin.must("DELETE", path)
    # A server may remember for some seconds that a token was good.
    eventually(lambda: caller.get(cluster.path("Camera")).status == 401, 30)
