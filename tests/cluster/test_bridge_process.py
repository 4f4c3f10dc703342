"""The bridge as a process, on a cluster and a Mosquitto: what was missed, and how it starts and
ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodecast.errors import EXIT_CONFIG
from tests.support.api_groups import READ
from tests.support.api_servers import fake_server
from tests.support.cluster_bridges import bridging
from tests.support.clusters import Cluster
from tests.support.wait import eventually

pytestmark = pytest.mark.broker


def begin(cluster: Cluster) -> dict[str, set[str]]:
    # On no node: a kind of which nothing is there waits for a second list, seconds later.
    cluster.create("Site", "keep", {"nodes": []})
    cluster.create("Profile", "p", {})
    cluster.camera("a", "edge-1", profile="p")
    cluster.camera("b", "edge-1")
    cluster.camera("c", "edge-2")
    return {"edge-1": {"Camera/a", "Camera/b", "Profile/p"}, "edge-2": {"Camera/c"}}


def test_objects_reach_their_nodes_whole_and_follow_every_change(cluster: Cluster) -> None:
    placed = begin(cluster)
    with bridging(cluster) as bridge:
        bridge.should_be(placed)
        snapshot = bridge.look.snapshot("edge-2")
        assert snapshot is not None
        body = cluster.admin.get(cluster.path("Camera", "c")).body
        (resource,) = snapshot.resources
        assert resource.key == cluster.key("Camera", "c")
        assert body["metadata"]["uid"].encode() in resource.body

        cluster.merge("Camera", "b", {"spec": {"nodeName": "edge-3"}})
        cluster.create("Site", "s", {"nodes": ["edge-2", "edge-3"]})
        bridge.should_be(
            {
                "edge-1": {"Camera/a", "Profile/p"},
                "edge-2": {"Camera/c", "Site/s"},
                "edge-3": {"Camera/b", "Site/s"},
            }
        )


def test_k3_what_was_deleted_while_the_watch_was_down_leaves_its_node_alone(
    cluster: Cluster,
) -> None:
    placed = begin(cluster)
    with (
        cluster.server.proxy() as proxy,
        bridging(cluster, cluster.kubeconfig(via=proxy)) as bridge,
    ):
        bridge.should_be(placed)
        others = bridge.snapshots("edge-2")
        proxy.refuse()
        cluster.delete("Camera", "b")
        proxy.accept()
        bridge.should_be({"edge-1": {"Camera/a", "Profile/p"}, "edge-2": {"Camera/c"}})
        assert bridge.snapshots("edge-2") == others


def test_k3_what_was_deleted_while_the_bridge_was_stopped_leaves_its_node_alone(
    cluster: Cluster,
) -> None:
    placed = begin(cluster)
    with bridging(cluster) as bridge:
        bridge.should_be(placed)
        before = bridge.look.snapshot("edge-2")
        assert bridge.process.stop() == 0
        cluster.delete("Camera", "b")
        bridge.process.start()
        bridge.should_be({"edge-1": {"Camera/a", "Profile/p"}, "edge-2": {"Camera/c"}})
        after = bridge.look.snapshot("edge-2")
        assert before is not None
        assert after is not None
        assert after.digest == before.digest
        assert all(each.digest == before.digest for each in bridge.snapshots("edge-2")[-1:])


def test_an_object_made_anew_while_the_bridge_was_stopped_reaches_its_node(
    cluster: Cluster,
) -> None:
    begin(cluster)
    with bridging(cluster) as bridge:
        eventually(lambda: "edge-2" in bridge.placed(), 20)
        bridge.process.stop()
        cluster.delete("Camera", "c")
        uid = cluster.camera("c", "edge-2")["metadata"]["uid"]
        bridge.process.start()

        def there() -> bool:
            snapshot = bridge.look.snapshot("edge-2")
            assert snapshot is not None
            return any(uid.encode() in each.body for each in snapshot.resources)

        eventually(there, 20)


def test_k11_bad_node_names_touch_no_topic_of_another_node(cluster: Cluster) -> None:
    placed = begin(cluster)
    bad = ["a/b", "+", "#", "edge-1/resources", "x" * 300, 7, ["edge-1"]]
    with bridging(cluster) as bridge:
        bridge.should_be(placed)
        for number, node in enumerate(bad):
            cluster.camera(f"bad-{number}", node)
        cluster.camera("good", "edge-3")
        bridge.should_be({**placed, "edge-3": {"Camera/good"}})
        topics = {topic for topic in bridge.look.observer.retained if topic.startswith("node/")}
        assert topics == {f"node/edge-{number}/resources" for number in (1, 2, 3)}
        for number in range(len(bad)):
            key = cluster.key("Camera", f"bad-{number}")
            assert bridge.process.logged(f"object refused, it goes to no node  key={key} ") == 1


# -- how it starts and ends


def test_the_ledger_names_the_cluster_and_another_cluster_is_refused(cluster: Cluster) -> None:
    begin(cluster)
    uid = cluster.admin.get("/api/v1/namespaces/kube-system").body["metadata"]["uid"]
    with bridging(cluster) as bridge:
        eventually(lambda: (ledger := bridge.look.ledger()) and ledger.source == uid, 20)
        eventually(lambda: "edge-2" in bridge.placed(), 20)
        assert bridge.process.stop() == 0
        before = bridge.look.observer.retained
        bridge.process.settings["source"] = "another-cluster"
        bridge.process.start()
        assert bridge.process.wait(20) == EXIT_CONFIG
        bridge.says("belongs to source")
        assert {t: p for t, p in bridge.look.observer.retained.items() if "/resources" in t} == {
            t: p for t, p in before.items() if "/resources" in t
        }


def test_e11_a_kubeconfig_of_another_cluster_is_refused_and_takes_nothing_away(
    cluster: Cluster, tmp_path: Path
) -> None:
    placed = begin(cluster)
    kubeconfig = cluster.kubeconfig()
    (tmp_path / "another").mkdir()
    with bridging(cluster, kubeconfig) as bridge, fake_server(tmp_path / "another") as another:
        bridge.should_be(placed)
        ours = kubeconfig.read_bytes()
        assert bridge.process.stop() == 0
        another.kubeconfig(kubeconfig)
        bridge.process.start()
        assert bridge.process.wait(30) == EXIT_CONFIG
        assert bridge.process.logged("belongs to source", bridge.process.started_at) == 1
        assert bridge.placed() == placed
        kubeconfig.write_bytes(ours)
        bridge.process.start()
        bridge.should_be(placed)


def test_a_cluster_whose_identity_may_not_be_read_ends_it_with_78_and_what_to_do(
    cluster: Cluster,
) -> None:
    placed = begin(cluster)
    account = cluster.account()
    cluster.grant(account, cluster.right(*READ))
    with bridging(cluster, cluster.kubeconfig(account)) as bridge:
        assert bridge.process.wait(20) == EXIT_CONFIG
        bridge.says("grant get on it, or give the setting source")
        bridge.says(f'User "{account.user}" cannot get resource "namespaces"')
        bridge.process.settings["source"] = "factory"
        bridge.process.start()
        bridge.should_be(placed)
        assert (ledger := bridge.look.ledger())
        assert ledger.source == "factory"


def test_a_server_that_cannot_be_reached_at_the_start_is_waited_for(cluster: Cluster) -> None:
    placed = begin(cluster)
    with cluster.server.proxy() as proxy:
        kubeconfig = cluster.kubeconfig(via=proxy)
        proxy.refuse()
        with bridging(cluster, kubeconfig) as bridge:
            bridge.says("source not reached yet, trying again")
            assert bridge.look.observer.retained == {}
            proxy.accept()
            bridge.should_be(placed)


def test_it_stops_at_once_while_it_watches(cluster: Cluster) -> None:
    placed = begin(cluster)
    with bridging(cluster, start=False) as bridge:
        bridge.process.settings["kubernetes.watch"] = 60
        bridge.process.start()
        bridge.should_be(placed)
        assert bridge.process.stop() == 0
        assert bridge.process.logged("left behind") == 0
