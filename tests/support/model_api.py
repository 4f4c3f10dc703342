"""An API server in memory: a history of objects, lists in pages and watches as bytes of it.

Selected are the objects with the label `tier: gold`, as if each list and watch had asked for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from bridge.sources.kubernetes.failures import Refusal
from nodecast.names import KindName
from tests.support.objects import Object

GOLD = {"tier": "gold"}


def is_gold(obj: Object | None) -> bool:
    """Whether the selector selects it."""
    return obj is not None and obj["metadata"]["labels"] == GOLD


def line(kind: str, obj: object) -> bytes:
    """An event of a watch."""
    return orjson.dumps({"type": kind, "object": obj}) + b"\n"


@dataclass(frozen=True, slots=True)
class Write:
    """One revision of the store: `after` None where the object went."""

    revision: int
    kind: KindName
    place: str
    before: Object | None
    after: Object | None


class ModelApi:
    """Objects by `namespace/name`, of several kinds, with one counter of revisions."""

    def __init__(self) -> None:
        self.revision = 10
        self.history: list[Write] = []
        self._now: dict[tuple[KindName, str], Object] = {}
        self._forgotten = 0

    # -- what clients of it write

    def put(self, kind: KindName, place: str, body: Mapping[str, Any], *, gold: bool) -> None:
        """Create or update."""
        before = self._now.get((kind, place))
        uid = before["metadata"]["uid"] if before else f"uid-{self.revision + 1}"
        self._write(kind, place, self._made(kind, place, body, uid, gold))

    def delete(self, kind: KindName, place: str) -> None:
        """Delete, if it is there."""
        if (kind, place) in self._now:
            self._write(kind, place, None)

    def compact(self) -> None:
        """Forget the past: a watch or page from an older revision is 410 from now on."""
        self._forgotten = self.revision

    def _made(
        self, kind: KindName, place: str, body: Mapping[str, Any], uid: str, gold: bool
    ) -> Object:
        short, _, group = kind.partition(".")
        namespace, name = place.split("/")
        metadata = {
            "namespace": namespace,
            "name": name,
            "uid": uid,
            "resourceVersion": str(self.revision + 1),
            "labels": GOLD if gold else {},
        }
        api_version = f"{group}/v1alpha1"
        return {"apiVersion": api_version, "kind": short, "metadata": metadata, **body}

    def _write(self, kind: KindName, place: str, after: Object | None) -> None:
        self.revision += 1
        before = self._now.pop((kind, place), None)
        if after is not None:
            self._now[kind, place] = after
        self.history.append(Write(self.revision, kind, place, before, after))

    # -- what it answers

    def selected(self, kind: KindName, at: int | None = None) -> dict[str, Object]:
        """The selected objects of a kind, now or as of a revision, in the order of a list."""
        found: dict[str, Object] = {}
        for write in self.history:
            if write.kind == kind and (at is None or write.revision <= at):
                found.pop(write.place, None)
                if write.after is not None and is_gold(write.after):
                    found[write.place] = write.after
        return dict(sorted(found.items()))

    def page(self, kind: KindName, query: Mapping[str, str]) -> dict[str, Any]:
        """The answer to a list: all of its pages show one revision. Raises Refusal."""
        revision, _, start = query.get("continue", f"{self.revision}:").partition(":")
        self._check(int(revision))
        items = self.selected(kind, int(revision))
        rest = [place for place in items if place >= start]
        size = int(query["limit"])
        metadata = {"resourceVersion": revision}
        if rest[size:]:
            metadata["continue"] = f"{revision}:{rest[size]}"
        short, _, group = kind.partition(".")
        return {
            "apiVersion": f"{group}/v1alpha1",
            "kind": f"{short}List",
            "metadata": metadata,
            "items": [orjson.loads(orjson.dumps(items[place])) for place in rest[:size]],
        }

    def watch(self, kind: KindName, version: str) -> list[tuple[int, bytes]]:
        """What a watch from a version says up to now: revisions and lines."""
        try:
            self._check(int(version))
        except Refusal as refusal:
            status = {"kind": "Status", "code": refusal.status, "reason": refusal.reason}
            return [(int(version), line("ERROR", status))]
        return list(self._events(kind, int(version)))

    def _events(self, kind: KindName, version: int) -> Iterator[tuple[int, bytes]]:
        for write in self.history:
            if write.kind != kind or write.revision <= version:
                continue
            was, after = is_gold(write.before), write.after
            if after is not None and is_gold(after):
                yield write.revision, line("MODIFIED" if was else "ADDED", after)
            elif was:  # deleted, with its last body, or off the selector, with its new one
                body = after or write.before
                assert body is not None
                metadata = body["metadata"] | {"resourceVersion": str(write.revision)}
                yield write.revision, line("DELETED", body | {"metadata": metadata})

    def _check(self, revision: int) -> None:
        if revision < self._forgotten:
            raise Refusal(410, "Expired", "too old")


def bookmark(kind: KindName, revision: int) -> bytes:
    """A bookmark has no name."""
    short, _, group = kind.partition(".")
    metadata = {"resourceVersion": str(revision)}
    return line(
        "BOOKMARK", {"apiVersion": f"{group}/v1alpha1", "kind": short, "metadata": metadata}
    )
