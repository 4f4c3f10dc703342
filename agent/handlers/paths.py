"""Where the file of a resource is in the tree: `<Kind>.<group>/<namespace>/<name>.json`.

Pure. The parts of a key hold no `/` and do not start with a dot (their names were checked), so
different keys have different paths, and none leads out of the tree.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from nodecast.names import ResourceKey, split_key

SUFFIX = ".json"
NO_NAMESPACE = "_"
MAX_PART = 200
"""Bytes of a part that stands as it is; file systems take 255 in all."""
_HEAD = 180
_HASH = 16


class TreePath(NamedTuple):
    """A file of the tree, relative to its root."""

    kind: str
    namespace: str
    file: str

    @property
    def directory(self) -> tuple[str, str]:
        """The names that lead to the directory of the file."""
        return (self.kind, self.namespace)

    def __str__(self) -> str:
        return "/".join(self)


def path_of(key: ResourceKey) -> TreePath:
    """The path of the file of `key`; `.json` follows the name's part, whatever its length."""
    kind, namespace, name = split_key(key)
    return TreePath(_part(kind), _part(namespace) or NO_NAMESPACE, _part(name) + SUFFIX)


def _part(text: str) -> str:
    encoded = text.encode()
    if len(encoded) <= MAX_PART:
        return text
    return (
        f"{encoded[:_HEAD].decode(errors='ignore')}~{hashlib.sha256(encoded).hexdigest()[:_HASH]}"
    )
