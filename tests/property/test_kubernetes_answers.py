"""Whatever bytes or JSON a server sends, only the declared errors come out, and lines are lines."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.placement import Rules, built_in
from bridge.sources.kubernetes.answers import Garbled, Lines, event_of, page_of
from bridge.sources.kubernetes.failures import Refusal, refusal_of
from bridge.sources.kubernetes.resources import Resource
from bridge.sources.kubernetes.sight import Contradiction, Sight
from nodecast.names import KindName, parse_key

RULES = Rules(built_in())
KIND = KindName("Dataset.sedna.io")
DATASETS = Resource(KIND, "v1alpha1", "datasets")
DEEP = "what nests as deep as JSON is read"
FIELDS = (
    *("type", "object", "metadata", "resourceVersion", "kind", "apiVersion", "items", "continue"),
    *("name", "namespace", "code", "reason", "message", "spec", "nodeName", "labels"),
)

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.just(DEEP)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4)
    ),
    max_leaves=12,
)


def shaped(**fields: Any) -> st.SearchStrategy[Any]:
    """Mostly an object with these fields, any of which may be absent, or anything."""
    good = st.fixed_dictionaries({}, optional={k: v | values for k, v in fields.items()})
    return good | good | good | values


metadata = shaped(
    resourceVersion=st.sampled_from("123"), name=st.sampled_from("ab"), namespace=st.just("ns")
)
objects = shaped(
    apiVersion=st.just("sedna.io/v1alpha1"),
    kind=st.just("Dataset"),
    metadata=metadata,
    spec=shaped(nodeName=st.just("n1")),
    code=st.just(410),
    reason=st.just("Expired"),
    message=st.text(max_size=8),
)
types = st.sampled_from(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"])
events = shaped(type=types, object=objects)
pages = shaped(
    apiVersion=st.just("sedna.io/v1alpha1"),
    kind=st.just("DatasetList"),
    metadata=shaped(resourceVersion=st.just("5"), **{"continue": st.text(max_size=3)}),
    items=st.lists(objects, max_size=3),
)


def encoded(value: object) -> bytes:
    return orjson.dumps(value).replace(orjson.dumps(DEEP), b"[" * 1000 + b"]" * 1000)


lines = events.map(encoded) | st.binary(max_size=60)


@given(lines)
@example(b'{"type": "ADDED", "object": {"metadata": {"resourceVersion": "1"}}} x')
def test_a_line_is_an_event_with_a_version_or_one_of_two_errors(line: bytes) -> None:
    try:
        kind, obj, meta, version = event_of(line)
    except (Garbled, Refusal):
        return
    assert kind in {"ADDED", "MODIFIED", "DELETED", "BOOKMARK"}
    assert obj["metadata"] is meta
    assert isinstance(version, str)
    assert version == meta["resourceVersion"] != ""


@given(pages.map(encoded))
def test_an_answer_is_a_whole_page_or_an_error(answer: bytes) -> None:
    body = orjson.loads(answer)
    if not isinstance(body, dict):
        return
    try:
        page = page_of(body, DATASETS)
    except Garbled:
        return
    assert page.version != ""
    assert (body["kind"], body["apiVersion"]) == ("DatasetList", "sedna.io/v1alpha1")
    assert page.items == (body.get("items") or [])


@given(values.map(encoded), st.sampled_from([400, 404, 500, 799]))
def test_whatever_a_refusal_is_made_of_it_is_said_in_one_short_line(body: bytes, code: int) -> None:
    refusal = refusal_of(orjson.loads(body), code)
    assert isinstance(refusal.status, int)
    assert len(str(refusal)) < 800


@given(st.lists(lines, max_size=8), pages.map(encoded))
def test_a_sight_takes_any_events_and_pages_and_knows_objects_with_proper_keys_only(
    stream: list[bytes], listed: bytes
) -> None:
    sight = Sight(KIND, RULES)
    for line in stream:
        try:
            sight.events([line])
        except (Garbled, Refusal, Contradiction):
            pass
        sight.take()
    body = orjson.loads(listed)
    known = list(sight.objects.items())
    collected = sight.begin_list()
    collected.add(body["items"] if isinstance(body, dict) and _has_items(body) else [])
    collected.finish("9")
    for key, record in (*known, *sight.objects.items()):
        assert parse_key(key) == record.key
        assert record.kind == KIND


def _has_items(body: dict[str, Any]) -> bool:
    return isinstance(body.get("items"), list)


@given(st.lists(st.binary(max_size=20).map(lambda b: b.replace(b"\n", b"")), max_size=8), st.data())
def test_lines_are_the_same_wherever_the_stream_is_cut(bodies: list[bytes], data: Any) -> None:
    stream = b"".join(body + b"\n" for body in bodies) + data.draw(st.sampled_from([b"", b"half"]))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    lines = Lines()
    found = []
    for start, end in zip((0, *cuts), (*cuts, len(stream)), strict=True):
        found += lines.feed(stream[start:end])
    assert found == bodies
