"""Bytes to objects and back: JSON, schema, compression, limits.

Every limit here bounds what a payload can cost before it is known to be good. Both sides keep
them: the bridge sends nothing that an agent would refuse.
"""

from __future__ import annotations

import reprlib
import zlib
from typing import Any, NamedTuple, TypeVar

import msgspec
import orjson

from nodecast.errors import Malformed, NewerSchema

SCHEMA = 1
MAX_BODY = 32 * 1024 * 1024
"""Bytes of a body after decompression; what is larger is refused unread."""
COMPRESS_ABOVE = 1024
"""Bytes up to which a body goes as it is."""
ZLIB = "zlib"
_LEVEL = 3  # snapshots: a third of level 6's time for a tenth more bytes

Message = TypeVar("Message", bound=msgspec.Struct)


class Wire(NamedTuple):
    """A payload and its MQTT user property `encoding` (None: plain JSON)."""

    payload: bytes
    encoding: str | None = None


def pack(body: bytes, *, compress: bool) -> Wire:
    """`body` as it goes out: compressed when allowed, worth it and smaller."""
    if compress and len(body) > COMPRESS_ABOVE:
        small = zlib.compress(body, _LEVEL)
        if len(small) < len(body):
            return Wire(small, ZLIB)
    return Wire(body)


def unpack(wire: Wire) -> bytes:
    """The body of a payload, at most MAX_BODY bytes. Raises Malformed."""
    if wire.encoding is None:
        if len(wire.payload) > MAX_BODY:
            raise Malformed(f"{len(wire.payload)} bytes are above the limit of {MAX_BODY}")
        return wire.payload
    if wire.encoding != ZLIB:
        raise Malformed(f"encoding {wire.encoding[:40]!r} is not known; {ZLIB!r} is")
    stream = zlib.decompressobj()
    try:
        body = stream.decompress(wire.payload, MAX_BODY)
    except zlib.error as error:
        raise Malformed(f"not a zlib stream: {error}") from error
    if not stream.eof:
        raise Malformed(
            f"the zlib stream is above the limit of {MAX_BODY} bytes"
            if len(body) >= MAX_BODY
            else "the zlib stream is cut short"
        )
    if stream.unused_data:
        raise Malformed("bytes follow the zlib stream")
    return body


def read_object(wire: Wire) -> dict[str, Any]:
    """The JSON object of a payload, its schema checked. Raises MessageError."""
    body = unpack(wire)
    if not body:
        raise Malformed("empty")
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Malformed(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise Malformed(f"a JSON {type(value).__name__}, not an object")
    schema = value.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise Malformed(f"schema {reprlib.repr(schema)} is not a number from 1 on")
    if schema > SCHEMA:
        raise NewerSchema(f"schema {schema} is newer than {SCHEMA}: upgrade this side first")
    return value


def convert(value: object, kind: type[Message]) -> Message:
    """A decoded JSON value as a message of type `kind`. Raises Malformed, with the path."""
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise Malformed(f"not a {kind.__name__}: {error}") from error


def decode(kind: type[Message], wire: Wire) -> Message:
    """The message in a payload. Raises MessageError and nothing else."""
    return convert(read_object(wire), kind)


def encode(message: msgspec.Struct) -> bytes:
    """The body of a message, its fields in the order of its type."""
    return msgspec.json.encode(message)
