"""However a server's words come in, what is known is what is there.

A model of a server is followed by readers made of the real pieces. Its streams are cut in pieces
and broken off anywhere; it repeats events, tells of what is known as new, in old versions too,
forgets its past, and changes between the pages of a list.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from bridge.catalog import Catalog
from bridge.objects import read_object
from bridge.placement import Rules, built_in
from bridge.record import ObjectRecord
from bridge.sources.events import Changed, Listed, SourceEvent
from bridge.sources.kubernetes.answers import Lines, pages_of
from bridge.sources.kubernetes.failures import Refusal
from bridge.sources.kubernetes.kinds import KindTeller
from bridge.sources.kubernetes.resources import Resource
from bridge.sources.kubernetes.sight import PLACE, Contradiction
from nodecast.names import KindName, ResourceKey, resource_key
from tests.support.model_api import ModelApi, bookmark, line
from tests.support.objects import Object

RULES = Rules(built_in())
DATASET, SERVICE, MODEL = (
    KindName(f"{short}.sedna.io") for short in ("Dataset", "JointInferenceService", "Model")
)
KINDS = (DATASET, SERVICE, MODEL)
PLACES = ["ns1/a", "ns1/b", "ns2/a"]


@dataclass(frozen=True)
class Put:
    """Create or update an object. `node` may be a name that no node has."""

    kind: KindName
    place: str
    node: str
    model: str
    status: int
    gold: bool

    def do(self, world: World) -> None:
        spec: Object = {"nodeName": self.node}
        if self.kind == SERVICE:
            spec = {"edgeWorker": {"nodeName": self.node, "model": {"name": self.model}}}
        if self.kind == MODEL:
            spec = {"url": self.model}
        body = {"spec": spec, "status": {"count": self.status}}
        world.api.put(self.kind, self.place, body, gold=self.gold)


@dataclass(frozen=True)
class Delete:
    kind: KindName
    place: str

    def do(self, world: World) -> None:
        world.api.delete(self.kind, self.place)


@dataclass(frozen=True)
class Compact:
    def do(self, world: World) -> None:
        world.api.compact()


@dataclass(frozen=True)
class Round:
    """A list, if need be or if `relist`, and a watch.

    `between`: writes while pages come. `pieces`: bytes of each piece, over and over; `broken_at`:
    the share of the stream that comes. `told`: objects that the stream tells of as new first, and
    how many versions ago they were so. `twice`, `bookmarks`: events said twice, or followed by a
    bookmark.
    """

    kind: KindName
    page: int = 500
    between: tuple[Put | Delete | Compact, ...] = ()
    pieces: tuple[int, ...] = (65536,)
    broken_at: float = 1.0
    told: tuple[tuple[int, int], ...] = ()
    twice: frozenset[int] = frozenset()
    bookmarks: frozenset[int] = frozenset()
    relist: bool = False

    def do(self, world: World) -> None:
        world.readers[self.kind].round(self)


@dataclass(frozen=True)
class Look:
    """The catalog takes what was told."""

    def do(self, world: World) -> None:
        world.look()


class World:
    """A server, a reader for each kind, and a catalog fed with what they tell: at once, or only
    where it looks."""

    def __init__(self, *, at_once: bool) -> None:
        self.at_once = at_once
        self.api = ModelApi()
        self.catalog = Catalog(RULES)
        self.told: list[SourceEvent] = []
        self._looked = 0
        self.readers = {kind: Reader(self, kind) for kind in KINDS}

    def emit(self, event: SourceEvent) -> None:
        self.told.append(event)
        if self.at_once:
            self.look()

    def look(self) -> None:
        for event in self.told[self._looked :]:
            if isinstance(event, Listed):
                assert event.objects is not None
                self.catalog.apply(self.catalog.changes(event.kind, event.objects))
            elif isinstance(event, Changed):
                self.catalog.apply(event.objects)
        self._looked = len(self.told)


class Reader:
    """What an informer does, without its thread, its pauses and its time limits."""

    def __init__(self, world: World, kind: KindName) -> None:
        self._world = world
        self._kind = kind
        self._resource = Resource(kind, "v1alpha1", "things")
        self._teller = KindTeller(kind, (None,), RULES, world.emit)
        self.sight = self._teller.sight(None)
        self._must_list = True

    def round(self, how: Round) -> None:
        try:
            if self._must_list or how.relist:
                self._list(how)
            self._watch(how)
        except Contradiction:
            self._must_list = True
            assert how.told, "the server repeated nothing"
        except Refusal as refusal:
            if refusal.status != 410:
                raise
            self._must_list = True

    def _list(self, how: Round) -> None:
        api, writes = self._world.api, iter(how.between)
        collected, version = self.sight.begin_list(), ""
        for page in pages_of(
            lambda query: api.page(self._kind, query), self._resource, {}, how.page
        ):
            collected.add(page.items)
            version = version or page.version
            if (write := next(writes, None)) is not None:
                write.do(self._world)
        self._must_list = False
        self._teller.listed(None, collected, version, 0.0, "")
        self.check()

    def _watch(self, how: Round) -> None:
        stream = self._stream(how)
        stream = stream[: round(len(stream) * how.broken_at)]
        lines, sizes = Lines(), how.pieces
        self.sight.begin_watch()
        try:
            while stream:
                piece, stream = stream[: sizes[0]], stream[sizes[0] :]
                sizes = (*sizes[1:], sizes[0])
                before, told = int(self.sight.version), len(self._world.told)
                self._teller.events(None, lines.feed(piece))
                self.check()
                if self._world.at_once:
                    self._check_told(before, self._world.told[told:])
        finally:
            self._teller.finish(None)
            self.check()

    def _stream(self, how: Round) -> bytes:
        api, version = self._world.api, self.sight.version
        known = list(api.selected(self._kind, int(version)).values())
        parts = [line("ADDED", self._older(*each, known)) for each in how.told if known]
        for number, (revision, event) in enumerate(api.watch(self._kind, version)):
            parts.append(event)
            if number in how.twice:
                parts.append(event)
            if number in how.bookmarks:
                parts.append(bookmark(self._kind, revision))
        return b"".join(parts)

    def _older(self, number: int, back: int, known: list[Object]) -> Object:
        """A selected object as it was `back` of its versions ago."""
        obj = known[number % len(known)]
        meta = obj["metadata"]
        versions = [
            write.after
            for write in self._world.api.history
            if write.kind == self._kind
            and write.place == f"{meta['namespace']}/{meta['name']}"
            and write.after is not None
            and write.revision <= int(meta["resourceVersion"])
        ]
        return versions[-1 - min(back, len(versions) - 1)]

    # -- what always holds

    def check(self) -> None:
        """What is known is what was there at the version that is known: nothing less or more."""
        there = self._world.api.selected(self._kind, int(self.sight.version))
        known = self.sight.objects | self.sight.changes
        assert records(there) == {key: record for key, record in known.items() if record}

    def _check_told(self, before: int, told: list[SourceEvent]) -> None:
        """Nothing is told of what did not change meanwhile."""
        wrote = {
            resource_key(write.kind, *write.place.split("/"))
            for write in self._world.api.history
            if before < write.revision <= int(self.sight.version)
        }
        for event in told:
            assert isinstance(event, Changed)
            assert event.objects.keys() <= wrote


def records(objects: dict[str, Object]) -> dict[ResourceKey, ObjectRecord]:
    found = [read_object(obj, RULES, PLACE, None) for obj in objects.values()]
    return {record.key: record for record in found}


kinds = st.sampled_from(KINDS)
places = st.sampled_from(PLACES)
puts = st.builds(
    Put,
    kinds,
    places,
    st.sampled_from(["n1", "n1", "n1", "n2", "a/b", ""]),
    st.sampled_from("abc"),
    st.integers(0, 1),
    st.sampled_from([True, True, True, False]),
)
writes = puts | puts | st.builds(Delete, kinds, places)
few = st.frozensets(st.integers(0, 8), max_size=3)
rounds = st.builds(
    Round,
    kinds,
    st.integers(1, 3),
    st.lists(writes | writes | st.builds(Compact), max_size=3).map(tuple),
    st.lists(st.integers(1, 700), min_size=1, max_size=4).map(tuple),
    st.floats(0, 1) | st.just(1.0),
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0, 0, 1, 2])), max_size=2).map(tuple),
    few,
    few,
    st.sampled_from([False, False, True]),
)
steps = st.lists(
    writes | writes | rounds | rounds | st.builds(Compact) | st.builds(Look),
    min_size=10,
    max_size=60,
)


def lived(history: list[Put | Delete | Compact | Round | Look], *, at_once: bool) -> World:
    """A world after a history, and two rounds in which nothing goes wrong: the first may learn
    that the server has forgotten where it stood."""
    world = World(at_once=at_once)
    for step in history:
        step.do(world)
    for kind in (*KINDS, *KINDS):
        Round(kind).do(world)
    world.look()
    return world


@given(steps, st.booleans())
def test_what_is_known_at_the_end_is_what_is_there(history: list, at_once: bool) -> None:
    world = lived(history, at_once=at_once)
    for kind, reader in world.readers.items():
        assert records(world.api.selected(kind)) == reader.sight.objects
        assert reader.sight.unreadable == {}


@given(steps, st.booleans())
def test_a_catalog_that_was_told_is_the_same_as_from_scratch(history: list, at_once: bool) -> None:
    world, fresh = lived(history, at_once=at_once), Catalog(RULES)
    for kind in KINDS:
        fresh.apply(records(world.api.selected(kind)))
    assert state(fresh) == state(world.catalog)


def state(catalog: Catalog) -> object:
    return (
        [(record, catalog.nodes_of(record.key)) for record in catalog.records()],
        {node: [record.key for record in catalog.on_node(node)] for node in catalog.nodes()},
        {kind: (catalog.count(kind), catalog.placed(kind)) for kind in KINDS},
        catalog.dangling(),
    )
