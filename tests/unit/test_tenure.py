"""A term of the right to be in charge is served until it is over, and never again."""

from __future__ import annotations

import math

import pytest

from bridge.lease import Leadership, Right, Unshared
from bridge.tenure import Tenure


class Office:
    """A right and a clock in a test's hands."""

    def __init__(self, right: Right | None = None) -> None:
        self.right = right
        self.time = 100.0

    def now(self) -> float:
        return self.time

    def start(self) -> None: ...

    def stop(self) -> None: ...


@pytest.fixture
def office() -> Office:
    return Office(Right(1, 110.0))


@pytest.fixture
def tenure(office: Office) -> Tenure:
    made = Tenure(office)
    made.begin()
    return made


def test_nothing_is_permitted_before_a_term_is_served(office: Office) -> None:
    made = Tenure(office)
    assert (made.permits(), made.serving, made.left) == (False, False, math.inf)
    made.begin()
    assert (made.permits(), made.serving, made.left) == (True, True, 10.0)


def test_without_a_right_no_term_begins() -> None:
    for right in (None, Right(1, 100.0)):
        made = Tenure(Office(right))
        made.begin()
        assert (made.permits(), made.serving) == (False, False)


def test_the_clock_alone_ends_what_is_permitted(office: Office, tenure: Tenure) -> None:
    office.time = 109.9
    assert tenure.permits()
    assert not tenure.end()
    office.time = 110.0
    assert not tenure.permits()
    assert tenure.left == 0.0
    assert tenure.end()
    assert not tenure.end()


def test_a_renewed_right_goes_on(office: Office, tenure: Tenure) -> None:
    office.right = Right(1, 112.0)
    office.time = 111.0
    assert tenure.permits()
    assert tenure.left == 1.0


def test_a_lost_right_is_over_at_once(office: Office, tenure: Tenure) -> None:
    office.right = None
    assert not tenure.permits()
    assert tenure.end()


def test_a_right_won_anew_is_not_the_one_that_is_served(office: Office, tenure: Tenure) -> None:
    office.right = Right(2, 200.0)
    assert not tenure.permits()
    tenure.begin()
    assert not tenure.permits()
    assert tenure.end()
    tenure.begin()
    assert tenure.permits()


def test_where_nobody_else_is_asked_the_term_has_no_end() -> None:
    unshared: Leadership = Unshared()
    unshared.start()
    made = Tenure(unshared)
    made.begin()
    assert (made.permits(), made.end(), made.left) == (True, False, math.inf)
    unshared.stop()
