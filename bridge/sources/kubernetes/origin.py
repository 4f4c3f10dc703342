"""A Kubernetes cluster as the place where objects come from."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from bridge.lease import Leadership, Terms
from bridge.placement import Rules
from bridge.sources.events import Emit, Source, Survey
from bridge.sources.kubernetes.access import Access
from bridge.sources.kubernetes.api import READ, Api
from bridge.sources.kubernetes.candidate import Candidate
from bridge.sources.kubernetes.failures import ApiFailure, Refusal
from bridge.sources.kubernetes.identity import Identity
from bridge.sources.kubernetes.leases import LeaseClient, Place, why_not
from bridge.sources.kubernetes.scope import Scope, Tuning
from bridge.sources.kubernetes.source import KubernetesSource
from bridge.sources.kubernetes.survey import survey
from nodecast.errors import SourceError
from nodecast.threads import Fail


def _turned(selectors: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(selector, kind) for kind, selector in sorted(selectors.items())]


class ClusterOrigin:
    """One cluster, as one user. `identity`: given by the settings, instead of the cluster's."""

    def __init__(
        self,
        access: Access,
        scope: Scope,
        tuning: Tuning,
        identity: str | None,
        lease: tuple[Place, Terms] | None = None,
    ) -> None:
        """`lease`: the one to be held while in charge, if any. Raises SettingsError where the
        credentials cannot be read."""
        self._access = access
        self._api = Api(access)
        self._scope = scope
        self._tuning = tuning
        self._identity = Identity(self._api)
        self._given = identity
        self._lease = lease

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

    def leadership(self, me: str, changed: Callable[[], None], fail: Fail, /) -> Leadership | None:
        """See `bridge.origin.Origin`."""
        if self._lease is None:
            return None
        place, terms = self._lease
        # A third of the time that there is: one request that hangs costs no right.
        client = LeaseClient(self._api, place, terms.renew / 3)
        return Candidate(client, me, terms, changed, fail, rng=random.SystemRandom())

    def lease(self) -> str | None:
        """See `bridge.origin.Origin`."""
        if self._lease is None:
            return None
        place = self._lease[0]
        try:
            lease = LeaseClient(self._api, place, READ).read()
        except (ApiFailure, Refusal) as error:
            raise SourceError(f"{place}: {why_not(error, place)}") from error
        if lease is None:
            return f"{place}: not there yet"
        if not lease.holder:
            return f"{place}: nobody holds it"
        return f"{place}: held by {lease.holder}, renewed {lease.renewed or 'never'}"

    def survey(self, rules: Rules) -> Survey:
        """One look, for commands."""
        return survey(self._api, self._scope, rules, self._tuning.page)
