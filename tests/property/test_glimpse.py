"""A glimpse of an event and a full reading come to the same record, or the glimpse gives way."""

from __future__ import annotations

import copy
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from bridge.glimpse import Glimpse
from bridge.objects import read_object
from bridge.placement import Rules, built_in, make_rule
from bridge.record import UNSENDABLE, ObjectRecord
from nodecast.errors import ObjectError

RULES = Rules(
    [
        *built_in(),
        make_rule(
            "Camera.example.com",
            ["spec.nodeName", "spec.replicas[].nodeName", "metadata.annotations['example.com/n']"],
            carries=[("Lens", "spec.lenses[].names[]")],
            follows=[("Site", "spec.site")],
        ),
        make_rule("Lens.example.com", namespaced=False),
        make_rule("Site.example.com", ["spec['odd key'].node"], namespaced=False),
        make_rule("Odd.example.com", ["spec.a", "spec.a.b"]),
    ]
)
KINDS = {
    "Dataset": "sedna.io/v1alpha1",
    "JointInferenceService": "sedna.io/v1alpha1",
    "FederatedLearningJob": "sedna.io/v1alpha1",
    "IncrementalLearningJob": "sedna.io/v1alpha1",
    "Model": "sedna.io/v1alpha1",
    "Camera": "example.com/v1",
    "Lens": "example.com/v1",
    "Site": "example.com/v1",
    "Odd": "example.com/v1",
}
KEYS = [
    *("nodeName", "edgeWorker", "template", "spec", "model", "name", "trainingWorkers", "dataset"),
    *("trainSpec", "initialModel", "deploySpec", "replicas", "lenses", "names", "site", "odd key"),
    *("node", "a", "b"),
]

plain = st.one_of(
    st.none(),
    st.sampled_from(["", "edge-1", "edge-2", "a/b", "Ü", "x" * 300, "#"]),
    st.integers(-5, 5),
    st.booleans(),
    st.floats(allow_nan=False, allow_infinity=False),
)
values = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner),
    max_leaves=12,
)
tables = st.none() | st.dictionaries(
    st.sampled_from(["a", "sedna.io/Train", "example.com/n"]),
    st.sampled_from(["", "edge-3", "A"]) | st.integers(0, 1),
    max_size=2,
)


@st.composite
def things(draw: st.DrawFn) -> dict[str, Any]:
    """An object of any shape; often one that is placed."""
    kind = draw(st.sampled_from(sorted(KINDS)))
    metadata: dict[str, Any] = {"name": "x", "resourceVersion": "7"}
    for name, given_ in (
        ("namespace", st.sampled_from(["default", "", "other"])),
        ("labels", tables),
        ("annotations", tables),
        ("uid", st.sampled_from(["u", None, 5])),
        ("generation", st.sampled_from([1, None, -1, "x", 2**60])),
        ("deletionTimestamp", st.sampled_from(["2026-01-01T00:00:00Z", "", None])),
    ):
        if draw(st.booleans()):
            metadata[name] = draw(given_)
    spec = draw(st.sampled_from([*SPECS, None]))
    return {
        "apiVersion": KINDS[kind],
        "kind": kind,
        "metadata": metadata,
        "spec": copy.deepcopy(spec) if spec is not None else draw(values),
        "status": draw(values),
    }


SPECS: list[dict[str, Any]] = [
    {"nodeName": "edge-1"},
    {"edgeWorker": {"template": {"spec": {"nodeName": "edge-2"}}, "model": {"name": "m"}}},
    {"edgeWorker": None},
    {"trainingWorkers": [{"nodeName": "edge-1"}, None, {"template": {"spec": {}}}]},
    {"dataset": {"name": "d"}, "deploySpec": {"model": {"name": "m"}}},
    {"replicas": [{"nodeName": "edge-1"}], "lenses": [{"names": ["l", "l", ""]}], "site": "s"},
    {"odd key": {"node": "edge-4"}},
]


def full(thing: dict[str, Any]) -> ObjectRecord | None:
    try:
        return read_object(thing, RULES, "cluster", None)
    except ObjectError:
        return None


@given(things())
def test_a_glimpse_says_what_a_full_reading_says_or_nothing(thing: dict[str, Any]) -> None:
    kind = f"{thing['kind']}.{thing['apiVersion'].partition('/')[0]}"
    rule = next(rule for rule in RULES if rule.kind == kind)
    glimpse = Glimpse.of(rule, RULES)
    later = thing | {"metadata": thing["metadata"] | {"resourceVersion": "8"}}
    line = orjson.dumps({"type": "MODIFIED", "object": later})
    if glimpse is None:
        return
    before = full(thing | {"spec": {}})
    read = full(later)
    if before is None:
        return
    change = glimpse.change(line, {before.key: before}.get)
    if change is not None:
        earlier, record = change
        assert earlier is before
        assert record.put_off
        assert record == read
        assert read is not None
        assert (record.version, record.encoded) == (read.version, read.encoded)
        assert not record.put_off


def test_every_built_in_kind_can_be_glimpsed_at() -> None:
    for rule in built_in():
        glimpse = Glimpse.of(rule, RULES)
        assert glimpse is not None
        thing = {
            "apiVersion": "sedna.io/v1alpha1",
            "kind": rule.kind.partition(".")[0],
            "metadata": {"name": "x", "namespace": "default", "resourceVersion": "7"},
            "spec": SPECS[1]
            | SPECS[4]
            | {"nodeName": "edge-9", "trainingWorkers": [{"nodeName": "e"}]},
        }
        later = thing | {"metadata": thing["metadata"] | {"resourceVersion": "8"}}
        line = orjson.dumps({"type": "MODIFIED", "object": later})
        before = full(thing | {"spec": {}})
        assert before is not None
        assert glimpse.change(line, {before.key: before}.get) == (before, full(later))


def test_only_a_change_of_a_known_object_of_its_kind_is_glimpsed_at() -> None:
    rule = built_in()[0]
    thing = {
        "apiVersion": "sedna.io/v1alpha1",
        "kind": "Dataset",
        "metadata": {"name": "x", "namespace": "default", "resourceVersion": "7"},
        "spec": {"nodeName": "edge-1"},
    }
    glimpse = Glimpse.of(rule, RULES)
    before = full(thing)
    assert glimpse is not None
    assert before is not None
    known = {before.key: before}.get

    def change(kind: str, obj: dict[str, Any]) -> tuple[ObjectRecord, ObjectRecord] | None:
        return glimpse.change(orjson.dumps({"type": kind, "object": obj}), known)

    assert change("MODIFIED", thing) == (before, before)
    later = thing | {"metadata": thing["metadata"] | {"resourceVersion": "8"}}
    assert change("MODIFIED", later) is not None
    assert change("ADDED", later) is None
    assert change("DELETED", later) is None
    assert change("MODIFIED", later | {"kind": "Model"}) is None
    assert change("MODIFIED", later | {"apiVersion": "other.io/v1"}) is None
    assert change("MODIFIED", later | {"metadata": later["metadata"] | {"name": "y"}}) is None
    assert change("MODIFIED", {"kind": "Status", "code": 410}) is None


def test_paths_that_no_one_type_can_say_are_read_in_full() -> None:
    (odd,) = [rule for rule in RULES if rule.kind == "Odd.example.com"]
    assert Glimpse.of(odd, RULES) is None


def test_what_cannot_be_encoded_after_all_cannot_be_sent() -> None:
    rule = built_in()[0]
    thing = {
        "apiVersion": "sedna.io/v1alpha1",
        "kind": "Dataset",
        "metadata": {"name": "x", "namespace": "default", "resourceVersion": "7"},
        "spec": {"nodeName": "edge-1"},
    }
    before = full(thing | {"metadata": thing["metadata"] | {"resourceVersion": "6"}})
    glimpse = Glimpse.of(rule, RULES)
    assert before is not None
    assert glimpse is not None
    deep = b"[" * 400 + b"]" * 400
    line = orjson.dumps({"type": "MODIFIED", "object": thing}).replace(
        b'"nodeName"', b'"deep":' + deep + b',"nodeName"'
    )
    change = glimpse.change(line, {before.key: before}.get)
    assert change is not None
    _, record = change
    assert record.nodes == {"edge-1"}
    assert record.encoded == UNSENDABLE


def test_what_is_deeper_than_any_limit_is_read_in_full() -> None:
    rule = built_in()[0]
    glimpse = Glimpse.of(rule, RULES)
    assert glimpse is not None
    deep = b'{"a":' * 3000 + b"1" + b"}" * 3000
    line = b'{"type":"MODIFIED","object":{"kind":"Dataset","spec":' + deep + b"}}"
    assert glimpse.change(line, lambda _: None) is None
