"""What tells one cluster from another: the UID of its `kube-system` namespace."""

from __future__ import annotations

from typing import Any

from bridge.sources.kubernetes.api import Api
from bridge.sources.kubernetes.failures import ApiFailure, Refusal
from nodecast.errors import SettingsError


class AnotherCluster(SettingsError):
    """What answers is not the cluster that the bridge began with."""


_PATH = "/api/v1/namespaces/kube-system"


def cluster_uid(api: Api) -> str:
    """The UID.

    Raises SettingsError where it may not be read, so that the setting `source` must be given;
    ApiFailure or Refusal where asking again may help.
    """
    try:
        answer = api.read(_PATH)
    except Refusal as refusal:
        if refusal.status not in (403, 404):
            raise
        raise SettingsError(
            "source: the UID of the namespace kube-system, which tells this cluster from another,"
            f" may not be read ({refusal.message}): grant get on it, or give the setting source"
        ) from refusal
    return uid_of(api, answer)


def uid_of(api: Api, namespace: dict[str, Any]) -> str:
    """Of a namespace as it was answered. Raises ApiFailure."""
    metadata = namespace.get("metadata")
    uid = metadata.get("uid") if isinstance(metadata, dict) else None
    if not isinstance(uid, str) or not uid:
        raise ApiFailure(f"{api.host}: the namespace kube-system has no uid")
    return uid


class Identity:
    """Which cluster this is, once it is known. Any thread."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._uid: str | None = None

    def find_out(self) -> str:
        """The UID, from now on the only one. Raises what `cluster_uid` raises."""
        self._uid = cluster_uid(self._api)
        return self._uid

    def confirm(self) -> None:
        """Where it is known: that it still is the same cluster. Raises AnotherCluster, and Refusal
        or ApiFailure where that cannot be said."""
        if self._uid is None:
            return
        uid = uid_of(self._api, self._api.read(_PATH))
        if uid != self._uid:
            raise AnotherCluster(
                f"{self._api.host} is another cluster by now (the UID of kube-system is {uid}, it"
                f" was {self._uid}): see the kubeconfig, or start the bridge anew for that one"
            )
