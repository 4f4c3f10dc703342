"""A server that is there and says nothing: noticed, given up, and asked again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

from bridge.sources.events import Interrupted
from bridge.sources.kubernetes.access import Access
from tests.support.informing import LISTS, QUICK, WATCHES, Informing, informing, serving
from tests.support.objects import dataset
from tests.support.rawhttp import HEAD, RawServer, whole
from tests.support.wait import eventually


def test_k1_a_watch_without_headers_is_given_up_and_asked_again(tmp_path: Path) -> None:
    with serving(dataset("a", "edge0")) as server:
        fault = server.faults.swallow(WATCHES, times=1)
        with informing(server, tmp_path) as it:
            it.knows("a")
            eventually(lambda: fault.hits == 1)
            server.create(dataset("b", "edge0"))
            it.knows("a", "b")
            assert len(it.asked("list")) == 1, "it was resumed"
            assert it.log.reasons == [f"{server.url}: silent for too long"]


def test_k1_a_watch_that_is_silent_after_its_headers_is_resumed(tmp_path: Path) -> None:
    with serving(dataset("a", "edge0")) as server, informing(server, tmp_path) as it:
        it.watching()
        assert server.faults.freeze_watches(WATCHES) == 1
        server.create(dataset("b", "edge0"))
        it.knows("a", "b")
        assert it.told.gone == []
        assert len(it.asked("list")) == 1


def test_k1_while_a_silent_watch_is_not_resumed_it_is_told_that_news_may_be_missing(
    tmp_path: Path,
) -> None:
    with serving(dataset("a", "edge0")) as server, informing(server, tmp_path) as it:
        it.watching()
        fault = server.faults.swallow(WATCHES)
        server.faults.freeze_watches(WATCHES)
        eventually(lambda: interruptions(it) == [True])
        fault.clear()
        eventually(lambda: interruptions(it) == [True, False])


def interruptions(it: Informing) -> list[bool]:
    return [each.now for each in it.told.events if isinstance(each, Interrupted)]


def test_k1_a_stream_that_falls_silent_in_the_middle_is_resumed(tmp_path: Path) -> None:
    with serving(dataset("a", "edge0")) as server, informing(server, tmp_path) as it:
        it.watching()
        server.create(dataset("b", "edge0"))
        it.knows("a", "b")
        server.faults.freeze_watches(WATCHES)
        server.create(dataset("c", "edge0"))
        server.delete("Dataset.sedna.io", "default", "a")
        it.knows("b", "c")
        last = it.asked("watch")[-1]
        assert int(last.query["resourceVersion"]) > int(
            it.asked("watch")[0].query["resourceVersion"]
        ), "it goes on where it stood"


def test_k1_a_quiet_and_healthy_watch_says_nothing(tmp_path: Path) -> None:
    with serving(dataset("a", "edge0")) as server, informing(server, tmp_path) as it:
        eventually(lambda: len(it.asked("watch")) >= 4)
        assert it.log.warnings == []
        assert len(it.asked("list")) == 1


def test_a_watch_that_trickles_is_given_up(tmp_path: Path) -> None:
    """A byte now and then is no silence: one chunk of HTTP may take an hour."""
    listed = {
        "apiVersion": "sedna.io/v1alpha1",
        "kind": "DatasetList",
        "metadata": {"resourceVersion": "10"},
        "items": [],
    }
    over = threading.Event()

    def trickle() -> Iterator[bytes]:
        yield HEAD.replace(b"Connection: close", b"Transfer-Encoding: chunked") + b"\r\n8000\r\n"
        while not over.wait(0.1):
            yield b" "

    with (
        RawServer(lambda target: trickle() if "watch=" in target else [whole(listed)]) as raw,
        serving() as server,
        informing(server, tmp_path, access=Access(str(raw.kubeconfig(tmp_path / "raw")))),
    ):
        eventually(lambda: sum("watch=" in each for each in raw.asked) >= 2)
        over.set()


def test_a_list_that_is_never_answered_is_asked_again(tmp_path: Path) -> None:
    with serving(dataset("a", "edge0")) as server:
        server.faults.swallow(LISTS, times=1)
        with informing(server, tmp_path) as it:
            it.knows("a")
            assert it.log.reasons == [f"{server.url}: silent for too long"]


def test_a_server_that_is_frozen_as_a_whole_is_given_up_and_found_again(tmp_path: Path) -> None:
    with serving(dataset("a", "edge0")) as server, informing(server, tmp_path) as it:
        it.watching()
        server.faults.freeze()
        server.create(dataset("b", "edge0"))
        eventually(lambda: it.log.reasons)
        assert set(it.log.reasons) == {f"{server.url}: silent for too long"}
        server.faults.thaw()
        it.knows("a", "b")
        assert it.told.gone == []


def test_pages_have_a_time_limit_each_and_not_together(tmp_path: Path) -> None:
    things = [dataset(f"d{number:03}", "edge0") for number in range(2 * QUICK.page + 1)]
    with serving(*things) as server:
        server.faults.delay(QUICK.silence / 2, LISTS)
        with informing(server, tmp_path) as it:
            it.listed()
            assert [len(each.objects or ()) for each in it.told.lists] == [len(things)]
            assert it.log.warnings == []
