"""What the source tells of a cluster: lists, watches, and what happened while nobody looked."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

import pytest

from bridge.sources.events import Changed, KindStatus
from bridge.sources.kubernetes.access import Access
from bridge.sources.kubernetes.api import Api
from bridge.sources.kubernetes.identity import cluster_uid
from bridge.sources.kubernetes.scope import Scope
from tests.support.cluster_sources import TUNING, Sourcing, sourcing
from tests.support.clusters import Cluster
from tests.support.wait import eventually

PAGES_OF_TWO = replace(TUNING, page=2)
LONG = replace(TUNING, watch=60.0)


def begin(cluster: Cluster) -> None:
    """Two Cameras on one node, of which `a` carries a Profile; `c` on another."""
    cluster.create("Profile", "p", {"size": 1})
    cluster.camera("a", "edge-1", profile="p")
    cluster.camera("b", "edge-1")
    cluster.camera("c", "edge-2")


BEGUN = {"edge-1": {"Camera/a", "Profile/p", "Camera/b"}, "edge-2": {"Camera/c"}}


def changed_keys(running: Sourcing) -> set[str]:
    """Every key that a watch told of."""
    return {
        key for event in running.told.events if isinstance(event, Changed) for key in event.objects
    }


# -- lists and watches


def test_a_list_in_pages_is_whole(cluster: Cluster) -> None:
    for number in range(5):
        cluster.camera(f"c{number}", "edge-1")
    with sourcing(cluster, tuning=PAGES_OF_TWO) as running:
        running.should_be({"edge-1": {f"Camera/c{number}" for number in range(5)}})
        running.listed()
        first = running.of("Camera")[0]
        assert first.objects is not None
        assert (first.status, len(first.objects)) == (KindStatus.OK, 5)


def test_changes_between_two_pages_are_neither_lost_nor_told_twice(cluster: Cluster) -> None:
    for name in "abcde":
        cluster.camera(name, "edge-1")
    pages: list[str] = []

    def between(query: Mapping[str, str]) -> None:
        if "continue" in query and not pages:
            pages.append(query["continue"])
            cluster.delete("Camera", "a")
            cluster.delete("Camera", "e")
            cluster.merge("Camera", "d", {"spec": {"nodeName": "edge-2"}})
            cluster.camera("f", "edge-2")

    with sourcing(cluster, tuning=PAGES_OF_TWO, before=between) as running:
        running.should_be({"edge-1": {"Camera/b", "Camera/c"}, "edge-2": {"Camera/d", "Camera/f"}})
        assert pages
        assert sorted(running.told.gone) == [cluster.key("Camera", "a"), cluster.key("Camera", "e")]


def test_a_watch_brings_what_is_made_changed_and_deleted(cluster: Cluster) -> None:
    with sourcing(cluster) as running:
        running.listed()
        begin(cluster)
        running.should_be(BEGUN)
        cluster.merge("Camera", "b", {"spec": {"nodeName": "edge-3"}})
        cluster.delete("Camera", "c")
        running.should_be({"edge-1": {"Camera/a", "Profile/p"}, "edge-3": {"Camera/b"}})
        cluster.delete("Camera", "a")
        running.should_be({"edge-3": {"Camera/b"}})
        assert running.log.warnings == []


def test_a_new_status_is_no_new_content(cluster: Cluster) -> None:
    begin(cluster)
    with sourcing(cluster) as running:
        running.should_be(BEGUN)
        before = running.digest("Camera", "a")
        cluster.merge("Camera", "a", {"status": {"seen": 1}}, sub="status")
        cluster.camera("after", "edge-3")
        running.should_be({**BEGUN, "edge-3": {"Camera/after"}})
        assert running.digest("Camera", "a") == before


def test_a_kind_is_found_where_the_server_serves_it(cluster: Cluster) -> None:
    cluster.create("Site", "s", {"nodes": ["edge-1", "edge-2"]})
    with sourcing(cluster) as running:
        running.should_be({"edge-1": {"Site/s"}, "edge-2": {"Site/s"}})


def test_a_watch_that_ends_by_its_time_is_resumed_without_a_word(cluster: Cluster) -> None:
    begin(cluster)
    with sourcing(cluster, tuning=replace(TUNING, watch=1.0, lasted=5.0)) as running:
        running.should_be(BEGUN)
        running.listed()
        end = time.monotonic() + 2.5
        eventually(lambda: time.monotonic() > end, what="two watches are over")
        cluster.camera("after", "edge-3")
        running.should_be({**BEGUN, "edge-3": {"Camera/after"}})
        assert running.log.warnings == []
        assert len(running.told.lists) == len(running.rules.kinds)
        assert changed_keys(running) == {cluster.key("Camera", "after")}


def test_a_source_that_watches_stops_within_a_second(cluster: Cluster) -> None:
    begin(cluster)
    with sourcing(cluster, tuning=LONG) as running:
        running.should_be(BEGUN)
        running.source.stop()
        assert running.log.warnings == [], "none was left behind"


def test_a_cluster_is_told_from_another_by_the_uid_of_kube_system(cluster: Cluster) -> None:
    expected = cluster.admin.get("/api/v1/namespaces/kube-system").body["metadata"]["uid"]
    assert cluster_uid(Api(Access(str(cluster.kubeconfig())))) == expected


# -- while nobody looked


@pytest.mark.parametrize("how", ["resumed", "listed anew"])
def test_k3_what_was_deleted_while_the_watch_was_down_goes(cluster: Cluster, how: str) -> None:
    begin(cluster)
    with cluster.server.proxy() as proxy:
        kubeconfig = cluster.kubeconfig(via=proxy)
        with sourcing(cluster, kubeconfig=kubeconfig, tuning=LONG) as running:
            running.should_be(BEGUN)
            before = {name: running.digest("Camera", name) for name in "ac"}
            proxy.refuse()
            cluster.delete("Camera", "b")
            if how == "listed anew":
                running.source.relist(running.rules.kinds)
            assert running.placed() == BEGUN
            proxy.accept()
            running.should_be({"edge-1": {"Camera/a", "Profile/p"}, "edge-2": {"Camera/c"}})
            if how == "listed anew":
                eventually(lambda: len(running.of("Camera")) == 2)
            assert running.told.gone == [cluster.key("Camera", "b")]
            assert {name: running.digest("Camera", name) for name in "ac"} == before
            assert changed_keys(running) <= {cluster.key("Camera", "b")}


def test_k3_what_was_deleted_while_the_network_stood_still_goes(cluster: Cluster) -> None:
    begin(cluster)
    with cluster.server.proxy() as proxy:
        kubeconfig = cluster.kubeconfig(via=proxy)
        tuning = replace(TUNING, watch=1.0, silence=1.0)
        with sourcing(cluster, kubeconfig=kubeconfig, tuning=tuning) as running:
            running.should_be(BEGUN)
            proxy.freeze()
            cluster.delete("Camera", "b")
            eventually(lambda: running.log.warnings, 20, what="the silence is noticed")
            assert running.placed() == BEGUN
            proxy.thaw()
            running.should_be({"edge-1": {"Camera/a", "Profile/p"}, "edge-2": {"Camera/c"}})
            assert running.told.gone == [cluster.key("Camera", "b")]


def test_an_object_made_anew_while_the_watch_was_down_has_its_new_content(
    cluster: Cluster,
) -> None:
    begin(cluster)
    with cluster.server.proxy() as proxy:
        kubeconfig = cluster.kubeconfig(via=proxy)
        with sourcing(cluster, kubeconfig=kubeconfig, tuning=LONG) as running:
            running.should_be(BEGUN)
            before = running.digest("Camera", "a")
            proxy.refuse()
            cluster.delete("Camera", "a")
            cluster.camera("a", "edge-1", profile="p")  # the same but for its uid
            cluster.delete("Camera", "b")
            cluster.camera("b", "edge-3")
            proxy.accept()
            running.should_be(
                {**BEGUN, "edge-1": {"Camera/a", "Profile/p"}, "edge-3": {"Camera/b"}}
            )
            eventually(lambda: running.digest("Camera", "a") != before)


def test_a_server_that_is_not_there_at_first_is_waited_for(cluster: Cluster) -> None:
    begin(cluster)
    with cluster.server.proxy() as proxy:
        kubeconfig = cluster.kubeconfig(via=proxy)
        proxy.refuse()
        with sourcing(cluster, kubeconfig=kubeconfig) as running:
            eventually(lambda: running.log.warnings)
            assert running.told.events == []
            proxy.accept()
            running.should_be(BEGUN)
            assert len(running.log.warnings) == 1  # all kinds have the same trouble


# -- what belongs where


def test_k5_an_object_that_leaves_the_selector_goes_whatever_its_new_body_says(
    cluster: Cluster,
) -> None:
    cluster.camera("a", "edge-1", labels={"tier": "gold"})
    cluster.camera("b", "edge-2", labels={"tier": "gold"})
    cluster.camera("never", "edge-1", labels={"tier": "tin"})
    scope = Scope((cluster.namespace,), selector="tier=gold")
    with sourcing(cluster, scope=scope) as running:
        running.should_be({"edge-1": {"Camera/a"}, "edge-2": {"Camera/b"}})
        out = {"metadata": {"labels": {"tier": "tin"}}, "spec": {"nodeName": "edge-3"}}
        cluster.merge("Camera", "a", out)
        running.should_be({"edge-2": {"Camera/b"}})
        cluster.merge("Camera", "a", {"metadata": {"labels": {"tier": "gold"}}})
        running.should_be({"edge-3": {"Camera/a"}, "edge-2": {"Camera/b"}})


def test_k5_a_kind_may_have_a_selector_of_its_own(cluster: Cluster) -> None:
    begin(cluster)
    cluster.merge("Profile", "p", {"metadata": {"labels": {"tier": "gold"}}})
    selectors = {cluster.kind("Profile"): "tier=gold"}
    scope = Scope((cluster.namespace,), selectors=selectors)
    with sourcing(cluster, scope=scope) as running:
        running.should_be(BEGUN)
        cluster.merge("Profile", "p", {"metadata": {"labels": {"tier": "tin"}}})
        running.should_be({**BEGUN, "edge-1": {"Camera/a", "Camera/b"}})


def test_an_object_that_is_being_deleted_leaves_its_node_at_once(cluster: Cluster) -> None:
    begin(cluster)
    cluster.merge("Camera", "b", {"metadata": {"finalizers": ["nodecast.test/hold"]}})
    with sourcing(cluster) as running:
        running.should_be(BEGUN)
        cluster.delete("Camera", "b")
        running.should_be({**BEGUN, "edge-1": {"Camera/a", "Profile/p"}})
        assert cluster.admin.get(cluster.path("Camera", "b")).status == 200


BAD_NODES = ["a/b", "+", "#", "$x", "a b", "Edge-1", "x" * 300, 7, 7.5, True, ["edge-1"], {"a": 1}]


def test_k11_a_bad_node_name_is_refused_for_that_object_alone(cluster: Cluster) -> None:
    begin(cluster)
    with sourcing(cluster) as running:
        running.should_be(BEGUN)
        for number, node in enumerate(BAD_NODES):
            cluster.camera(f"bad-{number}", node)
        cluster.camera("empty", "")
        cluster.camera("none", None)
        cluster.camera("good", "edge-3")
        running.should_be({**BEGUN, "edge-3": {"Camera/good"}})
        for number, node in enumerate(BAD_NODES):
            problem = running.told.objects[cluster.key("Camera", f"bad-{number}")].problem
            assert problem is not None, node
            assert "spec.nodeName" in problem
        for name in ("empty", "none"):
            assert running.told.objects[cluster.key("Camera", name)].nodes == frozenset()
        cluster.merge("Camera", "bad-0", {"spec": {"nodeName": "edge-3"}})
        running.should_be({**BEGUN, "edge-3": {"Camera/good", "Camera/bad-0"}})


def test_k11_bad_objects_are_in_no_way_of_a_list(cluster: Cluster) -> None:
    begin(cluster)
    for number, node in enumerate(BAD_NODES):
        cluster.camera(f"bad-{number}", node)
    with sourcing(cluster, tuning=PAGES_OF_TWO) as running:
        running.should_be(BEGUN)
        running.listed()


# -- namespaces


def test_only_the_namespace_that_was_asked_for_is_served(cluster: Cluster) -> None:
    begin(cluster)
    cluster.camera("theirs", "edge-1", namespace=cluster.other)
    with sourcing(cluster) as running:
        running.should_be(BEGUN)
        cluster.camera("later", "edge-1", namespace=cluster.other)
        cluster.delete("Camera", "c")
        running.should_be({"edge-1": BEGUN["edge-1"]})


@pytest.mark.parametrize("which", ["two", "all"])
def test_several_namespaces_are_kept_apart(cluster: Cluster, which: str) -> None:
    begin(cluster)
    cluster.camera("a", "edge-1", profile="p", namespace=cluster.other)
    cluster.create("Profile", "p", {}, namespace=cluster.other)
    theirs = {f"{cluster.other}/Camera/a", f"{cluster.other}/Profile/p"}
    scope = Scope((cluster.namespace, cluster.other) if which == "two" else ())
    with sourcing(cluster, scope=scope) as running:
        running.should_be({**BEGUN, "edge-1": BEGUN["edge-1"] | theirs})
        cluster.delete("Camera", "a")
        running.should_be({**BEGUN, "edge-1": {"Camera/b"} | theirs})
        cluster.delete("Profile", "p", namespace=cluster.other)
        running.should_be(
            {**BEGUN, "edge-1": {"Camera/b", f"{cluster.other}/Camera/a"}},
        )
