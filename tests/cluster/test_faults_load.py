"""Much at once: many informers, one large event, many events."""

from __future__ import annotations

import threading
from pathlib import Path

from bridge.placement import Rules, make_rule
from bridge.sources.events import KindStatus
from bridge.sources.kubernetes.scope import Scope
from tests.fakes.crds import crd, plural_of
from tests.support.informing import LONG, informing, serving
from tests.support.objects import dataset, made
from tests.support.wait import eventually

NAMESPACES = ("one", "two", "three")


def test_twenty_kinds_in_three_namespaces_start_and_stop_cleanly(tmp_path: Path) -> None:
    kinds = [f"Kind{number}" for number in range(20)]
    rules = Rules(
        [
            make_rule(
                f"{kind}.many.test",
                ["spec.nodeName"],
                version="v1alpha1",
                plural=plural_of(kind),
            )
            for kind in kinds
        ]
    )
    with serving(kinds=()) as server:
        for namespace in NAMESPACES:
            server.namespace(namespace)
        for kind in kinds:
            server.install(crd(kind, "many.test"))
        with informing(server, tmp_path, tuning=LONG, rules=rules, scope=Scope(NAMESPACES)) as it:
            eventually(lambda: len(server.watches()) == 60, within=20)
            assert set(it.told.statuses.values()) == {KindStatus.OK}
            for kind in kinds:
                for namespace in NAMESPACES:
                    server.create(
                        made(f"{kind}.many.test", f"x-{namespace}", {}, namespace=namespace)
                    )
            eventually(lambda: len(it.told.objects) == 60)
            it.source.stop()
            assert it.log.warnings == [], "the pool of connections is large enough, too"
            assert not [e for e in threading.enumerate() if e.name.startswith("informer ")]


def test_an_event_of_five_megabytes_comes_whole(tmp_path: Path) -> None:
    url = "x" * 5_000_000
    with serving(dataset("a", "edge0")) as server, informing(server, tmp_path, tuning=LONG) as it:
        it.watching()
        server.create(dataset("large", "edge0", url=url))
        server.create(dataset("small", "edge0"))
        it.knows("a", "large", "small")
        assert it.told.url("large") == url
        assert len(it.asked("list")) == 1


def test_ten_thousand_events_in_one_burst_are_all_told(tmp_path: Path) -> None:
    with serving(dataset("a", "edge0")) as server, informing(server, tmp_path, tuning=LONG) as it:
        it.watching()
        server.load(dataset(f"d{number}", f"edge{number % 10}") for number in range(5000))
        for number in range(0, 5000, 2):
            server.delete("Dataset.sedna.io", "default", f"d{number}")
        server.load(dataset(f"e{number}", "edge0") for number in range(2500))
        wanted = {f"d{number}" for number in range(1, 5000, 2)}
        wanted |= {f"e{number}" for number in range(2500)} | {"a"}
        eventually(lambda: it.told.names == wanted, within=30, every=0.1)
        assert len(it.asked("list")) == 1
        assert it.log.warnings == []
