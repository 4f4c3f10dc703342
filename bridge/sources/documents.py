"""The documents of a manifest file: bytes in, JSON values out.

A `.json` file is JSON, also several values one after the other; any other file whose text starts
with `{` is tried as JSON first, as kubectl does, since not all JSON is YAML (escaped surrogates).
Everything else is YAML. Both give equal values for equal content: keys that stand twice are
refused, numbers are those of `scalars`. The text is UTF-8, with or without a byte order mark.
Pure; no thread.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import NoReturn

from bridge.sources.scalars import decimal, real
from bridge.sources.yaml12 import parse_yaml
from nodecast.errors import DocumentError

MAX_BYTES = 16 * 1024 * 1024
"""A file above this is refused, unread."""

_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_SPACE = re.compile(r"[ \t\r\n]*")


def parse_documents(data: bytes, is_json: bool) -> list[object]:
    """The values of all documents, in order; an empty YAML document is None.

    Raises DocumentError with the line.
    """
    text = _decoded(data)
    if is_json:
        return _parse_json(text)
    if text.lstrip().startswith("{"):
        try:
            return _parse_json(text)
        except DocumentError:
            pass  # a YAML mapping in braces, or no good as either: YAML says which
    return parse_yaml(text)


def _decoded(data: bytes) -> str:
    if len(data) > MAX_BYTES:
        raise DocumentError(f"is larger than {MAX_BYTES} bytes; split it")
    if data.startswith(_UTF16_MARKS):
        raise DocumentError("is UTF-16 text; save it as UTF-8")
    try:
        text = data.removeprefix(_UTF8_MARK).decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DocumentError(f"line {line}: not UTF-8 text; save it as UTF-8") from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise DocumentError(f"line {line}: holds a NUL character: no text, or UTF-16 without mark")
    return text


def _parse_json(text: str) -> list[object]:
    values: list[object] = []
    at = _after_space(text, 0)
    try:
        while at < len(text):
            value, end = _DECODER.raw_decode(text, at)
            values.append(value)
            at = _after_space(text, end)
    except json.JSONDecodeError as error:
        raise DocumentError(f"line {error.lineno}, column {error.colno}: {error.msg}") from error
    except ValueError as error:  # from the hooks below, which do not know their place
        line = text.count("\n", 0, at) + 1
        raise DocumentError(f"in the value that starts on line {line}: {error}") from error
    except RecursionError as error:
        raise DocumentError("lists and objects are nested too deep") from error
    return values


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table = dict(pairs)
    if len(table) < len(pairs):
        (twice, _count), *_others = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"key {twice!r} stands twice in one object")
    return table


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number that JSON has; put it in quotes")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_int=decimal,
    parse_float=lambda text: real(text, text),
    parse_constant=_constant,
)
