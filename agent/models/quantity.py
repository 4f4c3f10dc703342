"""Kubernetes quantities, compared by what they say: `1Gi`, `1024Mi` and 1073741824 are equal.

The grammar is that of k8s.io/apimachinery `resource.Quantity`. Values are exact fractions; text and
exponent are bounded, so that no spelling costs more than a few machine words. Pure.
"""

from __future__ import annotations

import re
from fractions import Fraction

from nodecast.errors import InvalidQuantity

MAX_TEXT = 64
"""Characters; the greatest quantity that Kubernetes keeps has 19 digits."""
MAX_EXPONENT = 64
"""Of ten, either way: far beyond any memory, and far below what would be slow to compute."""

_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]+))?"
)
_SUFFIXES = {
    **{f"{prefix}i": Fraction(1024**power) for power, prefix in enumerate("KMGTPE", start=1)},
    **{prefix: Fraction(1000**power) for power, prefix in enumerate("kMGTPE", start=1)},
    **{prefix: Fraction(1, 1000**power) for power, prefix in enumerate("mun", start=1)},
}


def quantity(value: object) -> Fraction:
    """The exact value of a quantity, given as a string or a number. Raises InvalidQuantity."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidQuantity(f"{type(value).__name__} is no quantity such as '1Gi'")
    if isinstance(value, int) and value.bit_length() > 4 * MAX_TEXT:
        raise InvalidQuantity(f"a number of {value.bit_length()} bits is no quantity")
    text = str(value)
    if len(text) > MAX_TEXT:
        raise InvalidQuantity(f"{text[:20]!r}… has {len(text)} characters, {MAX_TEXT} at most")
    found = _QUANTITY.fullmatch(text)
    if found is None:
        raise InvalidQuantity(f"{text!r} is no quantity such as '1Gi', '500M' or '1e9'")
    return Fraction(found["number"]) * _scale(found["suffix"], found["exponent"], text)


def _scale(suffix: str | None, exponent: str | None, text: str) -> Fraction:
    if suffix is not None:
        return _SUFFIXES[suffix]
    power = int(exponent or 0)
    if abs(power) > MAX_EXPONENT:
        raise InvalidQuantity(f"{text!r} has an exponent beyond {MAX_EXPONENT}")
    return Fraction(10) ** power
