"""What a node's snapshot is: the same bytes for the same objects, in whatever order they came."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from bridge.catalog import Catalog
from bridge.contents import Content, fit
from bridge.objects import read_object
from bridge.placement import Rules, built_in
from bridge.record import ObjectRecord
from bridge.writer import SnapshotWriter
from nodecast.messages import Version, Wire, decode_snapshot
from nodecast.names import BridgeName, KindName, NodeName
from nodecast.session import wire_size
from nodecast.topics import Topics
from tests.support.core import snapshot_of
from tests.support.objects import dataset, federated, inference, made, model

RULES = Rules(built_in())
NODES = ["n1", "n2", "n3"]
names = st.sampled_from(["a", "b", "c.d"])
nodes = st.sampled_from(NODES)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
objects = st.one_of(
    st.builds(dataset, names, st.none() | nodes, url=st.text(max_size=9)),
    st.builds(model, names),
    st.builds(inference, names, nodes, names),
    st.builds(federated, names, nodes, nodes),
    st.builds(
        lambda name, data: made("LifelongLearningJob", name, {"dataset": {"name": data}}),
        names,
        names,
    ),
)
extras = st.dictionaries(st.sampled_from(["data", "extra", "more"]), values)


@st.composite
def fleets(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Objects with keys of their own."""
    found = {}
    for thing, extra in draw(st.lists(st.tuples(objects, extras), max_size=8)):
        found[thing["kind"], thing["metadata"]["name"]] = extra | thing
    return list(found.values())


def read(thing: dict[str, Any]) -> ObjectRecord:
    return read_object(thing, RULES, "p")


def shuffled(value: Any, rng: random.Random) -> Any:
    """The same, its fields in another order; lists mean what they say."""
    if isinstance(value, dict):
        return {k: shuffled(v, rng) for k, v in rng.sample(sorted(value.items()), len(value))}
    return [shuffled(each, rng) for each in value] if isinstance(value, list) else value


def bodies(things: Sequence[dict[str, Any]]) -> dict[str, bytes]:
    """The snapshot of each node."""
    catalog = Catalog(RULES)
    for thing in things:  # one at a time, as a watch brings them
        record = read(thing)
        catalog.apply({record.key: record})
    writer = SnapshotWriter(BridgeName("b"), "i", Topics(), compress=False)
    found = {}
    for node in map(NodeName, NODES):
        content = writer.content(node, catalog.on_node(node), ())
        found[node] = writer.message(node, Version(1, 1), content).payload
    return found


@given(fleets(), st.randoms(use_true_random=False))
def test_equal_objects_give_equal_bytes_in_any_order_of_objects_and_fields(
    things: list[dict[str, Any]], rng: random.Random
) -> None:
    others = [shuffled(thing, rng) for thing in rng.sample(things, len(things))]
    assert bodies(others) == bodies(things)


@given(fleets(), st.dictionaries(st.text(max_size=4), values))
def test_what_is_the_servers_business_changes_no_byte(
    things: list[dict[str, Any]], status: dict[str, Any]
) -> None:
    touched = []
    for thing in things:
        metadata = thing["metadata"] | {"resourceVersion": "7", "managedFields": [status]}
        touched.append(thing | {"metadata": metadata, "status": status})
    assert bodies(touched) == bodies(things)


@given(fleets())
def test_a_snapshot_comes_back_with_what_each_object_says(things: list[dict[str, Any]]) -> None:
    for body in bodies(things).values():
        seen = decode_snapshot(Wire(body))
        assert seen.unread == ()
        by_key = {read(thing).key: thing for thing in things}
        for resource in seen.resources:
            value = orjson.loads(resource.body)
            assert value.pop("digest") == resource.digest
            assert value == by_key[resource.key]
        assert body.index(b'"resources":[') < body.index(b'"heldKinds"')


@given(fleets(), fleets())
def test_the_digest_tells_contents_apart(
    first: list[dict[str, Any]], second: list[dict[str, Any]]
) -> None:
    contents = [Content(tuple(map(read, things)), (), ()) for things in (first, second)]
    same = [r.digest for r in contents[0].records] == [r.digest for r in contents[1].records]
    assert (contents[0].digest == contents[1].digest) == same


held_kinds = st.sets(st.sampled_from(RULES.kinds)).map(sorted).map(tuple)


@given(fleets(), fleets(), held_kinds, st.data())
def test_what_a_content_takes_away_is_what_the_agent_would_remove(
    before: list[dict[str, Any]],
    after: list[dict[str, Any]],
    held: tuple[KindName, ...],
    data: st.DataObject,
) -> None:
    old = Content(tuple(sorted(map(read, before), key=lambda r: r.key)), (), ())
    records = sorted(map(read, after), key=lambda r: r.key)
    omitted = data.draw(st.sets(st.sampled_from(records))) if records else set()
    left = tuple(r for r in records if r not in omitted)
    new = Content(left, held, tuple(sorted(r.key for r in omitted)))
    writer = SnapshotWriter(BridgeName("b"), "i", Topics(), compress=True)
    seen = snapshot_of(writer.message(NodeName("n"), Version(1, 1), new))
    there = {each.key for each in seen.resources}
    removed = {r.key for r in old.records if r.key not in there and not seen.keeps(r.key)}
    assert new.takes_away(old) == removed


sizes = st.lists(st.integers(0, 3000), max_size=12)


def sized(numbers: list[int]) -> list[ObjectRecord]:
    return [read(dataset(f"o{i:02}", "n", url="x" * size)) for i, size in enumerate(numbers)]


@given(sizes, st.integers(0, 20_000))
def test_as_few_as_possible_are_omitted_and_none_that_is_smaller_than_one_that_stays(
    numbers: list[int], limit: int
) -> None:
    records = sized(numbers)

    def fits(content: Content) -> bool:
        return sum(len(r.encoded) for r in content.records) <= limit

    content = fit(records, (), fits)
    by_key = {r.key: len(r.encoded) for r in records}
    out = sorted(by_key[key] for key in content.omitted)
    assert sorted([*(r.key for r in content.records), *content.omitted]) == sorted(by_key)
    assert fits(content) or not content.records
    if out:
        assert max((by_key[r.key] for r in content.records), default=0) <= out[0]
        back = sum(by_key[r.key] for r in content.records) + out[0]
        assert back > limit  # the smallest of those left out would be one too many


@given(sizes, st.integers(500, 20_000), st.booleans())
def test_no_message_is_above_the_limit_on_the_wire(
    numbers: list[int], limit: int, compress: bool
) -> None:
    writer = SnapshotWriter(BridgeName("b" * 63), "i" * 16, Topics("site/a"), compress=compress)
    writer.limit = limit
    node = NodeName("n" * 63)
    content = writer.content(node, sized(numbers), RULES.kinds)
    greatest = Version(2**53 - 1, 2**53 - 1)
    assert wire_size(writer.message(node, greatest, content)) <= limit or not content.records
