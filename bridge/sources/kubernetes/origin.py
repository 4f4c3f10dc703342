"""A Kubernetes cluster as the place where objects come from."""

from __future__ import annotations

import random
from collections.abc import Mapping

from bridge.placement import Rules
from bridge.sources.events import Emit, Source, Survey
from bridge.sources.kubernetes.access import Access
from bridge.sources.kubernetes.api import Api
from bridge.sources.kubernetes.identity import Identity
from bridge.sources.kubernetes.scope import Scope, Tuning
from bridge.sources.kubernetes.source import KubernetesSource
from bridge.sources.kubernetes.survey import survey
from nodecast.threads import Fail


def _turned(selectors: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(selector, kind) for kind, selector in sorted(selectors.items())]


class ClusterOrigin:
    """One cluster, as one user. `identity`: given by the settings, instead of the cluster's."""

    def __init__(self, access: Access, scope: Scope, tuning: Tuning, identity: str | None) -> None:
        """Raises SettingsError where the credentials cannot be read."""
        self._access = access
        self._api = Api(access)
        self._scope = scope
        self._tuning = tuning
        self._identity = Identity(self._api)
        self._given = identity

    def __str__(self) -> str:
        parts = [str(self._access)]
        if self._scope.namespaces:
            parts.append(f"only in {', '.join(self._scope.namespaces)}")
        selectors = [self._scope.selector, *map(" of ".join, _turned(self._scope.selectors))]
        if any(selectors):
            parts.append(f"only {'; '.join(filter(None, selectors))}")
        return f"{self._api.host} ({'; '.join(parts)})"

    def identity(self) -> str:
        """See `bridge.origin.Origin`."""
        return self._given or self._identity.find_out()

    def source(self, rules: Rules, emit: Emit, fail: Fail) -> Source:
        """The informers, not started."""
        return KubernetesSource(
            self._api,
            self._scope,
            rules,
            emit,
            fail=fail,
            tuning=self._tuning,
            rng=random.SystemRandom(),
            identity=self._identity,
        )

    def survey(self, rules: Rules) -> Survey:
        """One look, for commands."""
        return survey(self._api, self._scope, rules, self._tuning.page)
