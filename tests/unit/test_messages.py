"""Messages on the wire: what reads, what is refused, and with which reason."""

from __future__ import annotations

import random
import tracemalloc
import zlib
from typing import Any

import msgspec
import orjson
import pytest

from nodecast.errors import Malformed, NewerSchema
from nodecast.messages import (
    MAX_BODY,
    MAX_NUMBER,
    Ledger,
    ModelOp,
    Presence,
    Report,
    Wire,
    decode,
    decode_snapshot,
    encode,
    pack,
    unpack,
)

DIGEST = "0123456789abcdef" * 2


def thing(name: str = "a", **fields: object) -> dict[str, Any]:
    return {
        "apiVersion": "sedna.io/v1alpha1",
        "kind": "Dataset",
        "metadata": {"name": name, "namespace": "default"},
        "digest": DIGEST,
        "spec": {},
    } | fields


def snapshot(**fields: object) -> Wire:
    body = {
        "schema": 1,
        "bridge": "b",
        "instance": "i",
        "node": "n",
        "epoch": 7,
        "revision": 3,
        "digest": DIGEST,
        "resources": [],
        "heldKinds": [],
        "omitted": [],
    }
    return Wire(orjson.dumps(body | fields))


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "empty"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "a JSON list, not an object"),
        (b"null", "a JSON NoneType, not an object"),
        (b'"x"', "a JSON str"),
        (b"{}", "schema None is not a number"),
        (b'{"schema": 0}', "schema 0 is not a number from 1 on"),
        (b'{"schema": true}', "schema True"),
        (b'{"schema": 1.0}', "schema 1.0"),
        (b'{"schema": "1"}', "schema '1'"),
        (b'{"schema": ' + b"[" * 1000 + b"]" * 1000 + b"}", "schema [["),
        (b'{"schema": 1}', "not a Presence: Object missing required field `online`"),
        (
            b'{"schema": 1, "online": 1, "instance": "i"}',
            "Expected `bool`, got `int` - at `$.online`",
        ),
        (b'{"schema": 1, "online": true, "instance": "\\ud800"}', "not JSON"),
    ],
)
def test_m3_what_is_no_message_is_malformed_with_the_reason(payload: bytes, reason: str) -> None:
    with pytest.raises(Malformed) as refused:
        decode(Presence, Wire(payload))
    assert reason in str(refused.value)
    assert len(str(refused.value)) < 200


def test_a_greater_schema_is_told_apart() -> None:
    with pytest.raises(NewerSchema, match="schema 2 is newer than 1: upgrade this side"):
        decode(Presence, Wire(b'{"schema": 2}'))


def test_fields_that_are_not_known_are_ignored() -> None:
    body = b'{"schema": 1, "online": true, "instance": "i", "since": "t", "later": {"x": 1}}'
    assert decode(Presence, Wire(body)) == Presence(online=True, instance="i", since="t")
    assert decode_snapshot(snapshot(later=5)).version == (7, 3)


@pytest.mark.parametrize("number", [-1, 2**53, 1.5, "1", None, True])
@pytest.mark.parametrize("field", ["epoch", "revision"])
def test_a_version_that_is_no_integer_from_0_to_2_53_is_malformed(
    field: str, number: object
) -> None:
    with pytest.raises(Malformed):
        decode_snapshot(snapshot(**{field: number}))


def test_the_greatest_version_reads() -> None:
    greatest = decode_snapshot(snapshot(epoch=MAX_NUMBER, revision=MAX_NUMBER)).version
    assert greatest == (MAX_NUMBER, MAX_NUMBER)


def test_an_epoch_that_is_not_known_is_left_out_of_a_presence() -> None:
    assert b"epoch" not in encode(Presence(online=False, instance="i"))
    assert orjson.loads(encode(Presence(online=True, instance="i", epoch=5)))["epoch"] == 5


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        (
            Ledger(bridge="b", source="s", instance="i", epoch=1),
            "schema bridge source instance epoch mark paused nodes kinds",
        ),
        (
            Report(bridge="b", node="n", instance="i", seq=1, epoch=0, revision=0),
            "schema bridge node instance seq time epoch revision digest incomplete refused"
            " resources",
        ),
        (
            ModelOp(node="n", store="s", seq=1, op="load", model="m", spec={}),
            "schema node store seq op model spec onStartup",
        ),
        (
            Presence(online=True, instance="i", epoch=1),
            "schema online instance since version epoch",
        ),
    ],
)
def test_the_fields_are_those_of_the_contract(message: msgspec.Struct, fields: str) -> None:
    assert list(orjson.loads(encode(message))) == fields.split()


# -- compression


def test_small_bodies_and_bodies_that_do_not_shrink_go_as_they_are() -> None:
    assert pack(b"a" * 1024, compress=True).encoding is None
    assert pack(b"a" * 9999, compress=False).encoding is None
    noise = random.Random(1).randbytes(9999)
    assert pack(noise, compress=True) == Wire(noise)


def test_a_compressed_body_comes_back() -> None:
    wire = pack(b"a" * 1025, compress=True)
    assert (wire.encoding, unpack(wire)) == ("zlib", b"a" * 1025)


@pytest.mark.parametrize(
    ("wire", "reason"),
    [
        (Wire(b"{}", "gzip"), "encoding 'gzip' is not known"),
        (Wire(b"{}", "x" * 999), "is not known"),
        (Wire(b"{}", "zlib"), "not a zlib stream"),
        (Wire(b"", "zlib"), "cut short"),
        (Wire(zlib.compress(b"{}" * 99)[:-3], "zlib"), "cut short"),
        (Wire(zlib.compress(b"{}") + b"x", "zlib"), "bytes follow"),
        (Wire(zlib.compress(bytes(MAX_BODY + 1)), "zlib"), "above the limit"),
        (Wire(bytes(MAX_BODY + 1)), "above the limit"),
    ],
)
def test_a_body_that_cannot_be_unpacked_is_malformed(wire: Wire, reason: str) -> None:
    with pytest.raises(Malformed, match=reason) as refused:
        unpack(wire)
    assert len(str(refused.value)) < 200


def test_the_largest_body_reads() -> None:
    assert len(unpack(Wire(zlib.compress(bytes(MAX_BODY)), "zlib"))) == MAX_BODY


def test_a_bomb_costs_no_more_memory_than_the_limit_allows() -> None:
    bomb = Wire(zlib.compress(bytes(8 * MAX_BODY), 1), "zlib")
    tracemalloc.start()
    try:
        with pytest.raises(Malformed, match="above the limit"):
            unpack(bomb)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 3 * MAX_BODY


# -- snapshots


def test_a_snapshot_reads_with_its_resources_by_key() -> None:
    uid = thing("b", metadata={"name": "b", "namespace": "default", "uid": "u", "generation": 4})
    seen = decode_snapshot(
        snapshot(
            resources=[uid, thing("a")],
            heldKinds=["Model.sedna.io", "ConfigMap"],
            omitted=["Dataset.sedna.io/default/c"],
        )
    )
    assert [r.key for r in seen.resources] == [
        "Dataset.sedna.io/default/a",
        "Dataset.sedna.io/default/b",
    ]
    assert [(r.uid, r.generation, r.digest) for r in seen.resources] == [
        (None, None, DIGEST),
        ("u", 4, DIGEST),
    ]
    assert orjson.loads(seen.resources[1].body) == uid
    assert seen.held_kinds == {"Model.sedna.io", "ConfigMap"}
    assert seen.omitted == {"Dataset.sedna.io/default/c"}


def test_what_a_snapshot_holds_omits_or_could_not_read_is_kept() -> None:
    seen = decode_snapshot(
        snapshot(
            resources=[thing("a"), thing("bad", digest=5)],
            heldKinds=["Model.sedna.io"],
            omitted=["Dataset.sedna.io/default/large"],
        )
    )
    kept = ["Model.sedna.io/default/x", "Dataset.sedna.io/default/large"]
    kept.append("Dataset.sedna.io/default/bad")
    assert [seen.keeps(key) for key in kept] == [True, True, True]  # type: ignore[arg-type]
    assert not seen.keeps("Dataset.sedna.io/default/gone")  # type: ignore[arg-type]
    assert not seen.keeps("Dataset.sedna.io/default/a")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "bad",
    [
        thing("x", digest="short"),
        thing("x", digest=DIGEST.upper()),
        thing("x", metadata={"name": "x", "namespace": "default", "uid": 5}),
        thing("x", metadata={"name": "x", "namespace": "default", "generation": -1}),
    ],
)
def test_a_resource_whose_key_reads_counts_as_unread_and_the_others_read(bad: object) -> None:
    seen = decode_snapshot(snapshot(resources=[thing("a"), bad]))
    assert [each.key for each in seen.unread] == ["Dataset.sedna.io/default/x"]
    assert [each.key for each in seen.resources] == ["Dataset.sedna.io/default/a"]
    assert seen.withheld == {"Dataset.sedna.io/default/x"}


def test_a_resource_that_is_nested_too_deep_counts_as_unread() -> None:
    deep: object = 1
    for _ in range(500):
        deep = [deep]
    body = (
        b'{"schema":1,"bridge":"b","instance":"i","node":"n","epoch":1,"revision":1,"digest":"%s"'
    )
    body = body % DIGEST.encode() + b',"resources":[{"apiVersion":"v1","kind":"A","digest":"%s",'
    body = body % DIGEST.encode() + b'"metadata":{"name":"a","namespace":"b"},"spec":'
    body += b"[" * 500 + b"]" * 500 + b"}]}"
    assert [each.key for each in decode_snapshot(Wire(body)).unread] == ["A/b/a"]


@pytest.mark.parametrize(
    "bad",
    [
        5,
        None,
        [],
        {},
        thing("A"),
        thing("a/b"),
        thing("a", kind="x y"),
        thing("a", kind=None),
        thing("a", apiVersion=""),
        thing("a", metadata=[]),
        thing("a", metadata={"name": "a", "namespace": None}),
        thing("a", metadata={"name": "a", "namespace": "+"}),
    ],
)
def test_a_resource_without_a_key_makes_the_message_malformed(bad: object) -> None:
    with pytest.raises(Malformed, match=r"^resources\[1\] has no key that can be read: "):
        decode_snapshot(snapshot(resources=[thing("x"), bad]))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (
            {"resources": [thing("a"), thing("a", spec=1)]},
            "Dataset.sedna.io/default/a is there twice",
        ),
        ({"resources": {}}, "Expected `array`"),
        ({"heldKinds": ["x/y"]}, "heldKinds or omitted: kind 'x/y'"),
        ({"omitted": ["x"]}, "heldKinds or omitted: key 'x'"),
        ({"digest": "0"}, "digest"),
        ({"node": 5}, "node"),
    ],
)
def test_a_snapshot_of_another_shape_is_malformed(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(Malformed) as refused:
        decode_snapshot(snapshot(**fields))
    assert reason in str(refused.value)


@pytest.mark.parametrize("field", ["apiVersion", "kind"])
def test_a_key_that_is_nested_deep_makes_the_message_malformed(field: str) -> None:
    body = snapshot(resources=[thing("a", **{field: 555})]).payload
    deep = body.replace(b":555", b":" + b"[" * 1000 + b"]" * 1000)
    with pytest.raises(Malformed, match="has no key that can be read"):
        decode_snapshot(Wire(deep))


def test_a_key_that_is_both_there_and_omitted_is_there() -> None:
    seen = decode_snapshot(snapshot(resources=[thing("a")], omitted=["Dataset.sedna.io/default/a"]))
    assert (len(seen.resources), seen.omitted) == (1, frozenset())
