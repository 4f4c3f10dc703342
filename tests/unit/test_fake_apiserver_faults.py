"""The faults of the fake API server: each does what it says, to whom it says, and no longer than
ordered."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.fakes.apiserver import ApiServer
from tests.fakes.crds import crd
from tests.fakes.faults import Match
from tests.support.api_calls import Caller, Stream
from tests.support.objects import dataset
from tests.support.wait import eventually

DATASETS = "/apis/sedna.io/v1alpha1/datasets"
WATCH = f"{DATASETS}?watch=1"
LISTS = Match(verb="list", resource="datasets")


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """A server with the Datasets a and b."""
    with ApiServer() as running:
        running.install(crd("Dataset"))
        for name in ("a", "b"):
            running.create(dataset(name, "edge-1"))
        yield running


@pytest.fixture
def admin(server: ApiServer) -> Caller:
    return Caller(server.port, server.admin_token)


def started(stream: Stream) -> Stream:
    """The stream, once it has shown what is there."""
    eventually(lambda: len(stream.events) >= 2, what="the first events")
    return stream


def test_an_answer_is_given_as_often_as_ordered(server: ApiServer, admin: Caller) -> None:
    fault = server.faults.answer(503, b"{}", LISTS, times=2)
    assert [admin.get(DATASETS).status for _ in range(3)] == [503, 503, 200]
    assert fault.hits == 2


def test_a_fault_is_for_those_it_is_meant_for(server: ApiServer, admin: Caller) -> None:
    server.grant("other", [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}])
    server.faults.busy(Match(user="other", verb="list"), retry_after=3)
    other = Caller(server.port, server.token("other"))
    refused = other.get(DATASETS)
    assert (refused.status, refused.headers["Retry-After"]) == (429, "3")
    assert other.get("/api/v1/namespaces/default").status == 200
    assert admin.get(DATASETS).status == 200


def test_faults_that_are_cleared_are_gone(server: ApiServer, admin: Caller) -> None:
    server.faults.busy()
    one = server.faults.html(LISTS)
    server.faults.clear()
    assert admin.get(DATASETS).names == ["a", "b"]
    assert one.hits == 0


def test_headers_come_late(server: ApiServer, admin: Caller) -> None:
    server.faults.delay(0.2, LISTS, times=1)
    began = time.monotonic()
    assert admin.get(DATASETS).status == 200
    assert time.monotonic() - began >= 0.2


def test_a_swallowed_request_is_never_answered(server: ApiServer, admin: Caller) -> None:
    fault = server.faults.swallow(LISTS)
    impatient = Caller(server.port, server.admin_token, timeout=0.2)
    with pytest.raises(TimeoutError):
        impatient.get(DATASETS)
    assert fault.hits == 1
    fault.clear()
    assert admin.get(DATASETS).status == 200


def test_bodies_that_are_no_list_come_with_200(server: ApiServer, admin: Caller) -> None:
    server.faults.html(LISTS, times=1)
    assert "Sign in" in admin.get(DATASETS).body
    server.faults.no_list(LISTS, times=1)
    assert admin.get(DATASETS).body["kind"] == "Pod"
    server.faults.garble(lambda body: body[:40], LISTS, times=1)
    assert isinstance(admin.get(DATASETS).body, str)
    assert admin.get(DATASETS).names == ["a", "b"]


def test_a_frozen_watch_is_silent_and_a_new_one_is_not(server: ApiServer, admin: Caller) -> None:
    with admin.watch(WATCH) as old:
        started(old)
        assert server.faults.freeze_watches() == 1
        with admin.watch(WATCH) as new:
            started(new)
            server.create(dataset("c", "edge-1"))
            eventually(lambda: len(new.events) == 3)
        assert (len(old.events), old.end) == (2, "")
        server.faults.cut_watches(Match(resource="datasets"))
        eventually(lambda: old.end == "clean")


@pytest.mark.parametrize(("reset", "end"), [(False, "clean"), (True, "reset")])
def test_running_watches_are_cut(server: ApiServer, admin: Caller, reset: bool, end: str) -> None:
    with admin.watch(WATCH) as stream:
        started(stream)
        assert server.faults.cut_watches(reset=reset) == 1
        assert eventually(lambda: stream.end) == end
    assert admin.get(DATASETS).status == 200


def test_a_stream_breaks_off_in_the_middle_of_a_line(server: ApiServer, admin: Caller) -> None:
    server.faults.cut_after(400, times=1, reset=False)
    with admin.watch(WATCH) as stream:
        eventually(lambda: stream.end == "broken")
        assert stream.seen == [("ADDED", "a")]
        assert stream.rest.startswith(b'{"type":"ADDED"')
    with admin.watch(WATCH) as stream:
        started(stream)


def test_watches_are_closed_at_once(server: ApiServer, admin: Caller) -> None:
    server.faults.close_watches_at_once(times=1)
    with admin.watch(WATCH) as stream:
        eventually(lambda: stream.end == "clean")
        assert stream.events == []


def test_a_watch_replays_everything_with_old_bodies(server: ApiServer, admin: Caller) -> None:
    server.merge("Dataset", "default", "a", {"spec": {"url": "/new"}})
    server.faults.replay(times=1)
    with admin.watch(f"{WATCH}&resourceVersion={server.version}") as stream:
        started(stream)
        assert stream.seen == [("ADDED", "a"), ("ADDED", "b")]
        assert stream.events[0]["object"]["spec"]["url"] == "/data"
        server.create(dataset("c", "edge-1"))
        eventually(lambda: stream.seen[2:] == [("ADDED", "c")])


@pytest.mark.parametrize("new_body", [False, True])
def test_what_stops_matching_is_deleted_with_the_old_or_the_new_body(
    server: ApiServer, admin: Caller, new_body: bool
) -> None:
    server.merge("Dataset", "default", "a", {"metadata": {"labels": {"tier": "gold"}}})
    if new_body:
        server.faults.new_body_on_exit()
    with admin.watch(f"{WATCH}&labelSelector=tier&resourceVersion={server.version}") as stream:
        server.merge("Dataset", "default", "a", {"metadata": {"labels": None}})
        eventually(lambda: stream.seen == [("DELETED", "a")])
        metadata = stream.events[0]["object"]["metadata"]
    assert metadata.get("labels") == (None if new_body else {"tier": "gold"})
    assert metadata["resourceVersion"] == str(server.version)


def test_a_frozen_server_answers_nothing_until_it_thaws(server: ApiServer, admin: Caller) -> None:
    with admin.watch(WATCH) as stream:
        started(stream)
        server.faults.freeze()
        server.create(dataset("c", "edge-1"))
        impatient = Caller(server.port, server.admin_token, timeout=0.3)
        with pytest.raises(TimeoutError):
            impatient.get(DATASETS)
        assert len(stream.events) == 2
        server.faults.thaw()
        eventually(lambda: len(stream.events) == 3)
    assert admin.get(DATASETS).status == 200


def test_a_server_that_was_down_comes_back_with_its_store(server: ApiServer, admin: Caller) -> None:
    with admin.watch(WATCH) as stream:
        started(stream)
        server.down()
        eventually(lambda: stream.end)
    with pytest.raises(ConnectionRefusedError):
        admin.get(DATASETS)
    server.up()
    assert admin.get(DATASETS).names == ["a", "b"]


def test_an_older_store_silences_watches_until_its_versions_catch_up(
    server: ApiServer, admin: Caller
) -> None:
    backup = server.backup()
    server.create(dataset("c", "edge-1"))
    with admin.watch(f"{WATCH}&resourceVersion={server.version}") as stream:
        eventually(lambda: server.watches("datasets"))
        server.restore(backup)
        assert server.version == backup.version
        assert admin.get(DATASETS).names == ["a", "b"]
        server.create(dataset("d", "edge-1"))  # under the version that c had
        server.create(dataset("e", "edge-1"))
        eventually(lambda: stream.events)
        assert stream.seen == [("ADDED", "e")]
