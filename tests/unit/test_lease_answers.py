"""What a server answers about a Lease, and what counts for one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bridge.lease import Write
from bridge.sources.kubernetes.access import Access
from bridge.sources.kubernetes.api import Api
from bridge.sources.kubernetes.failures import ApiFailure
from bridge.sources.kubernetes.leases import LeaseClient, Place
from tests.support.rawhttp import RawServer, whole

LONG = 600.0
MINE = Write(0, None, "me", 15, anew=True)
TIME = "2026-03-02T08:15:00.123456Z"


def answer(**spec: object) -> dict[str, Any]:
    return {
        "kind": "Lease",
        "apiVersion": "coordination.k8s.io/v1",
        "metadata": {"name": "chosen", "namespace": "here", "resourceVersion": "7"},
        "spec": spec,
    }


def client(server: RawServer, directory: Path) -> LeaseClient:
    api = Api(Access(str(server.kubeconfig(directory / "kubeconfig"))))
    return LeaseClient(api, Place("here", "chosen"), within=LONG)


def test_a_lease_that_was_written_is_ours_where_it_comes_back_as_ours(tmp_path: Path) -> None:
    with RawServer(lambda _: [whole(answer(holderIdentity="me"))]) as server:
        assert client(server, tmp_path).write(MINE, TIME).holder == "me"


@pytest.mark.parametrize("spec", [{"holderIdentity": "other"}, {"holderIdentity": 7}, {}])
def test_a_lease_that_comes_back_with_another_holder_is_none_that_was_written(
    spec: dict[str, object], tmp_path: Path
) -> None:
    with (
        RawServer(lambda _: [whole(answer(**spec))]) as server,
        pytest.raises(ApiFailure, match="came back as"),
    ):
        client(server, tmp_path).write(MINE, TIME)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"kind": "Status"},
        {"kind": "LeaseList"},
        {"metadata": None},
        {"metadata": {}},
        {"metadata": {"resourceVersion": ""}},
        {"spec": "free"},
    ],
)
def test_what_is_no_lease_says_nothing_of_who_holds_it(
    wrong: dict[str, object], tmp_path: Path
) -> None:
    odd = answer() | wrong if wrong else {}
    with (
        RawServer(lambda _: [whole(odd)]) as server,
        pytest.raises(ApiFailure, match=r"no Lease|no version"),
    ):
        client(server, tmp_path).read()
