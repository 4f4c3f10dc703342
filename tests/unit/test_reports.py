"""Reports: which are believed, what they call for, and when they are answered."""

from __future__ import annotations

import math
import random

import pytest

from bridge.contents import Content
from bridge.nodes import NodeState
from bridge.reports import Judgement, Reports, judge
from nodecast.backoff import Backoff
from nodecast.messages import Refusal, Report, Version
from nodecast.names import NodeName

N = NodeName("n")
CONTENT = Content((), (), ())
GIVEN = Version(7, 3)


def report(
    epoch: int = 7,
    revision: int = 3,
    *,
    seq: int = 1,
    instance: str = "i",
    digest: str = CONTENT.digest,
    incomplete: bool = False,
    refused: Refusal | None = None,
) -> Report:
    return Report(
        bridge="b",
        node=N,
        instance=instance,
        seq=seq,
        epoch=epoch,
        revision=revision,
        digest=digest,
        incomplete=incomplete,
        refused=refused,
    )


def state(acknowledged: Version = GIVEN) -> NodeState:
    return NodeState(content=CONTENT, version=GIVEN, acknowledged=acknowledged)


def test_a_node_that_has_what_it_was_sent_is_current() -> None:
    assert judge(report(), state()) is Judgement.CURRENT


def test_a_node_behind_what_the_broker_confirmed_is_behind() -> None:
    assert judge(report(7, 2, digest=""), state()) is Judgement.BEHIND
    assert judge(report(0, 0, digest=""), state()) is Judgement.BEHIND


def test_a_node_behind_what_is_still_under_way_is_current() -> None:
    assert judge(report(7, 2, digest=""), state(Version(7, 2))) is Judgement.CURRENT


@pytest.mark.parametrize(
    "ahead", [report(7, 4), report(8, 1), report(7, 3, digest="f" * 32), report(7, 3, digest="")]
)
def test_a_node_with_a_version_that_was_never_given_is_ahead(ahead: Report) -> None:
    assert judge(ahead, state()) is Judgement.AHEAD


def test_a_node_that_is_incomplete_or_refused_something_is_repaired() -> None:
    refusal = Refusal(epoch=7, revision=2, reason="older")
    assert judge(report(incomplete=True), state()) is Judgement.REPAIR
    assert judge(report(refused=refusal), state()) is Judgement.REPAIR
    assert judge(report(7, 1, digest="", incomplete=True), state()) is Judgement.REPAIR


def test_being_ahead_counts_more_than_being_incomplete() -> None:
    assert judge(report(9, 1, incomplete=True), state()) is Judgement.AHEAD


# -- when they are answered


@pytest.fixture
def reports() -> Reports:
    return Reports(60.0, Backoff(2, 300, floor=1.0), random.Random(1))


def test_an_older_report_of_an_instance_is_ignored(reports: Reports) -> None:
    assert reports.arrived(N, report(seq=5), 0)
    assert not reports.arrived(N, report(seq=5), 1)
    assert not reports.arrived(N, report(seq=4), 1)
    assert reports.arrived(N, report(seq=6), 1)


def test_another_instance_begins_anew(reports: Reports) -> None:
    assert reports.arrived(N, report(seq=5), 0)
    assert reports.arrived(N, report(seq=1, instance="j"), 1)
    assert reports.newest(N).instance == "j"


def test_a_report_is_answered_once(reports: Reports) -> None:
    reports.arrived(N, report(), 0)
    assert reports.answers(N, Judgement.REPAIR, 0)
    assert not reports.answers(N, Judgement.REPAIR, 1000)
    assert reports.next_at == math.inf


def test_a_current_report_is_not_answered(reports: Reports) -> None:
    reports.arrived(N, report(), 0)
    assert not reports.answers(N, Judgement.CURRENT, 0)


def test_a_node_behind_is_answered_when_the_lag_time_is_over(reports: Reports) -> None:
    reports.arrived(N, report(), 10)
    assert not reports.answers(N, Judgement.BEHIND, 10)
    assert reports.next_at == 70
    assert reports.due(69.9) == []
    assert reports.due(70) == [N]
    assert reports.answers(N, Judgement.BEHIND, 70)


def test_the_pause_between_answers_grows(reports: Reports) -> None:
    now, pauses = 0.0, []
    for seq in range(1, 6):
        reports.arrived(N, report(seq=seq), now)
        if not reports.answers(N, Judgement.AHEAD, now):
            pauses.append(reports.next_at - now)
            now = reports.next_at
            assert reports.due(now) == [N]
            assert reports.answers(N, Judgement.AHEAD, now)
    assert pauses == [2, 4, 8, 16]


def test_a_current_report_ends_the_growth(reports: Reports) -> None:
    reports.arrived(N, report(seq=1), 0)
    assert reports.answers(N, Judgement.AHEAD, 0)
    reports.arrived(N, report(seq=2), 1)
    assert not reports.answers(N, Judgement.CURRENT, 1)
    reports.arrived(N, report(seq=3), 2)
    assert reports.answers(N, Judgement.AHEAD, 2)
    reports.arrived(N, report(seq=4), 3)
    assert not reports.answers(N, Judgement.AHEAD, 3)
    assert reports.next_at == 4


def test_many_reports_of_a_waiting_node_name_it_once(reports: Reports) -> None:
    for seq in range(1, 500):
        reports.arrived(N, report(seq=seq), 0)
        assert not reports.answers(N, Judgement.BEHIND, 0)
    assert reports.due(60) == [N]
    assert reports.next_at == math.inf


def test_a_node_that_may_be_answered_earlier_than_it_waits_is_named_earlier(
    reports: Reports,
) -> None:
    reports.arrived(N, report(seq=1), 0)
    assert reports.answers(N, Judgement.REPAIR, 0)
    reports.arrived(N, report(seq=2), 0)
    assert not reports.answers(N, Judgement.BEHIND, 0)
    reports.arrived(N, report(seq=3), 1)
    assert not reports.answers(N, Judgement.REPAIR, 1)
    assert reports.next_at == 2


def test_a_node_that_is_behind_and_reports_often_is_answered_after_the_lag(
    reports: Reports,
) -> None:
    answered = []
    for number in range(5):
        now = 30.0 * number
        reports.arrived(N, report(seq=number + 1), now)
        if reports.answers(N, Judgement.BEHIND, now):
            answered.append(now)
    assert answered == [60.0, 90.0, 120.0]
