"""One Lease (coordination.k8s.io/v1) over HTTP: read, create, replace.

A write goes over a version or fails with 409, so that of two candidates one wins. Any thread; each
call waits for the server for about `within` seconds at the most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bridge.lease import Lease, Write
from bridge.sources.kubernetes.api import Api
from bridge.sources.kubernetes.failures import ApiFailure, Refusal

_API = "/apis/coordination.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class Place:
    """Where the Lease is."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class LeaseClient:
    """Reads and writes the Lease at `place`."""

    def __init__(self, api: Api, place: Place, within: float) -> None:
        self._api = api
        self.place = place
        self._within = within
        self._collection = f"{_API}/namespaces/{place.namespace}/leases"

    def read(self) -> Lease | None:
        """The Lease; None: there is none. Raises ApiFailure, or Refusal."""
        try:
            return self._lease(self._call("GET", self._path))
        except Refusal as refusal:
            if refusal.status == 404:
                return None
            raise

    def write(self, wanted: Write, time: str) -> Lease:
        """Create or replace it; `time`: now, as RFC 3339 with six digits after the second.

        Raises ApiFailure or Refusal: 409 where it is another one by now, 404 where it is gone.
        What comes back with another holder, after whatever changes objects on their way into the
        server, is a failure: nobody has a right by it.
        """
        old = wanted.old
        transitions = 0 if old is None else old.transitions + wanted.anew
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self.place.name} if old is None else old.metadata,
            "spec": {
                "holderIdentity": wanted.holder,
                "leaseDurationSeconds": wanted.duration,
                "acquireTime": time if old is None or wanted.anew else old.acquired or time,
                "renewTime": time,
                "leaseTransitions": transitions,
            },
        }
        if old is None:
            answer = self._call("POST", self._collection, body)
        else:
            answer = self._call("PUT", self._path, body)
        lease = self._lease(answer)
        if lease.holder != wanted.holder:
            raise ApiFailure(
                f"{self._api.host}: a Lease that was written for {wanted.holder!r} came back as"
                f" {lease.holder!r}'s: look for an admission webhook that changes Leases"
            )
        return lease

    @property
    def _path(self) -> str:
        return f"{self._collection}/{self.place.name}"

    def _call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        return self._api.call(method, path, body, within=self._within)

    def _lease(self, answer: dict[str, Any]) -> Lease:
        metadata, spec = answer.get("metadata"), answer.get("spec") or {}
        if answer.get("kind") != "Lease":
            raise ApiFailure(f"{self._api.host}: an answer is no Lease")
        if not isinstance(metadata, dict) or not isinstance(spec, dict):
            raise ApiFailure(f"{self._api.host}: an answer is no Lease")
        if not (version := _text(metadata, "resourceVersion")):
            raise ApiFailure(f"{self._api.host}: a Lease has no version")
        duration = spec.get("leaseDurationSeconds")
        transitions = spec.get("leaseTransitions")
        return Lease(
            holder=_text(spec, "holderIdentity"),
            duration=float(duration) if type(duration) is int else None,
            acquired=_text(spec, "acquireTime"),
            renewed=_text(spec, "renewTime"),
            transitions=transitions if type(transitions) is int else 0,
            version=version,
            metadata=metadata,
        )


def _text(of: Mapping[str, Any], field: str) -> str:
    value = of.get(field)
    return value if isinstance(value, str) else ""


def why_not(error: Exception, place: Place) -> str:
    """What is wrong with a Lease, and what to do: one stable line."""
    if isinstance(error, Refusal) and error.status == 403:
        return (
            f"{error.message}: grant get, create and update on leases (coordination.k8s.io) in the"
            f" namespace {place.namespace}, or set lease.mode to off for a single bridge"
        )
    if isinstance(error, Refusal) and error.status == 404:
        return f"{error.message}: create the namespace {place.namespace}, or see lease.namespace"
    return str(error)
