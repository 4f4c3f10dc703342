"""One look at a cluster, for commands: every kind listed, and its watch tried."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridge.placement import Rule, Rules
from bridge.record import ObjectRecord
from bridge.sources.events import Problem, Survey
from bridge.sources.kubernetes.answers import Garbled, pages_of, selection
from bridge.sources.kubernetes.api import Api
from bridge.sources.kubernetes.discovery import find
from bridge.sources.kubernetes.failures import ApiFailure, Refusal, Unreachable
from bridge.sources.kubernetes.reasons import in_words, why_held
from bridge.sources.kubernetes.resources import Resource
from bridge.sources.kubernetes.scope import Namespace, Scope
from bridge.sources.kubernetes.sight import PLACE, Sight
from nodecast.names import KindName, ResourceKey


def survey(api: Api, scope: Scope, rules: Rules, page: int) -> Survey:
    """What the cluster shows now; what it does not show is in `unseen`, with the reason."""
    objects: dict[ResourceKey, ObjectRecord] = {}
    problems: list[Problem] = []
    reasons: dict[KindName, dict[str, None]] = {}
    silent = ""
    for rule in rules:
        for namespace in scope.of(namespaced=rule.namespaced):
            look = _Look(api, rule, namespace, scope.selects(rule.kind), Sight(rule.kind, rules))
            try:
                reason = silent or look.take(page)
            except Unreachable as error:  # what answers nobody need not be asked for each kind
                reason = silent = str(error)
            if reason:
                reasons.setdefault(rule.kind, {})[reason] = None
            objects.update(look.sight.objects)
            problems += [
                Problem(PLACE, f"{rule.kind}/{name}: {why}")
                for name, why in look.sight.unreadable.items()
            ]
    unseen = {kind: "; ".join(each) for kind, each in reasons.items()}
    seen = tuple(kind for kind in rules.kinds if kind not in unseen)
    return Survey(objects, tuple(problems), {}, unseen, seen)


class _Look:
    """One kind in one namespace."""

    def __init__(
        self, api: Api, rule: Rule, namespace: Namespace, selector: str, sight: Sight
    ) -> None:
        self.sight = sight
        self._api = api
        self._rule = rule
        self._namespace = namespace
        self._selection = selection(selector)
        self._verb = "find"
        self._resource: Resource | None = None

    def take(self, page: int) -> str:
        """List and watch; why it is not seen in full, empty where it is. Raises Unreachable."""
        try:
            resource = self._resource = find(self._api, self._rule)
            self._verb = "list"
            self._list(resource, page)
            self._verb = "watch"
            self._watch(resource)
        except Refusal as refusal:
            return why_held(refusal, self._verb, self._resource) or in_words(refusal, self._api)
        except Unreachable:
            raise
        except (Garbled, ApiFailure) as error:
            return str(error)
        return ""

    def _list(self, resource: Resource, size: int) -> None:
        collected = self.sight.begin_list()
        pages = pages_of(lambda query: self._ask(resource, query), resource, self._selection, size)
        collected.finish(collected.fill(pages))

    def _ask(self, resource: Resource, query: Mapping[str, str]) -> dict[str, Any]:
        return self._api.read(resource.path(self._namespace), query)

    def _watch(self, resource: Resource) -> None:
        """Only whether it is let in."""
        query = self._selection | {
            "watch": "true",
            "resourceVersion": self.sight.version,
            "timeoutSeconds": "1",
        }
        with self._api.open(resource.path(self._namespace), query):
            pass
