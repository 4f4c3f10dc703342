"""The Kubernetes source in the test's process, on a test's corner of a cluster."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bridge.catalog import Catalog
from bridge.placement import Rules
from bridge.sources.events import KindStatus, Listed
from bridge.sources.kubernetes.access import Access
from bridge.sources.kubernetes.api import Api, Response
from bridge.sources.kubernetes.scope import Scope, Tuning
from bridge.sources.kubernetes.source import KubernetesSource
from nodecast.backoff import Backoff
from tests.support.clusters import Cluster
from tests.support.informing import Lines, Told, logging_to
from tests.support.wait import eventually

TUNING = Tuning(
    watch=4.0, grace=1.0, silence=2.0, page=50, backoff=Backoff(first=0.1, most=1.0), lasted=0.5
)
"""Watches of 3 to 4 seconds; quick pauses."""
Placed = dict[str, set[str]]
"""What is on each node: `Camera/a`, with the namespace in front where it is the other one."""


class Sourcing:
    """A source that runs."""

    def __init__(self, cluster: Cluster, rules: Rules, source: KubernetesSource) -> None:
        self.cluster, self.rules, self.source = cluster, rules, source
        self.told, self.log = Told(), Lines()

    def placed(self) -> Placed:
        """Where everything that is known belongs."""
        catalog = Catalog(self.rules)
        catalog.apply({record.key: record for record in list(self.told.objects.values())})
        return {
            node: {self._short(record.key) for record in catalog.on_node(node)}
            for node in catalog.nodes()
        }

    def should_be(self, expected: Mapping[str, Collection[str]], within: float = 20.0) -> None:
        """Wait until each node has this, and no other node has anything."""
        wanted = {node: set(names) for node, names in expected.items()}
        eventually(
            lambda: self.placed() == wanted,
            within,
            what=f"{wanted}, not {self.placed()}: {self.log.warnings}",
        )

    def listed(self, *kinds: str, status: KindStatus = KindStatus.OK) -> None:
        """Wait until these kinds (none: all) have this status."""
        wanted = [self.cluster.kind(each) for each in kinds] or list(self.rules.kinds)
        eventually(
            lambda: all(self.told.statuses.get(kind) is status for kind in wanted),
            20,
            what=f"{wanted} are {status}: {self.told.statuses}, {self.log.warnings}",
        )

    def reason(self, kind: str) -> str:
        """What was said of a kind last."""
        return self.of(kind)[-1].reason

    def of(self, kind: str) -> list[Listed]:
        """All that was told of a kind as a whole."""
        return [each for each in self.told.lists if each.kind == self.cluster.kind(kind)]

    def digest(self, kind: str, name: str) -> str:
        """Of an object that is known."""
        return self.told.objects[self.cluster.key(kind, name)].digest

    def _short(self, key: str) -> str:
        kind, namespace, name = key.split("/")
        prefix = f"{namespace}/" if namespace != self.cluster.namespace else ""
        return f"{prefix}{kind.partition('.')[0]}/{name}"


class HookedApi(Api):
    """Calls `before` ahead of every request, with its query."""

    before: Callable[[Mapping[str, str]], None] | None = None

    @contextmanager
    def open(
        self, path: str, query: Mapping[str, str], *, read: float = 30.0
    ) -> Iterator[Response]:
        if self.before is not None:
            self.before(query)
        with super().open(path, query, read=read) as response:
            yield response


@contextmanager
def sourcing(
    cluster: Cluster,
    *,
    kubeconfig: Path | None = None,
    scope: Scope | None = None,
    tuning: Tuning = TUNING,
    before: Callable[[Mapping[str, str]], None] | None = None,
) -> Iterator[Sourcing]:
    """A source of our kinds in the first namespace; as the admin, if nothing else is said.

    Raises AssertionError where a thread of it failed.
    """
    api = HookedApi(Access(str(kubeconfig or cluster.kubeconfig())))
    api.before = before
    told = Told()
    rules = cluster.rules
    source = KubernetesSource(
        api,
        scope or Scope((cluster.namespace,)),
        rules,
        told.emit,
        fail=told.crashes.append,
        tuning=tuning,
        rng=random.Random(7),
    )
    running = Sourcing(cluster, rules, source)
    running.told = told
    with logging_to(running.log):
        source.start()
        try:
            yield running
        finally:
            source.stop()
    assert told.crashes == []
