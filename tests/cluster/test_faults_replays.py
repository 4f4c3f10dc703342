"""Servers that repeat: every new watch begins with all objects as ADDED, some of them old."""

from __future__ import annotations

import json
from pathlib import Path

from bridge.sources.events import Changed, Listed
from tests.fakes.apiserver import ApiServer
from tests.fakes.crds import plural_of
from tests.support.fleet import BRIDGE_SETTINGS, Look
from tests.support.informing import Told, informing, serving
from tests.support.mosquitto import Broker
from tests.support.mqtt import Observer
from tests.support.objects import KINDS, dataset, made
from tests.support.process import Process
from tests.support.wait import eventually

A = "Dataset.sedna.io/default/a"


def urls_told(told: Told, key: str) -> list[str]:
    """`spec.url` of an object each time that something was told of it."""
    found = []
    for event in told.events:
        objects = event.objects if isinstance(event, Listed | Changed) else None
        record = (objects or {}).get(key)
        if record is not None:
            found.append(json.loads(record.encoded)["spec"]["url"])
    return found


def test_k4_a_body_that_was_replaced_never_comes_back(tmp_path: Path) -> None:
    with serving(dataset("a", "edge0", url="/1"), dataset("b", "edge0")) as server:
        server.replace(dataset("a", "edge0", url="/2"))
        server.replace(dataset("a", "edge0", url="/3"))
        server.faults.replay(old=True)
        with informing(server, tmp_path) as it:
            eventually(lambda: len(it.asked("watch")) >= 5)
            assert set(urls_told(it.told, A)) == {"/3"}
            assert not any(isinstance(each, Changed) for each in it.told.events)
            assert it.told.gone == []
            assert len(it.asked("list")) == 2, "one for the first doubt: what it refuted is known"


def test_k4_a_change_comes_soon_while_each_watch_replays(tmp_path: Path) -> None:
    with serving(dataset("a", "edge0", url="/1"), dataset("b", "edge0")) as server:
        server.replace(dataset("a", "edge0", url="/2"))
        server.faults.replay(old=True)
        with informing(server, tmp_path) as it:
            it.watching()
            for number in range(3, 8):
                server.replace(dataset("a", "edge0", url=f"/{number}"))
                eventually(lambda number=number: it.told.url("a") == f"/{number}")
                server.faults.cut_watches()
                it.watching()
            assert urls_told(it.told, A) == sorted(urls_told(it.told, A))


def test_k4_an_object_that_was_deleted_stays_gone(tmp_path: Path) -> None:
    with serving(dataset("a", "edge0"), dataset("b", "edge0")) as server:
        server.faults.replay(old=True)
        with informing(server, tmp_path) as it:
            it.watching()
            server.delete("Dataset.sedna.io", "default", "b")
            it.knows("a")
            count = len(it.asked("watch"))
            eventually(lambda: len(it.asked("watch")) >= count + 2)
            assert it.told.names == {"a"}


def test_k4_no_snapshot_is_published_again_by_a_bridge_whose_watches_replay(
    tmp_path: Path, broker: Broker, observer: Observer
) -> None:
    things = [dataset("a", "edge0", url="/1"), dataset("b", "edge1")]
    things += [made(kind, "keep", {}) for kind in KINDS]  # kinds that are empty are listed twice
    with serving(*things, kinds=KINDS) as server:
        server.replace(dataset("a", "edge0", url="/2"))
        server.faults.replay(old=True)
        bridge = bridge_on(server, broker, tmp_path)
        look = Look(observer)
        try:
            bridge.start()
            eventually(lambda: settled(look, "edge0") == ["/2"] and settled(look, "edge1"), 30)
            before = snapshots(observer)
            reconnect(server)
            assert snapshots(observer) == before
            server.replace(dataset("a", "edge0", url="/3"))
            eventually(lambda: settled(look, "edge0") == ["/3"], within=15)
            reconnect(server)
            after = snapshots(observer)
            assert after["edge1"] == before["edge1"]
            assert len(after["edge0"]) == len(before["edge0"]) + 1
        finally:
            bridge.end()
            print(bridge.log)


def bridge_on(server: ApiServer, broker: Broker, directory: Path) -> Process:
    kubeconfig = server.kubeconfig(directory / "kubeconfig")
    arguments = ["nodecast-bridge", "run", "--kubeconfig", str(kubeconfig)]
    return Process(
        directory / "bridge.log", [*arguments, "--mqtt-url", broker.url], BRIDGE_SETTINGS
    )


def reconnect(server: ApiServer) -> None:
    """End the watches, and wait until those of all kinds are made anew."""
    before = watches_of(server)
    server.faults.cut_watches()
    eventually(
        lambda: all(count > before[plural] for plural, count in watches_of(server).items()),
        within=20,
        what="all watches are made anew",
    )


def watches_of(server: ApiServer) -> dict[str, int]:
    """How many watches of each kind there have been."""
    return {
        plural: len(server.requests(verb="watch", resource=plural))
        for plural in map(plural_of, KINDS)
    }


def settled(look: Look, node: str) -> list[str]:
    """The URLs of the Datasets of a node, once nothing is held any more."""
    snapshot = look.snapshot(node)
    if snapshot is None or snapshot.held_kinds:
        return []
    return [json.loads(each.body)["spec"]["url"] for each in snapshot.resources]


def snapshots(observer: Observer) -> dict[str, list[bytes]]:
    """Every snapshot published so far."""
    return {
        node: [each.payload for each in observer.of(f"node/{node}/resources")]
        for node in ("edge0", "edge1")
    }
