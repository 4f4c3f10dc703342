"""Placement where kinds refer to each other in a ring: nothing keeps itself on a node."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.catalog import Catalog
from bridge.placement import Rules, make_rule
from bridge.record import ObjectRecord
from nodecast.names import NodeName, ResourceKey, kind_of

RULES = Rules(
    [
        make_rule("A.x", ["n"], carries=[("B", "c")]),
        make_rule("B.x", carries=[("C", "c")]),
        make_rule("C.x", ["n"], carries=[("A", "c"), ("D", "c")]),
        make_rule("D.x", ["n"]),
    ]
)
"""A carries B, B carries C, C carries A: a ring; D hangs on it."""
KEYS = [ResourceKey(f"{kind}.x/d/{n}") for kind in "ABCD" for n in "12"]
NODES = [NodeName("n1"), NodeName("n2")]
_CARRIES = {"A": "B", "B": "C", "C": "AD", "D": ""}


@st.composite
def changes(draw: st.DrawFn) -> dict[ResourceKey, ObjectRecord | None]:
    made: dict[ResourceKey, ObjectRecord | None] = {}
    for key in draw(st.lists(st.sampled_from(KEYS), max_size=4, unique=True)):
        made[key] = None
        if draw(st.integers(0, 3)):
            names = draw(st.frozensets(st.sampled_from(NODES), max_size=1))
            targets = [each for each in KEYS if each[0] in _CARRIES[key[0]]]
            carries = draw(st.sets(st.sampled_from(targets))) if targets else ()
            made[key] = ObjectRecord(key, kind_of(key), names, tuple(carries), (), "", b"")
    return made


def reached(records: dict[ResourceKey, ObjectRecord], node: NodeName) -> set[ResourceKey]:
    """All that can be reached from what names the node."""
    seen: set[ResourceKey] = set()
    todo = [key for key, record in records.items() if node in record.nodes]
    while todo:
        key = todo.pop()
        if key in records and key not in seen:
            seen.add(key)
            todo += records[key].carries
    return seen


@settings(max_examples=200)
@given(st.lists(changes(), max_size=10))
def test_an_object_is_on_a_node_only_if_something_that_names_the_node_leads_to_it(
    steps: list[dict[ResourceKey, ObjectRecord | None]],
) -> None:
    catalog, records = Catalog(RULES), dict[ResourceKey, ObjectRecord | None]()
    for step in steps:
        catalog.apply(step)
        records |= step
        there = {key: record for key, record in records.items() if record is not None}
        for node in NODES:
            assert [r.key for r in catalog.on_node(node)] == sorted(reached(there, node))
