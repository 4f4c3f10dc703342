"""When a key is looked at again."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from nodecast.wakes import Wakes


def test_nothing_is_due_at_first() -> None:
    wakes: Wakes[str] = Wakes()
    assert (wakes.due(math.inf), wakes.next_at) == ([], math.inf)


def test_an_earlier_time_takes_the_place_of_a_later_one() -> None:
    wakes: Wakes[str] = Wakes()
    wakes.set("a", 5)
    wakes.set("a", 3)
    wakes.set("a", 9)
    assert wakes.next_at == 3
    assert wakes.due(2.9) == []
    assert wakes.due(3) == ["a"]
    assert wakes.due(100) == []


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9))))
def test_each_key_is_due_once_at_its_earliest_time(sets: list[tuple[str, int]]) -> None:
    wakes: Wakes[str] = Wakes()
    earliest: dict[str, int] = {}
    for key, at in sets:
        wakes.set(key, at)
        earliest[key] = min(at, earliest.get(key, at))
    for now in range(10):
        assert {k for k, at in earliest.items() if at == now} == set(wakes.due(now))
