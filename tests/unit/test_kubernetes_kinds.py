"""What the informers of one kind know, told as one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from bridge.placement import Rules, built_in
from bridge.sources.events import Changed, Interrupted, KindStatus, Listed, SourceEvent
from bridge.sources.kubernetes.answers import Garbled
from bridge.sources.kubernetes.kinds import KindTeller
from bridge.sources.kubernetes.sight import Contradiction
from nodecast.names import KindName, ResourceKey
from tests.support.model_api import line
from tests.support.objects import dataset

RULES = Rules(built_in())
KIND = KindName("Dataset.sedna.io")


class Told:
    """A teller of two namespaces, and what it told."""

    def __init__(self, *namespaces: str | None) -> None:
        self.events: list[SourceEvent] = []
        self.looks_at_once = True
        self.teller = KindTeller(KIND, namespaces or ("a", "b"), RULES, self._emit)

    def _emit(self, event: SourceEvent) -> None:
        if isinstance(event, Changed) and self.looks_at_once and not event.objects:
            return
        self.events.append(event)

    def list(
        self, namespace: str | None, *names: str, at: float = 1.0, unwatched: str = ""
    ) -> None:
        pages = self.teller.sight(namespace).begin_list()
        pages.add(thing(name, namespace or "a") for name in names)
        self.teller.listed(namespace, pages, "5", at, unwatched)

    def see(self, namespace: str | None, kind: str, name: str, version: str) -> None:
        event = line(kind, thing(name, namespace or "a", version)).strip()
        self.teller.events(namespace, [event])

    def refuse(self, namespace: str, status: KindStatus, reason: str, at: float = 1.0) -> None:
        self.teller.refused(namespace, status, reason, at)

    @property
    def last(self) -> Listed:
        event = self.events[-1]
        assert isinstance(event, Listed)
        return event


def thing(name: str, namespace: str, version: str = "3") -> dict[str, Any]:
    made = dataset(name, "n1", namespace=namespace)
    made["metadata"]["resourceVersion"] = version
    return made


def key(namespace: str, name: str) -> str:
    return f"{KIND}/{namespace}/{name}"


def test_nothing_is_told_of_a_kind_before_every_namespace_has_answered() -> None:
    told = Told()
    told.list("a", "x")
    assert told.events == []
    told.list("b", "y")
    assert told.last.status is KindStatus.OK
    assert set(told.last.objects or ()) == {key("a", "x"), key("b", "y")}


def test_news_may_be_missing_of_a_kind_while_they_may_be_of_one_of_its_namespaces() -> None:
    told = Told()
    told.teller.interrupted("a", True)
    told.list("a", "x")
    told.list("b", "y")
    assert not any(isinstance(each, Interrupted) for each in told.events), "nothing was told yet"
    for namespace, now in (("a", True), ("b", True), ("a", False), ("b", False)):
        told.teller.interrupted(namespace, now)
    told.teller.interrupted("a", True)
    told.list("a", "x")
    seen = [each.now for each in told.events if isinstance(each, Interrupted)]
    assert seen == [True, False, True, False]


def test_a_refusal_is_an_answer_too() -> None:
    told = Told()
    told.refuse("a", KindStatus.FORBIDDEN, "no right in a")
    assert told.events == []
    told.list("b", "y")
    assert (told.last.status, told.last.reason) == (KindStatus.FORBIDDEN, "no right in a")


def test_a_list_is_as_old_as_the_oldest_of_its_namespaces() -> None:
    told = Told()
    told.list("a", at=7.0)
    told.list("b", at=3.0)
    assert told.last.asked_at == 3.0
    told.list("b", at=9.0)
    assert told.last.asked_at == 7.0


def test_a_kind_is_as_bad_as_its_worst_namespace_and_says_why() -> None:
    told = Told("a", "b", "c")
    told.list("a")
    told.refuse("b", KindStatus.FORBIDDEN, "no right")
    told.refuse("c", KindStatus.MISSING, "no CRD")
    assert (told.last.status, told.last.reason) == (KindStatus.MISSING, "no CRD")
    told.list("c")
    assert (told.last.status, told.last.reason) == (KindStatus.FORBIDDEN, "no right")
    told.list("b")
    assert (told.last.status, told.last.reason) == (KindStatus.OK, "")


def test_the_same_reason_of_several_namespaces_is_said_once_and_others_side_by_side() -> None:
    told = Told("a", "b", "c")
    for namespace, reason in (("a", "no right"), ("b", "no list"), ("c", "no right")):
        told.refuse(namespace, KindStatus.FORBIDDEN, reason)
    assert told.last.reason == "no list; no right"


def test_a_refusal_says_nothing_new_of_objects_and_what_was_known_stays() -> None:
    told = Told()
    told.list("a", "x")
    told.list("b", "y")
    told.refuse("a", KindStatus.MISSING, "gone")
    assert told.last.objects is None
    told.list("b", "y", "z")
    assert set(told.last.objects or ()) == {key("a", "x"), key("b", "y"), key("b", "z")}


def test_what_may_not_be_watched_is_forbidden_until_it_may() -> None:
    told = Told()
    told.list("b", "y")
    told.list("a", "x", at=4.0, unwatched="watch is not allowed")
    assert (told.last.status, told.last.reason) == (KindStatus.FORBIDDEN, "watch is not allowed")
    told.teller.watched("a")
    assert (told.last.status, told.last.reason) == (KindStatus.OK, "")
    assert set(told.last.objects or ()) == {key("a", "x"), key("b", "y")}


def test_a_change_is_told_as_what_changed_and_nothing_as_nothing() -> None:
    told = Told(None)
    told.list(None, "x")
    before = len(told.events)
    told.see(None, "ADDED", "y", "6")
    told.see(None, "MODIFIED", "y", "6")
    told.see(None, "DELETED", "x", "7")
    added, removed = told.events[before:]
    assert isinstance(added, Changed)
    assert isinstance(removed, Changed)
    assert set(added.objects) == {key("a", "y")}
    assert dict(removed.objects) == {key("a", "x"): None}


def test_what_changes_before_anyone_looks_is_in_one_change_with_the_latest() -> None:
    told = Told(None)
    told.list(None, "x")
    told.looks_at_once = False
    before = len(told.events)
    told.see(None, "ADDED", "y", "6")
    told.see(None, "MODIFIED", "x", "7")
    told.see(None, "DELETED", "y", "8")
    (change,) = told.events[before:]
    assert isinstance(change, Changed)
    assert {key: record and record.version for key, record in change.objects.items()} == {
        key("a", "x"): "7",
        key("a", "y"): None,
    }
    told.see(None, "MODIFIED", "x", "9")
    assert len(told.events) == before + 2
    assert set(change.objects) == {key("a", "x"), key("a", "y")}


def test_a_change_that_nobody_looked_at_before_a_list_says_nothing_that_is_newer_than_it() -> None:
    told = Told(None)
    told.list(None, "x")
    told.looks_at_once = False
    told.see(None, "MODIFIED", "x", "6")
    stale = told.events[-1]
    told.list(None, "x")
    told.see(None, "MODIFIED", "x", "7")
    newer = told.events[-1]
    assert isinstance(stale, Changed)
    assert isinstance(newer, Changed)
    assert stale.objects == {}
    assert [record and record.version for record in newer.objects.values()] == ["7"]


def test_a_list_of_one_namespace_does_not_undo_what_changed_in_another() -> None:
    told = Told()
    told.list("a", "x")
    told.list("b", "x")
    told.looks_at_once = False
    told.see("b", "MODIFIED", "x", "6")
    change = told.events[-1]
    told.list("a", "x")
    assert isinstance(change, Changed)
    shown = dict(change.objects) | dict(told.last.objects or {})
    assert shown[ResourceKey(key("b", "x"))].version == "6"


def test_what_may_be_watched_again_is_told_with_what_changed_since_its_list() -> None:
    told = Told(None)
    told.list(None, "x", unwatched="watch is not allowed")
    told.looks_at_once = False
    told.see(None, "MODIFIED", "x", "6")
    told.teller.watched(None)
    objects = told.last.objects or {}
    assert [record.version for record in objects.values()] == ["6"]


def test_a_bad_line_is_found_by_who_looks_and_told_to_the_informer() -> None:
    told, woken = Told(None), [0]
    told.list(None, "x")
    told.looks_at_once = False

    def wake() -> None:
        woken[0] += 1

    told.teller.sight(None, wake)
    good = line("MODIFIED", thing("x", "a", "6")).strip()
    later = line("MODIFIED", thing("x", "a", "7")).strip()
    told.teller.events(None, [good, b"{", later])
    assert woken == [0]
    change = told.events[-1]
    assert isinstance(change, Changed)
    assert [record and record.version for record in change.objects.values()] == ["6"]
    assert woken == [1]
    told.teller.events(None, [later])
    with pytest.raises(Garbled):
        told.teller.finish(None)
    told.teller.finish(None)
    assert told.teller.sight(None).version == "6"


def test_lines_that_nobody_looks_at_are_read_once_there_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bridge.sources.kubernetes.kinds._MOST_WAITING", 100_000)
    told = Told(None)
    told.list(None, "x")
    told.looks_at_once = False
    for number in range(1500):
        told.see(None, "MODIFIED", "x", str(10 + number))
    assert int(told.teller.sight(None).version) > 200
    (change,) = [each for each in told.events if isinstance(each, Changed)]
    assert [record and record.version for record in change.objects.values()] == ["1509"]


@pytest.mark.parametrize("refused_first", [True, False])
def test_what_one_namespace_shows_is_told_whichever_answered_last(refused_first: bool) -> None:
    told = Told()
    if refused_first:
        told.refuse("b", KindStatus.FORBIDDEN, "no")
    told.list("a", "x")
    if not refused_first:
        told.refuse("b", KindStatus.FORBIDDEN, "no")
    assert told.last.status is KindStatus.FORBIDDEN
    assert set(told.last.objects or ()) == {key("a", "x")}


def test_what_was_told_is_a_copy() -> None:
    told = Told(None)
    told.list(None, "x")
    listed = told.last
    told.see(None, "ADDED", "y", "6")
    assert set(listed.objects or ()) == {key("a", "x")}


def test_two_threads_are_told_in_the_order_in_which_they_were_learnt() -> None:
    told = Told()
    told.list("a")
    told.list("b")

    def feed(namespace: str) -> None:
        for number in range(300):
            told.see(namespace, "MODIFIED", f"x{number % 3}", str(10 + number))
            if number % 50 == 49:
                sight = told.teller.sight(namespace)
                pages = sight.begin_list()
                pages.add(
                    thing(name, namespace, record.version)
                    for name in ("x0", "x1", "x2")
                    for record in [sight.objects[key(namespace, name)]]  # type: ignore[index]
                )
                told.teller.listed(namespace, pages, "400", float(number), "")

    at_once(lambda: feed("a"), lambda: feed("b"))
    shown: dict[str, Any] = {}
    for event in told.events:
        if isinstance(event, Listed):
            assert event.objects == shown
            shown = dict(event.objects or {})
        elif isinstance(event, Changed):
            shown |= event.objects
    assert sorted(shown) == [key(namespace, f"x{n}") for namespace in "ab" for n in range(3)]


def test_nothing_is_told_while_something_else_is() -> None:
    met, armed, together = threading.Barrier(2), threading.Event(), []

    def emit(_: SourceEvent) -> None:
        if armed.is_set():
            try:
                met.wait(0.3)  # the other one does not come: it waits until this has returned
            except threading.BrokenBarrierError:
                return
            together.append(True)

    teller = KindTeller(KIND, ("a", "b"), RULES, emit)

    def refuse(namespace: str) -> None:
        teller.refused(namespace, KindStatus.MISSING, "gone", 1.0)

    refuse("a")
    refuse("b")
    armed.set()
    at_once(lambda: refuse("a"), lambda: refuse("b"))
    assert (met.broken, together) == (True, [])


def at_once(*works: Callable[[], None]) -> None:
    failed: list[BaseException] = []
    start = threading.Barrier(len(works))

    def run(work: Callable[[], None]) -> None:
        start.wait(10)
        try:
            work()
        except Exception as error:  # noqa: BLE001 - the top of the thread
            failed.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failed == []
    assert not any(thread.is_alive() for thread in threads)


def test_a_look_between_the_end_of_a_bad_watch_and_its_list_breaks_no_later_watch() -> None:
    told = Told(None)
    told.looks_at_once = False
    told.list(None, "x")
    told.see(None, "ADDED", "x", "4")  # known in another version: a list decides
    with pytest.raises(Contradiction):
        told.teller.finish(None)
    late = told.events[-1]
    assert isinstance(late, Changed)
    assert late.objects == {}
    told.list(None, "x")
    told.see(None, "ADDED", "y", "6")
    last = told.events[-1]
    assert isinstance(last, Changed)
    assert set(last.objects) == {key("a", "y")}
    told.teller.finish(None)
