"""List pages and watch lines: decoded, checked, and nothing taken for what it is not.

Pure. A page counts only if it is a List of the kind that was asked for; a line only if it is an
event with an object and its version. What is not raises Garbled: a list decides then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from bridge.sources.kubernetes.failures import TooDeep, refusal_of
from bridge.sources.kubernetes.resources import Resource
from nodecast.errors import SourceError

LONGEST_LINE = 64 << 20
"""Bytes of an event; etcd holds objects of a few MiB at the most."""
ADDED, MODIFIED, DELETED, BOOKMARK, ERROR = "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"
_TYPES = frozenset({ADDED, MODIFIED, DELETED, BOOKMARK})


class Garbled(SourceError):
    """An answer that is not what the API says it should be."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list. `version`: of the whole list; `token`: for the next page, if any."""

    items: list[Any]
    version: str
    token: str


def page_of(answer: dict[str, Any], resource: Resource) -> Page:
    """The page that an answer is. Raises Garbled."""
    expected = (f"{resource.short}List", resource.api_version)
    found = (answer.get("kind"), answer.get("apiVersion"))
    if found != expected:
        raise Garbled(f"a list of {resource.name} is a {_names(found)}, not a {_names(expected)}")
    metadata = answer.get("metadata")
    items = answer.get("items")
    if not isinstance(metadata, dict) or not isinstance(items, list):
        raise Garbled(f"a list of {resource.name} has no metadata or no items")
    version, token = metadata.get("resourceVersion"), metadata.get("continue") or ""
    if not isinstance(version, str) or not version or not isinstance(token, str):
        raise Garbled(f"a list of {resource.name} has no resourceVersion")
    for item in items:
        if not isinstance(item, TooDeep):
            _check_item(item, resource)
    return Page(items, version, token)


def _check_item(item: Any, resource: Resource) -> None:
    """A list with an item that nobody can name is not whole: raises Garbled."""
    metadata = item.get("metadata") if isinstance(item, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        raise Garbled(f"a list of {resource.name} has an item without a name")
    # Those of the core group do not say what they are.
    said = (
        item.setdefault("kind", resource.short),
        item.setdefault("apiVersion", resource.api_version),
    )
    if said != (resource.short, resource.api_version):
        raise Garbled(f"a list of {resource.name} has an item of another kind: {_names(said)}")


def selection(selector: str) -> dict[str, str]:
    """A label selector, empty for none, as part of a query."""
    return {"labelSelector": selector} if selector else {}


def pages_of(
    ask: Callable[[Mapping[str, str]], dict[str, Any]],
    resource: Resource,
    selection: Mapping[str, str],
    size: int,
) -> Iterator[Page]:
    """All pages of a list of at most `size` objects each; `ask` sends a query.

    Raises Garbled, and what `ask` raises: then nothing of the list counts.
    """
    query = {**selection, "limit": str(size)}
    tokens: set[str] = set()
    while True:
        page = page_of(ask(query), resource)
        yield page
        if not page.token:
            return
        if page.token in tokens:
            raise Garbled(f"a list of {resource.name} goes round in circles")
        tokens.add(page.token)
        query["continue"] = page.token


class Lines:
    """Cuts a stream into lines, wherever its pieces end. A last line without an end is none."""

    __slots__ = ("_rest", "_size")

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> list[bytes]:
        """The lines that are whole now. Raises Garbled for one that never ends."""
        if not self._size and 0 <= piece.find(b"\n") == len(piece) - 1:
            return [piece[:-1]]  # one whole line, as most pieces are
        lines: list[bytes] = []
        if b"\n" not in piece:  # joined once, however many pieces it comes in
            self._rest.append(piece)
            self._size += len(piece)
        else:
            lines = b"".join((*self._rest, piece)).split(b"\n")
            rest = lines.pop()
            self._rest, self._size = [rest], len(rest)
        if self._size > LONGEST_LINE:
            raise Garbled(f"an event is longer than {LONGEST_LINE} bytes")
        return lines


def event_of(line: bytes) -> tuple[str, dict[str, Any], dict[str, Any], str]:
    """(type, object, its metadata, its resourceVersion) of an event.

    Raises Refusal for an event of type ERROR, Garbled for what is no event.
    """
    try:
        event = orjson.loads(line)
        kind, obj = event["type"], event["object"]
        if kind in _TYPES:
            metadata = obj["metadata"]
            version = metadata["resourceVersion"]
            if version and type(version) is str and type(metadata) is dict:
                return kind, obj, metadata, version
    except (orjson.JSONDecodeError, TypeError, KeyError, IndexError) as error:
        raise Garbled(f"a line of a watch is no event: {type(error).__name__}") from error
    if kind == ERROR:
        raise refusal_of(obj)
    raise Garbled(f"an event of type {str(kind)[:40]!r} is not known, or has no version")


def _names(kind: tuple[object, object]) -> str:
    return " of ".join(part[:80] if isinstance(part, str) else "?" for part in kind)
