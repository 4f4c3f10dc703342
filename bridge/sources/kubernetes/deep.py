"""JSON that holds something too deep to be decoded as a whole.

orjson decodes 1,024 levels; an API server takes about ten times as many. One such object must not
hide the others of its list, so where a list does not decode, its items are taken apart first.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

import msgspec
import orjson

from bridge.sources.kubernetes.failures import TooDeep

_LEVELS = 20_000
"""More than an API server takes; what is skipped costs a few hundred bytes of stack a level."""
_limit = threading.Lock()


class _List(msgspec.Struct):
    kind: str
    apiVersion: str  # noqa: N815 - as on the wire
    metadata: dict[str, Any]
    items: list[msgspec.Raw]


class _Name(msgspec.Struct):
    name: str
    namespace: str = ""


class _Item(msgspec.Struct):
    metadata: _Name


def loads(body: bytes) -> Any:
    """The value of `body`; in a list, TooDeep for items that do not decode.

    Raises orjson.JSONDecodeError.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        apart = _apart(body)
        if apart is None:
            raise
        return apart


def _apart(body: bytes) -> dict[str, Any] | None:
    """A list, item by item; None: it is none, or something else is wrong with it."""
    with _limit:
        usual = sys.getrecursionlimit()
        sys.setrecursionlimit(_LEVELS)
        try:
            found = msgspec.json.decode(body, type=_List)
            items = [_item(bytes(raw)) for raw in found.items]
        except (msgspec.MsgspecError, RecursionError):
            return None
        finally:
            sys.setrecursionlimit(usual)
    return {
        "kind": found.kind,
        "apiVersion": found.apiVersion,
        "metadata": found.metadata,
        "items": items,
    }


def _item(raw: bytes) -> Any:
    """Raises MsgspecError where it has no name, either."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        name = msgspec.json.decode(raw, type=_Item).metadata
        return TooDeep(name.namespace, name.name)
