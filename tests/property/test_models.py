"""Model diff and outbox, whatever happens: file changes, losses, crashes, a full disk."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent.models.configfile import ConfigSeen, read_config
from agent.models.diff import apply, diff
from agent.models.outbox import Token
from agent.models.spec import Spec
from agent.models.sync import ModelSync
from agent.store.models import ModelStore
from nodecast.errors import ConfigFileError, StoreError
from nodecast.messages import ModelOp
from tests.support.models import database, entry, file_of, replay, specs, sync_on

MODELS = st.dictionaries(st.sampled_from("ABC"), st.sampled_from("12"))
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOATS | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)
SPECS = st.dictionaries(st.text(max_size=5), JSON, max_size=3).map(
    lambda more: {**more, "storageUri": "s3://bucket/model"}
)
GIBS = {"1Gi": ("1Gi", "1024Mi", "1048576Ki", 1073741824, "1073741824", "1073741824.0")}


@given(MODELS, MODELS)
def test_the_difference_carried_out_gives_what_is_wanted(
    base: dict[str, str], want: dict[str, str]
) -> None:
    assert apply(specs(base), diff(specs(base), specs(want))) == specs(want)


@given(MODELS)
def test_there_is_no_difference_to_oneself(models: dict[str, str]) -> None:
    assert diff(specs(models), specs(models)) == []


@given(MODELS, MODELS, st.integers(0, 12))
def test_whatever_part_was_carried_out_the_rest_is_the_difference(
    base: dict[str, str], want: dict[str, str], done: int
) -> None:
    ops = diff(specs(base), specs(want))
    assert diff(apply(specs(base), ops[:done]), specs(want)) == ops[done:]


@given(st.binary(max_size=200) | JSON.map(lambda v: json.dumps(v).encode()))
@example(b"[" * 100_000)
@example(b'[{"modelName": "a", "modelSpec": {"storageUri": "u", "n": ' + b"9" * 5000 + b"}}]")
def test_any_bytes_are_a_reading_or_one_typed_error(raw: bytes) -> None:
    try:
        found = read_config(raw)
    except ConfigFileError:
        return
    assert not found.entries.keys() & found.keep


def _spelled(rng: random.Random, value: Any) -> Any:
    """The same value with its keys in another order."""
    if isinstance(value, dict):
        keys = rng.sample(list(value), len(value))
        return {key: _spelled(rng, value[key]) for key in keys}
    return [_spelled(rng, each) for each in value] if isinstance(value, list) else value


@given(st.dictionaries(st.text(min_size=1, max_size=5), SPECS, max_size=4), st.randoms())
def test_order_white_space_and_spelling_mean_nothing(
    models: dict[str, dict[str, Any]], rng: random.Random
) -> None:
    one = [{"modelName": n, "modelSpec": {**s, "memory": "1Gi"}} for n, s in models.items()]
    two = [
        {"modelName": n, "modelSpec": _spelled(rng, {**s, "memory": rng.choice(GIBS["1Gi"])})}
        for n, s in rng.sample(list(models.items()), len(models))
    ]
    first = read_config(json.dumps(one).encode())
    second = read_config(json.dumps(two, indent=3, ensure_ascii=False).encode(errors="replace"))
    assert second.entries == first.entries


@given(SPECS)
def test_a_spec_that_is_taken_is_passed_on_whole(said: dict[str, Any]) -> None:
    found = read_config(json.dumps([{"modelName": "a", "modelSpec": said}]).encode())
    for spec in found.entries.values():
        assert spec.value() == said
        assert Spec.read(spec.body) == spec


# The world around the outbox: a broker whose answers get lost, a disk that fills, a process that
# dies. Only what the store committed survives a crash.

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("file"), MODELS),
        st.tuples(st.just("silence"), st.sampled_from([None, b"", b"[{", b"{}"])),
        st.tuples(st.just("commit"), st.integers(0, 4)),
        st.tuples(st.just("send"), st.integers(1, 4), st.booleans()),
        st.tuples(st.just("acknowledge"), st.integers(0, 3)),
        st.tuples(st.just("refuse"), st.integers(0, 3)),
        st.tuples(st.sampled_from(["reconnect", "crash", "full", "free", "resume"])),
    ),
    max_size=40,
)


class Disk(ModelStore):
    """A store whose writes fail while the disk is full."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection)
        self.full = False

    def mark_sent(self, *args: Any) -> None:
        self._check()
        super().mark_sent(*args)

    def settle(self, *args: Any) -> None:
        self._check()
        super().settle(*args)

    def _check(self) -> None:
        if self.full:
            raise StoreError("the disk is full")


@dataclass
class World:
    """One node and its broker. `topic`: the ops that reached the broker, in order."""

    connection: sqlite3.Connection = field(default_factory=database)
    file: dict[str, str] = field(default_factory=dict)
    topic: list[ModelOp] = field(default_factory=list)
    flying: list[Token] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        self.flying.clear()
        self.disk = Disk(self.connection)
        self.sync: ModelSync = sync_on(self.connection, storage=self.disk)
        self.sync.own_set(None, lambda: "never")
        self.see()

    def see(self) -> None:
        self.sync.seen(ConfigSeen(file_of(self.file)))

    def step(self, what: str, *how: Any) -> None:
        getattr(self, f"do_{what}")(*how)

    def do_file(self, models: dict[str, str]) -> None:
        self.file = models
        self.see()

    def do_silence(self, raw: bytes | None) -> None:
        self.sync.seen(ConfigSeen(raw))

    def do_commit(self, room: int) -> None:
        try:
            self.sync.commit(room)
        except StoreError:
            assert self.disk.full

    def do_send(self, room: int, arrives: bool) -> None:
        """Hand over and, when the link holds, deliver; else the link is down from here on."""
        for token, op in self.sync.publications(room):
            self.flying.append(token)
            if arrives:
                self.topic.append(op)
        if not arrives:
            self.do_reconnect()

    def do_acknowledge(self, which: int) -> None:
        if which < len(self.flying):
            self.sync.acknowledged(self.flying.pop(which))

    def do_refuse(self, which: int) -> None:
        if which < len(self.flying):
            self.sync.refused(self.flying.pop(which), "not authorised", too_large=False)

    def do_reconnect(self) -> None:
        self.flying.clear()
        self.sync.connected()

    def do_crash(self) -> None:
        self.start()

    def do_full(self) -> None:
        self.disk.full = True

    def do_free(self) -> None:
        self.disk.full = False

    def do_resume(self) -> None:
        self.sync.resume()

    def calm(self) -> None:
        """All faults are over: everything arrives and is acknowledged."""
        self.disk.full = False
        self.do_reconnect()
        self.see()
        for _ in range(100):
            self.sync.commit(20)
            self.do_send(20, True)
            while self.flying:
                self.do_acknowledge(0)
            if self.sync.idle:
                return
        raise AssertionError("never idle")


def _run(steps: Sequence[tuple[Any, ...]]) -> World:
    world = World()
    for what, *how in steps:
        world.step(what, *how)
    world.calm()
    return world


def _first_sendings(topic: Sequence[ModelOp]) -> Iterator[ModelOp]:
    seen: dict[int, ModelOp] = {}
    for op in topic:
        if op.seq not in seen:
            yield op
        assert seen.setdefault(op.seq, op) == op, "one seq, two ops"


@settings(max_examples=400, deadline=None)
@given(STEPS)
def test_o2_whoever_replays_the_topic_ends_in_the_state_of_the_file(
    steps: list[tuple[Any, ...]],
) -> None:
    world = _run(steps)
    assert replay(world.topic) == world.file
    assert {m.name: m.spec["storageUri"] for m in world.sync.model_set().models} == world.file
    assert {m.state for m in world.sync.model_set().models} <= {"Requested"}


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_every_op_is_sent_at_least_once_with_a_seq_that_rises_by_one(
    steps: list[tuple[Any, ...]],
) -> None:
    world = _run(steps)
    firsts = [op.seq for op in _first_sendings(world.topic)]
    assert firsts == list(range(1, world.sync.model_set().seq + 1))


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_once_all_is_settled_nothing_more_is_sent(steps: list[tuple[Any, ...]]) -> None:
    world = _run(steps)
    sent = len(world.topic)
    world.do_crash()
    world.calm()
    assert len(world.topic) == sent


@settings(max_examples=200, deadline=None)
@given(STEPS, STEPS)
def test_a_store_restored_from_a_backup_ends_in_the_state_of_the_file(
    before: list[tuple[Any, ...]], after: list[tuple[Any, ...]]
) -> None:
    world = _run(before)
    backup = world.connection.serialize()
    for what, *how in after:
        world.step(what, *how)
    world.calm()
    kept = world.sync.model_set()
    world.connection.close()
    world.connection = sqlite3.connect(":memory:", isolation_level=None)
    world.connection.deserialize(backup)
    restored = sync_on(world.connection)
    restored.own_set(kept, lambda: "s2")
    world.start()
    world.calm()
    by_store = [op for op in world.topic if op.store == world.sync.store]
    assert replay(by_store) == world.file
    assert len({op.seq for op in by_store}) == len(list(_first_sendings(by_store)))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(MODELS, st.sets(st.sampled_from("ABC")), st.booleans()), max_size=8),
)
def test_ops_that_the_broker_never_takes_are_shown_and_block_no_other_model(
    rounds: list[tuple[dict[str, str], set[str], bool]],
) -> None:
    """`poison`: models whose loads are too large, known before (refused) or only after (aside)."""
    connection = database()
    poison: set[str] = set()
    known = True

    def large(op: ModelOp) -> str | None:
        return "too large" if op.op == "load" and op.model in poison else None

    sync = sync_on(connection, oversize=lambda op: large(op) if known else None)
    sync.own_set(None, lambda: "never")
    topic: list[ModelOp] = []
    file: dict[str, str] = {}
    for file, poison, known in rounds:  # noqa: B007 - read by `large`, and after the loop
        sync.connected()
        sync.seen(ConfigSeen(file_of(file)))
        for _ in range(20):
            sync.commit(20)
            for token, op in sync.publications(20):
                if large(op):
                    sync.refused(token, "too large", too_large=True)
                else:
                    topic.append(op)
                    sync.acknowledged(token)
    assert sync.idle
    failed = {m.name for m in sync.model_set().models if m.state == "Failed"}
    consumer = replay(topic)
    for name in file.keys() | consumer.keys():
        assert name in failed or consumer.get(name) == file.get(name)
    assert failed <= file.keys()


@pytest.mark.parametrize("count", [500, 5000])
def test_any_number_of_models_at_the_start_is_fine(count: int) -> None:
    world = World()
    world.do_file({f"model-{n}": "1" for n in range(count)})
    for _ in range(count):
        world.sync.commit(20)
        world.do_send(20, True)
        while world.flying:
            world.do_acknowledge(0)
        if world.sync.idle:
            break
    assert replay(world.topic) == world.file


def test_o2_a_model_that_flaps_a_hundred_times_with_reconnections_ends_as_the_file() -> None:
    world = World()
    for turn in range(100):
        world.do_file([{"A": "1"}, {}, {"A": "2"}][turn % 3])
        world.do_commit(2)
        world.do_send(2, turn % 7 != 0)
        world.do_acknowledge(turn % 2)
    world.calm()
    assert replay(world.topic) == world.file


def test_o1_one_model_added_to_fifty_is_one_load() -> None:
    world = World()
    fifty = {f"m{n}": "1" for n in range(50)}
    world.do_file(fifty)
    world.calm()
    sent = len(world.topic)
    added = [entry(n, "1", memory="1024Mi") for n in reversed([*fifty, "new"])]
    world.sync.seen(ConfigSeen(json.dumps(added, indent=2).encode()))
    world.file = {**fifty, "new": "1"}
    world.calm()
    assert [(op.op, op.model) for op in world.topic[sent:]] == [("load", "new")]
