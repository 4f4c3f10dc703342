"""What a real server adds to and refuses of the built-in kinds: Leases, Events, namespaces.

Pure but for the body that is given: defaults are filled in it. Raises `Refused`.
"""

from __future__ import annotations

import re

from tests.fakes.answers import Cause, bad_request, invalid
from tests.fakes.resources import EVENTS, LEASES, NAMESPACES, Body, Resource

_TO_SECOND = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_MICROSECONDS = re.compile(r"^\.\d{6}(Z|[+-]\d\d:\d\d)$")
_NAME = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_NAME_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' "
    "or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex "
    "used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def check_name(resource: Resource, name: str) -> None:
    """Names are DNS-1123 subdomains of at most 253 characters (RBAC kinds name freely)."""
    if resource.group == "rbac.authorization.k8s.io":
        return
    if not _NAME.match(name) or len(name) > 253:
        words = f'Invalid value: "{name}": {_NAME_RULE}'
        raise invalid(resource, name, [Cause("metadata.name", "FieldValueInvalid", words)])


def decode(resource: Resource, body: Body) -> None:
    """What goes wrong before anything else is looked at: 400 for a time that does not parse."""
    spec = body.get("spec")
    if resource is LEASES and isinstance(spec, dict):
        for field in ("acquireTime", "renewTime"):
            if spec.get(field) is not None:
                spec[field] = _micro_time(spec[field])


def complete(resource: Resource, body: Body) -> None:
    """Fill in what the server fills in, and refuse what it refuses."""
    if resource is LEASES:
        _lease(body)
    elif resource is EVENTS:
        _event(body)
    elif resource is NAMESPACES:
        name = body["metadata"]["name"]
        body["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name
        body.setdefault("spec", {"finalizers": ["kubernetes"]})
        body.setdefault("status", {"phase": "Active"})


def _lease(body: Body) -> None:
    spec = body.setdefault("spec", {})
    if spec.get("leaseDurationSeconds", 1) <= 0:
        seconds = spec["leaseDurationSeconds"]
        words = f"Invalid value: {seconds}: must be greater than 0"
        cause = Cause("spec.leaseDurationSeconds", "FieldValueInvalid", words)
        raise invalid(LEASES, body["metadata"]["name"], [cause])


def _micro_time(text: str) -> str:
    """A MicroTime has exactly six digits after the second (client-go's RFC3339Micro)."""
    seconds = _TO_SECOND.match(text)
    rest = text[seconds.end() :] if seconds else text
    if not seconds or not _MICROSECONDS.match(rest):
        raise bad_request(
            'Lease in version "v1" cannot be handled as a Lease: parsing time '
            f'"{text}" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "{rest}" as ".000000"'
        )
    return text.replace("+00:00", "Z")


def _event(body: Body) -> None:
    about = body.setdefault("involvedObject", {})
    if about.get("namespace", "") != body["metadata"]["namespace"]:
        words = f'Invalid value: "{about.get("namespace", "")}": does not match event.namespace'
        cause = Cause("involvedObject.namespace", "FieldValueInvalid", words)
        raise invalid(EVENTS, body["metadata"]["name"], [cause])
    body.setdefault("source", {})
    for field, value in (
        ("eventTime", None),
        ("reportingComponent", ""),
        ("reportingInstance", ""),
    ):
        body.setdefault(field, value)
