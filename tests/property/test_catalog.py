"""The catalog, changed step by step, is what it would be from scratch; and that is the fixpoint."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bridge.catalog import Catalog
from bridge.placement import Rules, make_rule
from bridge.record import ObjectRecord
from nodecast.names import KindName, NodeName, ResourceKey, kind_of

RULES = Rules(
    [
        make_rule("A.x", ["n"], carries=[("B", "c"), ("A", "c")]),
        make_rule("B.x", ["n"], follows=[("A", "f"), ("C", "f")]),
        make_rule("C.x", carries=[("B", "c")]),
    ]
)
"""A is in a cycle with itself; A and B are joined both ways; B and C are in none."""
KEYS = [ResourceKey(f"{kind}.x/d/{n}") for kind in "ABC" for n in "12"]
NODES = [NodeName(f"n{n}") for n in range(3)]


def of(prefixes: str) -> st.SearchStrategy[tuple[ResourceKey, ...]]:
    return st.lists(
        st.sampled_from([k for k in KEYS if k[0] in prefixes]), max_size=2, unique=True
    ).map(tuple)


@st.composite
def changes(draw: st.DrawFn) -> tuple[ResourceKey, ObjectRecord | None]:
    key = draw(st.sampled_from(KEYS))
    if draw(st.integers(0, 3)) == 0:
        return key, None
    carries = {"A": "AB", "C": "B"}.get(key[0])
    return key, ObjectRecord(
        key,
        kind_of(key),
        draw(st.frozensets(st.sampled_from(NODES), max_size=2)) if key[0] != "C" else frozenset(),
        draw(of(carries)) if carries else (),
        draw(of("AC")) if key[0] == "B" else (),
        _digest=draw(st.sampled_from("12")),
        _encoded=b"",
        problem=draw(st.sampled_from([None, None, None, "bad"])),
        deleting=draw(st.sampled_from([False, False, False, True])),
    )


def fixpoint(records: dict[ResourceKey, ObjectRecord]) -> dict[ResourceKey, set[NodeName]]:
    """Placement by its definition: grow until nothing grows."""
    there = {k: r for k, r in records.items() if r.placeable}
    at = {k: set(r.nodes) for k, r in there.items()}
    before = None
    while before != at:
        before = {k: set(v) for k, v in at.items()}
        for key, record in there.items():
            for target in record.carries:
                if target in at:
                    at[target] |= at[key]
            for target in record.follows:
                if target in at:
                    at[key] |= at[target]
    return at


def state(catalog: Catalog) -> object:
    return (
        {key: catalog.nodes_of(key) for key in KEYS},
        {node: [r.key for r in catalog.on_node(node)] for node in NODES},
        {kind: (catalog.count(kind), catalog.placed(kind)) for kind in RULES.kinds},
        set(catalog.nodes()),
        catalog.dangling(),
    )


@given(st.lists(st.lists(changes(), max_size=3).map(dict), max_size=12))
def test_changed_step_by_step_is_the_same_as_from_scratch(steps: list[dict]) -> None:
    catalog, records = Catalog(RULES), {}
    for step in steps:
        catalog.apply(step)
        records |= step
    records = {k: r for k, r in records.items() if r is not None}
    fresh = Catalog(RULES)
    fresh.apply(records)
    expected = fixpoint(records)
    assert state(fresh) == state(catalog)
    assert {k: expected.get(k, set()) for k in KEYS} == {k: catalog.nodes_of(k) for k in KEYS}


@given(st.lists(st.lists(changes(), max_size=3).map(dict), max_size=8))
def test_a_delta_names_the_nodes_that_changed_and_the_kinds_that_lost(steps: list[dict]) -> None:
    catalog, records = Catalog(RULES), {}
    for step in steps:
        before = {n: [(r.key, r.digest) for r in catalog.on_node(n)] for n in NODES}
        placed = {k for k in KEYS if catalog.nodes_of(k)}
        at = {k: catalog.nodes_of(k) for k in KEYS}
        delta = catalog.apply(step)
        after = {n: [(r.key, r.digest) for r in catalog.on_node(n)] for n in NODES}
        assert {n for n in NODES if before[n] != after[n]} == delta.dirty
        lost = {kind_of(k) for k in KEYS if at[k] - catalog.nodes_of(k)}
        there = records.keys()
        records = {k: r for k, r in (records | step).items() if r is not None}
        assert delta.lost == lost | {kind_of(k) for k in there - records.keys()}
        now = {k for k in KEYS if catalog.nodes_of(k)}
        assert (now - placed, placed - now) == (delta.arrived, delta.departed)


@given(st.lists(changes(), max_size=9).map(dict), st.lists(changes(), max_size=9).map(dict))
def test_a_list_replaces_a_kind_and_leaves_the_others(first: dict, second: dict) -> None:
    kind = KindName("B.x")
    start = {k: r for k, r in first.items() if r is not None}
    listed = {k: r for k, r in second.items() if r is not None and r.kind == kind}
    catalog, fresh = Catalog(RULES), Catalog(RULES)
    catalog.apply(start)
    catalog.apply(catalog.changes(kind, listed))
    fresh.apply({k: r for k, r in start.items() if r.kind != kind} | listed)
    assert state(fresh) == state(catalog)


@given(st.lists(st.lists(changes(), max_size=4).map(dict), max_size=6))
def test_nothing_is_left_of_what_is_gone(steps: list[dict]) -> None:
    catalog = Catalog(RULES)
    for step in steps:
        catalog.apply(step)
    catalog.apply(dict.fromkeys(KEYS))
    flow = catalog._flow
    kept = flow._on, flow._counts, flow._carriers, flow._followers, flow._doubtful
    assert not any(kept)
