"""When the ledger is written, and what of it counts as confirmed."""

from __future__ import annotations

import math

from bridge.guard import Counts
from bridge.ledger import PERIOD, LedgerBook
from nodecast.names import NodeName

A, B = NodeName("a"), NodeName("b")
COUNTS = Counts({"Alone.x": 1})


def written(*names: NodeName) -> LedgerBook:
    """A book whose first write, at 100, was acknowledged."""
    book = LedgerBook()
    book.write(set(names), 0, COUNTS, 100)
    book.acknowledged()
    return book


def test_it_is_due_at_once_in_a_new_connection() -> None:
    assert LedgerBook().due(set(), 0, Counts({}), 5) == 5
    book = written(A)
    book.disconnected()
    assert book.due({A}, 0, COUNTS, 101) == 101


def test_names_count_only_once_the_broker_has_them() -> None:
    book = LedgerBook()
    book.write({A}, 0, COUNTS, 100)
    assert book.names == set()
    book.acknowledged()
    assert book.names == {A}
    book.disconnected()
    assert book.names == set()


def test_nothing_is_due_while_a_write_is_in_flight() -> None:
    book = LedgerBook()
    book.write({A}, 0, COUNTS, 100)
    assert book.due({A, B}, 9, Counts({}), 200) == math.inf


def test_a_new_name_is_due_at_once() -> None:
    assert written(A).due({A, B}, 0, COUNTS, 100.1) == 100.1


def test_a_mark_or_a_count_that_moved_is_due_after_the_period() -> None:
    book = written(A)
    assert book.due({A}, 1, COUNTS, 101) == 100 + PERIOD
    assert book.due({A}, 0, Counts({"Alone.x": 2}), 101) == 100 + PERIOD
    assert book.due({A}, 1, COUNTS, 200) == 200


def test_a_count_that_must_not_wait_is_due_at_once() -> None:
    book = written(A)
    book.hurry()
    assert book.due({A}, 0, Counts({"Alone.x": 2}), 101) == 101
    assert book.idle_until({A}) <= 101


def test_nothing_is_due_where_nothing_moved() -> None:
    assert written(A).due({A}, 0, Counts(dict(COUNTS.kinds)), 1e9) == math.inf


def test_what_was_refused_is_due_again_after_the_pause() -> None:
    book = LedgerBook()
    book.write({A}, 0, COUNTS, 100)
    book.refused(130)
    assert book.names == set()
    assert book.due({A}, 0, COUNTS, 101) == 130
    book.write({A}, 0, COUNTS, 130)
    book.acknowledged()
    assert book.names == {A}


def test_a_name_that_was_refused_is_still_new_after_the_pause() -> None:
    book = written(A)
    book.write({A, B}, 0, COUNTS, 110)
    book.refused(111)
    assert book.due({A, B}, 0, COUNTS, 110.5) == 111


def test_a_refused_mark_is_due_again_and_the_names_stay() -> None:
    book = written(A)
    book.write({A}, 5, COUNTS, 110)
    book.refused(130)
    assert book.names == {A}
    assert book.due({A}, 5, COUNTS, 112) == 130


def test_a_pause_ends_with_the_connection() -> None:
    book = LedgerBook()
    book.write({A}, 0, COUNTS, 100)
    book.refused(400)
    book.disconnected()
    assert book.due({A}, 0, COUNTS, 101) == 101


def test_a_ledger_that_someone_overwrote_is_due_again_after_the_pause() -> None:
    book = written(A)
    book.overwritten(130)
    assert book.due({A}, 0, COUNTS, 110) == 130
    assert book.due({A}, 0, COUNTS, 131) == 131
    assert book.names == {A}, "what was confirmed may go on being served"
