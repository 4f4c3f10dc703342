"""The model config file: bytes in, models out, each entry judged by itself.

The file is a JSON array of `{"modelName": …, "modelSpec": {"storageUri", "framework", "memory"}}`.
Only a readable array speaks. A bad entry never stops the others: it is a problem with its place,
and its model keeps what it had when its name can be read. Pure.
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from agent.models.quantity import quantity
from agent.models.spec import Spec, is_text
from nodecast.errors import ConfigFileError, InvalidQuantity, ObjectError

MAX_BYTES = 8 * 1024 * 1024
"""Of the file: four times it, as a ModelSet, is still a message that every receiver reads."""
MAX_VALUES = 1_000_000
"""Of the file, counted by its commas and opening brackets: ten times a node's share of models, and
few enough that whatever they are, reading them takes seconds and some 100 MB."""
MAX_PROBLEMS = 1000
"""Problems that are told one by one; the rest is counted."""
MAX_NAME = 253
"""Bytes of a model name in UTF-8: as long as a Kubernetes name, and short enough for one path part
with room for an ending, which is what consumers make of it."""


@dataclass(frozen=True, slots=True)
class ConfigSeen:
    """A look at the file: its bytes, or why they cannot be read; neither: it is not there."""

    raw: bytes | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class EntryProblem:
    """What is wrong with the entry at `index` (from 0); `name` where it can be read."""

    index: int
    name: str | None
    reason: str

    def __str__(self) -> str:
        return f"[{self.index}]{f' {self.name!r}' if self.name is not None else ''}: {self.reason}"


@dataclass(frozen=True, slots=True)
class ConfigReading:
    """What a readable file says. `keep`: models whose entry is bad, which keep what they had;
    `untold`: how many problems there are beyond `problems`."""

    entries: Mapping[str, Spec] = field(default_factory=dict)
    problems: tuple[EntryProblem, ...] = ()
    untold: int = 0
    keep: frozenset[str] = frozenset()

    def texts(self) -> tuple[str, ...]:
        """The problems in words, one a line."""
        told = tuple(map(str, self.problems))
        return (*told, f"and {self.untold} more") if self.untold else told


class _Twice(dict[str, Any]):
    """A JSON object with a `key` twice; `names`: every model that it may mean."""

    def __init__(self, pairs: list[tuple[str, Any]], key: str) -> None:
        super().__init__(pairs)
        self.key = key
        self.names = {v for k, v in pairs if k == "modelName" and isinstance(v, str)}


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) == len(pairs):
        return value
    counts = Counter(key for key, _ in pairs)
    return _Twice(pairs, counts.most_common(1)[0][0])


def read_config(raw: bytes) -> ConfigReading:
    """The models in the bytes of a config file.

    Raises ConfigFileError when the bytes are no JSON array within MAX_BYTES and MAX_VALUES.
    """
    entries: dict[str, Spec] = {}
    problems = _Problems()
    keep: set[str] = set()
    seen: dict[str, int] = {}
    for index, value in enumerate(_array(raw)):
        name: str | None = None
        try:
            name = _name(value)
            if name in seen:
                reason = f"the name is at [{seen[name]}] too; the last entry counts"
                problems.add(index, name, reason)
            seen[name] = index
            _check_keys(value)
            entries[name] = _spec(value)
            keep.discard(name)
        except ObjectError as error:
            problems.add(index, name, str(error))
            if name is not None:
                entries.pop(name, None)
                keep.add(name)
            elif isinstance(value, _Twice):
                keep.update(value.names - entries.keys())
    return ConfigReading(entries, tuple(problems.told), problems.untold, frozenset(keep))


class _Problems:
    """Problems as they are found, so many that a file of nothing else fits into memory."""

    def __init__(self) -> None:
        self.told: list[EntryProblem] = []
        self.untold = 0

    def add(self, index: int, name: str | None, reason: str) -> None:
        if len(self.told) < MAX_PROBLEMS:
            self.told.append(EntryProblem(index, name, reason))
        else:
            self.untold += 1


def _array(raw: bytes) -> list[Any]:
    if len(raw) > MAX_BYTES:
        raise ConfigFileError(f"larger than {MAX_BYTES} bytes")
    if sum(map(raw.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise ConfigFileError(f"more than {MAX_VALUES} values")
    if not raw.strip():
        raise ConfigFileError("empty; no models at all are written []")
    try:
        text = raw.decode("utf-8-sig")
        value = json.loads(
            text, object_pairs_hook=_object, parse_constant=_no_json, parse_int=_integer
        )
    except RecursionError as error:
        raise ConfigFileError("nested too deeply") from error
    except UnicodeDecodeError as error:
        raise ConfigFileError(f"not UTF-8: {error.reason} at byte {error.start}") from error
    except ValueError as error:
        raise ConfigFileError(f"not JSON: {error}") from error
    if not isinstance(value, list):
        raise ConfigFileError(f"a JSON {type(value).__name__}, not an array of models")
    return value


def _no_json(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON number")


def _integer(digits: str) -> int:
    """Its first 40 digits: enough to be beyond 64 bits, which is judged with its entry, and too
    few for Python to refuse the whole file over a number that is too long to convert."""
    return int(digits[:40])


def _name(entry: object) -> str:
    """The name in an entry. Raises ObjectError."""
    if not isinstance(entry, dict):
        raise ObjectError(f"a JSON {type(entry).__name__}, not an object")
    if "modelName" not in entry:
        raise ObjectError("modelName is missing")
    if isinstance(entry, _Twice) and len(entry.names) > 1:
        raise ObjectError("modelName is there twice, with two values: which one is meant?")
    name = entry["modelName"]
    if not isinstance(name, str):
        raise ObjectError(f"modelName is a JSON {type(name).__name__}, not a string")
    if not name:
        raise ObjectError("modelName is empty")
    if not is_text(name):
        raise ObjectError("modelName holds half of a surrogate pair, which UTF-8 cannot say")
    if (size := len(name.encode())) > MAX_NAME:
        raise ObjectError(f"modelName {name[:20]!r}… has {size} bytes, {MAX_NAME} at most")
    # Whatever else a name holds (`a/b`, `#`, `../x`) is safe: it stands in JSON, never in a topic
    # or a path. Control characters are refused, since a consumer's C string or log ends at one.
    if any(unicodedata.category(c) == "Cc" for c in name):
        raise ObjectError(f"modelName {name!r} holds a control character")
    return name


def _check_keys(entry: object) -> None:
    """Raises ObjectError where a key is twice in an object: one of the values would not count."""
    rest = [entry]
    while rest:
        value = rest.pop()
        if isinstance(value, _Twice):
            raise ObjectError(f"the key {_shown(value.key)} is twice in one object: leave one")
        if isinstance(value, dict):
            rest.extend(value.values())
        elif isinstance(value, list):
            rest.extend(value)


def _spec(entry: Mapping[str, Any]) -> Spec:
    """The spec in an entry. Raises ObjectError."""
    if "modelSpec" not in entry:
        raise ObjectError("modelSpec is missing")
    spec = entry["modelSpec"]
    if not isinstance(spec, dict):
        raise ObjectError(f"modelSpec is a JSON {type(spec).__name__}, not an object")
    if "storageUri" not in spec:
        raise ObjectError("modelSpec.storageUri is missing")
    uri = spec["storageUri"]
    if not isinstance(uri, str) or not uri:
        raise ObjectError(f"modelSpec.storageUri is {_shown(uri)}, not a string that says where")
    framework = spec.get("framework")
    if framework is not None and not isinstance(framework, str):
        raise ObjectError(f"modelSpec.framework is {_shown(framework)}, not a string")
    _check_memory(spec.get("memory"))
    try:
        return Spec.of(spec)
    except ObjectError as error:
        raise ObjectError(f"modelSpec: {error}") from error


def _check_memory(memory: object) -> None:
    """Null is as good as absent, which is how Kubernetes reads it."""
    if memory is None:
        return
    try:
        negative = quantity(memory) < 0
    except InvalidQuantity as error:
        raise ObjectError(f"modelSpec.memory: {error}") from error
    if negative:
        raise ObjectError(f"modelSpec.memory is {_shown(memory)}, below zero")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:30]}…"
