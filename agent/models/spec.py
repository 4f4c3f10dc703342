"""Spec: what the config file says of one model, as written, and how two of them compare.

`body` is the JSON as it was written (its key order kept) and is what ops carry. Two specs are equal
when they say the same: the order of keys, white space and the spelling of `memory` mean nothing.
Pure.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.models.quantity import quantity
from nodecast.errors import InvalidQuantity, ObjectError

MAX_DEPTH = 64
"""Levels of a spec: every JSON library that a consumer may use reads as many."""
_MIN_INT, _MAX_INT = -(2**63), 2**64 - 1


@dataclass(frozen=True, slots=True)
class Spec:
    """A spec in its two forms; equality and hash go by `identity` (a SHA-256) alone."""

    body: str = field(compare=False)
    identity: bytes = field(repr=False)

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Spec:
        """The spec `value`. Raises ObjectError for what no message can carry unchanged."""
        _check(value, 0)
        said = dict(value)
        try:
            if said.get("memory") is not None:
                said["memory"] = str(quantity(said["memory"]))
        except InvalidQuantity:
            pass  # compared as written: whether a file may say it is not judged here
        canonical = _json(said, sort_keys=True).encode()
        return cls(_json(value, sort_keys=False), hashlib.sha256(canonical).digest())

    @classmethod
    def read(cls, body: object) -> Spec:
        """The spec of a body that a store kept. Raises ObjectError when it is none."""
        try:
            value = json.loads(body) if isinstance(body, str) else None
        except (ValueError, RecursionError) as error:
            raise ObjectError(f"not JSON: {error}") from error
        if not isinstance(value, dict):
            raise ObjectError("not a JSON object")
        return cls.of(value)

    def value(self) -> dict[str, Any]:
        """A fresh copy as a JSON object."""
        value: dict[str, Any] = json.loads(self.body)
        return value


def _json(value: object, *, sort_keys: bool) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys)


def _check(value: object, depth: int) -> None:
    """Refuse what a JSON message could only carry changed, or not at all."""
    if depth > MAX_DEPTH:
        raise ObjectError(f"nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        for key, each in value.items():
            _check(key, depth)
            _check(each, depth + 1)
    elif isinstance(value, list):
        for each in value:
            _check(each, depth + 1)
    elif isinstance(value, str):
        if not is_text(value):
            raise ObjectError("a string with half of a surrogate pair, which UTF-8 cannot say")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ObjectError("a number beyond the range of a double")
    elif isinstance(value, int) and not _MIN_INT <= value <= _MAX_INT:
        raise ObjectError("an integer beyond 64 bits")


def is_text(value: str) -> bool:
    """Whether UTF-8 can say `value`; a lone surrogate, which JSON can escape, it cannot."""
    return value.isascii() or not any("\ud800" <= c <= "\udfff" for c in value)


UNKNOWN = Spec.of({})
"""Of a model of which only the name is known to be there. No config file says it: a spec there has
at least a `storageUri`, so an unknown spec always differs from what is wanted."""
