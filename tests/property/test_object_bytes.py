"""The bytes and the digest of a resource are what their definition says, however they are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from bridge.fields import parse_path
from bridge.objects import read_object
from bridge.placement import Rules, make_rule
from bridge.projection import LAST_APPLIED
from nodecast.errors import ObjectError
from nodecast.messages import resource_digest

RULES = Rules([make_rule("Thing.x", ["spec.n"]), make_rule("Site.x", namespaced=False)])

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)
)
top_fields = st.sampled_from(["spec", "status", "digest", "data", "digesta", "diges", "é", ""])
kept_fields = st.sampled_from(["uid", "generation", "labels", "annotations", "finalizers"])
annotations = st.dictionaries(st.sampled_from([LAST_APPLIED, "a", "z"]), texts)


@st.composite
def objects(draw: st.DrawFn) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "a", "namespace": draw(st.sampled_from(["d", "other"]))}
    metadata |= draw(st.dictionaries(kept_fields, values))
    if draw(st.booleans()):
        metadata["annotations"] = draw(annotations)
    fields = {
        "apiVersion": "x/v1",
        "kind": draw(st.sampled_from(["Thing", "Site"])),
        "metadata": dict(draw(st.permutations(list(metadata.items())))),
    } | draw(st.dictionaries(top_fields | texts, values, max_size=4))
    fields |= {"apiVersion": "x/v1", "metadata": metadata}
    fields["kind"] = fields["kind"] if fields["kind"] in ("Thing", "Site") else "Thing"
    return dict(draw(st.permutations(list(fields.items()))))


def resource(obj: dict[str, Any]) -> dict[str, Any]:
    """The projection, as the contract words it."""
    six = ("namespace", "name", "uid", "generation", "labels", "annotations")
    kept = {name: value for name, value in obj["metadata"].items() if name in six}
    if obj["kind"] == "Site":
        del kept["namespace"]
    if isinstance(kept.get("annotations"), dict):
        kept["annotations"] = {k: v for k, v in kept["annotations"].items() if k != LAST_APPLIED}
    kept = {name: value for name, value in kept.items() if value not in (None, {})}
    others = {k: v for k, v in obj.items() if k not in ("status", "digest", "metadata")}
    return others | {"metadata": kept}


@given(objects())
def test_a_resource_and_its_digest_are_those_of_the_definition(obj: dict[str, Any]) -> None:
    projected = resource(obj)
    digest = resource_digest(projected)
    whole = orjson.dumps(projected | {"digest": digest}, option=orjson.OPT_SORT_KEYS)
    record = read_object(obj, RULES, "p")
    assert (record.digest, record.encoded) == (digest, whole)


@given(
    st.sampled_from(["a", "a.b", "a[]", "a[].b", "a.b[].a", "a[][]", "a['x/y'].a"]),
    st.recursive(
        st.none() | st.integers(0, 3) | st.just(""),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "x/y"]), inner)
        ),
        max_leaves=12,
    ),
)
def test_what_is_found_quickly_is_what_is_found_with_its_place(text: str, value: Any) -> None:
    path = parse_path(text)
    assert said(lambda: list(path.found(value))) == said(lambda: [v for _, v in path.values(value)])


def said(read: Callable[[], list[Any]]) -> object:
    """What is read, or the words in which it is refused."""
    try:
        return read()
    except ObjectError as error:
        return str(error)
