"""Takes what comes on the node's topic: accepts it, or has it reported as refused.

What always holds: nothing but an accepted snapshot changes what is desired. Every other message
that is not the current version is reported, so that the bridge puts the topic right again, even
where its content stands still: each message in one report at most, however many come between two.
A snapshot that the store does not take now waits, the newest alone.

Owned by the loop thread; to accept waits for the disk.
"""

from __future__ import annotations

from collections.abc import Callable

from agent.intake import Accept, Current, Foreign, Refuse, Standing, decide
from agent.store.confirm import StoreHealth
from nodecast.errors import MessageError, StoreError
from nodecast.log import Repeats, logger
from nodecast.messages import NONE, Refusal, Snapshot, Version, Wire, decode_snapshot

log = logger(__name__)


class Receiver:
    """See the module.

    `standing` says what was accepted so far; `commit` accepts a snapshot (the flag: it came live)
    or raises StoreError; `told` is called whenever a report says something else.
    """

    def __init__(
        self,
        health: StoreHealth,
        *,
        clock: Callable[[], float],
        standing: Callable[[], Standing],
        commit: Callable[[Snapshot, bool], None],
        told: Callable[[], None],
    ) -> None:
        self.refused: Refusal | None = None
        """What the next report says of the newest message that was not taken."""
        self.left_alone: str | None = None
        """Why the newest message was none for this agent; None once one was."""
        self._health = health
        self._clock = clock
        self._standing = standing
        self._commit = commit
        self._told = told
        self._said = Repeats()
        self._waiting: tuple[Snapshot, bool] | None = None  # accepted as soon as the store can

    @property
    def waiting(self) -> bool:
        """Whether a snapshot waits for the store."""
        return self._waiting is not None

    def receive(self, wire: Wire, *, retained: bool) -> None:
        """Take a payload, whatever is in it. Raises StoreBroken."""
        try:
            snapshot = decode_snapshot(wire)
        except MessageError as error:
            self._leave(NONE, str(error), retained)
            return
        self._take(snapshot, retained=retained)

    def work(self, now: float) -> None:
        """Try again what waits for the store, when it is due. Raises StoreBroken."""
        if self._waiting and now >= self._health.due:
            snapshot, retained = self._waiting
            self._take(snapshot, retained=retained)

    def reported(self, refused: Refusal | None) -> None:
        """A report that said `refused` has reached the broker."""
        # Another message of the same content may have come since: that one is still to be said.
        if refused is not None and self.refused is refused:
            self.refused = None
            self._told()  # the next report says that it is over

    def _take(self, snapshot: Snapshot, *, retained: bool) -> None:
        waiting, self._waiting = self._waiting, None
        decision = decide(self._standing(), snapshot, retained=retained)
        if isinstance(decision, Accept):
            if waiting is not None:
                snapshot, retained = _newer(waiting, (snapshot, retained))
            self._accept(snapshot, retained)
            return
        self._waiting = waiting
        if isinstance(decision, Current):
            self.left_alone = None
        elif isinstance(decision, Refuse):
            self._refuse(snapshot.version, decision.reason)
        elif isinstance(decision, Foreign):
            self._leave(snapshot.version, decision.reason, retained)

    def _accept(self, snapshot: Snapshot, retained: bool) -> None:
        before = self._standing().version
        try:
            self._commit(snapshot, not retained)
        except StoreError as error:
            self._waiting = (snapshot, retained)
            self._health.failed(error, self._clock())
            return
        self._health.works()
        self.refused = None
        self.left_alone = None
        self._told()
        log.info(
            "snapshot accepted",
            epoch=snapshot.version.epoch,
            revision=snapshot.version.revision,
            resources=len(snapshot.resources),
            again=before == snapshot.version,
            retained=retained,
        )
        for each in snapshot.unread:
            log.warning("resource of the snapshot does not read", key=each.key, reason=each.reason)

    def _refuse(self, version: Version, reason: str) -> None:
        epoch, revision = version
        self._report(version, reason)
        if self._said.new("refused", f"{epoch}.{revision} {reason}"):
            log.warning("snapshot refused", epoch=epoch, revision=revision, reason=reason)

    def _leave(self, version: Version, reason: str, retained: bool) -> None:
        self._report(version, reason)
        self.left_alone = reason
        if self._said.new("left", reason):
            log.warning("message left alone, nothing changes", reason=reason, retained=retained)

    def _report(self, version: Version, reason: str) -> None:
        self.refused = Refusal(epoch=version.epoch, revision=version.revision, reason=reason)
        self._told()


def _newer(one: tuple[Snapshot, bool], other: tuple[Snapshot, bool]) -> tuple[Snapshot, bool]:
    """Of two (snapshot, retained) that could not be committed yet, the one that counts."""
    if one[0].version != other[0].version:
        return max(one, other, key=lambda each: each[0].version)
    return other[0], one[1] and other[1]
