"""Where the objects come from: the source that the settings name, and what tells it from another.

The Kubernetes client is imported only where a cluster is the source: it takes some 50 MB.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from bridge.config import BridgeSettings
from bridge.lease import Leadership, Terms
from bridge.placement import Rules
from bridge.sources.events import Emit, Source, Survey
from bridge.sources.kubernetes.scope import Scope, Tuning
from bridge.sources.manifest_files import read_once
from bridge.sources.manifests import ManifestsSource
from nodecast.errors import SettingsError
from nodecast.threads import Fail

if TYPE_CHECKING:
    from bridge.sources.kubernetes.access import Access
    from bridge.sources.kubernetes.leases import Place

MANIFESTS = "manifests"


class Origin(Protocol):
    """A source that has not begun. Its text says which one it is, for people."""

    def identity(self) -> str:
        """What the ledger holds as `source`.

        Raises SettingsError, or SourceError where asking again may help.
        """

    def source(self, rules: Rules, emit: Emit, fail: Fail) -> Source:
        """The source, not started."""

    def leadership(self, me: str, changed: Callable[[], None], fail: Fail, /) -> Leadership | None:
        """The right to be in charge, not asked for yet; None: there is no Lease here, and the
        ledger decides. `me`: a name that no other process has; `changed`: it was won or lost."""

    def lease(self) -> str | None:
        """Who holds the Lease, for people; None where there is none to hold. Raises SourceError."""

    def survey(self, rules: Rules) -> Survey:
        """One look, for commands; what cannot be seen is in `unseen`, with the reason."""


def origin_of(settings: BridgeSettings) -> Origin:
    """The origin that the settings name. Raises SettingsError."""
    if settings.manifests is not None:
        return DirectoryOrigin(
            Path(settings.manifests), settings.manifests_poll, settings.source or MANIFESTS
        )
    return _cluster(settings)


def _cluster(settings: BridgeSettings) -> Origin:
    from bridge.sources.kubernetes.access import Access, in_pod
    from bridge.sources.kubernetes.origin import ClusterOrigin

    if not (settings.kubeconfig or settings.context or settings.namespace or in_pod()):
        raise SettingsError(
            "no source: give --manifests DIR, or --kubeconfig FILE,"
            " or one of them in the settings (in a pod, its own cluster is the source)"
        )
    chosen = settings.kubernetes
    access = Access(settings.kubeconfig, settings.context)
    return ClusterOrigin(
        access,
        Scope(settings.namespaces, chosen.selector, chosen.selectors),
        Tuning(chosen.watch, chosen.resync, chosen.page),
        settings.source,
        _lease(settings, access),
    )


def _lease(settings: BridgeSettings, access: Access) -> tuple[Place, Terms] | None:
    """Where the Lease is, and its times; None: without one. Raises SettingsError."""
    from bridge.sources.kubernetes.access import pod_namespace
    from bridge.sources.kubernetes.leases import Place

    chosen = settings.lease
    if chosen.mode == "off" or (chosen.mode == "auto" and not access.in_cluster):
        return None
    namespace = chosen.namespace
    if namespace is None and not access.in_cluster:
        raise SettingsError(
            "lease.namespace: outside of a pod it must be given, the same for every instance"
        )
    name = chosen.name or f"nodecast-bridge-{settings.bridge}"
    return Place(namespace or pod_namespace(), name), chosen.terms


class DirectoryOrigin:
    """A directory of manifests."""

    def __init__(self, directory: Path, poll: float, identity: str) -> None:
        self._directory = directory
        self._poll = poll
        self._identity = identity

    def __str__(self) -> str:
        return f"manifests {self._directory}"

    def identity(self) -> str:
        return self._identity

    def source(self, rules: Rules, emit: Emit, fail: Fail) -> Source:
        return ManifestsSource(self._directory, rules, emit, fail=fail, poll=self._poll)

    def leadership(self, *_: object) -> Leadership | None:
        return None

    def lease(self) -> str | None:
        return None

    def survey(self, rules: Rules) -> Survey:
        reading = read_once(self._directory, rules)
        unseen = {} if reading.complete else dict.fromkeys(rules.kinds, reading.reason)
        return Survey(reading.objects, reading.problems, reading.skipped, unseen)
