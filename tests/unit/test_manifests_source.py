"""The manifests source tells what its directory says, when it says something else."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.placement import Rules, built_in
from bridge.sources.events import Findings, KindStatus, Listed, SourceEvent
from bridge.sources.manifests import ManifestsSource

RULES = Rules(built_in())
LIMIT = 20.0  # seconds: reached only when something is missing
NEVER = 600.0  # seconds between polls: events alone must do


def dataset(name: str, node: str = "edge1") -> str:
    return f"""
apiVersion: sedna.io/v1alpha1
kind: Dataset
metadata: {{name: {name}}}
spec: {{nodeName: {node}}}
"""


class Heard:
    """Runs a source and takes down what it tells, round by round."""

    def __init__(self, directory: Path, poll: float = NEVER) -> None:
        self.events: queue.SimpleQueue[SourceEvent] = queue.SimpleQueue()
        self.failures: queue.SimpleQueue[BaseException] = queue.SimpleQueue()
        self.threads: set[str] = set()
        self.readings: queue.SimpleQueue[float] = queue.SimpleQueue()
        self.source = ManifestsSource(
            directory,
            RULES,
            self._take,
            fail=self.failures.put,
            clock=self._clock,
            settle=0.005,
            poll=poll,
        )

    def _clock(self) -> float:
        """Asked for once before each reading."""
        self.readings.put(now := time.monotonic())
        return now

    def _take(self, event: SourceEvent) -> None:
        self.threads.add(threading.current_thread().name)
        self.events.put(event)

    def lists(self) -> dict[str, Listed]:
        """The next list of every kind, all of one reading."""
        found: dict[str, Listed] = {}
        while len(found) < len(RULES.kinds):
            event = self.events.get(timeout=LIMIT)
            if isinstance(event, Listed):
                found[event.kind] = event
        assert len({listed.asked_at for listed in found.values()}) == 1
        return found

    def datasets(self) -> Listed:
        return self.lists()["Dataset.sedna.io"]

    def findings(self) -> Findings:
        while True:
            event = self.events.get(timeout=LIMIT)
            if isinstance(event, Findings):
                return event

    def until(self, names: set[str], status: KindStatus = KindStatus.OK) -> Listed:
        """The first list of datasets with these names."""
        while True:
            listed = self.datasets()
            known = {key.rpartition("/")[2] for key in listed.objects or {}}
            if (known, listed.status) == (names, status):
                return listed


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    path = tmp_path / "manifests"
    path.mkdir()
    return path


@pytest.fixture
def heard(manifests: Path) -> Iterator[Heard]:
    heard = Heard(manifests)
    yield heard
    heard.source.stop()
    assert heard.failures.empty()


def test_every_kind_with_a_rule_is_listed_at_the_start_empty_or_not(
    manifests: Path, heard: Heard
) -> None:
    (manifests / "a.yaml").write_text(dataset("a"))
    heard.source.start()
    lists = heard.lists()
    assert set(lists) == set(RULES.kinds)
    assert {listed.status for listed in lists.values()} == {KindStatus.OK}
    assert [len(lists[kind].objects or {}) for kind in RULES.kinds] == [
        int(kind == "Dataset.sedna.io") for kind in RULES.kinds
    ]
    assert heard.findings() == Findings((), {})
    assert heard.threads == {"manifests"}


def test_a_change_is_told_without_asking(manifests: Path, heard: Heard) -> None:
    heard.source.start()
    heard.until(set())
    (manifests / "a.yaml").write_text(dataset("a"))
    heard.until({"a"})
    (manifests / "below").mkdir()
    (manifests / "below" / "b.yaml").write_text(dataset("b"))
    heard.until({"a", "b"})
    (manifests / "below" / "c.yaml").write_text(dataset("c"))
    heard.until({"a", "b", "c"})
    (manifests / "a.yaml").unlink()
    heard.until({"b", "c"})


def test_unchanged_objects_are_told_as_the_same_records(manifests: Path, heard: Heard) -> None:
    (manifests / "a.yaml").write_text(dataset("a"))
    heard.source.start()
    first = heard.until({"a"})
    (manifests / "b.yaml").write_text(dataset("b"))
    second = heard.until({"a", "b"})
    for key, record in (first.objects or {}).items():
        assert (second.objects or {})[key] is record


def test_a_relist_is_answered_by_a_reading_that_began_later(heard: Heard) -> None:
    heard.source.start()
    heard.lists()
    for _ in range(3):
        before = time.monotonic()
        heard.source.relist()
        assert all(listed.asked_at >= before for listed in heard.lists().values())


def test_a_reading_that_finds_nothing_new_is_not_told(manifests: Path) -> None:
    (manifests / "a.yaml").write_text(dataset("a"))
    heard = Heard(manifests, poll=0.001)
    heard.source.start()
    try:
        heard.until({"a"})
        heard.findings()
        (manifests / "a.yaml").touch()
        (manifests / "notes.txt").write_text("x")
        for _ in range(5):
            heard.readings.get(timeout=LIMIT)
        assert heard.events.empty()
    finally:
        heard.source.stop()


def test_a_directory_that_goes_makes_every_kind_incomplete_until_it_is_back(
    manifests: Path, heard: Heard
) -> None:
    (manifests / "a.yaml").write_text(dataset("a"))
    heard.source.start()
    heard.until({"a"})
    away = manifests.rename(manifests.with_name("away"))
    lists = heard.lists()
    assert {listed.status for listed in lists.values()} == {KindStatus.INCOMPLETE}
    assert all(str(manifests) in listed.reason for listed in lists.values())
    assert len(lists["Dataset.sedna.io"].objects or {}) == 1
    away.rename(manifests)
    heard.until({"a"}, KindStatus.OK)


def test_a_directory_made_later_is_picked_up(tmp_path: Path) -> None:
    directory = tmp_path / "x" / "later"
    heard = Heard(directory)
    heard.source.start()
    try:
        heard.until(set(), KindStatus.INCOMPLETE)
        directory.mkdir(parents=True)
        (directory / "a.yaml").write_text(dataset("a"))
        heard.until({"a"})
    finally:
        heard.source.stop()


def test_problems_are_told_and_withdrawn(manifests: Path, heard: Heard) -> None:
    (manifests / "a.yaml").write_text(dataset("a"))
    heard.source.start()
    assert heard.findings() == Findings((), {})
    (manifests / "b.yaml").write_text(dataset("a") + "---\n" + dataset("B"))
    while not (findings := heard.findings()).problems:
        pass
    assert [problem.place for problem in findings.problems] == ["b.yaml#2", "b.yaml#1"]
    (manifests / "b.yaml").unlink()
    while heard.findings().problems:
        pass


def test_a_problem_is_logged_once_with_place_and_reason(
    manifests: Path, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    (manifests / "a.yaml").write_text("a: [")
    heard.source.start()
    heard.findings()
    (manifests / "b.yaml").write_text("b: ]")
    while len(heard.findings().problems) < 2:
        pass
    told = [str(vars(r)) for r in caplog.records if r.getMessage() == "manifest refused"]
    assert len(told) == 2
    assert "a.yaml" in told[0]
    assert "line 2" in told[0]
    assert "b.yaml" in told[1]


def test_the_slow_poll_finds_what_no_event_told(tmp_path: Path, manifests: Path) -> None:
    """A write in place behind a link gives no event in the directory."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.yaml").write_text(dataset("a"))
    (manifests / "a.yaml").symlink_to(elsewhere / "a.yaml")
    heard = Heard(manifests, poll=0.02)
    heard.source.start()
    try:
        heard.until({"a"})
        (elsewhere / "a.yaml").write_text(dataset("b"))
        heard.until({"b"})
    finally:
        heard.source.stop()


def test_stop_ends_the_thread_and_nothing_is_told_after_it(manifests: Path, heard: Heard) -> None:
    heard.source.start()
    heard.lists()
    heard.findings()
    heard.source.stop()
    (manifests / "a.yaml").write_text(dataset("a"))
    heard.source.relist()
    assert "manifests" not in {thread.name for thread in threading.enumerate()}
    assert heard.events.empty()


def test_a_source_that_never_started_can_be_stopped(manifests: Path) -> None:
    heard = Heard(manifests)
    heard.source.stop()
    heard.source.relist()
    assert heard.events.empty()


def test_an_unforeseen_error_goes_to_the_process(manifests: Path) -> None:
    failures: queue.SimpleQueue[BaseException] = queue.SimpleQueue()
    error = RuntimeError("a defect")

    def emit(_event: SourceEvent) -> None:
        raise error

    source = ManifestsSource(manifests, RULES, emit, fail=failures.put)
    source.start()
    try:
        assert failures.get(timeout=LIMIT).__cause__ is error
    finally:
        source.stop()
