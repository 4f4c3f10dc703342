"""The threads that a bridge has in a cluster alone: one that dies ends the process."""

from __future__ import annotations

import pytest

from tests.support.cluster_bridges import bridging
from tests.support.clusters import Cluster
from tests.support.sabotaging import Sabotage

pytestmark = pytest.mark.broker


@pytest.mark.parametrize("thread", ["informer", "time limits", "lease"])
def test_a_thread_that_dies_ends_the_bridge(cluster: Cluster, thread: str) -> None:
    cluster.camera("a", "edge-1")
    with bridging(cluster, start=False) as bridge:
        sabotage = Sabotage(bridge.process, thread, cluster.directory)
        bridge.process.settings |= {"lease.mode": "on", "lease.namespace": cluster.namespace}
        bridge.process.start()
        bridge.should_be({"edge-1": {"Camera/a"}})
        sabotage.strike()
        cluster.camera("b", "edge-1")
        sabotage.ends_the_process()


def test_a_thread_that_dies_while_it_logs_in_ends_the_bridge(cluster: Cluster) -> None:
    with bridging(cluster, start=False) as bridge:
        sabotage = Sabotage(bridge.process, "login", cluster.directory)
        sabotage.strike()
        bridge.process.start()
        sabotage.ends_the_process()


def test_a_thread_that_dies_ends_a_bridge_that_does_not_know_its_cluster_yet(
    cluster: Cluster,
) -> None:
    with cluster.server.proxy() as proxy:
        kubeconfig = cluster.kubeconfig(via=proxy)
        proxy.refuse()
        with bridging(cluster, kubeconfig, start=False) as bridge:
            sabotage = Sabotage(bridge.process, "informer", cluster.directory)
            bridge.process.start()
            bridge.says("source not reached yet, trying again")
            sabotage.strike()
            sabotage.ends_the_process()
