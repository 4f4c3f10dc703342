"""Stopping at once, whatever the source waits for."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

from bridge.sources.kubernetes.access import Access
from nodecast.backoff import Backoff
from tests.fakes.faults import ANY
from tests.support.informing import LISTS, LONG, WATCHES, Informing, informing, serving
from tests.support.objects import dataset
from tests.support.rawhttp import HEAD, RawServer
from tests.support.tls_front import TlsFront
from tests.support.wait import eventually

NAME = "informer Dataset.sedna.io"


def stops(it: Informing) -> None:
    """It stops, and tells nothing more. What it waited for would take ten minutes, or for ever."""
    assert informers()
    it.source.stop()
    told = len(it.told.events)
    it.server.create(dataset("after", "edge0"))
    assert len(it.told.events) == told


def informers() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == NAME]


def test_stops_while_it_watches(tmp_path: Path) -> None:
    with serving(dataset("a", "edge0")) as server, informing(server, tmp_path, tuning=LONG) as it:
        it.watching()
        it.listed()
        stops(it)
        eventually(lambda: informers() == [])


def test_stops_while_it_watches_a_server_that_fell_silent(tmp_path: Path) -> None:
    with serving(dataset("a", "edge0")) as server, informing(server, tmp_path, tuning=LONG) as it:
        it.watching()
        server.faults.freeze()
        stops(it)
        eventually(lambda: informers() == [])


def test_stops_in_a_list_that_stands_still_in_its_middle(tmp_path: Path) -> None:
    def answer(_: str) -> list[bytes | None]:
        return [HEAD + b"Content-Length: 1000\r\n\r\n" + b'{"kind":', None]

    with RawServer(answer) as raw, serving() as server:
        access = Access(str(raw.kubeconfig(tmp_path / "raw")))
        with informing(server, tmp_path, tuning=LONG, access=access) as it:
            eventually(lambda: raw.asked)
            stops(it)
            eventually(lambda: informers() == [])


def test_stops_in_a_pause(tmp_path: Path) -> None:
    tuning = replace(LONG, backoff=Backoff(first=600, most=600))
    with serving() as server:
        server.faults.answer(500, b"", ANY)
        with informing(server, tmp_path, tuning=tuning) as it:
            eventually(lambda: it.log.warnings)
            stops(it)
            eventually(lambda: informers() == [])


def test_stops_in_the_pause_of_a_kind_that_is_held(tmp_path: Path) -> None:
    tuning = replace(LONG, backoff=Backoff(first=600, most=600))
    with serving() as server:
        path = server.kubeconfig(tmp_path / "nobody", user="nobody")
        with informing(server, tmp_path, tuning=tuning, access=Access(str(path))) as it:
            eventually(lambda: it.told.events)
            stops(it)
            eventually(lambda: informers() == [])


def test_stops_before_an_answer_has_begun(tmp_path: Path) -> None:
    """Nothing breaks into that: the thread is left behind, and ends with the answer."""
    for match in (LISTS, WATCHES):
        directory = tmp_path / str(match.verb)
        directory.mkdir()
        with serving(dataset("a", "edge0")) as server:
            fault = server.faults.swallow(match)
            with informing(server, directory, tuning=LONG) as it:
                eventually(lambda fault=fault: fault.hits)
                stops(it)
                assert [event for event, _ in it.log.warnings] == [
                    "informers still waiting for the server, left behind"
                ]
                fault.clear()
                eventually(lambda: informers() == [])


def test_stops_before_it_was_started_and_twice(tmp_path: Path) -> None:
    with serving() as server, informing(server, tmp_path, tuning=LONG) as it:
        it.listed()
        stops(it)
        it.source.stop()
        assert it.log.warnings == []


def test_tells_nothing_when_an_answer_comes_after_it_was_stopped(tmp_path: Path) -> None:
    with serving(dataset("a", "edge0")) as server:
        fault = server.faults.delay(1.5, LISTS)
        with informing(server, tmp_path, tuning=LONG) as it:
            eventually(lambda: fault.hits)
            stops(it)
            eventually(lambda: informers() == [])
            assert it.told.events == []


def test_stops_while_it_watches_through_tls(tmp_path: Path) -> None:
    with serving(dataset("a", "edge0")) as server, TlsFront(server.port) as front:
        access = Access(str(front.kubeconfig(server, tmp_path / "kubeconfig")))
        with informing(server, tmp_path, tuning=LONG, access=access) as it:
            it.watching()
            it.listed()
            stops(it)
            eventually(lambda: informers() == [])
