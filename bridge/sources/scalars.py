"""What a scalar of a manifest stands for, as kubectl reads it.

kubectl reads YAML through sigs.k8s.io/yaml, whose parser is a fork of go-yaml v2. That calls itself
YAML 1.2 and keeps some of 1.1. As found in its `resolve.go`, for scalars without quotes and tag:
- `yes`, `no`, `on`, `off`, `y`, `n` (also `Yes`, `YES`, …) are booleans, as keys too; `true`,
  `false`, and `~`, `null`, nothing at all, as everywhere.
- Integers: decimal, `0x1F`, `0b11`, `0o17` and, as in YAML 1.1, `017` (15). `08` is no octal but a
  float, so 8. Underscores mean nothing: `1_000` is 1000.
- No base 60: `24:00` and `02:00` are strings. A date is a string, as it is written.
- Floats: `1.5`, `.5`, `1e3`. A whole one is an integer, since the API server's JSON makes it one
  (`1.0` is 1). One beyond what a float holds (`1e999`) is a string.

Two things are refused where kubectl refuses them or makes another number without a word: `.inf`
and `.nan`, which JSON does not have, and integers beyond 64 bits. Pure; no thread.
"""

from __future__ import annotations

import re

_NUMERIC = frozenset("+-.0123456789")
_NOT_JSON = frozenset(
    sign + word
    for word in (".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN")
    for sign in (("", "+", "-") if word.lower() == ".inf" else ("",))
)
_INTEGER = re.compile(
    r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|([1-9][0-9]*|0))", re.ASCII
)
_BASES = (16, 2, 8, 10)
_LONGEST = 64  # binary digits; int() of very many decimal ones would take minutes
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)


def _words() -> dict[str, bool | None]:
    words: dict[str, bool | None] = {"": None, "~": None}
    meanings = {True: "true yes on y", False: "false no off n", None: "null"}
    for value, spelled in meanings.items():
        for word in spelled.split():
            words |= dict.fromkeys((word, word.capitalize(), word.upper()), value)
    return words


_WORDS = _words()


def plain_scalar(text: str) -> str | int | float | bool | None:
    """The value of a scalar without quotes and tag. Raises ValueError for what is refused."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMERIC:
        return text
    if text in _NOT_JSON:
        raise ValueError(f"{text} is not a number that JSON has; put it in quotes")
    # Underscores go only out of what starts with a digit or a sign.
    plain = text if text[0] == "." else text.replace("_", "")
    integer = _INTEGER.fullmatch(plain)
    if integer is not None:
        return _integer(integer)
    return real(plain, text) if _FLOAT.fullmatch(plain) else text


def decimal(text: str) -> int:
    """The integer that JSON's digits say. Raises ValueError when 64 bits do not hold it."""
    return _checked(2**64 if len(text) > _LONGEST else int(text), text)


def real(digits: str, text: str) -> int | float | str:
    """A float as the API server keeps it: a whole one as an integer, an infinite one as `text`."""
    value = float(digits)
    if abs(value) == float("inf"):
        return text
    return int(value) if value.is_integer() and abs(value) < 2**63 else value


def _integer(match: re.Match[str]) -> int:
    sign, *found = match.groups()
    base, digits = next((b, d) for b, d in zip(_BASES, found, strict=True) if d)
    value = 2**64 if len(digits.lstrip("0")) > _LONGEST else int(digits, base)
    return _checked(-value if sign == "-" else value, match.string)


def _checked(value: int, text: str) -> int:
    if -(2**63) <= value < 2**64:
        return value
    shown = text if len(text) <= 40 else f"{text[:30]}… ({len(text)} characters)"
    raise ValueError(f"integer {shown} is beyond 64 bits; put it in quotes")
