"""Lists that are asked for: each is answered by one that began after the call."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from bridge.placement import Rules, make_rule
from bridge.sources.events import KindStatus
from bridge.sources.kubernetes.access import Access
from nodecast.backoff import Backoff
from tests.support.informing import LISTS, LONG, QUICK, WATCHES, Informing, informing, serving
from tests.support.objects import dataset
from tests.support.tls_front import TlsFront
from tests.support.wait import eventually

DATASETS = "Dataset.sedna.io"


def relists(it: Informing, within: float = 20.0) -> None:
    """Ask for a list, and wait until one is told that began after that."""
    called = time.monotonic()
    it.source.relist([DATASETS])
    eventually(
        lambda: any(
            each.asked_at >= called and each.status is KindStatus.OK for each in it.told.lists
        ),
        within,
        what=f"a list from after the call; {it.log.warnings}",
    )
    assert it.asked("list", since=called)


def test_a_list_is_made_while_a_watch_runs(tmp_path: Path) -> None:
    with serving(dataset("a", "edge0")) as server, informing(server, tmp_path, tuning=LONG) as it:
        for _ in range(3):
            it.watching()
            relists(it)
        assert it.log.warnings == [], "an end that was wished for is no failure"
        it.watching()
        server.create(dataset("b", "edge0"))
        it.knows("a", "b")


def test_a_list_is_made_though_the_watch_is_silent(tmp_path: Path) -> None:
    with serving(dataset("a", "edge0")) as server, informing(server, tmp_path, tuning=LONG) as it:
        it.watching()
        server.faults.freeze_watches(WATCHES)
        server.delete(DATASETS, "default", "a")
        relists(it)
        assert it.told.names == set()


def test_a_list_that_was_under_way_does_not_count(tmp_path: Path) -> None:
    with serving(dataset("a", "edge0")) as server:
        server.faults.delay(0.5, LISTS, times=1)
        with informing(server, tmp_path, tuning=LONG) as it:
            eventually(lambda: it.asked("list"))
            relists(it)
            assert len(it.asked("list")) == 2
            assert len(it.told.lists) == 2


def test_a_list_that_fails_is_made_again(tmp_path: Path) -> None:
    with serving(dataset("a", "edge0")) as server, informing(server, tmp_path, tuning=LONG) as it:
        it.watching()
        server.faults.cut_after(50, LISTS, times=1)
        relists(it)
        server.faults.answer(500, b"", LISTS, times=1)
        it.watching()
        relists(it)


def test_nobody_waits_for_the_pause_of_a_kind_that_was_forbidden(tmp_path: Path) -> None:
    tuning = replace(LONG, backoff=Backoff(first=60, most=60))
    with serving(dataset("a", "edge0")) as server:
        access = Access(str(server.kubeconfig(tmp_path / "reader", user="reader")))
        with informing(server, tmp_path, tuning=tuning, access=access) as it:
            eventually(lambda: it.told.statuses.get(DATASETS) is KindStatus.FORBIDDEN)
            rule = {"apiGroups": ["sedna.io"], "resources": ["*"], "verbs": ["list", "watch"]}
            server.grant("reader", [rule])
            relists(it)
            it.knows("a")


def test_many_wishes_at_once_cost_few_lists(tmp_path: Path) -> None:
    with serving(dataset("a", "edge0")) as server, informing(server, tmp_path, tuning=LONG) as it:
        it.watching()
        server.faults.delay(0.3, LISTS, times=1)
        for _ in range(100):
            it.source.relist([DATASETS])
        relists(it)
        assert len(it.asked("list")) <= 4
        it.source.relist(["Model.sedna.io"])  # of a kind that is not watched: nothing


def test_lists_in_the_middle_of_a_stream_through_tls_lose_nothing(tmp_path: Path) -> None:
    """What is read of a connection that another thread shuts down may be anything."""
    with serving(dataset("a", "edge0")) as server, TlsFront(server.port) as front:
        access = Access(str(front.kubeconfig(server, tmp_path / "kubeconfig")))
        with informing(server, tmp_path, tuning=LONG, access=access) as it:
            for number in range(30):
                it.watching()
                server.load(dataset(f"d{number}-{each}", "edge0") for each in range(50))
                relists(it)
            names = {f"d{number}-{each}" for number in range(30) for each in range(50)}
            eventually(lambda: it.told.names == names | {"a"})
            assert it.told.gone == []
            assert it.log.warnings == []


def test_a_list_of_a_kind_that_is_not_found_is_asked_for_with_pauses(tmp_path: Path) -> None:
    rules = Rules([make_rule("Camera.example.com", ["spec.nodeName"])])
    with serving(kinds=()) as server, informing(server, tmp_path, rules=rules) as it:
        eventually(lambda: it.told.events)
        it.source.relist(rules.kinds)
        told = len(it.told.events)
        eventually(lambda: len(it.told.events) >= told + 4, within=20)
        asked = it.told.at[-4:]
        assert asked[-1] - asked[0] > QUICK.backoff.first
