"""Snapshot: everything that one node should have.

Resources are encoded once, keys sorted, and shared by all nodes that have them: a snapshot is a
join of bytes, so that equal content gives equal `resources` bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson

from nodecast.errors import InvalidName, Malformed
from nodecast.messages.codec import SCHEMA, Wire, convert, read_object
from nodecast.messages.version import Digest, Number, Version
from nodecast.names import (
    KindName,
    ResourceKey,
    kind_name,
    kind_of,
    namespace_name,
    object_name,
    parse_key,
    parse_kind,
    resource_key,
    split_api_version,
)


@dataclass(frozen=True, slots=True)
class Resource:
    """One object as an agent has it. `body`: its JSON, keys sorted, `digest` included."""

    key: ResourceKey
    digest: str
    body: bytes
    uid: str | None = None
    generation: int | None = None

    @property
    def kind(self) -> KindName:
        return kind_of(self.key)


@dataclass(frozen=True, slots=True)
class Unread:
    """A resource whose key reads and whose rest does not: it counts as omitted."""

    key: ResourceKey
    reason: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was read of a snapshot; `resources` by key, ascending."""

    bridge: str
    instance: str
    node: str
    version: Version
    digest: str
    resources: tuple[Resource, ...]
    held_kinds: frozenset[KindName] = frozenset()
    omitted: frozenset[ResourceKey] = frozenset()
    unread: tuple[Unread, ...] = ()

    @property
    def withheld(self) -> frozenset[ResourceKey]:
        """The keys that belong to the node and did not come: omitted, or unread."""
        return self.omitted | {each.key for each in self.unread}

    def keeps(self, key: ResourceKey) -> bool:
        """Whether the node may keep `key`, although it is not among the resources."""
        return kind_of(key) in self.held_kinds or key in self.withheld


class _Envelope(msgspec.Struct, rename="camel"):
    bridge: str
    instance: str
    node: str
    epoch: Number
    revision: Number
    digest: Digest
    resources: list[Any]
    held_kinds: list[str] = []
    omitted: list[str] = []


class _Metadata(msgspec.Struct):
    name: str
    namespace: str = ""
    uid: str | None = None
    generation: Number | None = None


class _Head(msgspec.Struct):
    digest: Digest
    metadata: _Metadata


def sha(data: bytes) -> str:
    """The digest of the contract: the first 32 hex digits of SHA-256."""
    return hashlib.sha256(data).hexdigest()[:32]


def resource_digest(projected: dict[str, Any]) -> str:
    """The digest of a projected object without its `digest`. Raises TypeError if not JSON."""
    return sha(orjson.dumps(projected, option=orjson.OPT_SORT_KEYS))


def snapshot_digest(digests: Iterable[str], held: Sequence[str], omitted: Sequence[str]) -> str:
    """The digest of a snapshot: of its resources' digests by key, held kinds and omitted keys."""
    return sha(orjson.dumps([list(digests), held, omitted]))


def encode_snapshot(
    *,
    bridge: str,
    instance: str,
    node: str,
    version: Version,
    digest: str,
    resources: Iterable[bytes],
    held: Sequence[str],
    omitted: Sequence[str],
) -> bytes:
    """The body of a snapshot from resources that are encoded already, ascending by key."""
    head = orjson.dumps(
        {
            "schema": SCHEMA,
            "bridge": bridge,
            "instance": instance,
            "node": node,
            "epoch": version.epoch,
            "revision": version.revision,
            "digest": digest,
        }
    )
    tail = orjson.dumps({"heldKinds": held, "omitted": omitted})
    return b"".join((head[:-1], b',"resources":[', b",".join(resources), b"],", tail[1:]))


def decode_snapshot(wire: Wire) -> Snapshot:
    """The snapshot in a payload. Raises MessageError and nothing else.

    One resource that does not read while its key does is set apart as `unread`; one whose key
    cannot be read either makes the whole message malformed.
    """
    envelope = convert(read_object(wire), _Envelope)
    found: dict[ResourceKey, Resource | Unread] = {}
    for index, value in enumerate(envelope.resources):
        each = _resource(value, index)
        if each.key in found:
            raise Malformed(f"resources[{index}]: {each.key} is there twice")
        found[each.key] = each
    try:
        held = frozenset(map(parse_kind, envelope.held_kinds))
        omitted = frozenset(map(parse_key, envelope.omitted))
    except InvalidName as error:
        raise Malformed(f"heldKinds or omitted: {error}") from error
    ordered = [found[key] for key in sorted(found)]
    return Snapshot(
        bridge=envelope.bridge,
        instance=envelope.instance,
        node=envelope.node,
        version=Version(envelope.epoch, envelope.revision),
        digest=envelope.digest,
        resources=tuple(r for r in ordered if isinstance(r, Resource)),
        held_kinds=held,
        omitted=omitted - found.keys(),
        unread=tuple(r for r in ordered if isinstance(r, Unread)),
    )


def _resource(value: object, index: int) -> Resource | Unread:
    key = _key(value, index)
    try:
        head = convert(value, _Head)
        body = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (Malformed, TypeError) as error:
        return Unread(key, str(error))
    return Resource(key, head.digest, body, head.metadata.uid, head.metadata.generation)


def _key(value: object, index: int) -> ResourceKey:
    """The key of a resource on the wire. Raises Malformed."""
    try:
        if not isinstance(value, dict):
            raise Malformed("not an object")
        metadata = value.get("metadata")
        if not isinstance(metadata, dict):
            raise Malformed("metadata is not an object")
        group, _ = split_api_version(value.get("apiVersion"))
        namespace = metadata.get("namespace", "")
        if namespace != "":
            namespace = namespace_name(namespace)
        return resource_key(
            kind_name(value.get("kind"), group), namespace, object_name(metadata.get("name"))
        )
    except (Malformed, InvalidName) as error:
        raise Malformed(f"resources[{index}] has no key that can be read: {error}") from error
