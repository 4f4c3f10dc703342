"""The cluster that a bridge began with is the only one that it serves."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from bridge.placement import Rules, built_in
from bridge.sources.events import SourceEvent
from bridge.sources.kubernetes.access import Access
from bridge.sources.kubernetes.api import Api
from bridge.sources.kubernetes.failures import Refusal
from bridge.sources.kubernetes.identity import AnotherCluster, Identity
from bridge.sources.kubernetes.scope import Scope, Tuning
from bridge.sources.kubernetes.source import KubernetesSource
from tests.fakes.apiserver import ApiServer
from tests.fakes.faults import Match
from tests.support.informing import serving
from tests.support.objects import dataset
from tests.support.wait import eventually

SYSTEM = Match(resource="namespaces")
RULES = Rules([rule for rule in built_in() if rule.kind.startswith("Dataset")])


def api_of(server: ApiServer, tmp_path: Path) -> Api:
    return Api(Access(str(server.kubeconfig(tmp_path / "kubeconfig"))))


def another(server: ApiServer) -> None:
    """From now on the server is that of another cluster."""
    body = json.dumps({"kind": "Namespace", "metadata": {"name": "kube-system", "uid": "other"}})
    server.faults.answer(200, body.encode(), SYSTEM)


def test_the_same_cluster_is_confirmed_and_another_is_not(tmp_path: Path) -> None:
    with serving() as server:
        identity = Identity(api_of(server, tmp_path))
        identity.confirm()  # nothing is known yet
        identity.find_out()
        identity.confirm()
        another(server)
        with pytest.raises(AnotherCluster, match=r"is another cluster by now .* is other, it"):
            identity.confirm()


def test_what_cannot_be_asked_is_not_confirmed(tmp_path: Path) -> None:
    with serving() as server:
        identity = Identity(api_of(server, tmp_path))
        identity.find_out()
        server.faults.answer(403, b"{}", SYSTEM)
        with pytest.raises(Refusal):
            identity.confirm()


def test_e11_a_list_of_another_cluster_ends_the_source_and_tells_nothing(tmp_path: Path) -> None:
    told: list[SourceEvent] = []
    failed: list[BaseException] = []
    with serving(dataset("a", "edge0")) as server:
        api = api_of(server, tmp_path)
        identity = Identity(api)
        identity.find_out()
        source = KubernetesSource(
            api,
            Scope(),
            RULES,
            told.append,
            fail=failed.append,
            tuning=Tuning(),
            rng=random.Random(1),
            identity=identity,
        )
        source.start()
        try:
            eventually(lambda: len(told) == 1 and server.watches("datasets"))
            another(server)
            server.delete("Dataset", "default", "a")
            eventually(lambda: len(told) == 2)
            source.relist(RULES.kinds)
            eventually(lambda: failed)
        finally:
            source.stop()
        assert isinstance(failed[0], AnotherCluster)
        assert failed[0].exit_code == 78
        assert len(told) == 2
