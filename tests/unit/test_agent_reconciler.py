"""The reconciler: what is worked on when, and the states that a key goes through."""

from __future__ import annotations

import random

import pytest

from agent.handlers.outcome import Done, Refused, Retry
from agent.reconciler import Action, Drop, Put, Reconciler, State
from nodecast.backoff import Backoff
from nodecast.names import ResourceKey

A = ResourceKey("Dataset.sedna.io/default/a")
B = ResourceKey("Dataset.sedna.io/default/b")


@pytest.fixture
def reconciler() -> Reconciler:
    return Reconciler(Backoff(1, 60), random.Random(5))


def _next(reconciler: Reconciler, now: float = 0.0) -> Action:
    action = reconciler.next(now)
    assert action is not None
    return action


def test_what_is_wanted_is_pending_then_applied(reconciler: Reconciler) -> None:
    reconciler.want(A, "one", 0)
    assert reconciler.progress[A].state == State.PENDING
    action = _next(reconciler)
    assert action == Put(A, "one")
    reconciler.finished(action, Done(), 1)
    assert (reconciler.progress[A].state, reconciler.progress[A].since) == (State.APPLIED, 1)
    assert reconciler.next(1e9) is None


def test_what_is_wanted_already_is_not_done_again(reconciler: Reconciler) -> None:
    reconciler.want(A, "one", 0)
    reconciler.finished(_next(reconciler), Done(), 0)
    reconciler.want(A, "one", 5)
    assert reconciler.next(1e9) is None


def test_what_is_to_go_is_removing_and_then_forgotten(reconciler: Reconciler) -> None:
    reconciler.want(A, None, 0)
    assert reconciler.progress[A].state == State.REMOVING
    action = _next(reconciler)
    assert action == Drop(A)
    reconciler.finished(action, Done(), 1)
    assert reconciler.progress == {}


def test_failures_come_again_after_growing_jittered_pauses(reconciler: Reconciler) -> None:
    reconciler.want(A, "one", 0)
    now, pauses = 0.0, []
    for attempt in range(1, 12):
        reconciler.finished(_next(reconciler, now), Retry("DiskFull", "no room"), now)
        progress = reconciler.progress[A]
        assert (progress.state, progress.reason, progress.attempts) == (
            State.FAILED,
            "DiskFull",
            attempt,
        )
        due = reconciler.due()
        assert due is not None
        pauses.append(due - now)
        assert reconciler.next(due - 0.001) is None
        now = due
    bounds = [(min(60, 2.0**n) / 2, min(60, 2.0**n)) for n in range(11)]
    assert all(low <= pause <= high for pause, (low, high) in zip(pauses, bounds, strict=True))
    assert len({round(pause, 6) for pause in pauses[6:]}) == 5


def test_a_pause_that_a_handler_names_is_kept(reconciler: Reconciler) -> None:
    reconciler.want(A, "one", 0)
    reconciler.finished(_next(reconciler), Retry("Busy", "", after=7), 0)
    assert reconciler.due() == 7


def test_what_is_refused_waits_for_another_version(reconciler: Reconciler) -> None:
    reconciler.want(A, "one", 0)
    reconciler.finished(_next(reconciler), Refused("TooLong", "the path"), 0)
    assert (reconciler.progress[A].state, reconciler.due()) == (State.FAILED, None)
    reconciler.want(A, "two", 1)
    assert _next(reconciler, 1) == Put(A, "two")


def test_one_that_fails_does_not_stop_the_others(reconciler: Reconciler) -> None:
    reconciler.want(A, "one", 0)
    reconciler.want(B, "one", 0)
    reconciler.finished(_next(reconciler), Retry("DiskError", ""), 0)
    reconciler.finished(_next(reconciler), Done(), 0)
    assert reconciler.progress[B].state == State.APPLIED


def test_an_answer_to_what_is_no_longer_wanted_is_dropped(reconciler: Reconciler) -> None:
    reconciler.want(A, "one", 0)
    action = _next(reconciler)
    reconciler.want(A, "two", 0)
    reconciler.finished(action, Done(), 0)
    assert reconciler.progress[A].state == State.PENDING
    assert _next(reconciler) == Put(A, "two")


def test_a_removal_that_fails_stays_removing_with_its_reason(reconciler: Reconciler) -> None:
    reconciler.want(A, None, 0)
    reconciler.finished(_next(reconciler), Retry("ReadOnly", ""), 0)
    assert (reconciler.progress[A].state, reconciler.progress[A].reason) == (
        State.REMOVING,
        "ReadOnly",
    )


def test_what_is_blocked_waits_and_says_why(reconciler: Reconciler) -> None:
    reconciler.want(A, "one", 0, blocked="StoreBehind")
    assert reconciler.next(1e9) is None
    assert reconciler.progress[A].reason == "StoreBehind"
    reconciler.want(A, "one", 1)
    assert _next(reconciler, 1) == Put(A, "one")


def test_a_recheck_leaves_the_state_until_it_fails(reconciler: Reconciler) -> None:
    reconciler.want(A, "one", 0)
    reconciler.finished(_next(reconciler), Done(), 0)
    reconciler.recheck([A], 600)
    assert reconciler.progress[A].state == State.APPLIED
    reconciler.finished(_next(reconciler, 600), Done(changed=False), 600)
    assert reconciler.progress[A].since == 0
    reconciler.recheck([A], 1200)
    reconciler.finished(_next(reconciler, 1200), Retry("DiskFull", ""), 1200)
    assert reconciler.progress[A].state == State.FAILED
