"""Mistakes at the cluster that only the removal guard can tell from what is wanted: nothing leaves
a node by them until it is approved, and the return of the objects ends it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cluster_bridges import ClusterBridge, bridging
from tests.support.clusters import Cluster
from tests.support.process import run_to_end
from tests.support.wait import eventually

pytestmark = pytest.mark.broker

NAMES = [f"c{number:02}" for number in range(12)]
PLACED = {
    "edge-1": {*(f"Camera/{name}" for name in NAMES[0::2]), "Profile/p", "Site/s"},
    "edge-2": {f"Camera/{name}" for name in NAMES[1::2]},
}


@pytest.fixture
def bridge(cluster: Cluster) -> Iterator[ClusterBridge]:
    """Twelve Cameras on two nodes, one with a Profile, and a Site; no hold, so that nothing but
    the guard keeps them there."""
    cluster.own_group()
    cluster.create("Profile", "p", {})
    cluster.create("Site", "s", {"nodes": ["edge-1"]})
    create_cameras(cluster, "shown")
    with bridging(cluster, start=False) as made:
        made.process.settings["hold"] = 0
        made.process.start()
        made.should_be(PLACED)
        eventually(lambda: counted(made) == 12, what="the ledger counts them")
        yield made


def create_cameras(cluster: Cluster, tier: str) -> None:
    for number, name in enumerate(NAMES):
        spec = {"nodeName": f"edge-{number % 2 + 1}"}
        spec |= {"profile": "p"} if number == 0 else {}
        cluster.create("Camera", name, spec, labels={"tier": tier})


def counted(bridge: ClusterBridge) -> int | None:
    ledger = bridge.look.ledger()
    return ledger.kinds.get(bridge.cluster.kind("Camera")) if ledger else None


def is_guarded(bridge: ClusterBridge, missing: int = 12) -> None:
    kind = bridge.cluster.kind("Camera")
    bridge.says(f"kind={kind} missing={missing} placed=12")
    bridge.says(f"nodecast-bridge approve {kind}")


def removals_arrive_meanwhile(bridge: ClusterBridge) -> None:
    """A Site comes to a node and leaves it for another: the Cameras had as much time to."""
    bridge.cluster.merge("Site", "s", {"spec": {"nodes": ["edge-9"]}})
    eventually(lambda: bridge.placed().get("edge-9") == {"Site/s"}, 20)
    bridge.cluster.merge("Site", "s", {"spec": {"nodes": ["edge-1"]}})
    eventually(lambda: "edge-9" not in bridge.placed(), 20)


def kept(bridge: ClusterBridge) -> bool:
    """Whether no snapshot since the first whole one takes a Camera or the Profile from a node."""
    nodes = {name: f"edge-{number % 2 + 1}" for number, name in enumerate(NAMES)}
    return all(
        bridge.kept_throughout(node, "Camera", name, since=whole_since(bridge, node))
        for name, node in nodes.items()
    ) and bridge.kept_throughout("edge-1", "Profile", "p", since=whole_since(bridge, "edge-1"))


def whole_since(bridge: ClusterBridge, node: str) -> int:
    """The number of a node's first snapshot that has all its Cameras."""
    for number, each in enumerate(bridge.snapshots(node)):
        if sum("Camera" in resource.key for resource in each.resources) == 6:
            return number
    raise AssertionError(f"{node} never had all of its Cameras")


def test_a_crd_that_goes_under_a_watch_takes_nothing_away_even_when_it_is_back_and_empty(
    bridge: ClusterBridge,
) -> None:
    cluster = bridge.cluster
    with bridge.process.frozen():
        cluster.group.uninstall("Camera")
    is_guarded(bridge)
    cluster.group.install("Camera")
    cluster.camera("keeps-the-kind", "edge-3")  # an empty one would wait for a second list
    eventually(lambda: bridge.placed().get("edge-3") == {"Camera/keeps-the-kind"}, 20)
    removals_arrive_meanwhile(bridge)
    cluster.delete("Camera", "keeps-the-kind")

    with bridge.process.frozen():
        create_cameras(cluster, "shown")
    bridge.should_be(PLACED)
    assert kept(bridge)


def test_deleted_cameras_leave_once_they_are_approved_and_not_before(
    bridge: ClusterBridge,
) -> None:
    with bridge.process.frozen():  # what goes slower than it settles is not guarded
        for name in NAMES[1:]:
            bridge.cluster.delete("Camera", name)
    is_guarded(bridge, missing=11)
    removals_arrive_meanwhile(bridge)
    assert kept(bridge)
    kind = bridge.cluster.kind("Camera")
    done = run_to_end("nodecast-bridge", "approve", kind)
    assert done.returncode == 0, done.stderr
    bridge.should_be({"edge-1": {"Camera/c00", "Profile/p", "Site/s"}})


def test_a_restart_with_a_selector_that_matches_less_takes_nothing_away(
    bridge: ClusterBridge,
) -> None:
    assert bridge.process.stop() == 0
    bridge.process.settings["kubernetes.selector"] = "tier!=shown"
    bridge.process.start()
    is_guarded(bridge)
    removals_arrive_meanwhile(bridge)

    assert bridge.process.stop() == 0
    del bridge.process.settings["kubernetes.selector"]
    bridge.process.start()
    bridge.should_be(PLACED)
    assert kept(bridge)


def test_a_restart_onto_an_api_server_that_lost_its_cameras_takes_nothing_away(
    bridge: ClusterBridge,
) -> None:
    assert bridge.process.stop() == 0
    for name in NAMES:
        bridge.cluster.delete("Camera", name)
    bridge.process.start()
    is_guarded(bridge)
    removals_arrive_meanwhile(bridge)

    with bridge.process.frozen():
        create_cameras(bridge.cluster, "shown")
    bridge.should_be(PLACED)
    assert kept(bridge)


def test_a_missing_kind_that_is_approved_is_empty_until_it_is_served_again(
    bridge: ClusterBridge,
) -> None:
    cluster = bridge.cluster
    cluster.group.uninstall("Camera")
    bridge.says(f"install the CRD cameras.{cluster.group.name}")
    kind = cluster.kind("Camera")
    done = run_to_end("nodecast-bridge", "approve", kind)
    assert done.returncode == 0, done.stderr
    bridge.should_be({"edge-1": {"Site/s"}})  # the Profile goes with the Camera that carries it

    cluster.group.install("Camera")
    create_cameras(cluster, "shown")
    bridge.should_be(PLACED)
