"""`nodecast-bridge check` and `render` on a cluster: what they say, and their exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodecast.errors import EXIT_OK, EXIT_PROBLEM
from tests.fakes.apiserver import ApiServer
from tests.support.api_groups import READ
from tests.support.bridge_commands import Output, run
from tests.support.cluster_bridges import settings_file
from tests.support.clusters import Account, Cluster
from tests.support.mosquitto import Broker
from tests.support.objects import dataset, inference, model
from tests.support.wait import eventually

KINDS = (
    "datasets",
    "models",
    "jointinferenceservices",
    "federatedlearningjobs",
    "incrementallearningjobs",
    "lifelonglearningjobs",
)


def options(cluster: Cluster, account: Account | None = None) -> list[object]:
    """To look at the first namespace, as the admin or as a user."""
    return [
        *("--config", settings_file(cluster), "--namespace", cluster.namespace),
        *("--kubeconfig", cluster.kubeconfig(account)),
    ]


def said(capsys: Output) -> list[str]:
    """The lines on standard output that are about our kinds, spaces made one."""
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    return [line for line in lines if "sedna.io" not in line]


# -- on any server: the built-in kinds are there or not, so they and the exit code say nothing


@pytest.mark.broker
def test_check_says_what_is_served_and_where_it_goes(
    cluster: Cluster, broker: Broker, capsys: Output
) -> None:
    cluster.create("Profile", "p", {})
    cluster.camera("a", "edge-1", profile="p")
    cluster.create("Site", "s", {"nodes": ["edge-1", "edge-2"]})
    chosen = options(cluster)
    uid = cluster.admin.get("/api/v1/namespaces/kube-system").body["metadata"]["uid"]

    run("check", *chosen, "--mqtt-url", broker.url)
    group = cluster.group.name
    assert said(capsys) == [
        f"source {cluster.server.url} (kubeconfig {chosen[-1]}; only in {cluster.namespace})",
        f"identity {uid}",
        f"served Camera.{group}: 1 object, 1 on nodes",
        f"served Profile.{group}: 1 object, 1 on nodes",
        f"served Site.{group}: 1 object, 1 on nodes",
        "node edge-1: 3 objects",
        "node edge-2: 1 object",
        f"broker {broker.url}: reached (login only; topics and ledger not tried)",
    ]


def test_k8_k9_k11_check_says_what_is_held_refused_dangling_and_nowhere(
    cluster: Cluster, capsys: Output
) -> None:
    group = cluster.own_group("Camera", "Site")
    cluster.camera("a", "edge-1", profile="p")
    cluster.camera("bad", "a/b")
    cluster.camera("empty", "")
    account = cluster.account()
    cameras = cluster.right(*READ, kinds=["Camera", "Profile"])
    cluster.grant(account, cameras, cluster.right("list", kinds=["Site"]), cluster.kube_system())
    caller = cluster.caller(account)
    eventually(lambda: caller.get(cluster.path("Camera")).status == 200)

    assert run("check", *options(cluster, account)) == EXIT_PROBLEM
    lines = said(capsys)
    at = cluster.key
    assert f"served Camera.{group.name}: 3 objects, 1 on nodes" in lines
    assert f"nowhere {at('Camera', 'empty')}: no node named, nothing takes it along" in lines
    (refused,) = (line for line in lines if line.startswith("refused "))
    assert refused.startswith(f"refused {at('Camera', 'bad')}: spec.nodeName")
    unseen = f"refers to {at('Profile', 'p')}, which cannot be seen now"
    assert f"dangling {at('Camera', 'a')} {unseen}" in lines
    assert not any(f"served {each}.{group.name}" in " ".join(lines) for each in ("Profile", "Site"))
    at_first = [line for line in lines if not line.startswith(("source ", "identity "))][:2]
    profiles, sites = at_first
    assert profiles.startswith(
        f"held Profile.{group.name}: the server does not serve {group.name}/v1 profiles:"
        f" install the CRD profiles.{group.name}"
    )
    assert sites == (
        f'held Site.{group.name}: sites.{group.name} is forbidden: User "{account.user}" cannot'
        f' watch resource "sites" in API group "{group.name}" in the namespace'
        f' "{cluster.namespace}": grant the verbs list and watch'
    )


def test_check_names_kinds_that_are_there_and_empty_and_what_it_looked_at(
    cluster: Cluster, capsys: Output
) -> None:
    cluster.camera("a", "edge-1", namespace=cluster.other)
    run("check", *options(cluster))
    lines = said(capsys)
    for kind in ("Camera", "Profile", "Site"):
        assert f"served {cluster.kind(kind)}: 0 objects" in lines
    source = next(line for line in lines if line.startswith("source ")).removeprefix("source ")
    assert cluster.namespace in source
    assert f"nothing no object found in {source}" in lines


def test_k8_check_says_what_is_held_through_another_kind(cluster: Cluster, capsys: Output) -> None:
    group = cluster.own_group("Profile", "Site")
    run("check", *options(cluster))
    lines = said(capsys)
    assert f"held Profile.{group.name}: it is placed through Camera.{group.name}" in lines


def test_k9_check_names_the_namespace_whose_rights_are_missing(
    cluster: Cluster, capsys: Output
) -> None:
    cluster.camera("a", "edge-1")
    cluster.camera("b", "edge-1", namespace=cluster.other)
    account = cluster.account()
    cluster.grant(account, cluster.kube_system())
    cluster.grant(account, cluster.right(*READ), namespace=cluster.namespace)
    caller = cluster.caller(account)
    eventually(lambda: caller.get(cluster.path("Camera")).status == 200)

    chosen = [*options(cluster, account), "--namespace", cluster.other]
    assert run("check", *chosen) == EXIT_PROBLEM
    held = [line for line in said(capsys) if line.startswith("held ")]
    assert len(held) == 3
    for line in held:
        assert f'in the namespace "{cluster.other}": grant the verbs list and watch' in line

    cluster.grant(account, cluster.right(*READ), namespace=cluster.other)
    there = cluster.path("Site", namespace=cluster.other)
    eventually(lambda: caller.get(there).status == 200)
    run("check", *chosen)
    lines = said(capsys)
    assert [line for line in lines if line.startswith("held ")] == []
    assert f"served {cluster.kind('Camera')}: 2 objects, 2 on nodes" in lines


def test_check_says_that_the_identity_may_not_be_read(cluster: Cluster, capsys: Output) -> None:
    account = cluster.account()
    cluster.grant(account, cluster.right(*READ))
    assert run("check", *options(cluster, account)) == EXIT_PROBLEM
    (line,) = (line for line in said(capsys) if line.startswith("identity "))
    assert line.startswith("identity unknown: source:")
    assert line.endswith("grant get on it, or give the setting source")


def test_render_shows_each_node_its_snapshot_without_a_broker(
    cluster: Cluster, capsys: Output
) -> None:
    cluster.create("Profile", "p", {"size": 1})
    cluster.camera("a", "edge-1", profile="p")
    cluster.camera("b", "edge-2")
    cluster.camera("bad", "a/b")
    cluster.camera("lost", "edge-2", profile="nothing")
    run("render", *options(cluster))
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["edge-1", f"  {cluster.key('Camera', 'a')}"]
    run("render", *options(cluster), "--json")
    rendered = json.loads(capsys.readouterr().out)
    keys = {
        node: [f"{each['kind']}/{each['metadata']['name']}" for each in snapshot["resources"]]
        for node, snapshot in rendered["nodes"].items()
    }
    assert keys == {"edge-1": ["Camera/a", "Profile/p"], "edge-2": ["Camera/b", "Camera/lost"]}
    (profile,) = (
        each for each in rendered["nodes"]["edge-1"]["resources"] if each["kind"] == "Profile"
    )
    body = cluster.admin.get(cluster.path("Profile", "p")).body
    assert (profile["spec"], profile["metadata"]["uid"]) == ({"size": 1}, body["metadata"]["uid"])
    assert [each["key"] for each in rendered["refused"]] == [cluster.key("Camera", "bad")]
    assert rendered["dangling"] == [
        {"owner": cluster.key("Camera", "lost"), "target": cluster.key("Profile", "nothing")}
    ]


# -- on a cluster with the built-in kinds: only the fake server may have them


@pytest.fixture
def sedna() -> Iterator[ApiServer]:
    """A server with the built-in kinds, and a user `bridge` that may read them."""
    with ApiServer() as server:
        server.install_all()
        server.load([dataset("d", "edge-1"), inference("i", "edge-2", "m"), model("m")])
        server.grant("bridge", rights(*KINDS))
        yield server


def rights(*plurals: str) -> list[dict[str, list[str]]]:
    kube_system = {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]}
    return [
        {"apiGroups": ["sedna.io"], "resources": list(plurals), "verbs": ["list", "watch"]},
        {**kube_system, "resourceNames": ["kube-system"]},
    ]


def checked(server: ApiServer, broker: Broker, directory: Path) -> int:
    path = server.kubeconfig(directory / "kubeconfig", user="bridge")
    return run("check", "--kubeconfig", path, "--mqtt-url", broker.url)


@pytest.mark.broker
def test_check_ends_with_0_where_all_is_well(
    sedna: ApiServer, broker: Broker, tmp_path: Path, capsys: Output
) -> None:
    assert checked(sedna, broker, tmp_path) == EXIT_OK
    assert "node       edge-2: 2 objects" in capsys.readouterr().out


@pytest.mark.broker
def test_k8_check_ends_with_1_where_a_crd_is_missing(
    sedna: ApiServer, broker: Broker, tmp_path: Path, capsys: Output
) -> None:
    name = "federatedlearningjobs.sedna.io"
    sedna.uninstall(name)
    eventually(lambda: sedna.get("CustomResourceDefinition", "", name) is None)
    assert checked(sedna, broker, tmp_path) == EXIT_PROBLEM
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("held"))
    assert line.endswith(f"install the CRD {name}")


@pytest.mark.broker
def test_k9_check_ends_with_1_where_a_right_is_missing(
    sedna: ApiServer, broker: Broker, tmp_path: Path, capsys: Output
) -> None:
    sedna.grant("bridge", rights(*KINDS[:3], *KINDS[4:]))
    assert checked(sedna, broker, tmp_path) == EXIT_PROBLEM
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("held"))
    assert "FederatedLearningJob.sedna.io: federatedlearningjobs.sedna.io is forbidden" in line
    assert line.endswith("grant the verbs list and watch")


# -- the Lease


def lease_right(*verbs: str) -> dict[str, list[str]]:
    return {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": list(verbs),
    }


@pytest.fixture
def leased(sedna: ApiServer, monkeypatch: pytest.MonkeyPatch) -> ApiServer:
    """The same server, with settings that want a Lease in its namespace `default`."""
    monkeypatch.setenv("NODECAST_LEASE_MODE", "on")
    monkeypatch.setenv("NODECAST_LEASE_NAMESPACE", "default")
    sedna.grant("bridge", [*rights(*KINDS), lease_right("get")])
    return sedna


def lease_line(capsys: Output) -> str:
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("lease "))
    return " ".join(line.split())


@pytest.mark.broker
def test_check_says_that_the_lease_is_not_there_yet_and_makes_none(
    leased: ApiServer, broker: Broker, tmp_path: Path, capsys: Output
) -> None:
    assert checked(leased, broker, tmp_path) == EXIT_OK
    assert lease_line(capsys) == "lease default/nodecast-bridge-default: not there yet"
    assert {each.wish.verb for each in leased.requests(resource="leases")} == {"get"}


@pytest.mark.broker
@pytest.mark.parametrize(
    ("holder", "said"),
    [
        ("pod-1_ab", "held by pod-1_ab, renewed 2026-03-02T08:15:00.000000Z"),
        ("", "nobody holds it"),
    ],
)
def test_check_says_who_holds_the_lease(
    holder: str, said: str, leased: ApiServer, broker: Broker, tmp_path: Path, capsys: Output
) -> None:
    spec = {"holderIdentity": holder, "renewTime": "2026-03-02T08:15:00.000000Z"}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec}
    leased.create({**lease, "metadata": {"name": "nodecast-bridge-default"}})
    assert checked(leased, broker, tmp_path) == EXIT_OK
    assert lease_line(capsys) == f"lease default/nodecast-bridge-default: {said}"


@pytest.mark.broker
def test_check_ends_with_1_where_the_lease_may_not_be_read_and_says_what_to_grant(
    leased: ApiServer, broker: Broker, tmp_path: Path, capsys: Output
) -> None:
    leased.grant("bridge", rights(*KINDS))
    assert checked(leased, broker, tmp_path) == EXIT_PROBLEM
    assert "grant get, create and update on leases (coordination.k8s.io)" in lease_line(capsys)


@pytest.mark.broker
def test_check_says_nothing_of_a_lease_where_none_is_wanted(
    sedna: ApiServer, broker: Broker, tmp_path: Path, capsys: Output
) -> None:
    assert checked(sedna, broker, tmp_path) == EXIT_OK
    assert "lease" not in capsys.readouterr().out
    assert sedna.requests(resource="leases") == []
