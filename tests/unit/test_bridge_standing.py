"""How far a bridge says that it is, and what it remembers of a connection that ended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from bridge.bridge import Bridge
from bridge.charge import Phase as ChargePhase
from bridge.standing import Standing
from bridge.status import Phase
from nodecast.errors import ApiError
from nodecast.session import Connected, Lost, Session
from tests.support.api_served import DATASET


def core(phase: ChargePhase) -> Bridge:
    """As much of a core as is asked."""
    known = SimpleNamespace(
        charge=SimpleNamespace(phase=phase, epoch=7),
        own=SimpleNamespace(refusals={"reports": "no"}, book=SimpleNamespace(paused=False)),
        publisher=SimpleNamespace(nodes={}, waiting=0, foreign=frozenset()),
        source="s",
        kind_views=lambda _: [],
    )
    return cast(Bridge, known)


@pytest.fixture
def session() -> SimpleNamespace:
    return SimpleNamespace(failure=None)


@pytest.fixture
def standing(session: SimpleNamespace) -> Standing:
    return Standing("b", "i", "here", "mqtt://x", cast(Session, session), clock=lambda: 5.0)


def test_before_the_source_is_known_there_is_a_status_and_nothing_to_approve(
    standing: Standing,
) -> None:
    found = standing.status()
    assert (found.phase, found.source, found.epoch, found.kinds) == ("starting", None, None, [])
    with pytest.raises(ApiError, match="does not know yet what its source is"):
        standing.approve(DATASET)


def test_an_instance_that_stands_by_approves_nothing(standing: Standing) -> None:
    standing.stage, standing.bridge = "standing by", core(ChargePhase.OFFLINE)
    assert standing.status().phase == "standing by"
    with pytest.raises(ApiError, match="ask the one that holds the lease"):
        standing.approve(DATASET)


@pytest.mark.parametrize(
    ("stage", "charge", "phase"),
    [
        ("listing", ChargePhase.OFFLINE, "listing"),
        ("standing by", ChargePhase.OFFLINE, "standing by"),
        ("connecting", ChargePhase.OFFLINE, "connecting"),
        ("connecting", ChargePhase.READING, "taking charge"),
        ("connecting", ChargePhase.LISTING, "taking charge"),
        ("connecting", ChargePhase.WRITING, "taking charge"),
        ("connecting", ChargePhase.IN_CHARGE, "in charge"),
        ("stopping", ChargePhase.IN_CHARGE, "stopping"),
    ],
)
def test_the_phase_follows_the_loop_and_then_the_core(
    stage: Phase, charge: ChargePhase, phase: Phase, standing: Standing
) -> None:
    standing.stage, standing.bridge = stage, core(charge)
    found = standing.status()
    assert (found.phase, found.epoch, found.source) == (phase, 7, "s")
    assert found.broker.refused == {"reports": "no"}


def test_m6_why_a_connection_ended_is_told_until_the_next_one_is_good(
    standing: Standing, session: SimpleNamespace
) -> None:
    standing.stage, standing.bridge = "connecting", core(ChargePhase.READING)
    standing.session_event(Connected(None, 20))
    standing.session_event(Lost("the probe did not come back", ()))
    session.failure = "the probe did not come back"
    assert standing.status().broker.since is None
    assert standing.status().broker.failure == "the probe did not come back"

    session.failure = None  # the broker has accepted the next one
    standing.session_event(Connected(None, 20))
    assert standing.status().broker.connected
    assert standing.status().broker.failure == "the probe did not come back"

    standing.bridge = core(ChargePhase.IN_CHARGE)
    assert standing.status().broker.failure is None
    standing.bridge = core(ChargePhase.READING)
    assert standing.status().broker.failure is None
