"""From a decoded object of a source to its record: where it goes, and its encoded resource.

An object is read once, by its source. What cannot be identified raises; what can be
identified and not placed is kept with its `problem`, so that it can be shown.

Reading is what a list costs. So names that come again and again are checked once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from bridge import interned
from bridge.fields import FieldPath, shape
from bridge.interned import NOWHERE
from bridge.placement import Reference, Rule, Rules
from bridge.projection import encode_resource
from bridge.record import UNSENDABLE, ObjectRecord
from nodecast.errors import InvalidName, ObjectError
from nodecast.messages.version import MAX_NUMBER
from nodecast.names import (
    KindName,
    NodeName,
    ResourceKey,
    node_name,
    object_name,
    resource_key,
)


class NoRule(ObjectError):
    """The object is of a kind that has no placement rule: skipped."""

    def __init__(self, kind: KindName) -> None:
        super().__init__(f"{kind} has no placement rule")
        self.kind = kind


def read_object(
    raw: object,
    rules: Rules,
    place: str,
    default_namespace: str | None = "default",
    *,
    unsendable: bool = False,
) -> ObjectRecord:
    """The record of a decoded object.

    `default_namespace` is that of an object which should name one and does not; None: it is
    refused. `unsendable`: what cannot be encoded (more than 254 levels) has a record all the same.
    Raises NoRule for a kind without a rule, ObjectError for what has no key or is no JSON.
    """
    rule, obj, metadata = _identify(raw, rules)
    key, namespace = _key(rule, metadata, default_namespace)
    try:
        digest, encoded = encode_resource(obj, metadata, namespace)
    except TypeError as error:
        if not unsendable:
            raise ObjectError(f"{key} cannot be encoded: {error}") from error
        digest, encoded = "", UNSENDABLE
    nodes, problem = NOWHERE, None
    carries: tuple[ResourceKey, ...] = ()
    follows: tuple[ResourceKey, ...] = ()
    try:
        _check_metadata(metadata)
        nodes, carries, follows = _placement(rule, obj, namespace, rules)
    except ObjectError as error:
        problem = str(error)
    version = metadata.get("resourceVersion")
    return ObjectRecord(
        key,
        rule.kind,
        nodes,
        carries,
        follows,
        digest,
        encoded,
        place,
        problem,
        bool(metadata.get("deletionTimestamp")),
        version if isinstance(version, str) else "",
    )


def _identify(raw: object, rules: Rules) -> tuple[Rule, dict[str, Any], dict[str, Any]]:
    if not isinstance(raw, dict):
        raise ObjectError(f"is {shape(raw)}, not an object")
    if "apiVersion" not in raw or "kind" not in raw:
        raise ObjectError("has no apiVersion and kind: it is no Kubernetes object")
    try:
        kind = interned.kind_of_object(raw["apiVersion"], raw["kind"])
    except TypeError as error:
        raise ObjectError("apiVersion or kind is not a string") from error
    except InvalidName as error:
        raise ObjectError(str(error)) from error
    rule = rules.get(kind)
    if rule is None:
        raise NoRule(kind)
    metadata = raw.get("metadata")
    if not isinstance(metadata, dict):
        raise ObjectError(f"metadata is {shape(metadata)}, not an object")
    return rule, raw, metadata


def _key(rule: Rule, metadata: dict[str, Any], default: str | None) -> tuple[ResourceKey, str]:
    """The key and, apart, the namespace (empty: cluster-scoped)."""
    namespace = ""
    given = metadata.get("namespace")
    try:
        name = object_name(metadata.get("name"))
        if rule.namespaced:
            if given is None or given == "":
                given = default
            if given is None:
                raise ObjectError(f"{rule.kind} '{name}' has no metadata.namespace")
            namespace = interned.namespace(given)
    except TypeError as error:
        raise ObjectError(f"metadata: namespace is {shape(given)}, not a string") from error
    except InvalidName as error:
        raise ObjectError(f"metadata: {error}") from error
    return resource_key(rule.kind, namespace, name), namespace


def _check_metadata(metadata: dict[str, Any]) -> None:
    """The types that the other side relies on. Raises ObjectError."""
    for name in ("labels", "annotations"):
        table = metadata.get(name)
        if table is None:
            continue
        if not isinstance(table, dict):
            raise ObjectError(f"metadata.{name} is {shape(table)}, not an object")
        for value in table.values():
            if not isinstance(value, str):
                key = next(key for key in table if table[key] is value)
                raise ObjectError(f"metadata.{name}['{key}'] is {shape(value)}, not a string")
    uid, generation = metadata.get("uid"), metadata.get("generation")
    if uid is not None and not isinstance(uid, str):
        raise ObjectError(f"metadata.uid is {shape(uid)}, not a string")
    if generation is not None and (
        type(generation) is not int or not 0 <= generation <= MAX_NUMBER
    ):
        raise ObjectError(f"metadata.generation is not a number from 0 to {MAX_NUMBER}")


def _placement(
    rule: Rule, obj: dict[str, Any], namespace: str, rules: Rules
) -> tuple[frozenset[NodeName], tuple[ResourceKey, ...], tuple[ResourceKey, ...]]:
    """Nodes, and the keys of what is carried and followed. Raises ObjectError."""
    return (
        _nodes(rule.nodes, obj),
        _references(rule.carries, obj, namespace, rules) if rule.carries else (),
        _references(rule.follows, obj, namespace, rules) if rule.follows else (),
    )


def _nodes(paths: Iterable[FieldPath], obj: dict[str, Any]) -> frozenset[NodeName]:
    names = [name for path in paths for name in path.found(obj) if name != ""]
    if not names:
        return NOWHERE
    try:
        return interned.nodes(names)
    except (InvalidName, TypeError) as error:
        raise _blamed(error, paths, obj, node_name) from error


def _references(
    references: Iterable[Reference], obj: dict[str, Any], namespace: str, rules: Rules
) -> tuple[ResourceKey, ...]:
    found: list[ResourceKey] = []
    for reference in references:
        inside = namespace if rules.namespaced(reference.kind) else ""
        for name in reference.path.found(obj):
            if name != "":
                try:
                    found.append(interned.target(reference.kind, inside, name))
                except (InvalidName, TypeError) as error:
                    raise _blamed(error, (reference.path,), obj, object_name) from error
    return tuple(found) if len(found) < 2 else tuple(dict.fromkeys(found))


def _blamed(
    error: Exception,
    paths: Iterable[FieldPath],
    obj: dict[str, Any],
    check: Callable[[object], str],
) -> ObjectError:
    """The error with where in the object the name stands: looked for only once one is wrong."""
    for path in paths:
        for where, value in path.values(obj):
            try:
                if value != "":
                    check(value)
            except InvalidName as first:
                return ObjectError(f"{where}: {first}")
    return ObjectError(str(error))
