"""Kinds that cannot be seen in full: what the source tells of them, and that nothing goes by it.

The bridge holds what is told as missing or forbidden; tests/cluster/test_bridge_holds.py has that.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from bridge.sources.events import KindStatus
from bridge.sources.kubernetes.scope import Scope
from tests.support.api_groups import KINDS, READ
from tests.support.cluster_sources import TUNING, Sourcing, sourcing
from tests.support.clusters import Account, Cluster
from tests.support.wait import eventually

SHORT = replace(TUNING, watch=1.0)
MISSING, FORBIDDEN, OK = KindStatus.MISSING, KindStatus.FORBIDDEN, KindStatus.OK


def reader(cluster: Cluster, namespace: str = "") -> Account:
    """A user that may do what the bridge needs, and does so by now."""
    account = cluster.account()
    cluster.grant(account, cluster.right(*READ), namespace=namespace)
    may(cluster, account, "Camera", 200)
    return account


def may(cluster: Cluster, account: Account, kind: str, status: int, query: str = "") -> None:
    """Wait until a server that has just changed rights knows it."""
    caller = cluster.caller(account)
    path = cluster.path(kind) + query
    eventually(lambda: caller.get(path).status == status, what=f"{path} is {status}")


def begin(cluster: Cluster) -> dict[str, set[str]]:
    """Objects of the two kinds that depend on each other, and where they are."""
    cluster.create("Profile", "p", {})
    cluster.camera("a", "edge-1", profile="p")
    cluster.camera("b", "edge-2")
    return {"edge-1": {"Camera/a", "Profile/p"}, "edge-2": {"Camera/b"}}


def statuses(running: Sourcing, kind: str) -> list[KindStatus]:
    """All that was told of a kind, in order."""
    return [each.status for each in running.of(kind)]


def site(running: Sourcing, name: str) -> None:
    """Another kind is served all the time."""
    running.cluster.create("Site", name, {"nodes": ["edge-9"]})
    eventually(lambda: f"Site/{name}" in running.placed().get("edge-9", ()), 20)


# -- missing


def test_k8_a_kind_that_is_not_installed_yet_is_missing_by_its_crds_name(cluster: Cluster) -> None:
    group = cluster.own_group("Camera")
    with sourcing(cluster) as running:
        cluster.camera("a", "edge-1", profile="p")
        running.should_be({"edge-1": {"Camera/a"}})
        running.listed("Profile", "Site", status=MISSING)
        assert running.reason("Profile") == (
            f"the server does not serve {group.name}/v1 profiles:"
            f" install the CRD profiles.{group.name}"
        )
        assert running.reason("Site").startswith(f"Site.{group.name} is not served at")
        assert running.of("Profile")[-1].objects is None

        group.install("Profile", "Site")
        cluster.create("Profile", "p", {})
        running.listed()
        running.should_be({"edge-1": {"Camera/a", "Profile/p"}})
        site(running, "s")


def test_k8_a_whole_group_that_is_not_installed_yet_is_missing(cluster: Cluster) -> None:
    group = cluster.own_group("Camera")
    group.uninstall("Camera")
    with sourcing(cluster) as running:
        running.listed(status=MISSING)
        assert running.told.objects == {}
        group.install()
        running.listed()


def test_k8_a_crd_that_goes_under_a_healthy_watch_is_missing_until_it_is_back(
    cluster: Cluster,
) -> None:
    group = cluster.own_group()
    placed = begin(cluster)
    with sourcing(cluster, tuning=replace(TUNING, watch=60.0)) as running:
        running.should_be(placed)
        group.uninstall("Camera")
        running.listed("Camera", status=MISSING)
        assert running.reason("Camera").endswith(f"install the CRD cameras.{group.name}")
        site(running, "meanwhile")
        assert cluster.key("Profile", "p") in running.told.objects

        group.install("Camera")
        cluster.camera("a", "edge-1", profile="p")
        running.listed("Camera")
        running.should_be({"edge-1": {"Camera/a", "Profile/p"}, "edge-9": {"Site/meanwhile"}})
        cluster.camera("later", "edge-3")
        eventually(lambda: "edge-3" in running.placed(), 20, what="its watch is a new one")


# -- forbidden


@pytest.mark.parametrize("verb", READ)
def test_k9_a_kind_that_may_only_be_listed_or_only_be_watched_is_forbidden(
    cluster: Cluster, verb: str
) -> None:
    placed = begin(cluster)
    account = cluster.account()
    missing_verb = "watch" if verb == "list" else "list"
    others = cluster.right(*READ, kinds=["Profile", "Site"])
    cluster.grant(account, others, cluster.right(verb, kinds=["Camera"]))
    may(cluster, account, "Profile", 200)
    with sourcing(cluster, kubeconfig=cluster.kubeconfig(account)) as running:
        running.listed("Camera", status=FORBIDDEN)
        running.listed("Profile", "Site")
        reason = running.reason("Camera")
        assert f'cannot {missing_verb} resource "cameras"' in reason
        assert reason.endswith("grant the verbs list and watch")
        assert f'User "{account.user}"' in reason
        site(running, "meanwhile")
        # What can be listed is not seen in full in between.
        eventually(lambda: [s for s in statuses(running, "Camera") if s is FORBIDDEN][3:], 20)
        assert OK not in statuses(running, "Camera")[1:]

        cluster.grant(account, cluster.right(*READ))
        running.listed("Camera")
        running.should_be({**placed, "edge-9": {"Site/meanwhile"}})
        cluster.delete("Camera", "b")
        running.should_be({"edge-1": placed["edge-1"], "edge-9": {"Site/meanwhile"}})


def test_k9_rights_that_go_take_nothing_with_them_and_come_back(cluster: Cluster) -> None:
    placed = begin(cluster)
    account = reader(cluster)
    with sourcing(cluster, kubeconfig=cluster.kubeconfig(account), tuning=SHORT) as running:
        running.should_be(placed)
        running.listed()
        cluster.revoke(account)
        running.listed(status=FORBIDDEN)
        cluster.delete("Camera", "b")
        assert running.placed() == placed
        assert running.told.gone == []

        cluster.grant(account, cluster.right(*READ))
        running.listed()
        running.should_be({"edge-1": placed["edge-1"]})
        assert running.told.gone == [cluster.key("Camera", "b")]


def test_k9_a_forbidden_kind_is_told_once_for_each_answer_and_asked_for_with_pauses(
    cluster: Cluster,
) -> None:
    account = cluster.account()
    with sourcing(cluster, kubeconfig=cluster.kubeconfig(account)) as running:
        running.listed(status=FORBIDDEN)
        assert running.log.warnings == []  # the bridge says it, once
        eventually(lambda: len(running.of("Camera")) == 4, 20)
        asked = [each.asked_at for each in running.of("Camera")]
        assert asked[3] - asked[0] > 0.1


# -- two namespaces


def test_with_rights_in_one_namespace_of_two_a_kind_is_forbidden_and_the_other_one_named(
    cluster: Cluster,
) -> None:
    placed = begin(cluster)
    cluster.camera("theirs", "edge-1", namespace=cluster.other)
    account = reader(cluster, namespace=cluster.namespace)
    scope = Scope((cluster.namespace, cluster.other))
    with sourcing(cluster, kubeconfig=cluster.kubeconfig(account), scope=scope) as running:
        running.listed(status=FORBIDDEN)
        for kind in KINDS:
            assert f'in the namespace "{cluster.other}"' in running.reason(kind)
            assert f'in the namespace "{cluster.namespace}"' not in running.reason(kind)

        cluster.grant(account, cluster.right(*READ), namespace=cluster.other)
        running.listed()
        running.should_be(
            {**placed, "edge-1": placed["edge-1"] | {f"{cluster.other}/Camera/theirs"}}
        )


def test_rights_in_one_namespace_are_not_enough_for_all(cluster: Cluster) -> None:
    account = reader(cluster, namespace=cluster.namespace)
    with sourcing(cluster, kubeconfig=cluster.kubeconfig(account), scope=Scope()) as running:
        running.listed(status=FORBIDDEN)
        assert "at the cluster scope" in running.reason("Camera")
