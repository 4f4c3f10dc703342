"""A server that is busy, fails, is away, or comes back older than it was."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.fakes.answers import JSON, initialising
from tests.support.informing import LISTS, LONG, QUICK, WATCHES, informing, serving
from tests.support.objects import dataset
from tests.support.wait import eventually

DATASETS = "Dataset.sedna.io"


@pytest.mark.parametrize("what", ["busy", "initialising"])
def test_retry_after_is_obeyed_and_not_grown(tmp_path: Path, what: str) -> None:
    with serving(dataset("a", "edge0")) as server:
        if what == "busy":
            fault = server.faults.busy(LISTS, retry_after=1, times=3)
        else:
            said = initialising().answer
            fault = server.faults.answer(
                said.status, said.body, LISTS, headers=said.headers, times=3
            )
        with informing(server, tmp_path, tuning=LONG) as it:
            it.knows("a")
            assert fault.hits == 3
            lists = [each.at for each in it.asked("list")]
            for before, now in pairwise(lists):
                assert 1.0 <= now - before < 2.0
            assert len(it.log.warnings) == 1


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_server_that_fails_for_a_while_is_asked_with_growing_pauses(
    tmp_path: Path, status: int
) -> None:
    with serving(dataset("a", "edge0")) as server:
        fault = server.faults.answer(
            status, b"upstream connect error", content_type="text/plain", times=4
        )
        with informing(server, tmp_path, tuning=LONG) as it:
            it.knows("a")
            assert fault.hits == 4
            lists = [each.at for each in it.asked("list")]
            for number, (before, now) in enumerate(pairwise(lists)):
                assert now - before >= QUICK.backoff.first * 2**number / 2
            assert len(it.log.warnings) == 1
            (reason,) = it.log.reasons
            assert reason.startswith(f"{status} ")
            assert reason.endswith(": upstream connect error")
            eventually(lambda: "API server can be used again" in it.log.text)


def test_a_watch_that_is_refused_for_a_while_is_resumed_where_it_stood(tmp_path: Path) -> None:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 503}
    status |= {"reason": "ServiceUnavailable", "message": "etcd has no leader"}
    with serving(dataset("a", "edge0")) as server, informing(server, tmp_path, tuning=LONG) as it:
        it.watching()
        fault = server.faults.answer(
            503, json.dumps(status).encode(), WATCHES, content_type=JSON, times=2
        )
        server.faults.cut_watches()
        server.create(dataset("b", "edge0"))
        it.knows("a", "b")
        assert fault.hits == 2
        assert it.told.gone == []
        assert it.log.reasons == ["503 ServiceUnavailable: etcd has no leader"]


def test_a_server_that_is_away_at_the_start_is_waited_for(tmp_path: Path) -> None:
    with serving(dataset("a", "edge0")) as server:
        server.down()
        with informing(server, tmp_path, tuning=LONG) as it:
            eventually(lambda: it.log.reasons)
            assert it.log.reasons == [f"{server.url}: Connection refused"]
            assert it.told.events == []
            server.up()
            it.knows("a")
            eventually(lambda: "API server can be used again" in it.log.text)


def test_a_server_that_goes_away_takes_nothing_with_it(tmp_path: Path) -> None:
    with serving(dataset("a", "edge0")) as server, informing(server, tmp_path, tuning=LONG) as it:
        it.watching()
        server.down()
        eventually(lambda: f"{server.url}: Connection refused" in it.log.reasons)
        server.create(dataset("b", "edge0"))
        server.up()
        it.knows("a", "b")
        assert it.told.gone == []


def test_a_store_that_was_restored_is_found_out_by_the_next_full_list(tmp_path: Path) -> None:
    """The version counter went back: a watch from where it stood is silent for ever."""
    tuning = replace(QUICK, resync=0.5)
    things = [dataset(name, "edge0", url="/old") for name in ("stays", "changes", "goes")]
    with serving(*things) as server, informing(server, tmp_path, tuning=tuning) as it:
        it.watching()
        backup = server.backup()
        server.delete(DATASETS, "default", "goes")
        server.replace(dataset("changes", "edge0", url="/new"))
        server.create(dataset("later", "edge0"))
        it.knows("stays", "changes", "later")
        eventually(lambda: it.told.url("changes") == "/new")
        server.restore(backup)
        it.knows("stays", "changes", "goes")
        eventually(lambda: it.told.url("changes") == "/old")
        assert it.told.gone == [f"{DATASETS}/default/goes", f"{DATASETS}/default/later"]
        server.create(dataset("new", "edge0"))
        it.knows("stays", "changes", "goes", "new")


def test_without_a_full_list_a_restored_store_would_stay_unnoticed(tmp_path: Path) -> None:
    """Which is why there is one: the watch alone cannot tell."""
    with serving(dataset("a", "edge0")) as server, informing(server, tmp_path) as it:
        it.watching()
        backup = server.backup()
        server.create(dataset("b", "edge0"))
        it.knows("a", "b")
        server.restore(backup)
        count = len(it.asked("watch"))
        eventually(lambda: len(it.asked("watch")) >= count + 2)
        assert it.told.names == {"a", "b"}
        it.source.relist([DATASETS])
        it.knows("a")
