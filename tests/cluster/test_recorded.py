"""The fake API server answers as a real one did: every recorded exchange is sent to it and
compared.

A script a file brings the fake into the state that the recording was made in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.cluster.replay import RECORDED, Clock, Replay
from tests.fakes.apiserver import ApiServer
from tests.fakes.crds import crd
from tests.fakes.definitions import Delays
from tests.fakes.faults import Match

_TEXT = {"type": "string"}
_DATASET_SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["url", "format"],
            "properties": {"url": _TEXT, "format": _TEXT, "nodeName": _TEXT},
        },
        "status": {"type": "object", "properties": {"numberOfSamples": {"type": "integer"}}},
    },
}
_DATASETS = crd("Dataset", schema=_DATASET_SCHEMA)


def _dataset(name: str, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "sedna.io/v1alpha1",
        "kind": "Dataset",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {"url": "/d", "format": "txt", "nodeName": "edge-1"},
    }


def _create(server: ApiServer, name: str, **metadata: Any) -> dict[str, Any]:
    return server.create(_dataset(name, **metadata))


def _labelled(server: ApiServer, *names: str) -> None:
    """d1 and d3 are gold, d2 and d4 are tin."""
    for name in names:
        _create(server, name, labels={"tier": "gold" if name in ("d1", "d3") else "tin"})


def _five(server: ApiServer) -> None:
    """d0 to d4 at the versions 218 to 222."""
    server.install(_DATASETS)
    server.skip_to(217)
    _create(server, "d0")
    _labelled(server, "d1", "d2", "d3", "d4")


def _auth(replay: Replay) -> None:
    replay.server.install(_DATASETS)
    replay.exchange(0, 1, 2, 3, 4)


def _busy(replay: Replay) -> None:
    replay.server.install(_DATASETS)
    replay.server.faults.busy(Match(user="plain-user"), times=1)
    replay.exchange(0)


def _missing_kind(replay: Replay) -> None:
    replay.exchange(0, 1)
    replay.server.install(_DATASETS)
    replay.exchange(2)


def _list(replay: Replay) -> None:
    replay.server.install(_DATASETS)
    replay.clock.now += 10  # its storage is initialised
    replay.server.skip_to(217)
    replay.exchange(0, 1, 2)
    _labelled(replay.server, "d1", "d2", "d3", "d4")
    replay.exchange(*range(3, 10))


def _watch(replay: Replay) -> None:
    server = replay.server
    _five(server)
    replay.clock.now += 10

    def a_life() -> None:
        _create(server, "w1")
        server.merge("Dataset", "default", "w1", {"spec": {"url": "/e"}})
        server.merge("Dataset", "default", "w1", {"status": {"numberOfSamples": 7}}, sub="status")
        server.merge("Dataset", "default", "w1", {"metadata": {"labels": {"a": "b"}}})
        server.delete("Dataset", "default", "w1")

    def out_and_in() -> None:
        server.skip_to(229)
        server.merge("Dataset", "default", "d1", {"metadata": {"labels": None}})
        server.merge("Dataset", "default", "d1", {"metadata": {"labels": {"tier": "gold"}}})

    replay.watch(0, a_life)
    replay.watch(1)
    replay.watch(2, out_and_in)
    replay.watch(3)
    replay.exchange(4)


def _finalizer(replay: Replay) -> None:
    replay.server.install(_DATASETS)
    replay.clock.now += 10
    replay.server.skip_to(234)
    _create(replay.server, "f1", finalizers=["example.com/hold"])
    replay.exchange(0, 1)
    replay.watch(2)


def _status(replay: Replay) -> None:
    server = replay.server
    server.install(_DATASETS)
    server.install(crd("Plain", status=False))
    replay.clock.now += 10
    server.skip_to(236)
    _labelled(server, "d2")
    replay.exchange(0, 1)
    server.merge("Dataset", "default", "d2", {"spec": {"url": "/n"}})
    replay.exchange(2, 3, 4, 5)
    plain = {"apiVersion": "sedna.io/v1alpha1", "kind": "Plain", "spec": {"a": 1}}
    server.create({**plain, "metadata": {"name": "p", "namespace": "default"}})
    replay.exchange(6, 7)


def _events_and_leases(replay: Replay) -> None:
    replay.server.skip_to(241)
    replay.exchange(0, 1, 2, 3, 4, 5, 6)


def _gone(replay: Replay) -> None:
    replay.server.install(_DATASETS)
    replay.clock.now += 10
    replay.server.skip_to(281)
    replay.server.compact()
    replay.exchange(0)
    replay.watch(1)
    replay.exchange(2)


def _crd_removed(replay: Replay) -> None:
    server = replay.server
    _five(server)
    server.merge("Dataset", "default", "d1", {"spec": {"url": "/future"}})
    server.merge("Dataset", "default", "d2", {"status": {"numberOfSamples": 12}}, sub="status")
    server.merge("Dataset", "default", "d2", {"spec": {"url": "/n"}})
    replay.clock.now += 10
    server.skip_to(246)  # the real one writes the CRD twice before its objects go
    replay.watch(3, lambda: server.uninstall("datasets.sedna.io"))
    replay.exchange(0)
    server.install(_DATASETS)
    replay.clock.now += 10
    server.skip_to(258)
    replay.exchange(1, 2)


SCRIPTS: dict[str, Callable[[Replay], None]] = {
    "auth": _auth,
    "busy": _busy,
    "crd-removed": _crd_removed,
    "events-and-leases": _events_and_leases,
    "finalizer": _finalizer,
    "gone": _gone,
    "list": _list,
    "missing-kind": _missing_kind,
    "status": _status,
    "watch": _watch,
}


@pytest.mark.parametrize("name", sorted(path.stem for path in RECORDED.glob("*.json")))
def test_the_fake_answers_as_the_real_server_did(name: str) -> None:
    clock = Clock()
    delays = Delays(established=0.01, initialising=5.0, gone=0.05)
    with ApiServer(clock=clock, delays=delays) as server:
        replay = Replay(name, server, clock)
        SCRIPTS[name](replay)
        replay.nothing_left()
