"""The names that both sides use: nodes, kinds, resource keys, bridges.

All of them come from outside and end up in topics and file paths, so a value of one of these types
exists only after its check. The rules are Kubernetes' own (DNS-1123 of RFC 1123 §2.1 as in
k8s.io/apimachinery `validation`), so that whatever a cluster accepts as a node is a topic level.
"""

from __future__ import annotations

import re
import reprlib
from typing import NewType

from nodecast.errors import InvalidName

NodeName = NewType("NodeName", str)
"""A DNS-1123 subdomain: lower case letters, digits, `-` and `.`, at most 253 characters."""

BridgeName = NewType("BridgeName", str)
"""A DNS-1123 subdomain that tells one bridge from another on the same broker."""

KindName = NewType("KindName", str)
"""`<Kind>.<group>`, or `<Kind>` for the core group: `Dataset.sedna.io`, `ConfigMap`."""

ResourceKey = NewType("ResourceKey", str)
"""`<Kind>.<group>/<namespace>/<name>`; an empty namespace for what is cluster-scoped."""

_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_DNS_LABEL = re.compile(_LABEL)
_KIND = re.compile(r"[A-Za-z](?:[-A-Za-z0-9]{0,61}[A-Za-z0-9])?")
MAX_SUBDOMAIN = 253
MAX_LABEL = 63


def _show(value: object) -> str:
    """The value as it may stand in an error: quoted, never long, however deep it is."""
    text = repr(value) if isinstance(value, str) else reprlib.repr(value)
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text)} characters)"


def _subdomain(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise InvalidName(f"{what} {_show(value)} is {type(value).__name__}, not a string")
    if len(value) > MAX_SUBDOMAIN:
        raise InvalidName(f"{what} {_show(value)} is longer than {MAX_SUBDOMAIN} characters")
    if not _SUBDOMAIN.fullmatch(value):
        raise InvalidName(
            f"{what} {_show(value)} is not a DNS-1123 subdomain"
            " (lower case letters, digits, '-' and '.')"
        )
    return value


def node_name(value: object) -> NodeName:
    """Check `value` as a node name. Raises InvalidName."""
    return NodeName(_subdomain(value, "node name"))


def bridge_name(value: object) -> BridgeName:
    """Check `value` as a bridge name. Raises InvalidName."""
    return BridgeName(_subdomain(value, "bridge name"))


def object_name(value: object) -> str:
    """Check `value` as the name of a custom resource. Raises InvalidName."""
    return _subdomain(value, "name")


def namespace_name(value: object) -> str:
    """Check `value` as a namespace (a DNS-1123 label). Raises InvalidName."""
    if not isinstance(value, str):
        raise InvalidName(f"namespace {_show(value)} is {type(value).__name__}, not a string")
    if len(value) > MAX_LABEL or not _DNS_LABEL.fullmatch(value):
        raise InvalidName(f"namespace {_show(value)} is not a DNS-1123 label of at most 63")
    return value


def kind_name(kind: object, group: object) -> KindName:
    """`<Kind>.<group>` of a kind and its group (`''`: core). Raises InvalidName."""
    if not isinstance(kind, str) or not _KIND.fullmatch(kind):
        raise InvalidName(f"kind {_show(kind)} is not a Kubernetes kind such as 'Dataset'")
    if group == "":
        return KindName(kind)
    return KindName(f"{kind}.{_subdomain(group, 'API group')}")


def parse_kind(value: object) -> KindName:
    """Check `value` as `<Kind>.<group>` or `<Kind>`. Raises InvalidName."""
    if not isinstance(value, str):
        raise InvalidName(f"kind {_show(value)} is {type(value).__name__}, not a string")
    kind, dot, group = value.partition(".")
    if dot and not group:
        raise InvalidName(f"kind {_show(value)} has an empty API group")
    return kind_name(kind, group)


def resource_key(kind: KindName, namespace: str, name: str) -> ResourceKey:
    """The key of an object whose parts were checked."""
    return ResourceKey(f"{kind}/{namespace}/{name}")


def parse_key(value: object) -> ResourceKey:
    """Check `value` as a resource key. Raises InvalidName."""
    if not isinstance(value, str):
        raise InvalidName(f"key {_show(value)} is {type(value).__name__}, not a string")
    parts = value.split("/")
    if len(parts) != 3:
        raise InvalidName(f"key {_show(value)} is not <Kind>.<group>/<namespace>/<name>")
    parse_kind(parts[0])
    if parts[1]:
        namespace_name(parts[1])
    object_name(parts[2])
    return ResourceKey(value)


def kind_of(key: ResourceKey) -> KindName:
    """The kind of a checked key."""
    return KindName(key.partition("/")[0])


def split_key(key: ResourceKey) -> tuple[KindName, str, str]:
    """(kind, namespace, name) of a checked key."""
    kind, namespace, name = key.split("/")
    return KindName(kind), namespace, name


def split_api_version(value: object) -> tuple[str, str]:
    """(group, version) of an `apiVersion`: `sedna.io/v1alpha1`, or `v1` for core.

    Raises InvalidName.
    """
    if not isinstance(value, str) or not value:
        raise InvalidName(f"apiVersion {_show(value)} is not <group>/<version>")
    group, slash, version = value.rpartition("/")
    if slash:
        _subdomain(group, "API group")
    if not _DNS_LABEL.fullmatch(version):
        raise InvalidName(f"apiVersion {_show(value)} has no version such as 'v1'")
    return group, version
