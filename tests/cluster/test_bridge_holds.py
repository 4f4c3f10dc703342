"""Kinds that the bridge's process cannot see in full: held, said once with what to do, and nothing
leaves a node by it; served again without a restart."""

from __future__ import annotations

import pytest

from tests.support.api_groups import READ
from tests.support.cluster_bridges import ClusterBridge, bridging
from tests.support.clusters import Cluster
from tests.support.wait import eventually

pytestmark = pytest.mark.broker

UNSEEN = "kinds cannot be seen in full"


def begin(cluster: Cluster) -> dict[str, set[str]]:
    """A Camera with its Profile on a node, a Camera on another one, and a Site."""
    cluster.create("Profile", "p", {})
    cluster.camera("a", "edge-1", profile="p")
    cluster.camera("b", "edge-2")
    cluster.create("Site", "s", {"nodes": ["edge-1"]})
    return {"edge-1": {"Camera/a", "Profile/p", "Site/s"}, "edge-2": {"Camera/b"}}


def said(bridge: ClusterBridge, reason: str) -> int:
    """How often the log says that a kind of ours is held, for this reason."""
    lines = bridge.process.log.splitlines()
    return sum(UNSEEN in line and reason in line for line in lines)


def serves_meanwhile(bridge: ClusterBridge) -> None:
    """Another kind changes, and its nodes follow."""
    bridge.cluster.merge("Site", "s", {"spec": {"nodes": ["edge-1", "edge-9"]}})
    eventually(lambda: bridge.placed().get("edge-9") == {"Site/s"}, 20)


def test_k8_a_crd_that_is_missing_at_the_start_holds_its_kind_until_it_is_there(
    cluster: Cluster,
) -> None:
    group = cluster.own_group("Profile", "Site")
    cluster.create("Profile", "p", {})
    cluster.create("Site", "s", {"nodes": ["edge-1"]})
    with bridging(cluster) as bridge:
        # Where a Profile goes depends on Cameras.
        bridge.should_be({"edge-1": {"Site/s"}}, held={"Camera", "Profile"})
        serves_meanwhile(bridge)
        assert said(bridge, f"install the CRD cameras.{group.name}") == 1
        assert said(bridge, f"profiles.{group.name}") == 0

        group.install("Camera")
        cluster.camera("a", "edge-1", profile="p")
        bridge.should_be({"edge-1": {"Camera/a", "Profile/p", "Site/s"}, "edge-9": {"Site/s"}})
        bridge.says("kinds are seen in full again")
        assert said(bridge, f"install the CRD cameras.{group.name}") == 1


def test_k8_a_crd_that_is_removed_and_installed_again_takes_nothing_from_a_node(
    cluster: Cluster,
) -> None:
    group = cluster.own_group()
    placed = begin(cluster)
    with bridging(cluster) as bridge:
        bridge.should_be(placed)
        since = len(bridge.snapshots("edge-1"))
        group.uninstall("Camera")
        eventually(lambda: bridge.held() == {"Camera", "Profile"}, 20)
        serves_meanwhile(bridge)
        assert said(bridge, f"install the CRD cameras.{group.name}") == 1

        group.install("Camera")
        cluster.camera("a", "edge-1", profile="p")
        cluster.camera("b", "edge-2")
        bridge.should_be({**placed, "edge-9": {"Site/s"}})
        for kind, name in (("Camera", "a"), ("Profile", "p"), ("Site", "s")):
            assert bridge.kept_throughout("edge-1", kind, name, since)


def test_k9_rights_that_go_and_come_back_take_nothing_from_a_node(cluster: Cluster) -> None:
    placed = begin(cluster)
    account = cluster.account()
    sites = cluster.right(*READ, kinds=["Site"])
    profiles = cluster.right(*READ, kinds=["Profile"])
    identity = cluster.kube_system()
    cluster.grant(account, cluster.right(*READ), identity)
    caller = cluster.caller(account)
    eventually(lambda: caller.get(cluster.path("Camera")).status == 200)
    with bridging(cluster, cluster.kubeconfig(account)) as bridge:
        bridge.should_be(placed)
        since = len(bridge.snapshots("edge-2"))
        cluster.grant(account, sites, profiles, identity, cluster.right("list", kinds=["Camera"]))
        eventually(lambda: bridge.held() >= {"Camera", "Profile"}, 20)
        serves_meanwhile(bridge)
        words = f'User \\"{account.user}\\" cannot watch resource \\"cameras\\"'
        eventually(lambda: said(bridge, words) == 1, what="said")
        bridge.says("grant the verbs list and watch")

        cluster.camera("keeps-the-kind", "edge-1")
        cluster.delete("Camera", "b")
        eventually(lambda: "Camera/keeps-the-kind" in bridge.placed()["edge-1"], 20)
        assert bridge.kept_throughout("edge-2", "Camera", "b", since)
        cluster.grant(account, cluster.right(*READ), identity)
        bridge.should_be(
            {
                "edge-1": {*placed["edge-1"], "Camera/keeps-the-kind"},
                "edge-9": {"Site/s"},
            }
        )
        assert bridge.kept_throughout("edge-1", "Camera", "a")


def test_k9_a_kind_that_may_be_listed_and_not_watched_is_held_from_the_start(
    cluster: Cluster,
) -> None:
    placed = begin(cluster)
    account = cluster.account()
    others = cluster.right(*READ, kinds=["Profile", "Site"])
    cluster.grant(account, others, cluster.right("list", kinds=["Camera"]), cluster.kube_system())
    caller = cluster.caller(account)
    eventually(lambda: caller.get(cluster.path("Site")).status == 200)
    with bridging(cluster, cluster.kubeconfig(account)) as bridge:
        # What is known of a held kind is sent all the same.
        bridge.should_be(placed, held={"Camera", "Profile"})
        assert said(bridge, 'cannot watch resource \\"cameras\\"') == 1
        cluster.grant(account, cluster.right(*READ), cluster.kube_system())
        bridge.should_be(placed)
