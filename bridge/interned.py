"""Names of objects, checked once, and one value of each shared by all who have it.

A fleet has few names next to the objects and events that say them: checking a name costs more than
looking it up, and a set for each object's node more than the node's name. What is remembered is
bounded; a name that is forgotten is checked anew. Any thread.

All of these raise InvalidName, and TypeError for what has no hash: a list or an object where a name
should be.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

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

NOWHERE: frozenset[NodeName] = frozenset()


@lru_cache(256)
def kind_of_object(api_version: object, kind: object) -> KindName:
    """The kind of an object that says these of itself."""
    group, _ = split_api_version(api_version)
    return kind_name(kind, group)


@lru_cache(1024)
def namespace(value: object) -> str:
    """A checked namespace."""
    return namespace_name(value)


@lru_cache(4096)
def target(kind: KindName, namespace: str, name: object) -> ResourceKey:
    """The key of an object that another one refers to by `name`."""
    return resource_key(kind, namespace, object_name(name))


def nodes(names: Sequence[object]) -> frozenset[NodeName]:
    """The set of some node names."""
    if len(names) == 1:
        return _alone(names[0])
    return NOWHERE.union(*map(_alone, names))


@lru_cache(2**15)
def _alone(name: object) -> frozenset[NodeName]:
    return frozenset((node_name(name),))
