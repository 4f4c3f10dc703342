"""Taking charge: what must be known and written before the first snapshot of a connection.

    OFFLINE ─Connected─► READING ─echo─► LISTING ─listed─► WRITING ─acknowledged─► IN_CHARGE
                                  └─────── (it has an epoch) ──────────►┘

READING subscribes to the ledger, then subscribes and publishes to the probe: the retained ledger
comes after its SUBACK, and the probe's echo comes after the ledger. LISTING, once an epoch, has
the source list every kind anew. WRITING puts this instance and its epoch into the ledger. No
clock, no socket here: the bridge's loop brings events and the time.

An epoch lasts as long as the process; with a Lease, as long as the Lease is held. Another instance
that took charge ends it: without a Lease the process too, with one the next epoch is taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum, auto

from bridge.guard import Counts
from nodecast.errors import (
    InvalidName,
    Malformed,
    NewerSchema,
    SettingsError,
    Superseded,
    Unavailable,
)
from nodecast.log import logger
from nodecast.messages import MAX_NUMBER, Ledger, Probe, Wire, decode, encode
from nodecast.names import BridgeName, NodeName, node_name

log = logger(__name__)

LISTING_WAIT = 60.0
"""Seconds after which a kind that does not answer is held instead of waited for."""


READING_WAIT = 30.0
"""Seconds within which the probe must come back."""


class Phase(Enum):
    """How far the bridge is with the current connection."""

    OFFLINE = auto()
    READING = auto()
    LISTING = auto()
    WRITING = auto()
    IN_CHARGE = auto()


@dataclass(frozen=True, slots=True)
class Identity:
    """Who takes charge. `source` tells one cluster or directory from another; `leased`: a Lease
    says who is in charge, and it is held whenever there is a connection."""

    bridge: BridgeName
    source: str
    instance: str
    adopt: bool = False
    leased: bool = False


class Charge:
    """The phases of one bridge process. One owner thread."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self.phase = Phase.OFFLINE
        self.epoch: int | None = None
        """The own epoch; None until it is taken."""
        self.ledger: Ledger | None = None
        """The ledger that came back in this connection."""
        self.listing_since = math.inf
        self._connections = 0
        self._last_epoch = 0

    @property
    def probe(self) -> bytes:
        """What this connection says to itself."""
        return encode(Probe(instance=self._identity.instance, connection=self._connections))

    def connected(self) -> None:
        self.phase, self.ledger = Phase.READING, None
        self._connections += 1

    def disconnected(self) -> None:
        self.phase = Phase.OFFLINE

    def step_down(self) -> None:
        """The epoch is over: whoever takes charge now, this process too, takes the next."""
        self.phase, self.epoch = Phase.OFFLINE, None

    def ledger_came(self, wire: Wire) -> bool:
        """A ledger arrived, retained or live; whether it is one to keep, or as good as lost.

        With a Lease, another instance's may end the epoch: `phase` is OFFLINE then, and the
        connection of no use any more. Raises Unavailable, SettingsError, Superseded.
        """
        if self.phase is Phase.OFFLINE:
            return True
        try:
            ledger = decode(Ledger, wire)
        except NewerSchema as error:
            raise Unavailable(f"the ledger was written by a newer bridge: {error}") from error
        except Malformed as error:
            log.error("the ledger cannot be read and counts as lost", reason=str(error))
            return False
        if ledger.bridge != self._identity.bridge:
            log.error("the ledger is another bridge's and counts as lost", bridge=ledger.bridge)
            return False
        if self.phase in (Phase.READING, Phase.LISTING):  # in LISTING: another one starts too
            self.ledger = ledger
        self._check(ledger)
        return ledger.instance == self._identity.instance

    def _check(self, ledger: Ledger) -> None:
        mine = self._identity
        if ledger.source != mine.source and not mine.adopt and self.epoch is None:
            raise SettingsError(
                f"the broker's ledger of bridge {mine.bridge!r} belongs to source"
                f" {ledger.source!r}, this bridge serves {mine.source!r}: its nodes would lose what"
                " they have. Choose another --bridge name, or start once with --adopt"
            )
        if self.epoch is None or ledger.instance == mine.instance:
            return
        if ledger.epoch < self.epoch:
            log.warning("an older ledger came back", epoch=ledger.epoch, own=self.epoch)
        elif mine.leased:
            log.warning(
                "another instance took charge while the lease is ours: the next epoch is taken",
                instance=ledger.instance,
                epoch=ledger.epoch,
                own=self.epoch,
            )
            self.epoch = None
            if self.phase is not Phase.READING:
                self.phase = Phase.OFFLINE
        else:
            raise Superseded(
                f"another instance of bridge {mine.bridge!r} ({ledger.instance}) took charge"
                f" with epoch {ledger.epoch}, this one has {self.epoch}: it stays down."
                " Run one bridge of a name at a time"
            )

    def echoed(self, payload: bytes, now: float) -> bool:
        """Whether this is the probe's echo that ends READING; the phase moves on."""
        if self.phase is not Phase.READING or payload != self.probe:
            return False
        if self.epoch is None:
            self.phase, self.listing_since = Phase.LISTING, now
        else:
            self.phase = Phase.WRITING
        return True

    def listed(self, wall_clock: float) -> None:
        """Every kind answered, or had its time: take the next epoch. Raises Unavailable.

        `wall_clock` (unix seconds) only makes it likely that an epoch is greater than those of a
        broker that lost its ledger; nothing is ordered by it.
        """
        last = max(self.ledger.epoch if self.ledger else 0, self._last_epoch)
        if last >= MAX_NUMBER:
            raise Unavailable(f"the ledger's epoch {last} has no successor: remove the ledger")
        self.epoch = max(last + 1, min(int(wall_clock), MAX_NUMBER - 1), 1)
        self._last_epoch = self.epoch
        self.phase = Phase.WRITING

    def written(self) -> None:
        """The broker has the ledger with our epoch."""
        if self.phase is Phase.WRITING:
            self.phase = Phase.IN_CHARGE

    @property
    def mark(self) -> int | None:
        """The mark that came back in this connection; None: another's, or no ledger."""
        ledger = self.ledger
        if ledger is None or ledger.instance != self._identity.instance:
            return None
        return ledger.mark


def counts_of(ledger: Ledger) -> Counts:
    """How many objects a ledger counts."""
    if ledger.kinds or not ledger.at_least:
        return Counts(ledger.kinds)
    return Counts(ledger.at_least, sure=False)


def nodes_of(ledger: Ledger) -> list[NodeName]:
    """The names in a ledger; what is no name of a node is said and left out."""
    nodes = []
    for name in ledger.nodes:
        try:
            nodes.append(node_name(name))
        except InvalidName as error:
            log.warning("name in the ledger ignored", reason=str(error))
    return nodes
