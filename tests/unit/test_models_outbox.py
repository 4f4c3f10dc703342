from __future__ import annotations

from agent.models.configfile import read_config
from agent.models.diff import diff
from agent.models.outbox import Outbox, OutboxState, SentOp
from agent.models.spec import UNKNOWN
from tests.support.models import fits, outbox_with, reading, send_all, specs, words


def change(outbox: Outbox, models: dict[str, str]) -> None:
    outbox.read(reading(models), startup=False)


def mark(outbox: Outbox, room: int = 20) -> list[SentOp]:
    batch = outbox.propose(fits, room)
    outbox.mark_sent(batch)
    return list(batch)


def test_the_gone_go_first_and_a_changed_model_is_unloaded_just_before_its_load() -> None:
    ops = diff(specs({"z": "1", "a": "1", "m": "1"}), specs({"m": "1", "b": "1", "a": "2"}))
    assert [(op.word, op.model) for op in ops] == [
        ("unload", "z"),
        ("unload", "a"),
        ("load", "a"),
        ("load", "b"),
    ]


def test_an_unload_carries_the_spec_that_was_loaded() -> None:
    [unload, load] = diff(specs({"a": "1"}), specs({"a": "2"}))
    assert unload.spec == specs({"a": "1"})["a"]
    assert load.spec == specs({"a": "2"})["a"]


def test_a_load_and_its_unload_before_sending_are_nothing() -> None:
    outbox = outbox_with({})
    change(outbox, {"a": "1"})
    change(outbox, {})
    assert outbox.propose(fits) == ()


def test_a_sent_op_is_followed_and_never_taken_back() -> None:
    outbox = outbox_with({"a": "1"})
    mark(outbox)
    change(outbox, {})
    mark(outbox)
    assert words(outbox.sent) == [("load", "a"), ("unload", "a")]


def test_seq_rises_by_one_from_one() -> None:
    outbox = outbox_with({"a": "1", "b": "1"})
    first = send_all(outbox)
    change(outbox, {"a": "2"})
    assert [s.seq for s in first + send_all(outbox)] == [1, 2, 3, 4, 5]


def test_a_changed_spec_is_remembered_and_loaded_once() -> None:
    outbox = outbox_with({"a": "1"})
    send_all(outbox)
    change(outbox, {"a": "2"})
    assert words(send_all(outbox)) == [("unload", "a"), ("load", "a")]
    change(outbox, {"a": "2"})
    assert send_all(outbox) == []


def test_going_back_to_the_spec_before_is_seen() -> None:
    outbox = outbox_with({"a": "1"})
    send_all(outbox)
    change(outbox, {"a": "2"})
    send_all(outbox)
    change(outbox, {"a": "1"})
    assert words(send_all(outbox)) == [("unload", "a"), ("load", "a")]


def test_no_more_ops_are_sent_than_the_window_allows() -> None:
    outbox = outbox_with({str(n): "1" for n in range(9)}, window=4)
    assert len(mark(outbox)) == 4
    assert mark(outbox) == []
    for each in outbox.unhanded():
        outbox.acknowledge(outbox.hand(each))
    outbox.settle(outbox.settled())
    assert len(mark(outbox)) == 4


def test_after_a_lost_connection_all_that_is_not_settled_goes_again_in_order() -> None:
    outbox = outbox_with({"a": "1", "b": "1", "c": "1"})
    mark(outbox)
    tokens = [outbox.hand(each) for each in outbox.unhanded()]
    outbox.acknowledge(tokens[0])
    outbox.settle(outbox.settled())
    assert outbox.unhanded() == ()
    outbox.go_again()
    assert [each.seq for each in outbox.unhanded()] == [2, 3]


def test_an_acknowledgement_that_overtakes_an_older_op_waits_for_it() -> None:
    outbox = outbox_with({"a": "1"})
    mark(outbox)
    change(outbox, {})
    mark(outbox)
    load, unload = (outbox.hand(each) for each in outbox.unhanded())
    outbox.acknowledge(unload)
    assert outbox.settled() == ()
    outbox.go_again()
    assert words(outbox.unhanded()) == [("load", "a"), ("unload", "a")]
    outbox.acknowledge(load)  # of the connection before: it says nothing any more
    assert outbox.settled() == ()


def test_what_was_acknowledged_in_order_does_not_go_again_before_it_is_settled() -> None:
    outbox = outbox_with({"a": "1", "b": "1", "c": "1"})
    mark(outbox)
    one, _, three = (outbox.hand(each) for each in outbox.unhanded())
    outbox.acknowledge(one)
    outbox.acknowledge(three)
    outbox.go_again()
    assert [each.seq for each in outbox.unhanded()] == [2, 3]
    assert [each.seq for each in outbox.settled()] == [1]


def test_only_ops_from_the_first_look_are_of_the_startup() -> None:
    outbox = outbox_with({"a": "1", "b": "1"})
    change(outbox, {"a": "1", "b": "2", "c": "1"})
    assert {s.op.model: s.on_startup for s in mark(outbox)} == {"a": True, "b": False, "c": False}
    change(outbox, {"a": "2"})
    change(outbox, {"a": "1"})
    change(outbox, {})
    assert not any(s.on_startup for s in mark(outbox))


def test_a_bad_entry_keeps_what_was_last_asked_for() -> None:
    outbox = outbox_with({"a": "1"})
    outbox.read(read_config(b'[{"modelName": "a"}]'), startup=False)
    assert words(mark(outbox)) == [("load", "a")]


def test_a_bad_entry_at_the_start_keeps_what_the_model_has() -> None:
    first = outbox_with({"a": "1"})
    send_all(first)
    second = Outbox(OutboxState(first.seq, first.held))
    second.read(read_config(b'[{"modelName": "a"}]'), startup=True)
    assert mark(second) == []


def test_a_bad_entry_takes_back_an_unload_that_was_not_sent() -> None:
    outbox = outbox_with({"a": "1"})
    send_all(outbox)
    change(outbox, {})
    outbox.read(read_config(b'[{"modelName": "a"}]'), startup=False)
    assert mark(outbox) == []


def too_large(model: str) -> object:
    return lambda s: "too large" if s.op.model == model and s.op.word == "load" else None


def test_an_op_above_the_limit_is_refused_before_it_is_marked_and_blocks_no_other() -> None:
    outbox = outbox_with({"a": "1", "b": "1", "c": "1"})
    batch = outbox.propose(too_large("b"))  # type: ignore[arg-type]
    assert words(batch) == [("load", "a"), ("load", "c")]
    assert outbox.refused == {"b": "too large"}
    outbox.mark_sent(batch)
    assert outbox.seq == 2


def test_a_change_to_what_is_too_large_keeps_what_is_loaded() -> None:
    outbox = outbox_with({"a": "1"})
    send_all(outbox)
    change(outbox, {"a": "2"})
    assert outbox.propose(too_large("a")) == ()  # type: ignore[arg-type]
    assert outbox.held["a"].spec == specs({"a": "1"})["a"]


def test_a_refused_model_is_tried_again_with_its_next_spec() -> None:
    outbox = outbox_with({"a": "1"})
    outbox.propose(too_large("a"))  # type: ignore[arg-type]
    change(outbox, {"a": "1", "b": "1"})
    assert words(outbox.propose(fits)) == [("load", "b")]
    change(outbox, {"a": "2"})
    assert words(outbox.propose(fits)) == [("load", "a")]
    assert outbox.refused == {}


def test_a_refused_model_is_tried_again_when_the_limit_may_have_changed() -> None:
    outbox = outbox_with({"a": "1"})
    outbox.propose(too_large("a"))  # type: ignore[arg-type]
    outbox.retry_refused()
    assert words(outbox.propose(fits)) == [("load", "a")]


def test_an_unload_that_is_too_large_goes_without_its_spec() -> None:
    outbox = outbox_with({"a": "1"})
    send_all(outbox)
    change(outbox, {})
    [unload] = outbox.propose(lambda s: "too large" if s.op.spec != UNKNOWN else None)
    assert (unload.op.word, unload.op.spec) == ("unload", UNKNOWN)


def aside(outbox: Outbox, seq: int) -> None:
    found = outbox.asided(seq, "killed two connections")
    assert found is not None
    outbox.set_aside(found)


def test_a_load_set_aside_is_shown_and_asked_for_again_only_with_another_spec() -> None:
    outbox = outbox_with({"a": "1", "b": "1"})
    mark(outbox)
    aside(outbox, 1)
    assert words(outbox.unhanded()) == [("load", "b")]
    assert outbox.pending == ()
    outbox.acknowledge(outbox.hand(outbox.unhanded()[0]))
    outbox.settle(outbox.settled())
    assert outbox.held["a"].failure == "killed two connections"
    change(outbox, {"a": "2", "b": "1"})
    assert words(send_all(outbox)) == [("unload", "a"), ("load", "a")]
    assert outbox.held["a"].failure is None


def test_an_unload_set_aside_is_asked_for_again_without_its_spec() -> None:
    outbox = outbox_with({"a": "1"})
    send_all(outbox)
    change(outbox, {})
    mark(outbox)
    aside(outbox, 2)
    [again] = mark(outbox)
    assert (again.op.word, again.op.spec) == ("unload", UNKNOWN)


def test_an_op_set_aside_settles_in_its_turn() -> None:
    outbox = outbox_with({"a": "1"})
    send_all(outbox)
    change(outbox, {"a": "2"})
    unload, load = mark(outbox)
    aside(outbox, load.seq)
    assert outbox.settled() == ()
    outbox.acknowledge(outbox.hand(unload))
    assert [each.seq for each in outbox.settled()] == [unload.seq, load.seq]


def test_a_renewal_loads_all_that_is_there_from_seq_one() -> None:
    outbox = outbox_with({"a": "1", "b": "1"})
    send_all(outbox)
    change(outbox, {"a": "1"})
    outbox.renew(outbox.renewal())
    assert words(outbox.unhanded()) == [("load", "a"), ("load", "b")]
    assert [each.seq for each in outbox.sent] == [1, 2]
    assert words(mark(outbox)) == [("unload", "b")]


def test_any_number_of_models_is_worked_off_at_start() -> None:
    outbox = outbox_with({f"model-{n}": "1" for n in range(5000)})
    assert len(send_all(outbox)) == 5000
