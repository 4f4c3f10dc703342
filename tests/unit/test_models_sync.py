from __future__ import annotations

import logging
from typing import Any

import pytest

from agent.models.configfile import ConfigSeen
from agent.models.modelset import shed
from agent.models.sync import ModelSync
from agent.store.models import ModelStore
from nodecast.errors import StoreError
from nodecast.messages import ModelEntry, ModelOp, ModelSet, Wire, decode, encode
from tests.support.models import (
    database,
    deliver,
    file_of,
    replay,
    see,
    start,
    sync_on,
)


def models(sync: ModelSync) -> dict[str, ModelEntry]:
    return {each.name: each for each in sync.model_set().models}


def state(sync: ModelSync) -> str:
    return sync.model_set().config.state


class FullDisk(ModelStore):
    """A store on a disk that is full while `full`."""

    full = False

    def _fail(self) -> None:
        if self.full:
            raise StoreError("the disk is full")

    def mark_sent(self, *args: Any) -> None:
        self._fail()
        super().mark_sent(*args)

    def settle(self, *args: Any) -> None:
        self._fail()
        super().settle(*args)


# The config file


def test_o7_not_read_missing_invalid_and_no_models_are_different_states() -> None:
    sync = sync_on(database())
    assert (state(sync), sync.read_once) == ("unread", False)
    sync.seen(ConfigSeen())
    assert (state(sync), sync.read_once) == ("missing", True)
    sync.seen(ConfigSeen(b"["))
    assert state(sync) == "invalid"
    sync.seen(ConfigSeen(error="Permission denied"))
    assert state(sync) == "invalid"
    assert "Permission denied" in sync.model_set().config.message
    see(sync, {})
    assert state(sync) == "ok"


@pytest.mark.parametrize(
    "seen", [ConfigSeen(), ConfigSeen(b""), ConfigSeen(b'[{"mod'), ConfigSeen(error="I/O error")]
)
def test_f4_f5_a_file_that_does_not_speak_changes_no_model(seen: ConfigSeen) -> None:
    sync = start(sync_on(database()), {"a": "1"})
    deliver(sync)
    sync.seen(seen)
    assert deliver(sync) == []
    assert models(sync)["a"].state == "Requested"
    see(sync, {"a": "1"})
    assert deliver(sync) == []


def test_f4_a_file_written_bit_by_bit_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    sync = start(sync_on(database()), {"a": "1"})
    whole = file_of({"a": "2"})
    with caplog.at_level(logging.WARNING):
        for end in range(0, len(whole), 7):
            sync.seen(ConfigSeen(whole[:end]))
    assert [r.getMessage() for r in caplog.records] == ["model config invalid"]
    sync.seen(ConfigSeen(whole))
    assert [op.op for op in deliver(sync)] == ["load"]


def test_f5_a_file_that_vanished_before_a_restart_keeps_the_models() -> None:
    connection = database()
    deliver(start(sync_on(connection), {"a": "1"}))
    again = start(sync_on(connection))
    again.seen(ConfigSeen())
    assert deliver(again) == []
    assert models(again)["a"].state == "Requested"


def test_the_problems_of_entries_are_told_one_by_one_while_the_file_reads() -> None:
    sync = start(sync_on(database()), {"a": "1"})
    assert sync.config_problems == ()
    sync.seen(ConfigSeen(b'[{"modelName": "b"}, 5]'))
    assert [each.split(":")[0] for each in sync.config_problems] == ["[0] 'b'", "[1]"]
    sync.seen(ConfigSeen(b"["))
    assert sync.config_problems == ()


def test_o4_a_bad_entry_is_shown_at_the_file_and_at_its_model() -> None:
    sync = start(sync_on(database()), {"a": "1", "b": "1"})
    deliver(sync)
    sync.seen(ConfigSeen(file_of({"a": "2"})[:-1] + b', {"modelName": "b"}]'))
    assert replay(deliver(sync)) == {"a": "2"}
    assert state(sync) == "ok"
    assert "'b': modelSpec is missing" in sync.model_set().config.message
    assert models(sync)["b"].state == "Requested"
    assert "modelSpec is missing" in models(sync)["b"].message
    see(sync, {"a": "2", "b": "2"})
    assert replay(deliver(sync)) == {"b": "2"}
    assert sync.model_set().config.message == ""


# Ops


def test_no_op_goes_before_the_broker_said_what_it_keeps() -> None:
    connection = database()
    sync = sync_on(connection)
    see(sync, {"a": "1"})
    sync.connected()
    assert deliver(sync) == []
    assert sync.model_set().seq == 0
    start(sync_on(connection), {"a": "1"}).commit(20)
    sync = sync_on(connection)
    see(sync, {"a": "1"})
    sync.connected()
    assert deliver(sync) == []
    sync.own_set(None, lambda: "s2")
    assert [op.model for op in deliver(sync)] == ["a"]


def test_what_waits_to_be_handed_over_takes_the_room_before_new_ops() -> None:
    sync = start(sync_on(database()), {str(n): "1" for n in range(9)})
    sync.commit(3)
    sync.commit(3)
    assert sync.model_set().seq == 3


def test_a_change_is_unloaded_only_when_its_load_can_follow() -> None:
    limit = 10_000

    def oversize(op: ModelOp) -> str | None:
        return "above the limit" if len(encode(op)) > limit else None

    sync = start(sync_on(database(), oversize=oversize), {"a": "1"})
    deliver(sync)
    limit = 1000
    see(sync, {"a": "x" * 2000})
    assert deliver(sync) == []
    assert "what was there stays" in models(sync)["a"].message
    limit = 10_000
    assert deliver(sync) == []
    sync.connected()
    assert [op.op for op in deliver(sync)] == ["unload", "load"]


def test_o3_the_broker_is_down_the_file_changes_twice_and_the_agent_restarts() -> None:
    connection = database()
    sync = start(sync_on(connection), {"a": "1", "b": "1"})
    deliver(sync)
    see(sync, {"a": "2", "c": "1"})
    sync.commit(0)
    see(sync, {"a": "3"})
    sync.commit(0)
    again = start(sync_on(connection), {"a": "3"})
    assert [(op.op, op.model, op.on_startup) for op in deliver(again)] == [
        ("unload", "b", True),
        ("unload", "a", True),
        ("load", "a", True),
    ]


def test_a_restart_without_a_change_gives_no_op() -> None:
    connection = database()
    deliver(start(sync_on(connection), {"a": "1"}))
    assert deliver(start(sync_on(connection), {"a": "1"})) == []


def test_a_sent_op_goes_again_after_a_crash_as_it_was() -> None:
    connection = database()
    sync = start(sync_on(connection), {"a": "1"})
    sync.commit(20)
    first = sync.publications(20)[0][1]
    again = start(sync_on(connection), {})
    assert deliver(again) == [
        first,
        ModelOp(
            node="edge-a",
            store="s1",
            seq=2,
            op="unload",
            model="a",
            spec=first.spec,
            on_startup=True,
        ),
    ]


def test_an_op_is_on_disk_before_it_is_handed_over() -> None:
    connection = database()
    sync = start(sync_on(connection), {"a": "1"})
    assert sync.publications(20) == []
    sync.commit(20)
    assert [s.seq for s in ModelStore(connection).load().sent] == [1]
    assert len(sync.publications(20)) == 1


def test_e6_a_full_disk_sends_nothing_new_and_loses_nothing() -> None:
    connection = database()
    storage = FullDisk(connection)
    sync = start(sync_on(connection, storage=storage), {"a": "1"})
    sync.commit(20)
    [(token, _)] = sync.publications(20)
    sync.acknowledged(token)
    see(sync, {"a": "1", "b": "1"})
    storage.full = True
    for _ in range(2):
        with pytest.raises(StoreError):
            sync.commit(20)
    assert sync.publications(20) == []
    storage.full = False
    assert [(op.model, op.seq) for op in deliver(sync)] == [("b", 2)]
    assert sync.idle


def test_no_more_ops_are_handed_over_than_there_is_room_for() -> None:
    sync = start(sync_on(database()), {str(n): "1" for n in range(9)})
    sync.commit(3)
    assert len(sync.publications(3)) == 3
    sync.commit(1)
    assert [op.seq for _, op in sync.publications(1)] == [4]


def test_a_refusal_stops_the_ops_until_all_go_again_in_order() -> None:
    sync = start(sync_on(database()), {"a": "1", "b": "1", "c": "1"})
    sync.commit(20)
    one, two, three = (token for token, _ in sync.publications(20))
    sync.acknowledged(one)
    sync.commit(20)
    sync.refused(two, "not authorised", too_large=False)
    assert not sync.acknowledged(three)
    sync.commit(20)
    assert sync.publications(20) == []
    sync.resume()
    sync.refused(three, "not authorised", too_large=False)  # an answer from before
    assert [op.seq for op in deliver(sync)] == [2, 3]
    assert sync.idle


def test_an_op_above_the_limit_is_shown_and_the_others_go() -> None:
    def oversize(op: ModelOp) -> str | None:
        return "above the limit" if len(encode(op)) > 1000 else None

    sync = start(sync_on(database(), oversize=oversize), {"a": "1", "b": "x" * 2000})
    assert [op.model for op in deliver(sync)] == ["a"]
    assert (models(sync)["b"].state, models(sync)["b"].message) == ("Failed", "above the limit")
    assert sync.model_set().seq == 1
    see(sync, {"a": "1", "b": "2"})
    assert [op.model for op in deliver(sync)] == ["b"]
    assert models(sync)["b"].state == "Requested"


# The store id


def own(sync: ModelSync, seq: int, store: str = "s1") -> ModelSet:
    found = sync.model_set()
    return ModelSet(node=found.node, store=store, seq=seq, config=found.config)


def test_a_restored_store_goes_on_under_a_new_id_and_loads_all_again() -> None:
    connection = database()
    deliver(start(sync_on(connection), {"a": "1", "b": "1"}))
    restored = sync_on(connection)
    restored.own_set(own(restored, seq=7), lambda: "s2")
    restored.connected()
    see(restored, {"a": "1", "c": "1"})
    ops = deliver(restored)
    assert replay(ops) == {"a": "1", "c": "1"}
    assert {op.store for op in ops} == {"s2"}
    assert [op.seq for op in ops] == [1, 2, 3, 4]
    assert sync_on(connection).store == "s2"
    assert restored.model_set().store == "s2"


@pytest.mark.parametrize(("seq", "store"), [(2, "s1"), (1, "s1"), (9, "other")])
def test_an_equal_older_or_foreign_set_keeps_the_store_id(seq: int, store: str) -> None:
    connection = database()
    deliver(start(sync_on(connection), {"a": "1", "b": "1"}))
    again = sync_on(connection)
    again.own_set(own(again, seq, store), lambda: "s2")
    see(again, {"a": "1", "b": "1"})
    assert again.store == "s1"
    assert deliver(again) == []


# The ModelSet


def test_a_model_is_pending_until_its_op_is_sent() -> None:
    sync = start(sync_on(database()), {"a": "1"})
    assert (models(sync)["a"].state, sync.model_set().seq) == ("Pending", 0)
    sync.commit(20)
    assert (models(sync)["a"].state, sync.model_set().seq) == ("Requested", 1)


def test_a_model_that_goes_stays_in_the_set_until_its_unload_is_sent() -> None:
    sync = start(sync_on(database()), {"a": "1"})
    deliver(sync)
    see(sync, {})
    assert (models(sync)["a"].state, models(sync)["a"].message) == (
        "Pending",
        "unload not sent yet",
    )
    deliver(sync)
    assert models(sync) == {}


def test_the_change_counter_moves_with_the_set_and_not_with_acknowledgements() -> None:
    sync = start(sync_on(database()), {"a": "1"})
    sync.commit(20)
    before = sync.changes
    for token, _ in sync.publications(20):
        sync.acknowledged(token)
    sync.commit(20)
    assert sync.changes == before
    see(sync, {})
    assert sync.changes > before


def test_the_set_reads_back() -> None:
    sync = start(sync_on(database()), {"../../etc/x": "1", "ü": "1"})
    deliver(sync)
    found = sync.model_set()
    assert decode(ModelSet, Wire(encode(found))) == found
    assert [each.name for each in found.models] == ["../../etc/x", "ü"]
    assert [each.model for each in found.recent_ops] == ["../../etc/x", "ü"]


def test_a_set_that_is_too_large_sheds_messages_then_ops_and_never_models() -> None:
    sync = start(sync_on(database()), {"a": "1"})
    deliver(sync)
    see(sync, {"a": "1", "b": "1"})
    full, brief, least = shed(sync.model_set())
    assert [each.message for each in full.models] == ["", "load not sent yet"]
    assert [each.message for each in brief.models] == ["", ""]
    assert (len(brief.recent_ops), len(least.recent_ops)) == (1, 0)
    for each in (brief, least):
        assert [(m.name, m.spec, m.state) for m in each.models] == [
            (m.name, m.spec, m.state) for m in full.models
        ]


def test_o5_a_name_twice_is_a_warning_of_the_file_and_no_fault_of_its_model() -> None:
    sync = start(sync_on(database()))
    sync.seen(ConfigSeen(file_of({"a": "1"})[:-1] + b"," + file_of({"a": "2"})[1:]))
    assert replay(deliver(sync)) == {"a": "2"}
    assert models(sync)["a"].message == ""
    assert "the last entry counts" in sync.model_set().config.message


def test_many_bad_entries_make_a_short_message() -> None:
    sync = start(sync_on(database()))
    sync.seen(ConfigSeen(b"[" + b",".join([b"5"] * 1000) + b"]"))
    message = sync.model_set().config.message
    assert message.endswith("; and 990 more")
    assert len(message) < 1000
