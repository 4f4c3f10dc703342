"""YAML as kubectl reads it: the documents of a text, as JSON values.

What a scalar without quotes stands for is in `scalars`; beside it:
- `<<` merges a mapping or a list of them; the mapping's own keys win.
- Keys become strings: `1: x` is `"1"`, `true: x` is `"true"`.

Refused, with line and column: a key that stands twice (`1` and `"1"` are one); a float as a key,
of which kubectl makes another string (`1.10` becomes `"1.1"`: quote it); any tag but the plain
ones of YAML (`!!python/…`, `!vault`); aliases that contain themselves, or that repeat more than
`MAX_REPEATED` (a few lines can stand for gigabytes); nesting beyond `MAX_DEPTH`; numbers that JSON
does not have.

An alias gives the same list or dict again: the values are not to be changed. Pure; no thread.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any, Final

import yaml

from bridge.sources.scalars import plain_scalar
from nodecast.errors import DocumentError

MAX_DEPTH = 200
"""Lists and mappings in each other; JSON encoders stop at 254."""

MAX_REPEATED = 4 * 1024 * 1024
"""Characters and nodes that a text's aliases may repeat in all."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's parser is ten times faster
_TAG = "tag:yaml.org,2002:"
_OPEN: Final = object()  # an anchor whose value is not complete yet


def parse_yaml(text: str) -> list[object]:
    """The values of all documents of `text`, in order; an empty document is None.

    Raises DocumentError, with line and column, for what is not YAML or is refused above.
    """
    try:
        return list(_Composer(text).documents())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = ", ".join(filter(None, (error.context, error.problem)))
        raise DocumentError(f"{_at(mark)}: {reason}") from error
    except yaml.YAMLError as error:  # the reader: characters that YAML does not allow
        reason = getattr(error, "reason", None) or str(error)
        raise DocumentError(f"{_at_character(text, error)}: {reason}") from error


def _events(text: str) -> Iterator[Any]:
    """The parser's events. To libyaml, as to YAML 1.1, U+2028 and U+2029 end a line; to YAML 1.2
    (§5.4) they are characters like others, and JSON may hold them anywhere in a string. So others
    stand in for them, which the text does not have, while it is parsed."""
    breaks = [mark for mark in "\u2028\u2029" if mark in text]
    if not breaks:
        yield from yaml.parse(text, Loader=_LOADER)
        return
    spare = (each for each in range(0xE000, 0xF900) if chr(each) not in text)
    stand_ins = dict(zip(map(ord, breaks), spare, strict=False))
    back = {other: mark for mark, other in stand_ins.items()}
    for event in yaml.parse(text.translate(stand_ins), Loader=_LOADER):
        if isinstance(event, yaml.ScalarEvent):
            event.value = event.value.translate(back)
        yield event


class _Composer:
    """Builds values from the parser's events, in one pass."""

    def __init__(self, text: str) -> None:
        self._events: Iterator[Any] = _events(text)
        self._anchors: dict[str, tuple[object, int]] = {}
        self._size = 0  # characters and nodes so far, with what aliases repeat
        self._repeated = 0

    def documents(self) -> Iterator[object]:
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors = {}
                yield self._value(next(self._events), 0)

    def _value(self, event: Any, depth: int) -> object:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        if depth > MAX_DEPTH:
            raise _refused(event, f"nested deeper than {MAX_DEPTH}")
        before = self._size
        if event.anchor is not None:
            self._anchors[event.anchor] = (_OPEN, 0)
        value = self._complete(event, depth)
        self._size += 1
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, self._size - before)
        return value

    def _complete(self, event: Any, depth: int) -> object:
        if isinstance(event, yaml.ScalarEvent):
            self._size += len(event.value)
            return _scalar(event)
        if isinstance(event, yaml.SequenceStartEvent):
            _check_tag(event, "seq")
            return self._list(depth)
        _check_tag(event, "map")
        return self._dict(depth)

    def _alias(self, event: Any) -> object:
        value, size = self._anchors.get(event.anchor, (None, -1))
        if size < 0:
            raise _refused(event, f"alias *{event.anchor} has no anchor before it")
        if value is _OPEN:
            raise _refused(event, f"alias *{event.anchor} contains itself")
        self._size += size
        self._repeated += size
        if self._repeated > MAX_REPEATED:
            raise _refused(event, f"aliases repeat more than {MAX_REPEATED} characters")
        return value

    def _list(self, depth: int) -> list[object]:
        items = []
        for event in self._events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            items.append(self._value(event, depth + 1))
        return items

    def _dict(self, depth: int) -> dict[str, object]:
        table: dict[str, object] = {}
        merged: list[dict[str, object]] = []
        for event in self._events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            if _is_merge(event):
                merged += self._merged(next(self._events), depth)
                continue
            key = _key(event, self._value(event, depth + 1))
            if key in table:
                raise _refused(event, f"key {_short(key)} stands twice in one mapping")
            table[key] = self._value(next(self._events), depth + 1)
        for other in merged:
            for key, value in other.items():
                table.setdefault(key, value)
        return table

    def _merged(self, event: Any, depth: int) -> list[dict[str, object]]:
        value = self._value(event, depth + 1)
        tables = []
        for table in value if isinstance(value, list) else [value]:
            if not isinstance(table, dict):
                raise _refused(event, "<< merges a mapping or a list of mappings only")
            tables.append(table)
        return tables


def _scalar(event: Any) -> object:
    if event.tag is None:
        return _resolved(event) if event.implicit[0] else event.value
    name = event.tag.removeprefix(_TAG)
    if event.tag == "!" or name in ("str", "timestamp"):
        return event.value
    if name == "binary":
        return _binary(event)
    if name not in _TYPES:
        raise _refused(event, f"tag {_short(event.tag)} is not one that JSON values have")
    value = _resolved(event)
    if not _TYPES[name](value):
        raise _refused(event, f"{_short(event.value)} is not of the type !!{name}")
    return value


_TYPES: dict[str, Callable[[object], bool]] = {
    "null": lambda value: value is None,
    "bool": lambda value: isinstance(value, bool),
    "int": lambda value: type(value) is int,
    "float": lambda value: type(value) in (int, float),
}


def _resolved(event: Any) -> object:
    try:
        return plain_scalar(event.value)
    except ValueError as error:
        raise _refused(event, str(error)) from error


def _binary(event: Any) -> str:
    """The text that the base64 stands for, as kubectl makes it."""
    try:
        return base64.b64decode("".join(event.value.split()), validate=True).decode()
    except ValueError as error:
        raise _refused(event, f"!!binary is not the base64 of UTF-8 text: {error}") from error


def _check_tag(event: Any, name: str) -> None:
    if event.tag not in (None, "!", _TAG + name):
        raise _refused(event, f"tag {_short(event.tag)} is not one that JSON values have")


def _is_merge(event: Any) -> bool:
    if not isinstance(event, yaml.ScalarEvent) or event.value != "<<":
        return False
    return event.tag == _TAG + "merge" or (event.tag is None and event.implicit[0])


def _key(event: Any, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    what = "null" if value is None else type(value).__name__
    raise _refused(event, f"a key that is {what}; put it in quotes")


def _short(text: str) -> str:
    shown = repr(text)
    return shown if len(shown) <= 80 else f"{shown[:60]}… ({len(text)} characters)"


def _refused(event: Any, reason: str) -> DocumentError:
    return DocumentError(f"{_at(event.start_mark)}: {reason}")


def _at(mark: Any) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}" if mark is not None else "somewhere"


def _at_character(text: str, error: object) -> str:
    position = getattr(error, "position", None)
    return "somewhere" if position is None else f"line {text.count(chr(10), 0, position) + 1}"
