"""Bookmarks: objects without a name that only move the version."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.support.informing import QUICK, informing, serving
from tests.support.objects import dataset
from tests.support.wait import eventually

# Servers send none in the last second and a half of a watch.
TUNING = replace(QUICK, watch=3.0)


def test_k7_a_bookmark_tells_nothing_and_the_next_watch_starts_at_it(tmp_path: Path) -> None:
    with (
        serving(dataset("a", "edge0"), bookmark_every=0.2) as server,
        informing(server, tmp_path, tuning=TUNING) as it,
    ):
        it.watching()
        server.skip_to(server.version + 5000)
        eventually(
            lambda: it.asked("watch")[-1].query["resourceVersion"] == str(server.version),
            what="a watch from the version of the bookmark",
        )
        assert len(it.told.events) == 1, "the list alone"
        assert it.log.warnings == []
        assert len(it.asked("list")) == 1


def test_k7_history_forgotten_up_to_a_bookmark_costs_no_list(tmp_path: Path) -> None:
    with (
        serving(dataset("a", "edge0"), bookmark_every=0.2) as server,
        informing(server, tmp_path, tuning=TUNING) as it,
    ):
        it.watching()
        server.skip_to(server.version + 5000)
        eventually(lambda: it.asked("watch")[-1].query["resourceVersion"] == str(server.version))
        server.compact()
        count = len(it.asked("watch"))
        eventually(lambda: len(it.asked("watch")) > count)
        server.create(dataset("b", "edge0"))
        it.knows("a", "b")
        assert len(it.asked("list")) == 1
