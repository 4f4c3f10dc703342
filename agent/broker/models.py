"""The models' part of the agent's side of the broker: ops in order, and the ModelSet.

Ops wait until it is known what the broker keeps of this node's own ModelSet (`release`): a greater
seq there means that the store was restored, and gets a new id. Then each turn commits before it
hands over. The ModelSet follows every change, one under way at a time, the latest wins.

Owned by the loop thread; waits for the disk alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from agent.models.modelset import shed
from agent.models.outbox import Token as OpToken
from agent.models.sync import ModelSync
from agent.pace import NEVER, Repeating
from nodecast.backoff import Backoff
from nodecast.errors import StoreBroken, StoreError
from nodecast.log import Repeats, logger
from nodecast.messages import ModelSet, encode, pack
from nodecast.session import Outgoing, Refused
from nodecast.topics import Topic

log = logger(__name__)

SET_PAUSE = 1.0
"""Seconds between two ModelSets."""
_REFUSED = Backoff(1.0, 120.0)
_STORE = Backoff(0.5, 60.0)

Publish = Callable[[Outgoing, object], None]
Oversize = Callable[[Outgoing], str | None]


@dataclass(frozen=True, slots=True)
class SetToken:
    """Names a ModelSet that was handed over, by the state of the models that it shows."""

    changes: int


class ModelUplink:
    """See the module. `renamed` is told the store's new id, where it gets one."""

    def __init__(
        self,
        models: ModelSync,
        *,
        ops: Topic,
        whole: Topic,
        publish: Publish,
        oversize: Oversize,
        rng: random.Random,
        new_id: Callable[[], str],
        renamed: Callable[[str], None],
    ) -> None:
        self._models = models
        self._ops = ops
        self._whole = whole
        self._publish = publish
        self._oversize = oversize
        self._new_id = new_id
        self._renamed = renamed
        self._resumes = Repeating(_REFUSED, rng)
        self._store = Repeating(_STORE, rng)
        self._said = Repeats()
        self._found: ModelSet | None = None
        self._release_asked = False
        self._shown: int | None = None  # `changes` of the last ModelSet handed over
        self._due = NEVER  # of the next ModelSet
        self._under_way = False
        # From `connected` to `lost`: what goes before it would overtake what has to go again.
        self._open = False
        self.released = False
        self.problem: str | None = None
        """Why the broker does not have the ModelSet, where it would not take it."""

    def due(self) -> float:
        """When `work` has something to do, if nothing happens before."""
        if not self._open:
            return NEVER
        if self._store.due < NEVER:
            return self._store.due  # nothing is done before
        shows = self.released and self._models.read_once and not self._under_way
        return min(self._resumes.due, self._store.due, self._due if shows else NEVER)

    @property
    def idle(self) -> bool:
        """Whether the broker has every op that can be sent, and the ModelSet after them."""
        shown = self._shown == self._models.changes and not self._under_way
        return self._models.idle and (shown or not self._models.read_once)

    # --- events

    def connected(self, now: float) -> None:
        """A new connection: everything that is not settled goes again, and the ModelSet."""
        self._models.connected()
        self._open = True
        self._shown, self._due, self._under_way = None, now, False

    def limit_changed(self, now: float) -> None:
        """The size that the broker takes is another: what was too large is looked at again."""
        self._models.retry_refused()
        if not self._under_way:
            self._shown, self._due = None, now

    def lost(self) -> None:
        self._open = False
        self._due, self._under_way, self.problem = NEVER, False, None
        self._resumes.cancel()

    def kept(self, found: ModelSet) -> None:
        """What the broker keeps of the own ModelSet."""
        if not self.released:
            self._found = found

    def release(self) -> None:
        """All that the broker keeps was told: ops may go."""
        self._release_asked = True

    def acknowledged(self, token: object) -> None:
        if isinstance(token, OpToken):
            # An answer from before a refusal must not cancel the pause after which all go again.
            if self._models.acknowledged(token):
                self._resumes.over()
        elif isinstance(token, SetToken):
            self._under_way, self.problem = False, None
            self._said.over("set")

    def refused(self, event: Refused, now: float) -> None:
        if isinstance(event.token, OpToken):
            why = event.reason
            if not event.too_large:
                why = f"{self._ops}: {why}; {event.remedy}"
            self._models.refused(event.token, why, too_large=event.too_large)
            if not event.too_large:
                self._resumes.again(now)
        elif isinstance(event.token, SetToken):
            self._under_way, self._shown = False, None
            # Too large: the limit is known now, and the next form is smaller.
            self._due = now if event.too_large else now + 30 * SET_PAUSE
            self.problem = (
                f"the broker refuses the ModelSet on {self._whole}: {event.reason}; {event.remedy}"
            )
            if self._said.new("set", str(event.code)):
                log.warning(
                    "the broker refuses the ModelSet",
                    topic=self._whole,
                    reason=event.reason,
                    do=event.remedy,
                )

    # --- work

    def work(self, now: float, free: Callable[[], int]) -> None:
        """Commit and hand over what is due, on a connection; `free`: how many publishes the session
        takes.

        Raises StoreBroken. After another StoreError it goes on after a pause.
        """
        if not self._open or (self._store.due < NEVER and not self._store.take(now)):
            return
        if self._resumes.take(now):
            self._models.resume()
        try:
            self._work(now, free)
        except StoreBroken:
            raise
        except StoreError as error:
            if self._said.new("store", str(error)):
                log.error("the store does not take model ops", error=error)
            self._store.again(now)

    def _work(self, now: float, free: Callable[[], int]) -> None:
        if self._release_asked and not self.released:
            self._models.own_set(self._found, self._new_id)
            self.released, self._found = True, None
            self._renamed(self._models.store)
        self._models.commit(free())
        self._store.over()
        self._said.over("store")
        for token, op in self._models.publications(free()):
            self._publish(Outgoing(self._ops, encode(op), retain=False), token)
        if self.released and self._models.read_once:
            self._show(now)

    def _show(self, now: float) -> None:
        """The ModelSet, when it says something else than the broker has."""
        if self._shown == self._models.changes:
            self._due = NEVER
            return
        self._due = min(self._due, now + SET_PAUSE)
        if self._under_way or now < self._due:
            return
        self._shown, self._due = self._models.changes, NEVER
        for form in shed(self._models.model_set(), self._models.unsendable):
            wire = pack(encode(form), compress=True)
            message = Outgoing(self._whole, wire.payload, retain=True, encoding=wire.encoding)
            reason = self._oversize(message)
            if reason is None:
                self._under_way = True
                self._publish(message, SetToken(self._models.changes))
                return
        self.problem = f"the ModelSet is too large to be sent: {reason}"
        if self._said.new("set", str(reason)):
            log.error("the ModelSet is too large to be sent", reason=reason)
