"""Asking for lists, replaying reports in batches, and the pace of repairs."""

from __future__ import annotations

import math
import random

import pytest

from bridge.listing import Listing
from bridge.pace import Pace
from bridge.replay import Replay
from nodecast.backoff import Backoff
from nodecast.names import KindName, NodeName
from nodecast.topics import Topics

A, B = KindName("A.x"), KindName("B.x")


@pytest.fixture
def asked() -> list[frozenset[KindName]]:
    return []


@pytest.fixture
def listing(asked: list[frozenset[KindName]]) -> Listing:
    return Listing(asked.append)


def test_a_list_is_asked_for_once_its_time_has_come(listing: Listing, asked: list) -> None:
    listing.want({A: 10.0})
    assert listing.ask(9.0) == 10.0
    assert asked == []
    assert listing.ask(10.0) == math.inf
    assert asked == [{A}]


def test_wishes_of_many_are_asked_for_together_and_once(listing: Listing, asked: list) -> None:
    for _ in range(100):
        listing.want({A: 5.0, B: 5.0})
    listing.ask(5.0)
    listing.ask(6.0)
    assert asked == [{A, B}]


def test_a_list_that_was_asked_for_later_serves_earlier_wishes(
    listing: Listing, asked: list
) -> None:
    listing.want({A: 5.0})
    listing.ask(7.0)
    listing.want({A: 6.5})
    assert listing.ask(100.0) == math.inf
    assert asked == [{A}]


def test_a_wish_for_a_list_after_the_last_one_is_asked_for_again(
    listing: Listing, asked: list
) -> None:
    listing.want({A: 5.0})
    listing.ask(5.0)
    listing.want({A: 5.5})
    assert listing.ask(5.5) == 6.0  # not more than once a second
    assert listing.ask(6.0) == math.inf
    assert asked == [{A}, {A}]


def test_the_latest_wish_decides(listing: Listing, asked: list) -> None:
    listing.want({A: 10.0})
    listing.want({A: 5.0})
    assert listing.ask(7.0) == 10.0
    assert asked == []


# -- replays


def named(count: int) -> set[NodeName]:
    return {NodeName(f"n{i:03}") for i in range(count)}


def test_reports_are_replayed_two_hundred_exact_topics_at_a_time() -> None:
    replay = Replay(Topics("site"), "i")
    replay.want(named(450))
    batches = []
    while batch := replay.next_batch():
        batches.append(batch)
        assert replay.next_batch() == [], "one batch is under way at a time"
        assert replay.echoed(replay.probe)
    assert [len(batch) for batch in batches] == [200, 200, 50]
    topics = [each.filter for batch in batches for each in batch]
    assert topics == [f"site/node/{node}/status" for node in sorted(named(450))]
    assert all(each.replay for batch in batches for each in batch)


def test_a_node_is_heard_once_the_probe_after_its_batch_came_back() -> None:
    replay = Replay(Topics(), "i")
    replay.want(named(300))
    replay.next_batch()
    first = replay.probe
    assert replay.heard == set()
    assert replay.echoed(first)
    assert replay.heard == set(sorted(named(300))[:200])
    replay.next_batch()
    assert not replay.echoed(first)
    assert replay.echoed(replay.probe)
    assert replay.heard == named(300)


def test_a_node_that_comes_later_is_heard_as_well() -> None:
    replay = Replay(Topics(), "i")
    replay.want(named(2))
    replay.next_batch()
    replay.echoed(replay.probe)
    replay.want(named(3))
    assert [each.filter for each in replay.next_batch()] == ["node/n002/status"]


def test_where_nothing_can_be_heard_everything_counts_as_heard() -> None:
    replay = Replay(Topics(), "i")
    replay.want(named(300))
    replay.next_batch()
    replay.give_up()
    assert replay.heard == named(300)
    assert replay.next_batch() == []


def test_a_new_connection_hears_everything_anew() -> None:
    replay = Replay(Topics(), "i")
    replay.want(named(2))
    replay.next_batch()
    replay.echoed(replay.probe)
    replay.reset()
    assert replay.heard == set()
    replay.want(named(2))
    assert len(replay.next_batch()) == 2


# -- pace and back-off


def test_a_pace_lets_so_many_through_a_second() -> None:
    pace, now, taken = Pace(50.0), 100.0, 0
    while now < 110.0:
        if pace.next_at(now) <= now:
            pace.take(now)
            taken += 1
        else:
            now = pace.next_at(now)
    assert 495 <= taken <= 510


def test_a_pace_does_not_save_up_while_nothing_goes() -> None:
    pace = Pace(10.0)
    pace.take(0.0)
    burst = 0
    while pace.next_at(1000.0) <= 1000.0:
        pace.take(1000.0)
        burst += 1
    assert burst <= 2


def test_pauses_double_up_to_the_most_and_are_jittered_above_the_floor() -> None:
    backoff, rng = Backoff(2.0, 60.0, floor=0.5), random.Random(3)
    for failures, ceiling in ((0, 2), (1, 2), (2, 4), (3, 8), (6, 60), (10**6, 60)):
        pauses = [backoff.pause(failures, rng) for _ in range(200)]
        assert ceiling / 2 <= min(pauses) < 0.6 * ceiling
        assert 0.9 * ceiling < max(pauses) <= ceiling


def test_a_floor_of_zero_is_full_jitter() -> None:
    rng = random.Random(3)
    assert min(Backoff(1.0, 9.0, floor=0.0).pause(3, rng) for _ in range(500)) < 0.1
