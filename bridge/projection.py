"""From an object as its server has it to the resource that nodes get: its bytes and its digest.

Pure. A resource is apiVersion, kind, six fields of the metadata, and every other top-level field
but `status`, and `digest`, which is ours. Its digest is that of its sorted encoding without the
digest. Both come from one encoding: `digest` is put between the fields that sort before and after
it, and what is encoded that way is, byte for byte, what encoding it as a whole would give.
"""

from __future__ import annotations

from typing import Any

import orjson

from nodecast.messages.snapshot import sha

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_METADATA = ("uid", "generation", "labels", "annotations")
"""Kept beside the name and the namespace, where an object has them."""
_EMPTY: dict[str, Any] = {}
_SORTED = orjson.OPT_SORT_KEYS


def encode_resource(
    obj: dict[str, Any], metadata: dict[str, Any], namespace: str
) -> tuple[str, bytes]:
    """(digest, encoded resource) of an object that says its apiVersion, kind and name.

    An empty `namespace`: it has none. Raises TypeError for what JSON cannot say.
    """
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    for name, value in obj.items():
        if name < "digest":
            before[name] = value
        elif name > "digest":
            after[name] = value
    after.pop("status", None)
    after["metadata"] = _kept(metadata, namespace)
    # Neither is empty: `apiVersion` sorts before the digest, `kind` after it.
    start = orjson.dumps(before, option=_SORTED)[:-1]
    end = orjson.dumps(after, option=_SORTED)[1:]
    digest = sha(start + b"," + end)
    # Joined into bytes of just their size: what orjson returns holds on to a much larger buffer.
    return digest, b"".join((start, b',"digest":"', digest.encode(), b'",', end))


def _kept(metadata: dict[str, Any], namespace: str) -> dict[str, Any]:
    """The fields of the metadata that are not the server's business alone; none is empty."""
    kept = {"name": metadata["name"]}
    if namespace:
        kept["namespace"] = namespace
    for name in _METADATA:
        value = metadata.get(name)
        if value is not None and value != _EMPTY:
            kept[name] = value
    annotations = kept.get("annotations")
    if isinstance(annotations, dict) and LAST_APPLIED in annotations:
        rest = {k: v for k, v in annotations.items() if k != LAST_APPLIED}
        kept["annotations"] = rest
        if not rest:
            del kept["annotations"]
    return kept
