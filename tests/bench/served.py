"""What the benchmarks' API server serves: collections, encoded before anyone asks.

A collection is what is there at the start, and a stream of events that follow. Everything is kept
as the chunks of HTTP that go out, one chunk for each item and for each event, as an API server
writes them. Nothing here changes once it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.bench.cluster import API_VERSION, FIRST_VERSION, encode, model, service

END = b"0\r\n\r\n"
"""What ends a body in chunks."""


def chunk(data: bytes) -> bytes:
    """One chunk of a body (RFC 9112 §7.1)."""
    return b"%x\r\n%b\r\n" % (len(data), data)


@dataclass(frozen=True, slots=True)
class State:
    """What a list gives: each item as a chunk that begins with a comma, and the version."""

    items: Sequence[bytes]
    version: int


class Collection:
    """One kind: `before` the stream and `after` it, and the stream's events as chunks."""

    def __init__(
        self,
        plural: str,
        kind: str,
        objects: Iterable[dict[str, Any]] = (),
        events: Sequence[tuple[str, dict[str, Any]]] = (),
        api_version: str = API_VERSION,
    ) -> None:
        """`events`: type and object, in order; the first has version FIRST_VERSION + 1."""
        self.plural, self.kind, self.api_version = plural, kind, api_version
        items = _items(objects)
        self.before = _state(items, FIRST_VERSION)
        items |= _items(each for _, each in events)
        self.after = _state(items, FIRST_VERSION + len(events)) if events else self.before
        self._events = [chunk(event_line(what, each)) for what, each in events]
        self._stream = b"".join(self._events)

    def page(self, state: State, begin: int, limit: int | None) -> Iterator[bytes]:
        """The body of a list from item `begin` on, in a few large pieces."""
        end = len(state.items) if limit is None else begin + limit
        items = state.items[begin:end]
        yield chunk(b'{"apiVersion":"%b","items":[' % self.api_version.encode())
        if items:
            yield chunk(items[0].partition(b"\r\n")[2].removesuffix(b"\r\n").removeprefix(b","))
            yield b"".join(items[1:])
        metadata: dict[str, Any] = {"resourceVersion": str(state.version)}
        if end < len(state.items):
            metadata |= {"continue": str(end), "remainingItemCount": len(state.items) - end}
        kind = f"{self.kind}List".encode()
        yield chunk(b'],"kind":"%b","metadata":%b}\n' % (kind, encode(metadata)))
        yield END

    def stream(self, version: int) -> bytes:
        """The events after `version`, as chunks."""
        skip = max(0, version - FIRST_VERSION)
        return b"".join(self._events[skip:]) if skip else self._stream

    def bookmark(self, version: int) -> bytes:
        """A bookmark at a version."""
        metadata = {"creationTimestamp": None, "resourceVersion": str(version)}
        kind = {"apiVersion": self.api_version, "kind": self.kind}
        return chunk(event_line("BOOKMARK", kind | {"metadata": metadata, "spec": {}}))


def event_line(what: str, obj: dict[str, Any]) -> bytes:
    """An event as a line of a watch."""
    return b'{"type":"%s","object":%s}\n' % (what.encode(), encode(obj))


def _items(objects: Iterable[dict[str, Any]]) -> dict[str, bytes]:
    """The chunk of each object's item, by name; of one name the last."""
    return {each["metadata"]["name"]: chunk(b"," + encode(each)) for each in objects}


def _state(items: dict[str, bytes], version: int) -> State:
    return State([items[name] for name in sorted(items)], version)


_OTHERS = {
    "datasets": "Dataset",
    "federatedlearningjobs": "FederatedLearningJob",
    "incrementallearningjobs": "IncrementalLearningJob",
    "lifelonglearningjobs": "LifelongLearningJob",
}
SERVICES = "jointinferenceservices"


def empty() -> dict[str, Collection]:
    """The six kinds, with no object."""
    kinds = _OTHERS | {"models": "Model", SERVICES: "JointInferenceService"}
    return {plural: Collection(plural, kind) for plural, kind in kinds.items()}


def streaming(
    events: int, objects: int, nodes: int, models: int, padding: int
) -> dict[str, Collection]:
    """Half of the objects are there; the stream adds the others, and changes all of them.

    Each event changes the spec of its object. The last event adds one object more, named last.
    """
    first = objects // 2
    every = events // (objects - first)
    stream: list[tuple[str, dict[str, Any]]] = []
    known = first
    for number in range(events - 1):
        version = FIRST_VERSION + 1 + number
        if number % every == 0 and known < objects:
            what, which, known = "ADDED", known, known + 1
        else:
            what, which = "MODIFIED", (number * 7919) % known
        stream.append((what, service(which, which % nodes, models, version, padding)))
    last = service(objects, objects % nodes, models, FIRST_VERSION + events, padding)
    stream.append(("ADDED", last))
    there = (service(n, n % nodes, models, FIRST_VERSION, padding) for n in range(first))
    return _whole(there, stream, models)


def standing(objects: int, nodes: int, models: int, padding: int) -> dict[str, Collection]:
    """A fleet's objects, and no event."""
    there = (service(n, n % nodes, models, FIRST_VERSION, padding) for n in range(objects))
    return _whole(there, [], models)


def _whole(
    there: Iterable[dict[str, Any]], stream: list[tuple[str, dict[str, Any]]], models: int
) -> dict[str, Collection]:
    return empty() | {
        "models": Collection("models", "Model", [model(n) for n in range(models)]),
        SERVICES: Collection(SERVICES, "JointInferenceService", there, stream),
    }


Make = Callable[..., dict[str, Collection]]
SETS: dict[str, Make] = {"empty": empty, "streaming": streaming, "standing": standing}
"""What a server can be told to serve, by name."""
