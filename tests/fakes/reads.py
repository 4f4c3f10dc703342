"""Lists: pages over a consistent snapshot, selectors, and the versions that may be asked for.

Runs in the thread of the request; a list holds the store's lock only while it takes its
snapshot. Raises `Refused`."""

from __future__ import annotations

import base64
import binascii
import bisect
from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from tests.fakes import selectors
from tests.fakes.answers import (
    JSON,
    Answer,
    Refused,
    bad_request,
    expired,
    json_answer,
    refused,
    status_body,
)
from tests.fakes.requests import Request
from tests.fakes.resources import Body, Resource
from tests.fakes.selectors import Selector
from tests.fakes.storage import Entry, Store, Table

_TOKEN_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without the continue parameter, or use the continue token in this "
    "response to retrieve the remainder of the results. Continuing with the provided token "
    "results in an inconsistent list - objects that were created, modified, or deleted "
    "between the time the first chunk was returned and now may show up in the list."
)
_LIST_TOO_OLD = "The resourceVersion for the provided list is too old."
_INCONSISTENT = -1


@dataclass(frozen=True, slots=True)
class Scope:
    """Which objects of a table a list or a watch is about."""

    namespace: str
    name: str
    selector: Selector

    def fits(self, entry: Entry) -> bool:
        if self.namespace and not entry.key.startswith(f"{self.namespace}/"):
            return False
        if self.name and entry.key.rpartition("/")[2] != self.name:
            return False
        return self.selector.fits(entry.labels)

    @property
    def whole(self) -> bool:
        return not (self.namespace or self.name or self.selector)


def scope_of(request: Request) -> Scope:
    selector = selectors.parse(request.query.get("labelSelector", ""))
    named = selectors.names(request.query.get("fieldSelector", ""))
    target = request.target
    namespace = target.namespace or named.get("metadata.namespace", "")
    return Scope(namespace, target.name or named.get("metadata.name", ""), selector)


def version_of(text: str) -> int:
    """A resourceVersion as a number; a 500 for what is none, as a real server has it."""
    if not text.isascii() or not text.isdigit():
        raise refused(
            500,
            "",
            f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": '
            "invalid syntax",
        )
    return int(text)


def listed(store: Store, resource: Resource, request: Request) -> Answer:
    """A page of the list; the whole of it without `limit`."""
    query = request.query
    scope = scope_of(request)
    limit = int(query.get("limit") or 0)
    with store.lock:
        table = store.table(resource)
        if token := query.get("continue"):
            version, start = _continued(table, token)
            version = store.version if version == _INCONSISTENT else version
        else:
            version, start = _asked_version(store, table, query), ""
            if query.get("resourceVersion") == "0":
                limit = 0  # a list from the watch cache has no pages
        entries = table.at(version)
    first = bisect.bisect_left(entries, start, key=lambda entry: entry.key) if start else 0
    page, rest = _page(entries[first:] if first else entries, scope, limit)
    metadata: Body = {"resourceVersion": str(version)}
    if resource.custom:
        metadata["continue"] = ""
    if rest:
        metadata["continue"] = _token(version, f"/{page[-1].key}\0")
        if not scope.selector:
            metadata["remainingItemCount"] = rest
    return _list_answer(resource, metadata, page)


def _page(entries: list[Entry], scope: Scope, limit: int) -> tuple[list[Entry], int]:
    """The entries of this page, and how many are left after it."""
    fitting = entries if scope.whole else [entry for entry in entries if scope.fits(entry)]
    if limit and len(fitting) > limit:
        return fitting[:limit], len(fitting) - limit
    return fitting, 0


def _asked_version(store: Store, table: Table, query: Mapping[str, str]) -> int:
    asked, match = query.get("resourceVersion") or "", query.get("resourceVersionMatch") or ""
    if not asked or asked == "0":
        return store.version
    version = version_of(asked)
    if version > store.version:
        raise _too_large(version, store.version)
    if match != "Exact":
        return store.version
    if version < table.compacted:
        raise expired(_LIST_TOO_OLD)
    return version


def _too_large(version: int, current: int) -> Refused:
    message = f"Too large resource version: {version}, current: {current}"
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    body = status_body(
        504, "Timeout", f"Timeout: {message}", {"causes": causes, "retryAfterSeconds": 1}
    )
    return Refused(json_answer(504, body, Retry_After="1"))


def _token(version: int, start: str) -> str:
    said = orjson.dumps({"v": "meta.k8s.io/v1", "rv": version, "start": start})
    return base64.urlsafe_b64encode(said).rstrip(b"=").decode()


def _continued(table: Table, token: str) -> tuple[int, str]:
    """The version and the first key that a continue token names."""
    why = "invalid continue token: continue key is not valid: "
    try:
        said = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except (binascii.Error, ValueError):
        raise bad_request(f"{why}illegal base64 data at input byte 0") from None
    try:
        body = orjson.loads(said)
        version, start = int(body["rv"]), str(body["start"])
    except (ValueError, KeyError, TypeError):
        first = chr(said[0]) if said else ""
        words = f"invalid character '{first}' looking for beginning of value"
        raise bad_request(why + words) from None
    if version != _INCONSISTENT and version < table.compacted:
        raise expired(_TOKEN_TOO_OLD, _token(_INCONSISTENT, start))
    return version, start.removeprefix("/") if start.count("/") > 1 else start


def _list_answer(resource: Resource, metadata: Body, page: list[Entry]) -> Answer:
    head = {
        "apiVersion": resource.api_version,
        "kind": f"{resource.kind}List",
        "metadata": metadata,
    }
    if resource.custom:
        items = b",".join([entry.encoded for entry in page])
    else:  # items of a typed list do not say their type
        items = b",".join([_untyped(entry) for entry in page])
    return Answer(200, orjson.dumps(head)[:-1] + b',"items":[' + items + b"]}", JSON)


def _untyped(entry: Entry) -> bytes:
    body = entry.body()
    return orjson.dumps({k: v for k, v in body.items() if k not in ("apiVersion", "kind")})
