"""Targets behind the API server: the Kubernetes source, and the candidate for a Lease."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import urllib3

from bridge.lease import Elector, Terms
from bridge.placement import Rule, Rules, built_in
from bridge.sources.events import SourceEvent
from bridge.sources.kubernetes.access import Access
from bridge.sources.kubernetes.answers import Lines, pages_of
from bridge.sources.kubernetes.api import Api
from bridge.sources.kubernetes.discovery import find
from bridge.sources.kubernetes.identity import uid_of
from bridge.sources.kubernetes.kinds import KindTeller
from bridge.sources.kubernetes.leases import LeaseClient, Place
from bridge.sources.kubernetes.resources import Resource
from nodecast.errors import SourceError
from nodecast.names import KindName
from tests.fuzz import samples
from tests.fuzz.target import JSON_WORDS, Reader, Target, refusing

_RULES = Rules(built_in())
_DATASET = KindName("Dataset.sedna.io")


def _api(root: Path) -> Api:
    path = root / "kubeconfig"
    path.write_bytes(samples.kubeconfigs()[0])
    return Api(Access(str(path)))


def _response(data: bytes) -> urllib3.HTTPResponse:
    return urllib3.HTTPResponse(io.BytesIO(data), preload_content=False)


class _Answers(Api):
    """Answers every question with the same body."""

    body = b""

    def read(self, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        del path, query
        return self.json_of(_response(self.body))

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, within: float
    ) -> dict[str, Any]:
        del method, path, within
        json.dumps(body, allow_nan=False)  # what is written must be JSON
        return self.json_of(_response(self.body))


def _lists(root: Path) -> Reader:
    api = _Answers(_api(root).access)
    resource_ = Resource(_DATASET, "v1alpha1", "datasets")
    discovered = (Rule(_DATASET), Rule(_DATASET, version="v1alpha1"), Rule(KindName("Node")))

    def read(data: bytes) -> None:
        api.body = data
        told: list[SourceEvent] = []
        teller = KindTeller(_DATASET, [None], _RULES, told.append)
        pages = teller.sight(None).begin_list()
        with refusing(SourceError):
            version = pages.fill(pages_of(lambda q: api.read("", q), resource_, {}, 500))
            teller.listed(None, pages, version, 0.0, "")
            teller.unreadable(None)
        for rule in discovered:
            with refusing(SourceError):
                find(api, rule)
        with refusing(SourceError):
            uid_of(api, api.read(""))

    return read


def _leases(root: Path) -> Reader:
    """A candidate that finds this, writes over it and releases it."""
    api = _Answers(_api(root).access)
    client = LeaseClient(api, Place("default", "nodecast"), 1.0)

    def read(data: bytes) -> None:
        api.body = data
        elector = Elector("me", Terms(), random.Random(1))
        with refusing(SourceError):
            for now in (0.0, 20.0, 40.0, 1e6):
                if (wanted := elector.ask(now)) is None:
                    elector.found(client.read(), now)
                else:
                    elector.wrote(client.write(wanted, "now"), wanted, now)
            if (wanted := elector.release(1e6)) is not None:
                client.write(wanted, "now")

    return read


def _watches(_: Path) -> Reader:
    """The stream comes in pieces; a list has come before."""

    def read(data: bytes) -> None:
        events: list[SourceEvent] = []
        teller = KindTeller(_DATASET, [None], _RULES, events.append)
        sight = teller.sight(None)
        pages = sight.begin_list()
        pages.add([{**samples.OBJECTS[0], "metadata": {"name": "d0", "namespace": "default"}}])
        teller.listed(None, pages, "220", 0.0, "")
        sight.begin_watch()
        lines, size = Lines(), 1 + len(data) % 4096
        with refusing(SourceError):
            for at in range(0, len(data), size):
                teller.events(None, lines.feed(data[at : at + size]))
            teller.finish(None)
        teller.unreadable(None)

    return read


CLUSTER = {
    "lists": Target(samples.lists, JSON_WORDS, _lists),
    "leases": Target(samples.leases, JSON_WORDS, _leases),
    "watches": Target(samples.watches, JSON_WORDS, _watches),
}
