"""What is said of a source, and how often."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bridge.source_log import SourceLog
from bridge.sources.events import KindStatus, Listed
from nodecast.names import KindName
from tests.support.core import ALONE, OWNER, PART, RULES, Core, record

A, B = KindName("A.x"), KindName("B.x")


def listed(kind: KindName, reason: str = "") -> Listed:
    status = KindStatus.INCOMPLETE if reason else KindStatus.OK
    return Listed(kind, status, None, 0.0, reason)


def test_kinds_with_one_cause_are_said_together_and_once(caplog: pytest.LogCaptureFixture) -> None:
    log = SourceLog()
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            log.listed(listed(B, "no directory"))
            log.listed(listed(A, "no directory"))
            log.flush()
        log.listed(listed(A))
        log.listed(listed(B))
        log.flush()
        log.flush()
    said = [(r.getMessage().split(":")[0], r.nodecast_fields["kinds"]) for r in caplog.records]
    assert said == [
        ("kinds cannot be seen in full", "A.x, B.x"),
        ("kinds are seen in full again", "A.x, B.x"),
    ]


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, object]]]:
    """What was logged since the last time: the event up to its colon, and its fields."""
    said = [(r.getMessage().split(":")[0], dict(r.nodecast_fields)) for r in caplog.records]
    caplog.clear()
    return said


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[Any]]]:
    with caplog.at_level(logging.INFO):
        yield lambda: told(caplog)


def test_at_taking_charge_what_is_served_is_told_and_what_seems_to_be_gone(
    said: Callable[[], list[Any]],
) -> None:
    core = Core(hold=7)
    core.put(record("Part/a", "n"), record("Part/b", "n", "m"), record("Owner/a"))
    core.charge({OWNER: 0, PART: 2, ALONE: 3})
    SourceLog().charge(core.catalog, RULES.kinds, core.holding)
    assert said() == [
        ("serving", {"objects": 3, "kinds": f"{OWNER} 1, {PART} 2", "nodes": 2}),
        (
            "nothing is placed any more of a kind that was",
            {"kind": ALONE, "placed": 3, "hold": 7},
        ),
    ]


def test_held_kinds_are_told_with_why_and_for_how_long_once(
    said: Callable[[], list[Any]],
) -> None:
    core, log = Core(), SourceLog()
    core.put(record("Owner/a", "n"), record("Part/a", "n"), record("Alone/a", "n"))
    core.charge()
    log.doubts(core.holding)
    assert said() == []
    core.listed(OWNER, status=KindStatus.MISSING)
    log.doubts(core.holding)
    log.doubts(core.holding)
    held = f"{OWNER}, {PART}"
    assert said() == [("held kinds", {"held": held, "hold": 60.0, "unseen": OWNER})]
    core.listed(OWNER)
    core.after(61)
    log.doubts(core.holding)
    assert said() == [("held kinds", {"held": "none"})]


def test_only_a_kind_that_is_empty_itself_is_told_to_be(said: Callable[[], list[Any]]) -> None:
    core, log = Core(), SourceLog()
    core.put(record("Owner/a", "n"), record("Part/a", "n"), record("Alone/a", "n"))
    core.charge()
    core.remove("Owner/a")
    core.after(0)
    log.doubts(core.holding)
    log.doubts(core.holding)
    assert said() == [("kinds are empty", {"kinds": OWNER})]


def test_a_refused_object_is_told_with_its_place_where_it_has_one(
    said: Callable[[], list[Any]],
) -> None:
    bad = record("Alone/a")
    bad.problem = "it is bad"
    log = SourceLog()
    log.objects({bad.key: bad})
    bad.place, bad.problem = "x.json#1", "it is worse"
    log.objects({bad.key: bad})
    event = "object refused, it goes to no node"
    assert said() == [
        (event, {"key": bad.key, "reason": "it is bad"}),
        (event, {"key": bad.key, "place": "x.json#1", "reason": "it is worse"}),
    ]
