"""Field paths: where in an object a rule looks.

`spec.nodeName`, `spec.trainingWorkers[].nodeName` (each item of a list),
`metadata.annotations['sedna.io/Train']` (a key that is no plain word). A field that is missing or
null gives nothing; a field of another shape than the path says is the object's fault.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from nodecast.errors import ObjectError, SettingsError

_STEP = re.compile(r"(?:^|\.)(?P<word>[A-Za-z_][A-Za-z0-9_-]*)|(?P<each>\[\])|\['(?P<key>[^']+)'\]")


@dataclass(frozen=True, slots=True)
class FieldPath:
    """A parsed path. `steps`: a key, or None for each item of a list."""

    text: str
    steps: tuple[str | None, ...]

    def values(self, value: Any) -> Iterator[tuple[str, Any]]:
        """(`spec.workers[2].nodeName`, value) of all that is there. Raises ObjectError."""
        return _walk(value, self.steps, "")

    def found(self, value: Any) -> Sequence[Any]:
        """The same values without where they are, several times as quickly. Raises ObjectError."""
        at = value
        for step in self.steps:
            if step is None or not isinstance(at, dict):
                return [each for _, each in self.values(value)]
            at = at.get(step)
            if at is None:
                return ()
        return (at,)


def parse_path(text: str) -> FieldPath:
    """The path that `text` says. Raises SettingsError."""
    steps: list[str | None] = []
    at = 0
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None or (at == 0 and step["word"] is None):
            raise SettingsError(
                f"field path {text!r} cannot be read at {text[at:]!r}:"
                " it is keys with dots, [] for each item, ['key'] for odd keys"
            )
        steps.append(None if step["each"] else step["word"] or step["key"])
        at = step.end()
    if not steps:
        raise SettingsError("a field path is empty")
    return FieldPath(text, tuple(steps))


def shape(value: object) -> str:
    """What a value is in the words of JSON, for an error."""
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string"}
    return names.get(type(value), "a list" if isinstance(value, list) else "an object")


def _walk(value: Any, steps: tuple[str | None, ...], where: str) -> Iterator[tuple[str, Any]]:
    if value is None:
        return
    if not steps:
        yield where, value
        return
    step, rest = steps[0], steps[1:]
    if step is None:
        if not isinstance(value, list):
            raise ObjectError(f"{where} is {shape(value)}, not a list")
        for index, item in enumerate(value):
            yield from _walk(item, rest, f"{where}[{index}]")
        return
    if not isinstance(value, dict):
        raise ObjectError(f"{where or 'the object'} is {shape(value)}, not an object")
    plain = _STEP.match(step)
    is_word = plain is not None and plain["word"] == step
    name = f"{where}.{step}".lstrip(".") if is_word else f"{where}['{step}']"
    yield from _walk(value.get(step), rest, name)
