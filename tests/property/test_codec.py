"""Whatever bytes come, decoding gives a message or a MessageError; and what goes out comes back."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecast.errors import MessageError
from nodecast.messages import (
    MAX_NUMBER,
    ConfigState,
    Ledger,
    ModelEntry,
    ModelOp,
    ModelSet,
    Presence,
    Probe,
    RecentOp,
    Refusal,
    Report,
    ResourceReport,
    Snapshot,
    Wire,
    decode,
    decode_snapshot,
    encode,
    pack,
    unpack,
)

KINDS = [Presence, Report, ModelSet, ModelOp, Ledger, Probe]
Reader = Callable[[Wire], object]


def _reader(kind: type[msgspec.Struct]) -> Reader:
    return lambda wire: decode(kind, wire)


READERS: list[Reader] = [*map(_reader, KINDS), decode_snapshot]

text = st.text(max_size=12)
numbers = st.integers(0, MAX_NUMBER)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
encodings = st.sampled_from([None, "zlib", "gzip", ""]) | text


def reads_or_refuses(read: Reader, wire: Wire) -> object:
    """The message, or None where it was refused in the one way that is allowed."""
    try:
        return read(wire)
    except MessageError as error:
        reason = str(error)
    assert 0 < len(reason) < 1000
    return None


@pytest.mark.parametrize("read", READERS)
@given(payload=st.binary(max_size=200), encoding=encodings)
def test_any_bytes_give_a_message_or_a_message_error(
    read: Reader, payload: bytes, encoding: str | None
) -> None:
    reads_or_refuses(read, Wire(payload, encoding))
    reads_or_refuses(read, Wire(zlib.compress(payload), "zlib"))


@pytest.mark.parametrize("read", READERS)
@given(value=json_values, depth=st.integers(0, 1100))
def test_any_json_gives_a_message_or_a_message_error(
    read: Reader, value: object, depth: int
) -> None:
    body = orjson.dumps(value)
    reads_or_refuses(read, Wire(b"[" * depth + body + b"]" * depth))
    reads_or_refuses(read, Wire(b'{"schema":%s}' % (b"[" * depth + body + b"]" * depth)))


resource_fields = st.fixed_dictionaries(
    {},
    optional={
        "apiVersion": st.sampled_from(["v1", "sedna.io/v1", "/", "a/b/c"]) | json_values,
        "kind": st.sampled_from(["A", "Dataset", "a b"]) | json_values,
        "metadata": st.fixed_dictionaries(
            {},
            optional={
                "name": st.sampled_from(["a", "b", "A"]) | json_values,
                "namespace": st.sampled_from(["", "d", "a.b"]) | json_values,
                "uid": json_values,
                "generation": numbers | json_values,
            },
        )
        | json_values,
        "digest": st.just("0" * 32) | json_values,
        "spec": json_values,
    },
)
snapshot_fields = st.fixed_dictionaries(
    {"schema": st.just(1)},
    optional={
        "bridge": text | json_values,
        "instance": text | json_values,
        "node": text | json_values,
        "epoch": numbers | json_values,
        "revision": numbers | json_values,
        "digest": st.just("0" * 32) | json_values,
        "resources": st.lists(resource_fields, max_size=4) | json_values,
        "heldKinds": st.lists(st.sampled_from(["A", "B.x", "c d"])) | json_values,
        "omitted": st.lists(st.sampled_from(["A/d/a", "A//b", "x"])) | json_values,
    },
)


@given(snapshot_fields)
def test_what_looks_like_a_snapshot_gives_one_or_a_message_error(fields: dict) -> None:
    seen = reads_or_refuses(decode_snapshot, Wire(orjson.dumps(fields)))
    if isinstance(seen, Snapshot):
        keys = [each.key for each in seen.resources]
        assert keys == sorted(set(keys))
        assert not set(keys) & seen.withheld
        assert all(0 <= part <= MAX_NUMBER for part in seen.version)


@given(snapshot_fields, st.data())
def test_a_snapshot_that_was_damaged_gives_one_or_a_message_error(
    fields: dict, data: st.DataObject
) -> None:
    body = bytearray(orjson.dumps(fields))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    reads_or_refuses(decode_snapshot, Wire(bytes(body)))


specs = st.dictionaries(text, json_values, max_size=3)
messages = st.one_of(
    st.builds(
        Presence,
        online=st.booleans(),
        instance=text,
        since=text,
        epoch=numbers | st.just(msgspec.UNSET),
    ),
    st.builds(
        Report,
        bridge=text,
        node=text,
        instance=st.text(min_size=1, max_size=9),
        seq=numbers,
        epoch=numbers,
        revision=numbers,
        digest=text,
        incomplete=st.booleans(),
        refused=st.none() | st.builds(Refusal, epoch=numbers, revision=numbers, reason=text),
        resources=st.lists(
            st.builds(
                ResourceReport,
                key=text,
                uid=st.none() | text,
                generation=st.none() | numbers,
                state=text,
                reason=text,
                message=text,
                attempts=numbers,
                status=st.none() | st.booleans() | text | specs,
            ),
            max_size=3,
        ),
    ),
    st.builds(
        ModelSet,
        node=text,
        store=text,
        seq=numbers,
        config=st.builds(
            ConfigState, path=text, state=st.sampled_from(["ok", "missing", "invalid", "unread"])
        ),
        models=st.lists(
            st.builds(
                ModelEntry,
                name=text,
                spec=st.dictionaries(text, text, max_size=3),
                state=st.sampled_from(["Pending", "Requested", "Loading", "Loaded", "Failed"]),
            ),
            max_size=3,
        ),
        recent_ops=st.lists(
            st.builds(RecentOp, seq=numbers, op=st.sampled_from(["load", "unload"]), model=text),
            max_size=3,
        ),
    ),
    st.builds(
        ModelOp,
        node=text,
        store=text,
        seq=numbers,
        op=st.sampled_from(["load", "unload"]),
        model=text,
        spec=st.dictionaries(text, text | st.booleans() | st.integers(-99, 99), max_size=3),
        on_startup=st.booleans(),
    ),
    st.builds(
        Ledger,
        bridge=text,
        source=text,
        instance=text,
        epoch=numbers,
        mark=numbers,
        paused=st.booleans(),
        nodes=st.lists(text, max_size=3),
        kinds=st.dictionaries(text, numbers, max_size=3),
    ),
    st.builds(Probe, instance=text, connection=numbers, replay=numbers),
)


@given(messages, st.booleans())
def test_every_message_comes_back_as_it_was(message: msgspec.Struct, compress: bool) -> None:
    assert decode(type(message), pack(encode(message), compress=compress)) == message


@given(messages, st.dictionaries(text.map("x-".__add__), json_values, max_size=3))
def test_fields_of_a_later_release_are_ignored(message: msgspec.Struct, later: dict) -> None:
    body = orjson.dumps(orjson.loads(encode(message)) | later)
    assert decode(type(message), Wire(body)) == message


@given(st.binary(max_size=3000), st.integers(1, 3), st.booleans())
def test_a_body_comes_back_and_is_never_sent_larger(
    part: bytes, times: int, compress: bool
) -> None:
    body = part * times
    wire = pack(body, compress=compress)
    assert unpack(wire) == body
    assert len(wire.payload) <= len(body)
