"""The bridge's pure parts, joined as the bridge joins them, on a fake port and a time of its own.

Two kinds: `Owner.x` names nodes and carries `Part.x`; `Part.x` names nodes too. `Alone.x` has to
do with nothing.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

import orjson

from bridge.catalog import Catalog
from bridge.guard import Counts
from bridge.holding import Holding
from bridge.placement import Rules, make_rule
from bridge.publisher import Publisher, PublishPolicy
from bridge.record import ObjectRecord
from bridge.settle import Settle
from bridge.sources.events import Interrupted, KindStatus, Listed
from bridge.tokens import SnapshotToken
from bridge.writer import SnapshotWriter
from nodecast.messages import Snapshot, Wire, decode_snapshot, resource_digest
from nodecast.names import BridgeName, KindName, NodeName, ResourceKey, kind_of, split_key
from nodecast.session import Outgoing, Refused
from nodecast.topics import Topics

RULES = Rules(
    [
        make_rule("Owner.x", ["spec.nodes[]"], carries=[("Part", "spec.parts[]")]),
        make_rule("Part.x", ["spec.nodes[]"]),
        make_rule("Alone.x", ["spec.nodes[]"]),
    ]
)
OWNER, PART, ALONE = KindName("Owner.x"), KindName("Part.x"), KindName("Alone.x")


def key(short: str) -> ResourceKey:
    """`Part/a` as `Part.x/default/a`."""
    kind, _, name = short.partition("/")
    return ResourceKey(f"{kind}.x/default/{name}")


def record(short: str, *nodes: str, carries: Iterable[str] = (), spec: str = "") -> ObjectRecord:
    """An object at `nodes`; `spec` makes its content differ."""
    kind, namespace, name = split_key(key(short))
    body = {
        "apiVersion": "x/v1",
        "kind": kind.partition(".")[0],
        "metadata": {"namespace": namespace, "name": name},
        "spec": spec,
    }
    digest = resource_digest(body)
    encoded = orjson.dumps(body | {"digest": digest}, option=orjson.OPT_SORT_KEYS)
    return ObjectRecord(
        key(short),
        kind,
        frozenset(map(NodeName, nodes)),
        tuple(map(key, carries)),
        (),
        digest,
        encoded,
    )


class FakePort:
    """Takes down what is published; nothing is acknowledged until a test says so."""

    def __init__(self, window: int = 100) -> None:
        self.window = window
        self.sent: list[tuple[Outgoing, SnapshotToken]] = []
        self.under_way: list[SnapshotToken] = []

    @property
    def free(self) -> int:
        return self.window - len(self.under_way)

    def publish(self, message: Outgoing, token: object) -> None:
        assert isinstance(token, SnapshotToken)
        self.sent.append((message, token))
        self.under_way.append(token)


class Core:
    """Everything between the source and the session, at `now`."""

    def __init__(
        self,
        *,
        hold: float = 60.0,
        policy: PublishPolicy | None = None,
        compress: bool = False,
        window: int = 100,
    ) -> None:
        self.now = 1000.0
        self.catalog = Catalog(RULES)
        self.holding = Holding(RULES, self.catalog, hold)
        self.settle = Settle(RULES, self.catalog, self.holding, 1.0, 10.0)
        self.writer = SnapshotWriter(BridgeName("b"), "i", Topics(), compress=compress)
        self.publisher = Publisher(
            self.catalog,
            self.holding,
            self.settle,
            self.writer,
            policy or PublishPolicy(),
            random.Random(1),
        )
        self.publisher.epoch = 7
        self.port = FakePort(window)
        self.ledger: set[NodeName] = set()

    # -- the source

    def put(self, *records: ObjectRecord) -> None:
        self._apply({each.key: each for each in records})

    def remove(self, *shorts: str) -> None:
        self._apply({key(short): None for short in shorts})

    def come(self, *shorts: str) -> None:
        """These come, to the node `n`; what is held is decided anew."""
        self.put(*(record(each, "n") for each in shorts))
        self.after(0)

    def go(self, *shorts: str) -> None:
        """These go; what is held is decided anew."""
        self.remove(*shorts)
        self.after(0)

    def _apply(self, changes: dict[ResourceKey, ObjectRecord | None]) -> None:
        delta = self.catalog.apply(changes)
        self.holding.changed(delta, self.now)
        self.publisher.dirty(delta.dirty)

    def listed(
        self, *kinds: KindName, status: KindStatus = KindStatus.OK, at: float | None = None
    ) -> None:
        """These kinds (all) were listed, and hold what they held."""
        asked_at = self.now if at is None else at
        for kind in kinds or RULES.kinds:
            self.holding.listed(Listed(kind, status, None, asked_at))
        self.holding.update(self.now)
        self.publisher.recheck()

    def interrupted(self, kind: KindName, now: bool) -> None:
        """News of a kind may be missing, or is not any more."""
        self.holding.interrupted(Interrupted(kind, now), self.now)
        self.publisher.recheck()

    def charge(self, counts: dict[str, int] | None = None, *, all_seen: bool = True) -> None:
        """Take charge; by default every kind was listed before, and the ledger counts what is."""
        if all_seen:
            self.listed()
        if counts is None:
            counts = {kind: self.catalog.placed(kind) for kind in RULES.kinds}
        self.holding.take_charge(Counts(counts, sure=bool(counts)), self.now)
        self.holding.update(self.now)

    # -- time and the broker

    def after(self, seconds: float) -> None:
        """Time goes on; what is held is decided anew, as the loop does it."""
        self.now += seconds
        held = self.holding.held, self.holding.waiting
        self.holding.update(self.now)
        if held[0] != self.holding.held:
            self.publisher.dirty(list(self.publisher.nodes))
        if held != (self.holding.held, self.holding.waiting):
            self.publisher.recheck()

    def pump(self) -> list[Snapshot]:
        """What is published now; every known node's name is in the ledger."""
        before = len(self.port.sent)
        self.ledger = set(self.publisher.nodes)
        self.again_at = self.publisher.pump(self.now, self.port, self.ledger)
        return [snapshot_of(message) for message, _ in self.port.sent[before:]]

    def acknowledge(self) -> None:
        """The broker acknowledges all that is under way."""
        tokens, self.port.under_way = self.port.under_way, []
        for token in tokens:
            self.publisher.acknowledged(token)

    def refuse(self, code: int = 0x87) -> None:
        """The broker refuses all that is under way."""
        tokens, self.port.under_way = self.port.under_way, []
        for token in tokens:
            self.publisher.refused(token, Refused(token, "no", code, False), self.now)

    def reconnect(self) -> None:
        """The connection dies with what is under way, and a new one is in charge."""
        tokens, self.port.under_way = self.port.under_way, []
        self.publisher.lost(tokens)
        self.publisher.connected(None)

    def settled(self) -> None:
        """Publish and acknowledge until everything that a node should have is with the broker."""
        for _ in range(6):
            self.pump()
            self.acknowledge()
            self.after(1.5)
            self.listed()


def snapshot_of(message: Outgoing) -> Snapshot:
    return decode_snapshot(Wire(message.payload, message.encoding))


def names(snapshot: Snapshot) -> list[str]:
    """`Part/a` of each resource, by key."""
    return [short(each.key) for each in snapshot.resources]


def short(key: ResourceKey) -> str:
    return f"{kind_of(key).partition('.')[0]}/{split_key(key)[2]}"
