from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from agent.models.outbox import Held, Outbox
from agent.models.spec import UNKNOWN
from agent.store.database import open_database
from agent.store.models import SCHEMA, ModelStore
from nodecast.errors import StoreError
from tests.support.models import (
    database,
    deliver,
    outbox_with,
    reading,
    see,
    specs,
    start,
    sync_on,
    words,
)


def one_of_each(connection: sqlite3.Connection) -> None:
    """Settled: a; sent and not settled: unload a, load a anew."""
    sync = start(sync_on(connection), {"a": "1"})
    deliver(sync)
    see(sync, {"a": "2"})
    sync.commit(20)


def test_what_was_written_is_loaded_again(tmp_path: Path) -> None:
    opened = open_database(tmp_path, [SCHEMA], "s1")
    one_of_each(opened.connection)
    opened.connection.close()
    again = open_database(tmp_path, [SCHEMA], "s2")
    state = ModelStore(again.connection).load()
    again.connection.close()
    assert (again.store, state.seq) == ("s1", 3)
    assert state.base == {"a": Held(specs({"a": "1"})["a"])}
    assert [(s.seq, s.op.word, s.op.spec) for s in state.sent] == [
        (2, "unload", specs({"a": "1"})["a"]),
        (3, "load", specs({"a": "2"})["a"]),
    ]
    assert [(r.seq, r.op, r.model) for r in state.recent] == [
        (1, "load", "a"),
        (2, "unload", "a"),
        (3, "load", "a"),
    ]


def test_a_spec_comes_back_as_it_was_written() -> None:
    connection = database()
    one_of_each(connection)
    held = ModelStore(connection).load().base["a"]
    assert held.spec is not None
    assert held.spec.value() == {"storageUri": "1", "framework": "sklearn", "memory": "1Gi"}
    assert next(iter(held.spec.value())) == "storageUri"


@pytest.mark.parametrize(
    "damage",
    ["'{'", "'[]'", "5", "x'fffe'", "NULL", "'{\"a\":' || char(0) || '1}'", "''"],
)
def test_e4_a_damaged_base_record_is_set_aside_and_its_model_not_forgotten(damage: str) -> None:
    connection = database()
    deliver(start(sync_on(connection), {"a": "1", "b": "1"}))
    connection.execute(f"UPDATE model_base SET spec = {damage} WHERE name = 'a'")
    state = ModelStore(connection).load()
    assert state.base["a"].spec == UNKNOWN
    assert state.base["b"].spec == specs({"b": "1"})["b"]
    assert connection.execute("SELECT count(*) FROM model_bad").fetchone() == (1,)
    assert ModelStore(connection).load().base == state.base
    assert connection.execute("SELECT count(*) FROM model_bad").fetchone() == (1,)
    outbox = Outbox(state)
    outbox.read(reading({"b": "1"}), startup=True)
    assert [(op.word, op.model) for op in outbox.pending] == [("unload", "a")]


def test_a_command_that_only_looks_changes_nothing() -> None:
    connection = database()
    deliver(start(sync_on(connection), {"a": "1", "b": "1"}))
    connection.execute("UPDATE model_base SET spec = '{' WHERE name = 'a'")
    connection.execute("PRAGMA query_only = 1")
    looking = sync_on(connection, storage=ModelStore(connection, read_only=True))
    see(looking, {"a": "1", "b": "2"})
    assert [(m.name, m.state) for m in looking.model_set().models] == [
        ("a", "Pending"),
        ("b", "Pending"),
    ]


@pytest.mark.parametrize("column", ["spec", "word", "model"])
def test_e4_a_damaged_sent_record_is_set_aside_and_the_rest_loads(column: str) -> None:
    connection = database()
    one_of_each(connection)
    connection.execute(f"UPDATE model_sent SET {column} = x'ff' WHERE seq = 3")
    state = ModelStore(connection).load()
    assert [s.seq for s in state.sent] == [2]
    assert state.seq == 3


def test_the_last_seq_is_found_when_its_record_is_lost() -> None:
    connection = database()
    deliver(start(sync_on(connection), {"a": "1", "b": "1"}))
    connection.execute("DELETE FROM model_seq")
    assert ModelStore(connection).load().seq == 2


def test_set_aside_ops_stay_so_after_a_restart() -> None:
    connection = database()
    sync = start(sync_on(connection), {"a": "1", "b": "1"})
    sync.commit(20)
    _, (token, _) = sync.publications(20)
    sync.refused(token, "above the limit", too_large=True)
    sync.commit(20)  # set aside, and not settled yet: an older op is not
    between = start(sync_on(connection), {"a": "1", "b": "1"})
    assert [op.model for op in deliver(between)] == ["a"]
    again = start(sync_on(connection), {"a": "1", "b": "1"})
    assert deliver(again) == []
    _, model = again.model_set().models
    assert (model.state, model.message) == ("Failed", "above the limit")


def test_an_error_of_the_disk_is_a_store_error_and_writes_nothing() -> None:
    connection = database()
    outbox = outbox_with({"a": "1", "b": "1"})
    batch = outbox.propose(lambda _: None)
    connection.execute(
        "CREATE TRIGGER full BEFORE INSERT ON model_sent WHEN new.seq = 2"
        " BEGIN SELECT RAISE(ABORT, 'disk full'); END"
    )
    with pytest.raises(StoreError):
        ModelStore(connection).mark_sent(batch, "")
    assert ModelStore(connection).load().sent == ()
    connection.execute("DROP TRIGGER full")
    ModelStore(connection).mark_sent(batch, "")
    assert words(ModelStore(connection).load().sent) == [("load", "a"), ("load", "b")]


def test_only_the_last_ten_ops_are_kept_for_people() -> None:
    connection = database()
    deliver(start(sync_on(connection), {f"{n:02}": "1" for n in range(25)}))
    assert [r.seq for r in ModelStore(connection).load().recent] == list(range(16, 26))
    assert connection.execute("SELECT count(*) FROM model_recent").fetchone() == (10,)
