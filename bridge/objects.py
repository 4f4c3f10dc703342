"""One object of a source, as the bridge keeps it: where it goes, and its encoded resource.

An object is read once, in its source's thread. What cannot be identified raises; what can be
identified and not placed is kept with its `problem`, so that it can be shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from bridge.fields import FieldPath, shape
from bridge.placement import Reference, Rule, Rules
from nodecast.errors import InvalidName, ObjectError
from nodecast.messages.snapshot import resource_digest
from nodecast.messages.version import MAX_NUMBER
from nodecast.names import (
    KindName,
    NodeName,
    ResourceKey,
    kind_name,
    namespace_name,
    node_name,
    object_name,
    resource_key,
    split_api_version,
)

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_METADATA = ("namespace", "name", "uid", "generation", "labels", "annotations")
_NOWHERE: frozenset[NodeName] = frozenset()


class NoRule(ObjectError):
    """The object is of a kind that has no placement rule: skipped."""

    def __init__(self, kind: KindName) -> None:
        super().__init__(f"{kind} has no placement rule")
        self.kind = kind


@dataclass(frozen=True, slots=True)
class ObjectRecord:
    """What the bridge keeps of an object.

    `nodes`: those that it names itself. `carries`, `follows`: the keys it refers to, there or not.
    `encoded`: its resource as it goes into a snapshot. `place`: where it was read, for people.
    `problem`: why it is not placed. `deleting`: it has a deletion timestamp.
    """

    key: ResourceKey
    kind: KindName
    nodes: frozenset[NodeName]
    carries: tuple[ResourceKey, ...]
    follows: tuple[ResourceKey, ...]
    digest: str
    encoded: bytes
    place: str = ""
    problem: str | None = None
    deleting: bool = False

    @property
    def placeable(self) -> bool:
        """False: it belongs nowhere, whatever refers to it."""
        return self.problem is None and not self.deleting


def read_object(
    raw: object, rules: Rules, place: str, default_namespace: str = "default"
) -> ObjectRecord:
    """The record of a decoded object.

    Raises NoRule for a kind without a rule, ObjectError for what has no key or is no JSON.
    """
    kind, rule, obj, metadata = _identify(raw, rules)
    key, namespace = _key(kind, rule, metadata, default_namespace)
    projected = _project(obj, metadata, namespace, rule)
    try:
        digest = resource_digest(projected)
        encoded = orjson.dumps(projected | {"digest": digest}, option=orjson.OPT_SORT_KEYS)
    except TypeError as error:
        raise ObjectError(f"{key} cannot be encoded: {error}") from error
    deleting = bool(metadata.get("deletionTimestamp"))
    try:
        _check_metadata(metadata)
        nodes = frozenset(_nodes(rule, obj))
        carries = _references(rule.carries, obj, namespace, rules)
        follows = _references(rule.follows, obj, namespace, rules)
    except ObjectError as error:
        problem = str(error)
        return ObjectRecord(key, kind, _NOWHERE, (), (), digest, encoded, place, problem, deleting)
    return ObjectRecord(
        key, kind, nodes, carries, follows, digest, encoded, place, deleting=deleting
    )


def _identify(raw: object, rules: Rules) -> tuple[KindName, Rule, dict[str, Any], dict[str, Any]]:
    if not isinstance(raw, dict):
        raise ObjectError(f"is {shape(raw)}, not an object")
    if "apiVersion" not in raw or "kind" not in raw:
        raise ObjectError("has no apiVersion and kind: it is no Kubernetes object")
    try:
        group, _ = split_api_version(raw["apiVersion"])
        kind = kind_name(raw["kind"], group)
    except InvalidName as error:
        raise ObjectError(str(error)) from error
    rule = rules.get(kind)
    if rule is None:
        raise NoRule(kind)
    metadata = raw.get("metadata")
    if not isinstance(metadata, dict):
        raise ObjectError(f"metadata is {shape(metadata)}, not an object")
    return kind, rule, raw, metadata


def _key(
    kind: KindName, rule: Rule, metadata: dict[str, Any], default: str
) -> tuple[ResourceKey, str]:
    try:
        name = object_name(metadata.get("name"))
        given = metadata.get("namespace")
        namespace = default if given is None or given == "" else given
        namespace = namespace_name(namespace) if rule.namespaced else ""
    except InvalidName as error:
        raise ObjectError(f"metadata: {error}") from error
    return resource_key(kind, namespace, name), namespace


def _project(
    obj: dict[str, Any], metadata: dict[str, Any], namespace: str, rule: Rule
) -> dict[str, Any]:
    """The object without what is the server's business.

    It keeps apiVersion, kind, six fields of the metadata, and every other top-level field but
    `status`, and `digest`, which is ours.
    """
    kept = {name: metadata[name] for name in _METADATA if metadata.get(name) not in (None, {})}
    if rule.namespaced:
        kept["namespace"] = namespace
    else:
        kept.pop("namespace", None)
    annotations = kept.get("annotations")
    if isinstance(annotations, dict) and LAST_APPLIED in annotations:
        rest = {k: v for k, v in annotations.items() if k != LAST_APPLIED}
        kept["annotations"] = rest
        if not rest:
            del kept["annotations"]
    projected = {k: v for k, v in obj.items() if k not in ("status", "digest", "metadata")}
    projected["metadata"] = kept
    return projected


def _check_metadata(metadata: dict[str, Any]) -> None:
    """The types that the other side relies on. Raises ObjectError."""
    for name in ("labels", "annotations"):
        table = metadata.get(name)
        if table is None:
            continue
        if not isinstance(table, dict):
            raise ObjectError(f"metadata.{name} is {shape(table)}, not an object")
        for key, value in table.items():
            if not isinstance(value, str):
                raise ObjectError(f"metadata.{name}['{key}'] is {shape(value)}, not a string")
    uid, generation = metadata.get("uid"), metadata.get("generation")
    if uid is not None and not isinstance(uid, str):
        raise ObjectError(f"metadata.uid is {shape(uid)}, not a string")
    if generation is not None and (
        type(generation) is not int or not 0 <= generation <= MAX_NUMBER
    ):
        raise ObjectError(f"metadata.generation is not a number from 0 to {MAX_NUMBER}")


def _nodes(rule: Rule, obj: dict[str, Any]) -> Iterator[NodeName]:
    for where, value in _values(rule.nodes, obj):
        try:
            yield node_name(value)
        except InvalidName as error:
            raise ObjectError(f"{where}: {error}") from error


def _references(
    references: Iterable[Reference], obj: dict[str, Any], namespace: str, rules: Rules
) -> tuple[ResourceKey, ...]:
    found: dict[ResourceKey, None] = {}
    for reference in references:
        target = rules.get(reference.kind)
        inside = namespace if target is None or target.namespaced else ""
        for where, value in _values((reference.path,), obj):
            try:
                found[resource_key(reference.kind, inside, object_name(value))] = None
            except InvalidName as error:
                raise ObjectError(f"{where}: {error}") from error
    return tuple(found)


def _values(paths: Iterable[FieldPath], obj: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """What stands at the paths; an empty string is as good as nothing."""
    for path in paths:
        for where, value in path.values(obj):
            if value != "":
                yield where, value
