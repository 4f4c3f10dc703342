"""When a change that takes something away goes out: the publisher, settle and holding together."""

from __future__ import annotations

import math

import pytest

from bridge.holding import DEAR
from bridge.sources.events import KindStatus
from nodecast.names import KindName
from tests.support.core import ALONE, OWNER, PART, Core, key, names, record


@pytest.fixture(autouse=True)
def dear_lists(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list costs too much for an object that is gone, but in the tests that are about that."""
    if "cheap" not in request.node.name:
        monkeypatch.setattr("bridge.holding.DEAR", 0)


def serving(*records: object) -> Core:
    """In charge; every node has what it should, and everything is quiet and listed."""
    core = Core()
    core.put(*records)  # type: ignore[arg-type]
    core.charge()
    core.publisher.connected(None)
    core.settled()
    core.after(5)
    core.port.sent.clear()
    return core


def sent(core: Core) -> list[list[str]]:
    """The resources of each snapshot that goes out now, which is acknowledged."""
    snapshots = [names(snapshot) for snapshot in core.pump()]
    core.acknowledge()
    return snapshots


def test_what_is_only_added_or_altered_goes_out_at_once() -> None:
    core = serving(record("Alone/a", "n"))
    core.put(record("Alone/b", "n"), record("Alone/a", "n", spec="new"))
    assert sent(core) == [["Alone/a", "Alone/b"]]


def test_a_removal_goes_out_once_its_kind_has_lost_nothing_for_a_second() -> None:
    core = serving(record("Alone/a", "n"), record("Alone/b", "n"))
    core.remove("Alone/a")
    assert sent(core) == []
    core.after(0.9)
    assert sent(core) == []
    assert core.again_at == pytest.approx(core.now + 0.1)
    core.after(0.1)
    assert sent(core) == [["Alone/b"]]


def test_a_loss_elsewhere_of_the_same_kind_makes_it_wait_longer() -> None:
    core = serving(*(record(f"Alone/{x}", "n") for x in "ab"), record("Alone/c", "m", "k"))
    core.remove("Alone/a")
    sent(core)
    core.after(0.8)
    core.put(record("Alone/c", "k"))
    core.after(0.8)
    assert ["Alone/b"] not in sent(core)
    core.after(0.2)
    assert ["Alone/b"] in sent(core)


def test_a_loss_of_another_kind_does_not_delay_it() -> None:
    core = serving(*(record(f"Alone/{x}", "n") for x in "ab"), record("Part/c", "m", "k"))
    core.remove("Alone/a")
    sent(core)
    core.after(0.8)
    core.put(record("Part/c", "k"))
    core.after(0.2)
    assert ["Alone/b"] in sent(core)


def test_a_kind_that_never_rests_delays_a_removal_by_ten_seconds_at_most() -> None:
    core = serving(*(record(f"Alone/{x}", "n") for x in "ab"), record("Alone/m", "m"))
    core.remove("Alone/a")
    sent(core)
    for moment in range(19):
        core.put(record("Alone/m", f"m{moment}"))
        assert ["Alone/b"] not in sent(core), moment
        core.after(0.5)
    core.put(record("Alone/m", "m"))
    core.after(0.5)
    assert ["Alone/b"] in sent(core)


@pytest.mark.parametrize("broken", [PART, OWNER], ids=["its own", "one that it depends on"])
def test_a_removal_waits_while_a_watch_concerned_is_broken_and_settles_after_it(
    broken: KindName,
) -> None:
    core = serving(record("Part/a", "n"), record("Part/b", "n"), record("Owner/o", "m"))
    core.interrupted(broken, True)
    core.remove("Part/a")
    assert sent(core) == []
    core.after(5)
    assert sent(core) == []
    core.interrupted(broken, False)
    assert sent(core) == []
    core.after(0.9)
    assert sent(core) == []
    core.after(0.2)
    assert sent(core) == [["Part/b"]]


def test_a_watch_that_stays_broken_delays_a_removal_by_ten_seconds_at_most() -> None:
    core = serving(record("Part/a", "n"), record("Part/b", "n"))
    core.interrupted(OWNER, True)
    core.remove("Part/a")
    assert sent(core) == []
    core.after(9.9)
    assert sent(core) == []
    core.after(0.1)
    assert sent(core) == [["Part/b"]]


def test_what_is_lost_while_a_removal_waits_for_a_broken_watch_settles_too() -> None:
    core = serving(record("Part/a", "n"), record("Part/b", "n"), record("Part/c", "n"))
    core.interrupted(OWNER, True)
    core.remove("Part/a")
    assert sent(core) == []
    core.after(9.8)
    core.remove("Part/b")
    assert sent(core) == []
    core.after(0.3)
    assert sent(core) == []
    core.put(record("Part/b", "n"))
    core.after(1)
    assert sent(core) == [["Part/b", "Part/c"]]


def test_a_broken_watch_of_a_kind_that_is_not_concerned_delays_nothing() -> None:
    core = serving(record("Alone/a", "n"), record("Alone/b", "n"))
    core.interrupted(OWNER, True)
    core.remove("Alone/a")
    sent(core)
    core.after(1)
    assert sent(core) == [["Alone/b"]]


def test_the_other_changes_of_the_node_wait_with_the_removal() -> None:
    core = serving(record("Alone/a", "n"), record("Alone/z", "m"))
    core.put(record("Alone/a", "m"), record("Alone/b", "n"))
    assert sent(core) == [["Alone/a", "Alone/z"]]
    core.after(1)
    assert sent(core) == [["Alone/b"]]


def test_an_object_that_comes_back_in_time_never_left() -> None:
    core = serving(record("Alone/a", "n"), record("Alone/b", "n"))
    core.remove("Alone/a")
    sent(core)
    core.after(0.5)
    core.put(record("Alone/a", "n"))
    core.after(60)
    core.listed()
    assert sent(core) == []


def test_what_is_lost_anew_after_it_came_back_settles_anew() -> None:
    core = serving(record("Alone/a", "n"), record("Alone/b", "n"))
    core.remove("Alone/a")
    sent(core)
    core.after(0.5)
    core.put(record("Alone/a", "n"))
    sent(core)
    core.remove("Alone/a")
    assert sent(core) == []
    core.after(0.9)
    assert sent(core) == []
    core.after(0.1)
    assert sent(core) == [["Alone/b"]]


def test_a_loss_long_ago_that_was_made_good_does_not_hurry_a_new_one() -> None:
    core = serving(record("Alone/a", "n"), record("Alone/b", "n"))
    core.remove("Alone/a")
    sent(core)
    core.after(0.5)
    core.put(record("Alone/a", "n"))
    sent(core)
    core.after(20)
    core.remove("Alone/a")
    assert sent(core) == []
    core.after(1)
    assert sent(core) == [["Alone/b"]]


# -- through another kind


def carried() -> Core:
    """`Owner/a` carries `Part/p` to n; `Owner/z` and `Part/z` keep their kinds from being empty."""
    return serving(
        record("Owner/a", "n", carries=["Part/p"]),
        record("Part/p"),
        record("Owner/z", "z"),
        record("Part/z", "z"),
    )


def test_what_leaves_through_another_kind_waits_for_lists_of_the_kinds_concerned() -> None:
    core = carried()
    core.put(record("Owner/a", "n"))
    assert sent(core) == []
    assert core.publisher.lists_wanted == {OWNER: core.now, PART: core.now}
    core.after(100)
    assert sent(core) == []
    assert core.again_at == math.inf


@pytest.mark.parametrize(("listed", "gone"), [((OWNER,), False), ((PART,), False), ((), True)])
def test_all_the_kinds_concerned_must_have_been_listed(listed: tuple, gone: bool) -> None:
    core = carried()
    core.put(record("Owner/a", "n"))
    sent(core)
    core.after(2)
    core.listed(*listed)
    assert sent(core) == ([["Owner/a"]] if gone else [])


def test_a_list_asked_for_before_the_loss_was_seen_does_not_count() -> None:
    core = carried()
    core.put(record("Owner/a", "n"))
    sent(core)
    seen = core.now
    core.after(5)
    core.listed(at=seen - 0.1)
    assert sent(core) == []
    core.listed(at=seen)
    assert sent(core) == [["Owner/a"]]


def test_an_object_that_is_deleted_itself_needs_no_lists() -> None:
    core = carried()
    core.remove("Part/p")
    sent(core)
    core.after(1)
    assert sent(core) == [["Owner/a"]]


def test_an_object_whose_own_kind_depends_on_nothing_needs_no_lists() -> None:
    core = serving(record("Alone/a", "n"), record("Alone/b", "n", "m"))
    core.put(record("Alone/a"))
    sent(core)
    core.after(1)
    assert sent(core) == [["Alone/b"]]


def test_a_handover_between_owners_in_any_order_takes_nothing_away() -> None:
    core = carried()
    core.put(record("Owner/a", "n"))  # the old owner lets go first
    assert sent(core) == []
    core.put(record("Owner/b", "n", carries=["Part/p"]))  # the new one comes later
    assert sent(core) == [["Owner/a", "Owner/b", "Part/p"]]
    core.after(100)
    core.listed()
    assert sent(core) == []


def test_the_owner_of_something_leaves_with_it_once_all_were_listed() -> None:
    core = carried()
    core.remove("Owner/a")
    sent(core)
    core.after(1)
    assert sent(core) == []
    core.listed()
    assert sent(core) == [[]]


# -- kinds that wait or are held


def test_the_last_object_of_a_kind_waits_for_a_second_list() -> None:
    core = serving(record("Alone/a", "n"))
    core.remove("Alone/a")
    core.after(0)
    sent(core)
    core.after(4)
    core.listed()
    assert sent(core) == []
    core.after(2)
    core.listed()
    assert sent(core) == [[]]


def test_a_removal_in_a_dependent_kind_waits_too() -> None:
    core = serving(record("Owner/a", "n", carries=["Part/p"]), record("Part/p"))
    core.remove("Owner/a")
    core.after(0)
    sent(core)
    core.after(4)
    core.listed()
    assert sent(core) == []


def test_a_crd_that_goes_takes_nothing_from_a_node() -> None:
    """Its objects go one by one, an empty list comes, and then it is not found any more."""
    core = serving(record("Alone/a", "n"), record("Alone/b", "n"))
    core.remove("Alone/a")
    sent(core)
    core.after(0.5)
    core.remove("Alone/b")
    core.after(0)
    sent(core)
    core.after(1)
    core.listed()
    assert sent(core) == []
    core.listed(ALONE, status=KindStatus.MISSING)
    core.publisher.dirty(core.publisher.nodes)
    snapshots = core.pump()
    assert [snapshot.held_kinds for snapshot in snapshots] == [{ALONE}]


def test_what_a_held_kind_lost_stays_until_the_hold_is_over() -> None:
    core = serving(record("Alone/a", "n"), record("Alone/b", "n"))
    core.listed(ALONE, status=KindStatus.INCOMPLETE)
    core.publisher.dirty(core.publisher.nodes)
    core.remove("Alone/a")
    (held,) = core.pump()
    core.acknowledge()
    assert (names(held), held.held_kinds) == (["Alone/b"], {ALONE})
    core.listed()
    core.after(59)
    assert sent(core) == []
    core.after(1.1)
    assert sent(core) == []  # the kind is held no more, which may take something away
    assert core.publisher.lists_wanted == {ALONE: core.now}
    core.listed()
    core.after(1)
    (last,) = core.pump()
    assert (names(last), last.held_kinds) == (["Alone/b"], frozenset())


# -- the first snapshot of a process, and reconnections


def test_the_first_snapshot_of_a_process_waits_as_if_it_took_away() -> None:
    core = Core()
    core.put(record("Alone/a", "n"))
    core.charge()
    core.after(0.1)
    core.publisher.connected(None)
    assert sent(core) == []
    assert set(core.publisher.lists_wanted) == {OWNER, PART}
    core.after(1)
    core.listed()
    assert sent(core) == [["Alone/a"]]


def test_the_first_snapshot_goes_at_once_where_every_kind_is_held() -> None:
    core = Core()
    core.put(record("Alone/a", "n"))
    core.charge({})
    core.publisher.connected(None)
    (first,) = core.pump()
    assert (names(first), first.held_kinds) == (["Alone/a"], {ALONE, OWNER, PART})


def test_time_from_before_the_connection_does_not_settle_anything() -> None:
    core = serving(record("Alone/a", "n"), record("Alone/b", "n"))
    core.remove("Alone/a")
    sent(core)
    core.reconnect()
    core.after(3600)
    assert sent(core) == []
    core.after(1)
    assert sent(core) == [["Alone/b"]]


def test_a_move_reaches_the_new_node_at_once_and_leaves_the_old_one_later() -> None:
    core = serving(record("Alone/a", "n"), record("Alone/z", "m"))
    core.put(record("Alone/a", "m"))
    assert sent(core) == [["Alone/a", "Alone/z"]]
    core.after(1)
    assert sent(core) == [[]]
    assert core.catalog.nodes_of(key("Alone/a")) == {"m"}


# -- an object that is gone, where a list is cheap


def test_cheap_list_is_made_while_a_removal_settles_and_delays_it_no_longer() -> None:
    core = serving(record("Alone/a", "n"), record("Alone/b", "n"))
    core.remove("Alone/a")
    assert sent(core) == []
    assert core.publisher.lists_wanted == {ALONE: core.now + 0.5}
    core.after(0.5)
    core.listed(ALONE)
    assert sent(core) == []
    core.after(0.5)
    assert sent(core) == [["Alone/b"]]


def test_without_the_cheap_list_nothing_that_is_gone_leaves_its_node() -> None:
    core = serving(record("Alone/a", "n"), record("Alone/b", "n"))
    core.remove("Alone/a")
    sent(core)
    core.after(0.4)
    core.listed(ALONE)
    sent(core)
    core.after(3600)
    assert sent(core) == []


def test_a_cheap_list_is_not_wanted_of_a_kind_of_which_there_is_much() -> None:
    many = [record(f"Alone/{number}", "m") for number in range(DEAR)]
    core = serving(record("Alone/a", "n"), record("Alone/b", "n"), *many)
    core.remove("Alone/a")
    sent(core)
    core.after(1)
    assert sent(core) == [["Alone/b"]]


def test_a_kind_that_never_rests_delays_a_removal_no_longer_where_lists_are_cheap() -> None:
    core = serving(*(record(f"Alone/{number:02}", "n") for number in range(40)))
    for number in range(20):
        core.remove(f"Alone/{number:02}")
        assert sent(core) == [], number
        core.after(0.5)
        core.listed(ALONE)
    assert sent(core) == [[f"Alone/{number}" for number in range(20, 40)]]
