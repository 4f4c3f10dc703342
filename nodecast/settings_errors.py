"""What is wrong with a setting, for whoever wrote it: the place, the key, what to do."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from nodecast.settings import Setting

_TYPES = {
    "float": "a number",
    "int": "a whole number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}
_BOUNDS = {">=": "of at least", ">": "above", "<=": "of at most", "<": "below"}
_EXPECTED = re.compile(r"Expected `(\w+)[^`]*`(?: (>=|>|<=|<) ([-\d.e+]+))?(?:, got `(\w+)`)?")
_SIMILAR = 0.9


def explain(
    error: msgspec.ValidationError,
    settings: Sequence[Setting],
    path: Path | None,
    origin: Mapping[str, str],
) -> str:
    """One line on a settings tree that did not validate. `origin`: where a key's value is from."""
    reason, _, place = str(error).partition(" - at `$")
    key = place.rstrip("`").lstrip(".")
    at = where(key, path, origin)
    if missing := re.search(r"missing required field `(\w+)`", reason):
        return f"{at}: {_missing(f'{key}.{missing[1]}'.lstrip('.'), settings)}"
    if unknown := re.search(r"unknown field `(.+)`", reason):
        return f"{at}: {_unknown(key, unknown[1], settings)}"
    return f"{at}: {key or 'top level'}: {say(reason, _choices(key, settings))}"


def where(key: str, path: Path | None, origin: Mapping[str, str]) -> str:
    """The flag, variable or file that a key's value is from."""
    return origin.get(key) or (f"settings file {path}" if path else "settings")


def say(reason: str, choices: Sequence[str] = ()) -> str:
    """A reason of the validator in plain words."""
    if choices and "enum" in reason:
        value = reason.partition("'")[2].rstrip("'")
        return f"{value!r} is none of {', '.join(choices)}"
    expected = _EXPECTED.search(reason)
    if expected is None or expected[1] not in _TYPES:
        return reason
    text = f"must be {_TYPES[expected[1]]}"
    if expected[2]:
        text += f" {_BOUNDS[expected[2]]} {float(expected[3]):g}"
    if expected[4] and expected[1] != "bool":
        text += f", not {_TYPES.get(expected[4], expected[4])}"
    return text


def unknown_variables(environ: Iterable[str], settings: Sequence[Setting]) -> list[str]:
    """What to say of variables that look like a setting's and are none."""
    known = [setting.variable for setting in settings if setting.scalar]
    lines = []
    for name in sorted(environ):
        if name.startswith("NODECAST_") and name not in known:
            close = difflib.get_close_matches(name, known, 1, _SIMILAR)
            if close:
                lines.append(f"variable {name} is no setting; did you mean {close[0]}?")
    return lines


def _missing(key: str, settings: Sequence[Setting]) -> str:
    variables = [each.variable for each in settings if each.key == key and each.scalar]
    return f"{key} is not set; give it in the file" + "".join(f", or as {v}" for v in variables)


def _unknown(table: str, name: str, settings: Sequence[Setting]) -> str:
    text = f"{f'{table}.{name}'.lstrip('.')} is no setting"
    homes = [each.key.rpartition(".")[0] for each in settings if each.key.endswith(f".{name}")]
    if homes and not table:
        return f"{text}; {name} belongs below [{homes[0]}]"
    if table and any(each.key == name for each in settings):
        return f"{text}; {name} belongs above [{table}]"
    inside = [
        each.key.rpartition(".")[2]
        for each in settings
        if each.key.rpartition(".")[0] == table.partition("[")[0]
    ]
    close = difflib.get_close_matches(name, inside, 1)
    return text + "".join(f"; did you mean {each}?" for each in close)


def _choices(key: str, settings: Sequence[Setting]) -> Sequence[str]:
    return next((each.choices for each in settings if each.key == key), ())
