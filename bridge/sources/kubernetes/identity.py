"""What tells one cluster from another: the UID of its `kube-system` namespace."""

from __future__ import annotations

from bridge.sources.kubernetes.api import Api
from bridge.sources.kubernetes.failures import ApiFailure, Refusal
from nodecast.errors import SettingsError

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
    metadata = answer.get("metadata")
    uid = metadata.get("uid") if isinstance(metadata, dict) else None
    if not isinstance(uid, str) or not uid:
        raise ApiFailure(f"{api.host}: the namespace kube-system has no uid")
    return uid
