"""The oracle of a chaos run: where things belong, which removals are wrong, what a consumer has."""

from __future__ import annotations

import json

import pytest

from bridge.catalog import Catalog
from bridge.objects import read_object
from bridge.placement import Rules, built_in
from nodecast.messages import ConfigState, ModelEntry, ModelOp, ModelSet
from nodecast.names import NodeName
from tests.chaos.accidents import Accidents
from tests.chaos.consumer import Consumer
from tests.chaos.plan import NODES, make_plan
from tests.chaos.things import DATASET, INCREMENTAL, MODEL, Thing, expected, key_of, manifest
from tests.chaos.truth import LONG, Truth, placed

N1, N2 = NodeName("n1"), NodeName("n2")
DATA = key_of(DATASET, "d", "data")
JOB = key_of(INCREMENTAL, "d", "job")
NET = key_of(MODEL, "d", "net")


def test_what_is_drawn_is_placed_by_the_bridge_as_the_oracle_says() -> None:
    rules = Rules(built_in("sedna.io"))
    for seed in range(30):
        things = {thing.key: thing for thing in make_plan(seed, 1, "manifests").things.put}
        catalog = Catalog(rules)
        catalog.apply({k: read_object(manifest(t), rules, "") for k, t in things.items()})
        bridge = {(node, r.key) for node in NODES for r in catalog.on_node(node)}
        assert placed(things) == bridge


def test_what_a_node_must_have_is_what_the_bridge_projects() -> None:
    rules = Rules(built_in("sedna.io"))
    for thing in make_plan(1, 1, "manifests").things.put:
        body = json.loads(read_object(manifest(thing), rules, "").encoded)
        assert expected(thing) == {k: v for k, v in body.items() if k != "digest"}


def test_a_carried_model_and_a_follower_belong_where_the_others_are() -> None:
    things = [
        Thing(DATA, 1, nodes=frozenset({N1})),
        Thing(JOB, 2, nodes=frozenset({N2}), models=frozenset({NET}), dataset=DATA),
        Thing(NET, 3),
    ]
    assert placed({thing.key: thing for thing in things}) == {
        (N1, DATA),
        (N1, JOB),
        (N2, JOB),
        (N1, NET),
        (N2, NET),
    }


def test_a_bad_thing_belongs_nowhere_whatever_refers_to_it() -> None:
    bad = Thing(DATA, 1, nodes=frozenset({N1}), bad=True)
    job = Thing(JOB, 2, dataset=DATA)
    assert placed({DATA: bad, JOB: job}) == frozenset()


def _there(now: float) -> Truth:
    truth = Truth()
    truth.announce([Thing(DATA, 1, nodes=frozenset({N1}))], [], now)
    truth.made(now)
    return truth


def test_a_removal_of_what_always_belonged_there_is_wrong() -> None:
    assert _there(0.0).why_wrong(N1, DATA, 0.1)


def test_a_removal_is_right_from_the_moment_a_deletion_is_announced() -> None:
    truth = _there(0.0)
    truth.announce([], [DATA], 1.0)
    assert truth.why_wrong(N1, DATA, 1.0) is None


def test_what_came_back_may_leave_again_for_a_while() -> None:
    truth = _there(0.0)
    truth.announce([Thing(DATA, 2, nodes=frozenset({N2}))], [], 1.0)
    truth.made(1.0)
    truth.announce([Thing(DATA, 3, nodes=frozenset({N1}))], [], 2.0)
    truth.made(2.0)
    assert truth.why_wrong(N1, DATA, 3.0) is None
    assert truth.why_wrong(N1, DATA, 2.1 + LONG)


JOBS = {
    key: Thing(key, 1, nodes=frozenset({N1}), models=frozenset({NET}))
    for key in (key_of(INCREMENTAL, "d", f"job-{number}") for number in range(12))
}
WANTED = {**JOBS, NET: Thing(NET, 1), DATA: Thing(DATA, 1, nodes=frozenset({N1}))}


def _accident(*kinds: str, ended: float | None = None, number: int = 6) -> Accidents:
    accidents = Accidents(number)
    accidents.begin(kinds, WANTED, 100.0)
    if ended is not None:
        accidents.end(ended)
    return accidents


def test_no_accident_excuses_a_loss_that_the_guard_must_hold() -> None:
    accidents = _accident(INCREMENTAL)
    assert not any(accidents.excuse(N1, key, WANTED, 101.0) for key in WANTED)


def test_a_loss_below_the_guards_numbers_is_excused_and_what_depends_on_it() -> None:
    accidents = _accident(INCREMENTAL, number=len(JOBS))
    excused = {key for key in WANTED if accidents.excuse(N1, key, WANTED, 101.0)}
    assert excused == {*JOBS, NET}


def test_an_accident_excuses_nothing_before_it_and_long_after_it() -> None:
    accidents = _accident(DATASET, ended=110.0)
    assert [accidents.excuse(N1, DATA, WANTED, now) for now in (99.0, 111.0, 200.0)] == [
        False,
        True,
        False,
    ]


def test_nobody_can_know_what_is_missing_after_ledger_and_process_were_lost() -> None:
    accidents = _accident(INCREMENTAL)
    accidents.broker_losses = [98.0]
    assert not accidents.excuse(N1, NET, WANTED, 101.0)
    accidents.bridge_starts = [100.5]
    assert accidents.excuse(N1, NET, WANTED, 101.0)


def _op(seq: int, op: str, model: str, store: str = "s") -> ModelOp:
    return ModelOp(node="n", store=store, seq=seq, op=op, model=model, spec={"v": seq})


def _set(seq: int, *models: str, store: str = "s") -> ModelSet:
    entries = [ModelEntry(name=each, spec={"v": 9}, state="Requested") for each in models]
    config = ConfigState(path="", state="ok")
    return ModelSet(node="n", store=store, seq=seq, config=config, models=entries)


def _after(*said: ModelOp | ModelSet) -> Consumer:
    consumer = Consumer()
    for each in said:
        if isinstance(each, ModelOp):
            consumer.op(each)
        else:
            consumer.model_set(each)
    return consumer


def test_a_consumer_follows_the_ops_in_order_and_once_each() -> None:
    ops = [_op(1, "load", "a"), _op(2, "load", "b"), _op(1, "load", "a"), _op(3, "unload", "a")]
    consumer = _after(*ops)
    assert (consumer.models, consumer.gaps) == ({"b": {"v": 2}}, 0)


@pytest.mark.parametrize("seq", [3, 4])
def test_a_consumer_that_misses_ops_takes_the_model_set(seq: int) -> None:
    consumer = _after(_op(1, "load", "a"), _op(3, "load", "c"), _set(seq, "b", "c"))
    assert (set(consumer.models), consumer.gaps, consumer.seq) == ({"b", "c"}, 1, seq)


def test_an_older_model_set_counts_for_nothing() -> None:
    consumer = _after(_op(1, "load", "a"), _op(2, "load", "b"), _set(1, "x"))
    assert set(consumer.models) == {"a", "b"}


def test_a_new_store_begins_anew() -> None:
    consumer = _after(_op(1, "load", "a"), _op(1, "load", "b", store="t"))
    assert (consumer.store, set(consumer.models), consumer.gaps) == ("t", {"b"}, 0)
