"""The Lease on an API server: how it is written, and candidates that hold it."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from bridge.lease import Lease, Terms, Write
from bridge.sources.kubernetes.access import Access
from bridge.sources.kubernetes.api import Api
from bridge.sources.kubernetes.candidate import Candidate
from bridge.sources.kubernetes.failures import Refusal
from bridge.sources.kubernetes.leases import LeaseClient, Place
from nodecast.errors import NodecastError
from tests.support.clusters import Account, Cluster
from tests.support.wait import eventually

TIME = "2026-03-02T08:15:00.123456Z"
QUICK = Terms(duration=2, renew=1.4, retry=0.1)
LONG = Terms(duration=600, renew=400, retry=0.1)


def client(cluster: Cluster, account: Account | None = None) -> LeaseClient:
    api = Api(Access(str(cluster.kubeconfig(account))))
    return LeaseClient(api, Place(cluster.namespace, "chosen"), within=5)


@pytest.fixture
def path(cluster: Cluster) -> Iterator[str]:
    """Where the Lease is; it goes at the end."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{cluster.namespace}/leases/chosen"
    yield path
    assert cluster.admin.call("DELETE", path).status in (200, 404)


def write(old: Lease | None, holder: str = "me", *, anew: bool = True) -> Write:
    return Write(0, old, holder, 15, anew)


# -- one Lease


def test_a_lease_that_is_not_there_is_made_and_read_back(cluster: Cluster, path: str) -> None:
    leases = client(cluster)
    assert leases.read() is None
    made = leases.write(write(None), TIME)
    assert (made.holder, made.duration, made.transitions) == ("me", 15, 0)
    assert (made.acquired, made.renewed) == (TIME, TIME)
    assert leases.read() == made
    assert cluster.admin.get(path).body["spec"]["holderIdentity"] == "me"


def test_a_renewal_keeps_when_it_was_acquired_and_a_new_holder_counts(
    cluster: Cluster, path: str
) -> None:
    del path
    leases = client(cluster)
    made = leases.write(write(None), TIME)
    later = TIME.replace("08:15:00", "08:15:02")
    renewed = leases.write(write(made, anew=False), later)
    assert (renewed.acquired, renewed.renewed, renewed.transitions) == (TIME, later, 0)
    assert renewed.version != made.version
    taken = leases.write(write(renewed, "other"), later)
    assert (taken.holder, taken.acquired, taken.transitions) == ("other", later, 1)


def test_what_others_wrote_on_the_lease_stays(cluster: Cluster, path: str) -> None:
    leases = client(cluster)
    leases.write(write(None), TIME)
    cluster.admin.merge(path, {"metadata": {"labels": {"of": "people"}}})
    seen = leases.read()
    assert seen is not None
    leases.write(write(seen, anew=False), TIME)
    assert cluster.admin.get(path).body["metadata"]["labels"] == {"of": "people"}


def test_of_two_writes_over_one_version_the_second_is_refused(cluster: Cluster, path: str) -> None:
    del path
    leases = client(cluster)
    made = leases.write(write(None), TIME)
    leases.write(write(made, "first"), TIME)
    for old in (made, None):
        with pytest.raises(Refusal) as refused:
            leases.write(write(old, "second"), TIME)
        assert refused.value.status == 409
    assert (seen := leases.read())
    assert seen.holder == "first"


def test_a_lease_without_a_holder_or_a_duration_is_read(cluster: Cluster, path: str) -> None:
    collection = path.rpartition("/")[0]
    cluster.admin.must("POST", collection, {"metadata": {"name": "chosen"}, "spec": {}})
    seen = client(cluster).read()
    assert seen is not None
    assert (seen.holder, seen.duration, seen.transitions) == ("", None, 0)


# -- candidates


class Candidates:
    """Candidates for one Lease, ended at the end."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.made: list[Candidate] = []
        self.failures: list[NodecastError] = []

    def start(
        self,
        me: str,
        terms: Terms = QUICK,
        account: Account | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> Candidate:
        one = Candidate(
            client(self._cluster, account),
            me,
            terms,
            changed,
            self.failures.append,
            rng=random.Random(me),
        )
        self.made.append(one)
        one.start()
        return one


@pytest.fixture
def candidates(cluster: Cluster, path: str) -> Iterator[Candidates]:
    del path
    made = Candidates(cluster)
    yield made
    for one in made.made:
        one.stop()
    assert made.failures == []


def log(caplog: pytest.LogCaptureFixture) -> str:
    """The log with its fields."""
    return "\n".join(
        f"{each.getMessage()} {getattr(each, 'nodecast_fields', '')}" for each in caplog.records
    )


def holds(one: Candidate) -> bool:
    right = one.right
    return right is not None and one.now() < right.until


def test_the_first_holds_it_and_renews_it_and_the_second_stands_by(
    cluster: Cluster, candidates: Candidates, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    won = threading.Event()
    first = candidates.start("first", changed=won.set)
    eventually(lambda: holds(first))
    assert won.is_set()
    candidates.start("second", LONG)
    eventually(lambda: "standing by: another instance holds the lease" in log(caplog))
    before = cluster.admin.get(path).body
    eventually(lambda: cluster.admin.get(path).version != before["metadata"]["resourceVersion"])
    spec = cluster.admin.get(path).body["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("first", 2)
    renewed = datetime.fromisoformat(spec["renewTime"])
    assert abs((datetime.now(UTC) - renewed).total_seconds()) < 3600


def test_a_released_lease_is_taken_without_waiting_for_its_duration(
    candidates: Candidates,
) -> None:
    first = candidates.start("first", LONG)
    eventually(lambda: holds(first))
    second = candidates.start("second", LONG)
    first.stop()
    assert not holds(first)
    eventually(lambda: holds(second))


def test_a_dead_holder_is_followed(cluster: Cluster, candidates: Candidates, path: str) -> None:
    client(cluster).write(Write(0, None, "dead", QUICK.duration, anew=True), TIME)
    second = candidates.start("second")
    eventually(lambda: holds(second))
    assert cluster.admin.get(path).body["spec"]["leaseTransitions"] == 1


def test_without_the_right_to_it_it_is_said_what_to_grant_and_it_goes_on_once_it_is(
    cluster: Cluster, candidates: Candidates, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    account = cluster.account()
    one = candidates.start("one", account=account)
    grant = "grant get, create and update on leases (coordination.k8s.io) in the namespace"
    eventually(lambda: f"{grant} {cluster.namespace}" in log(caplog))
    assert not holds(one)
    rule = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    cluster.grant(
        account, {**rule, "verbs": ["get", "create", "update"]}, namespace=cluster.namespace
    )
    eventually(lambda: holds(one), 30)
    assert log(caplog).count(grant) == 1
    assert "the lease can be used again" in log(caplog)


def test_a_namespace_that_is_not_there_is_said(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    api = Api(Access(str(cluster.kubeconfig())))
    leases = LeaseClient(api, Place("nodecast-nowhere", "chosen"), within=5)
    failures: list[NodecastError] = []
    one = Candidate(leases, "one", QUICK, lambda: None, failures.append, rng=random.Random(1))
    one.start()
    try:
        eventually(lambda: "create the namespace nodecast-nowhere" in log(caplog))
        assert (failures, one.right) == ([], None)
    finally:
        one.stop()


def test_a_server_that_answers_nothing_ends_the_right_by_the_clock(
    cluster: Cluster, candidates: Candidates
) -> None:
    with cluster.server.proxy() as proxy:
        api = Api(Access(str(cluster.kubeconfig(via=proxy))))
        leases = LeaseClient(api, Place(cluster.namespace, "chosen"), within=600)
        one = Candidate(
            leases,
            "one",
            QUICK,
            lambda: None,
            candidates.failures.append,
            rng=random.Random(1),
        )
        candidates.made.append(one)
        one.start()
        eventually(lambda: holds(one))
        proxy.freeze()
        eventually(lambda: not holds(one))
        assert one.right is not None  # its thread waits for the server still
