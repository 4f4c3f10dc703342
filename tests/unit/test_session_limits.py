"""What a dying connection teaches about sizes, and what it must not teach."""

from __future__ import annotations

import pytest

from nodecast.session.limits import (
    RETRY_AFTER,
    SMALLEST_BY_CLOSE,
    SMALLEST_LIMIT,
    Flight,
    Sign,
    SizeLimits,
)
from tests.support.links import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def limits(clock: Clock) -> SizeLimits:
    return SizeLimits(0, clock)


def flight(size: int, topic: str = "a", age: float = 0.1) -> Flight:
    return Flight(topic, size, age)


def test_nothing_is_known_at_first(limits: SizeLimits) -> None:
    assert limits.limit is None
    assert limits.alone_above is None


def test_the_smallest_of_configured_said_and_learnt_counts(clock: Clock) -> None:
    limits = SizeLimits(5000, clock)
    assert limits.limit == 5000
    limits.connected(4000)
    assert limits.limit == 4000
    assert limits.died(Sign.TOO_LARGE, [flight(3000)], healthy=True)
    assert limits.limit == 2999
    limits.connected(None)
    assert limits.limit == 2999


def test_a_sign_with_one_in_flight_teaches_at_once(limits: SizeLimits) -> None:
    assert limits.died(Sign.TOO_LARGE, [flight(3000)], healthy=False)
    assert limits.limit == 2999


def test_a_sign_with_several_in_flight_makes_wary_and_teaches_nothing(limits: SizeLimits) -> None:
    limits.acknowledged("b", 500)
    assert not limits.died(Sign.TOO_LARGE, [flight(3000), flight(700)], healthy=True)
    assert limits.limit is None
    assert limits.alone_above == 500


def test_a_bare_close_needs_to_happen_twice_for_a_topic(limits: SizeLimits) -> None:
    assert not limits.died(Sign.CLOSED, [flight(30_000)], healthy=True)
    assert limits.alone_above == 0
    assert limits.died(Sign.CLOSED, [flight(31_000)], healthy=True)
    assert limits.limit == 30_999


def test_bare_closes_of_two_topics_teach_nothing(limits: SizeLimits) -> None:
    assert not limits.died(Sign.CLOSED, [flight(30_000, "a")], healthy=True)
    assert not limits.died(Sign.CLOSED, [flight(30_000, "b")], healthy=True)
    assert limits.limit is None


def test_an_acknowledgement_takes_a_strike_back(limits: SizeLimits) -> None:
    limits.died(Sign.CLOSED, [flight(30_000)], healthy=True)
    limits.acknowledged("a", 20_000)
    assert not limits.died(Sign.CLOSED, [flight(30_000)], healthy=True)
    assert limits.limit is None


def test_a_broker_out_of_reach_takes_strikes_back(limits: SizeLimits) -> None:
    limits.died(Sign.CLOSED, [flight(30_000)], healthy=True)
    limits.unreachable()
    assert not limits.died(Sign.CLOSED, [flight(30_000)], healthy=True)
    assert limits.limit is None


def test_a_connection_that_acknowledged_nothing_gives_no_strike(limits: SizeLimits) -> None:
    for _ in range(10):
        assert not limits.died(Sign.CLOSED, [flight(30_000)], healthy=False)
    assert limits.limit is None


@pytest.mark.parametrize("sign", [Sign.UNRELATED, Sign.TAKEN_OVER])
def test_other_ends_are_no_evidence(limits: SizeLimits, sign: Sign) -> None:
    for _ in range(10):
        assert not limits.died(sign, [flight(3000)], healthy=True)
    assert limits.limit is None
    assert limits.alone_above is None


def test_a_close_long_after_sending_is_no_evidence(limits: SizeLimits) -> None:
    for _ in range(10):
        assert not limits.died(Sign.CLOSED, [flight(3000, age=30.0)], healthy=True)
    assert limits.alone_above is None


def test_a_death_with_nothing_in_flight_is_no_evidence(limits: SizeLimits) -> None:
    assert not limits.died(Sign.TOO_LARGE, [], healthy=True)
    assert limits.alone_above is None


def test_a_size_that_was_acknowledged_is_innocent(limits: SizeLimits) -> None:
    limits.acknowledged("a", 3000)
    assert not limits.died(Sign.CLOSED, [flight(3000)], healthy=True)
    assert limits.alone_above is None


def test_a_broker_that_takes_less_than_before_is_found_out(limits: SizeLimits) -> None:
    limits.acknowledged("a", 3000)
    assert not limits.died(Sign.TOO_LARGE, [flight(2000), flight(300, "b")], healthy=True)
    assert limits.alone_above == 0
    limits.acknowledged("b", 300)
    assert limits.died(Sign.TOO_LARGE, [flight(2000)], healthy=True)
    assert limits.limit == 1999


def test_brokers_that_restart_in_a_row_teach_nothing(limits: SizeLimits) -> None:
    for _ in range(20):
        limits.acknowledged("b", 200)
        assert not limits.died(Sign.CLOSED, [flight(SMALLEST_BY_CLOSE)], healthy=True)
    assert limits.limit is None


def test_the_smallest_messages_are_never_judged(limits: SizeLimits) -> None:
    for _ in range(5):
        assert not limits.died(Sign.TOO_LARGE, [flight(SMALLEST_LIMIT)], healthy=True)
    assert limits.limit is None


def test_a_learnt_limit_ends_after_an_hour_and_the_next_try_goes_alone(
    limits: SizeLimits, clock: Clock
) -> None:
    limits.acknowledged("b", 500)
    limits.died(Sign.TOO_LARGE, [flight(3000)], healthy=True)
    clock.now += RETRY_AFTER - 1
    assert limits.limit == 2999
    clock.now += 1
    assert limits.limit is None
    assert limits.alone_above == 500


def test_an_acknowledged_size_ends_suspicion(limits: SizeLimits) -> None:
    limits.died(Sign.TOO_LARGE, [flight(3000), flight(10)], healthy=True)
    limits.acknowledged("a", 3000)
    assert limits.alone_above is None
