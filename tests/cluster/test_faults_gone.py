"""410 Gone: what a watch goes on from, or a list continues, is forgotten."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from nodecast.backoff import Backoff
from tests.fakes.apiserver import ApiServer
from tests.fakes.faults import Fault
from tests.support.informing import LISTS, LONG, QUICK, WATCHES, informing, serving
from tests.support.objects import dataset
from tests.support.wait import eventually

STATUS = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "too old resource version: 1 (900)",
    "reason": "Expired",
    "code": 410,
}
LINE = json.dumps({"type": "ERROR", "object": STATUS}).encode() + b"\n"


def gone(server: ApiServer, how: str, times: int) -> Fault:
    """Watches are answered with 410, as an event or as the status."""
    if how == "event":
        return server.faults.answer(200, LINE, WATCHES, times=times)
    return server.faults.answer(410, json.dumps(STATUS).encode(), WATCHES, times=times)


def test_k2_a_watch_whose_past_is_compacted_is_replaced_by_a_list(tmp_path: Path) -> None:
    things = [dataset(name, "edge0") for name in "ab"]
    with serving(*things) as server, informing(server, tmp_path, tuning=LONG) as it:
        it.watching()
        server.faults.freeze_watches(WATCHES)
        server.delete("Dataset.sedna.io", "default", "a")
        server.create(dataset("c", "edge0"))
        server.compact()
        server.faults.cut_watches(WATCHES)
        it.knows("b", "c")
        it.watching()
        assert [len(it.asked(verb)) for verb in ("list", "watch")] == [2, 3]
        assert it.asked("watch")[-1].query["resourceVersion"] == str(server.version)
        assert it.told.gone == ["Dataset.sedna.io/default/a"]
        assert it.log.warnings == [], "that is daily life"


@pytest.mark.parametrize("how", ["event", "status"])
def test_k2_the_first_gone_costs_a_list_and_no_pause(tmp_path: Path, how: str) -> None:
    never = replace(LONG, backoff=Backoff(first=600.0, most=600.0))
    with serving(dataset("a", "edge0")) as server:
        fault = gone(server, how, 1)
        with informing(server, tmp_path, tuning=never) as it:
            it.watching()
            assert fault.hits == 1
            assert [len(it.asked(verb)) for verb in ("list", "watch")] == [2, 2]


@pytest.mark.parametrize("how", ["event", "status"])
@pytest.mark.parametrize("times", [2, 5])
def test_k2_gone_again_and_again_costs_a_list_and_a_pause_each_time(
    tmp_path: Path, how: str, times: int
) -> None:
    with serving(dataset("a", "edge0"), dataset("b", "edge0")) as server:
        fault = gone(server, how, times)
        with informing(server, tmp_path, tuning=LONG) as it:
            eventually(lambda: fault.hits == times)
            it.watching()
            assert it.told.names == {"a", "b"}
            assert it.told.gone == []
            lists, watches = it.asked("list"), it.asked("watch")
            assert (len(lists), len(watches)) == (times + 1, times + 1)
            pauses = [now.at - before.at for before, now in zip(watches, lists[1:], strict=False)]
            for number, pause in enumerate(pauses[1:]):
                assert pause >= QUICK.backoff.first * 2**number / 2
            assert watches[-1].query["resourceVersion"] == str(server.version)
            server.create(dataset("c", "edge0"))
            it.knows("a", "b", "c")


def test_k2_a_list_that_cannot_be_continued_is_begun_again(tmp_path: Path) -> None:
    things = [dataset(f"d{number:03}", "edge0") for number in range(QUICK.page + 20)]
    with serving(*things) as server:

        def compacting(page: bytes) -> bytes:
            """Between this page and the next, an object goes and the past is forgotten."""
            server.delete("Dataset.sedna.io", "default", "d000")
            server.compact()
            return page

        server.faults.garble(compacting, LISTS, times=1)
        with informing(server, tmp_path, tuning=LONG) as it:
            it.knows(*(f"d{number:03}" for number in range(1, QUICK.page + 20)))
            assert len(it.told.lists) == 1, "half a list does not count"
            assert len(it.asked("list")) == 4
            assert it.log.warnings == []


def test_k2_lists_that_can_never_be_continued_are_paced(tmp_path: Path) -> None:
    things = [dataset(f"d{number:03}", "edge0") for number in range(QUICK.page + 20)]
    with serving(*things) as server:

        def compacting(page: bytes) -> bytes:
            server.replace(things[0])
            server.compact()
            return page

        server.faults.garble(compacting, LISTS, times=5)
        with informing(server, tmp_path, tuning=LONG) as it:
            it.listed()
            firsts = [each for each in it.asked("list") if "continue" not in each.query]
            assert len(firsts) <= 5
            assert all("resourceVersion" not in each.query for each in it.asked("list"))
            assert len(it.told.lists) == 1
