"""The schema of a CRD, read as an API server reads it: what it refuses, and what it prunes.

Only the few words that the project's own CRDs use are known; another one is an error, so that no
schema seems to say less than it does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bridge.fields import FieldPath

PRESERVE = "x-kubernetes-preserve-unknown-fields"
_WORDS = {"description", "type", "properties", "items", "required", PRESERVE}
_TYPES: dict[str, type[Any]] = {"object": dict, "array": list, "string": str}

Schema = dict[str, Any]


def schema_of(crd: dict[str, Any]) -> Schema:
    """The schema of the one version that a CRD has."""
    (version,) = crd["spec"]["versions"]
    schema: Schema = version["schema"]["openAPIV3Schema"]
    return schema


def findings(schema: Schema, value: Any, where: str = "") -> Iterator[str]:
    """What is wrong with `value`: fields of another type, absent ones, and unknown ones."""
    if unknown := set(schema) - _WORDS:
        raise AssertionError(f"{where}: the schema says {sorted(unknown)}, not understood here")
    if not isinstance(value, _TYPES[schema["type"]]):
        yield f"{where} is no {schema['type']}"
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from findings(schema["items"], item, f"{where}[{number}]")
    elif isinstance(value, dict):
        yield from _of_fields(schema, value, where)


def _of_fields(schema: Schema, value: dict[str, Any], where: str) -> Iterator[str]:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{where}.{name} is required"
    for name, item in value.items():
        if name in properties:
            yield from findings(properties[name], item, f"{where}.{name}")
        # The server knows metadata by itself.
        elif not schema.get(PRESERVE) and where != ".metadata":
            yield f"{where}.{name} is pruned"


def declared(schema: Schema, path: FieldPath) -> str | None:
    """The type that the schema gives the field at `path`; None where it gives none."""
    at: Schema = schema
    for step in path.steps:
        found = at.get("items") if step is None else at.get("properties", {}).get(step)
        if found is None:
            return None
        at = found
    word: str = at["type"]
    return word
