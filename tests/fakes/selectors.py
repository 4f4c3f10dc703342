"""Label selectors (`a=b,c!=d,e in (f,g),h,!i`) and the field selectors that name one object.

Pure: a selector is parsed once a request and asked once an object.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tests.fakes.answers import bad_request

_SET = re.compile(r"^(?P<key>\S+)\s+(?P<op>in|notin)\s*\((?P<values>[^)]*)\)$")
_EQUAL = re.compile(r"^(?P<key>[^=!\s]+)\s*(?P<op>==|=|!=)\s*(?P<value>\S*)$")
_PRESENT = re.compile(r"^(?P<not>!?)\s*(?P<key>[^=!\s()]+)$")
_COMMA = re.compile(r",(?![^(]*\))")


@dataclass(frozen=True, slots=True)
class Term:
    """`wanted`: whether a label with one of `values` (None: any) must be there, or must not."""

    key: str
    values: frozenset[str] | None
    wanted: bool

    def fits(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        found = value is not None and (self.values is None or value in self.values)
        return found == self.wanted


@dataclass(frozen=True, slots=True)
class Selector:
    """All terms must fit; without terms everything does."""

    terms: tuple[Term, ...] = ()

    def fits(self, labels: Mapping[str, str]) -> bool:
        return all(term.fits(labels) for term in self.terms)

    def __bool__(self) -> bool:
        return bool(self.terms)


def parse(text: str) -> Selector:
    """The selector that `text` says; `Refused` (400) for what is none."""
    if not text.strip():
        return Selector()
    return Selector(tuple(_term(part.strip(), text) for part in _COMMA.split(text)))


def _term(part: str, whole: str) -> Term:
    if match := _SET.match(part):
        values = frozenset(value.strip() for value in match["values"].split(","))
        return Term(match["key"], values, match["op"] == "in")
    if match := _EQUAL.match(part):
        return Term(match["key"], frozenset({match["value"]}), match["op"] != "!=")
    if match := _PRESENT.match(part):
        return Term(match["key"], None, not match["not"])
    raise bad_request(f"unable to parse requirement: {part!r} in {whole!r}")


def names(text: str) -> dict[str, str]:
    """`metadata.name` and `metadata.namespace` of a field selector; `Refused` for other fields."""
    wanted: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        key, _, value = part.replace("==", "=").partition("=")
        if key not in ("metadata.name", "metadata.namespace"):
            raise bad_request(f"field label not supported: {key}")
        wanted[key] = value
    return wanted
