"""The resources of a node: snapshots in, files out, without any broker.

receive → decide → commit → reconcile, in that order: nothing is claimed before it is in the store,
and nothing is removed but what an accepted snapshot takes away. The loop thread owns it and calls
`work` in slices; a slice ends soon after its deadline (one write of a file, or one commit, late).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agent.filework import FileWork
from agent.handlers.files import FilesHandler, OrphanFile
from agent.intake import Standing
from agent.orphans import Orphans
from agent.receiver import Receiver
from agent.reconciler import Reconciler
from agent.stamp import TreeStamp
from agent.store.confirm import Confirmations, StoreHealth
from agent.store.records import Accepted, Row
from agent.store.resources import ResourceStore
from nodecast.backoff import Backoff
from nodecast.log import logger
from nodecast.messages import Refusal, Snapshot, Wire
from nodecast.names import BridgeName, NodeName, ResourceKey

log = logger(__name__)

BEHIND = "StoreBehind"
UNCONFIRMED = "Unconfirmed"


@dataclass(frozen=True, slots=True)
class Pacing:
    """Pauses in seconds: between reconcile rounds, and after failures of files and of the store."""

    round: float
    retry: Backoff
    store: Backoff


class NodeResources:
    """What this node should have, has, and says of it."""

    def __init__(
        self,
        store: ResourceStore,
        handler: FilesHandler,
        node: NodeName,
        *,
        clock: Callable[[], float],
        rng: random.Random,
        pacing: Pacing,
    ) -> None:
        self.store = store
        self.reconciler = Reconciler(pacing.retry, rng)
        self.changes = 0
        """Rises whenever a report says something else."""
        self._handler = handler
        self._stamp = TreeStamp(handler, store)
        self._orphans = Orphans(handler)
        self._node = node
        self._clock = clock
        self._rng = rng
        self._pacing = pacing
        self._behind = False
        self._health = StoreHealth(pacing.store, rng, self._differs)
        self._confirm = Confirmations(store, self._health)
        self._files = FileWork(
            self.reconciler,
            handler,
            store,
            self._stamp,
            self._confirm,
            clock=clock,
            told=self._differs,
        )
        self._receiver = Receiver(
            self._health,
            clock=clock,
            standing=self._standing,
            commit=self._accept,
            told=self._differs,
        )
        self._round_due = 0.0

    # --- what it says

    @property
    def accepted(self) -> Accepted:
        return self.store.accepted

    @property
    def orphans(self) -> Mapping[ResourceKey, OrphanFile]:
        """Files that the store does not know."""
        return self._orphans.files

    @property
    def incomplete(self) -> bool:
        """Whether the accepted snapshot is wanted once more, live."""
        accepted = self.accepted
        return (
            self._behind
            or accepted.damaged
            or accepted.unconfirmed
            or any(not accepted.keeps(key) for key in self.orphans)
        )

    @property
    def refused(self) -> Refusal | None:
        """The newest message that was not taken, until a report told of it."""
        return self._receiver.refused

    @property
    def left_alone(self) -> str | None:
        """Why the newest message was none for this agent; None once one was."""
        return self._receiver.left_alone

    @property
    def store_error(self) -> str | None:
        """Why the store takes no change now."""
        return self._health.error

    @property
    def behind(self) -> bool:
        """Whether the store is older than the files, so that nothing is written yet."""
        return self._behind

    @property
    def served(self) -> bool:
        """Whether everything was looked at, and tried, once since the start."""
        due = self.reconciler.due()
        return (
            not self._orphans.scanning
            and self._round_due > 0
            and (due is None or due > self._clock())
        )

    # --- events

    def start(self) -> None:
        """Look whose files are in the tree, and begin the first round. Without any broker."""
        self._behind = self._stamp.store_is_behind()
        self._feed()
        self._begin_round()

    def receive(self, wire: Wire, *, retained: bool) -> None:
        """Take a payload of the node's topic; whatever is in it, only this changes the desired."""
        self._receiver.receive(wire, retained=retained)

    def reported(self, refused: Refusal | None) -> None:
        """A report that said `refused` has reached the broker."""
        self._receiver.reported(refused)

    def renamed(self, store: str) -> None:
        """The store goes on under this id: the files are its own unless it is behind them."""
        if store == self.store.store:
            return
        self.store.store = store
        if not self._behind:
            self._stamp.renamed()

    # --- work

    def due(self) -> float:
        """When `work` is worth calling next."""
        times = [self._round_due]
        if self._orphans.scanning:
            times.append(0.0)
        if self._receiver.waiting or self._confirm.waiting:
            times.append(self._health.due)
        if (task := self.reconciler.due()) is not None:
            times.append(task)
        return min(times)

    def work(self, until: float) -> None:
        """Do what is due, until the clock says `until`. Raises StoreBroken."""
        now = self._clock()
        self._receiver.work(now)
        if now >= self._round_due and not self._orphans.scanning:
            self.reconciler.recheck(self.store.rows, now)
            self._begin_round()
        while (now := self._clock()) < until and self._step(now):
            pass
        self._files.conclude()
        self._confirm.flush(self._clock())

    def _step(self, now: float) -> bool:
        """One action, or one look at a file; False when nothing is due."""
        if self._files.step(now):
            return True
        if not self._orphans.scanning:
            return False
        self.changes += self._orphans.look()
        return True

    # --- accepting

    def _standing(self) -> Standing:
        accepted = self.accepted
        return Standing(
            BridgeName(accepted.bridge),
            self._node,
            accepted.version,
            accepted.digest,
            self.incomplete,
        )

    def _accept(self, snapshot: Snapshot, live: bool) -> None:
        """Commit `snapshot`, and work on what it asks for. Raises StoreError."""
        behind = self._behind
        self.store.accept(
            snapshot,
            live=live,
            orphans=self.orphans,
            behind=behind,
            gone=self._not_on_disk(snapshot),
        )
        self._behind = False
        if behind:
            # Where every file is as desired, nothing is written that would write the stamp.
            self._stamp.claim()
        self._after_accept()

    def _not_on_disk(self, snapshot: Snapshot) -> set[ResourceKey]:
        """What a store that is behind has, that `snapshot` keeps unnamed, and that the files no
        longer have so: the node keeps what it has, and that are the files."""
        if not self._behind:
            return set()
        named = {each.key for each in snapshot.resources}
        return {
            key
            for key, row in self.store.rows.items()
            if key not in named and snapshot.keeps(key) and not self._handler.holds(key, row.sum)
        }

    def _after_accept(self) -> None:
        rows = self.store.rows
        self._confirm.prune()
        self._orphans.adopt(rows)
        if self.reconciler.keys() - rows.keys():
            self._begin_round()  # a row that went without a removal left its file as an orphan
        self._feed()

    # --- within

    def _feed(self) -> None:
        """Tell the reconciler what the rows want."""
        now = self._clock()
        unconfirmed = self.accepted.unconfirmed
        for key in self.reconciler.keys() - self.store.rows.keys():
            self.reconciler.forget(key)
            self._files.forget(key)
        for key, row in self.store.rows.items():
            want = None if row.leaving else row.sum
            self.reconciler.want(key, want, now, blocked=self._blocked(row, unconfirmed))

    def _blocked(self, row: Row, unconfirmed: bool) -> str | None:
        if self._behind:
            return BEHIND
        return UNCONFIRMED if row.leaving and unconfirmed else None

    def _begin_round(self) -> None:
        self._orphans.begin(self.store.rows)
        if not self._behind:
            self._stamp.look_after()
        self._round_due = self._clock() + self._pacing.round * self._rng.uniform(0.9, 1.1)

    def _differs(self) -> None:
        self.changes += 1
