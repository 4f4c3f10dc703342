"""A small check of objects against a CRD's schema: types, required and unknown fields.

Pure. Words and order of the complaints are those of a real server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.fakes.answers import Cause

_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_ALWAYS = frozenset({"apiVersion", "kind", "metadata"})


def pruned(schema: Mapping[str, Any], body: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """`body` without what `schema` does not know, and the paths of what went."""
    lost: list[str] = []
    rest = {key: value for key, value in body.items() if key not in _ALWAYS}
    kept = _prune(schema, rest, "", lost)
    always = {key: body[key] for key in body if key in _ALWAYS}
    return always | kept, lost


def _prune(schema: Mapping[str, Any], value: Any, path: str, lost: list[str]) -> Any:
    if isinstance(value, list):
        items = schema.get("items") or {}
        return [_prune(items, each, f"{path}[{n}]", lost) for n, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    properties = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    kept = {}
    for key, each in value.items():
        inner = f"{path}.{key}" if path else key
        if key in properties:
            kept[key] = _prune(properties[key], each, inner, lost)
        elif isinstance(others, dict):
            kept[key] = _prune(others, each, inner, lost)
        elif others is True or schema.get(_PRESERVE):
            kept[key] = each
        else:
            lost.append(inner)
    return kept


def complaints(schema: Mapping[str, Any], body: Mapping[str, Any], update: bool) -> list[Cause]:
    """What `schema` has against `body`; an update's words name only the last part of a field."""
    checked = {key: value for key, value in body.items() if key not in _ALWAYS}
    open_schema = dict(schema)
    open_schema["required"] = [name for name in schema.get("required") or () if name not in _ALWAYS]
    return list(_check(open_schema, checked, "", update))


def _check(schema: Mapping[str, Any], value: Any, path: str, update: bool) -> Iterator[Cause]:
    if value is None and schema.get("nullable"):
        return
    wanted = schema.get("type")
    if wanted and not schema.get("x-kubernetes-int-or-string") and not _is(wanted, value):
        said = path.rpartition(".")[2] if update else path
        found = _type(value)
        words = f'Invalid value: "{found}": {said} in body must be of type {wanted}: "{found}"'
        yield Cause(path, "FieldValueTypeInvalid", words)
        return
    if isinstance(value, list):
        for n, each in enumerate(value):
            yield from _check(schema.get("items") or {}, each, f"{path}[{n}]", update)
    if isinstance(value, dict):
        yield from _check_fields(schema, value, path, update)


def _check_fields(
    schema: Mapping[str, Any], value: Mapping[str, Any], path: str, update: bool
) -> Iterator[Cause]:
    properties = schema.get("properties") or {}
    for key in sorted(properties.keys() & value.keys()):
        inner = f"{path}.{key}" if path else key
        yield from _check(properties[key], value[key], inner, update)
    for key in sorted(schema.get("required") or ()):
        if key not in value:
            yield Cause(f"{path}.{key}" if path else key, "FieldValueRequired", "Required value")


def _type(value: Any) -> str:
    names: dict[type, str] = {
        bool: "boolean",
        int: "integer",
        float: "number",
        str: "string",
        list: "array",
        dict: "object",
    }
    return names.get(type(value), "null")


def _is(wanted: str, value: Any) -> bool:
    found = _type(value)
    if wanted == "number":
        return found in ("number", "integer")
    if wanted == "integer" and found == "number":
        return float(value).is_integer()
    return found == wanted
