"""Watches that end at once, are cut, or are reset: paced, resumed, and complete afterwards."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from tests.fakes.crds import plural_of
from tests.support.informing import LISTS, LONG, QUICK, WATCHES, informing, rules_of, serving
from tests.support.objects import KINDS, dataset
from tests.support.wait import eventually

TEN_SECONDS = 1.0
"""A tenth: pauses are a tenth of the real ones too."""
HANDFUL = 8


def test_k10_a_server_that_closes_each_watch_at_once_is_asked_a_handful_of_times(
    tmp_path: Path,
) -> None:
    with serving(dataset("a", "edge0")) as server:
        fault = server.faults.close_watches_at_once()
        with informing(server, tmp_path, tuning=LONG) as it:
            eventually(lambda: fault.hits >= 6)
            watches = [each.at for each in it.asked("watch")]
            requests = sorted(watches + [each.at for each in it.asked("list")])
            assert len([at for at in requests if at < requests[0] + TEN_SECONDS]) <= HANDFUL
            for number, (before, now) in enumerate(pairwise(watches[:5])):
                assert now - before >= QUICK.backoff.first * 2**number / 2, "growing"
            assert it.log.reasons == ["the server ends each watch at once"], "said once"
            fault.clear()
            server.create(dataset("b", "edge0"))
            it.knows("a", "b")
            assert it.told.gone == []


def test_k10_informers_that_failed_together_do_not_come_back_together(tmp_path: Path) -> None:
    plurals = [plural_of(kind) for kind in KINDS]
    with serving(kinds=KINDS) as server:
        server.faults.close_watches_at_once()
        with informing(server, tmp_path, tuning=LONG, rules=rules_of(*KINDS)):

            def fourth(plural: str) -> float | None:
                """Seconds from the first watch of a kind to its fourth."""
                at = [each.at for each in server.requests(verb="watch", resource=plural)]
                return at[3] - at[0] if len(at) > 3 else None

            eventually(lambda: all(map(fourth, plurals)))
            waited = [fourth(plural) or 0.0 for plural in plurals]
            # Three pauses of half their length and a random part of the other half: 0.35 to 0.7.
            assert max(waited) - min(waited) > 0.02


@pytest.mark.parametrize("reset", [False, True], ids=["fin", "rst"])
def test_k10_a_line_that_is_cut_is_dropped_and_comes_whole(tmp_path: Path, reset: bool) -> None:
    with serving(dataset("a", "edge0")) as server:
        fault = server.faults.cut_after(40, WATCHES, reset=reset, times=2)
        with informing(server, tmp_path, tuning=LONG) as it:
            it.watching()
            server.create(dataset("b", "edge0"))
            it.knows("a", "b")
            assert fault.hits == 2
            versions = [each.query["resourceVersion"] for each in it.asked("watch")]
            assert versions[0] == versions[1] == versions[2], "half a line moves nothing"
            assert len(it.asked("list")) == 1
            server.delete("Dataset.sedna.io", "default", "a")
            it.knows("b")


@pytest.mark.parametrize("reset", [False, True], ids=["fin", "rst"])
def test_k10_streams_that_are_always_cut_are_asked_for_a_handful_of_times(
    tmp_path: Path, reset: bool
) -> None:
    with serving(dataset("a", "edge0")) as server:
        fault = server.faults.cut_after(40, WATCHES, reset=reset)
        with informing(server, tmp_path, tuning=LONG) as it:
            it.watching()
            server.create(dataset("b", "edge0"))
            eventually(lambda: fault.hits >= 3)
            it.knows("a", "b")  # by a list: the watch never gets there
            requests = [each.at for each in it.asked("watch") + it.asked("list")]
            first_cut = it.asked("watch")[1].at
            soon = [at for at in requests if first_cut <= at < first_cut + TEN_SECONDS]
            assert len(soon) <= HANDFUL
            assert len(it.log.warnings) <= 1
            fault.clear()
            server.faults.cut_watches()
            server.replace(dataset("b", "edge0", url="/new"))
            eventually(lambda: it.told.url("b") == "/new")
            assert it.told.gone == []


def test_k10_a_list_that_is_cut_does_not_count(tmp_path: Path) -> None:
    things = [dataset(f"d{number}", "edge0") for number in range(5)]
    with serving(*things) as server:
        server.faults.cut_after(700, LISTS, reset=False, times=2)
        with informing(server, tmp_path, tuning=LONG) as it:
            it.knows(*(f"d{number}" for number in range(5)))
            assert len(it.told.lists) == 1
            assert it.log.reasons == [f"{server.url}: the connection broke off"]
