"""ModelSync: moves model ops between the outbox, the store and the session, in the safe order.

    commit(room)        what was acknowledged or refused, and the next ops, onto the disk
    publications(room)  the ops to hand to the session, each with its token
    acknowledged / refused / connected    what the session says of them

What always holds: an op is handed over only after it is durable, and none before `own_set` was
told what the broker keeps of this node's models; a StoreError leaves everything as it was, and the
next `commit` tries the same again. It belongs to the loop thread and waits for the disk only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from agent.models.configfile import ConfigReading, ConfigSeen, read_config
from agent.models.modelset import NOTHING_READ, describe, model_set
from agent.models.outbox import RECENT, Outbox, OutboxState, SentOp, Token
from nodecast.errors import ConfigFileError
from nodecast.log import Repeats, logger
from nodecast.messages import ConfigState, ModelOp, ModelSet, RecentOp

log = logger(__name__)


class Storage(Protocol):
    """The durable part; every method but `load` is one transaction and raises StoreError."""

    def load(self) -> OutboxState: ...
    def mark_sent(self, batch: Sequence[SentOp], time: str) -> None: ...
    def settle(self, done: Sequence[SentOp]) -> None: ...
    def set_aside(self, aside: SentOp) -> None: ...
    def renew(self, store: str, renewal: Sequence[SentOp], time: str) -> None: ...


class ModelSync:
    """The models of `node`. `store`: the store's id; `path`: of the config file, for people.

    `oversize` says why a message cannot be sent (it is above the limit), or None; `now` gives the
    time of day as text, for people's eyes. Raises StoreError when the store does not load.
    """

    def __init__(
        self,
        node: str,
        store: str,
        path: str,
        storage: Storage,
        *,
        oversize: Callable[[ModelOp], str | None],
        now: Callable[[], str],
    ) -> None:
        self._node = node
        self._store = store
        self._storage = storage
        self._oversize = oversize
        self._now = now
        state = storage.load()
        self._outbox = Outbox(state)
        self._recent = deque(state.recent, maxlen=RECENT)
        self._config = ConfigState(path=path, state="unread", message="not read yet")
        self._reading = NOTHING_READ
        self._released = False
        self._paused = False
        self._too_large: dict[int, str] = {}
        self._said = Repeats()
        self.changes = 0
        """Rises whenever the ModelSet says something else."""

    @property
    def store(self) -> str:
        """The store id that ops and ModelSet carry."""
        return self._store

    @property
    def read_once(self) -> bool:
        """Whether the config file was looked at in this process: before that, nothing is ready."""
        return self._config.state != "unread"

    @property
    def idle(self) -> bool:
        """Whether everything that can be sent is settled; what is refused waits for a new spec."""
        return not self._outbox.sent and not self._outbox.pending

    @property
    def unsendable(self) -> frozenset[str]:
        """The models whose spec no consumer was sent, since their load is too large."""
        held = self._outbox.held
        refused = {n for n in self._outbox.refused if n not in held or held[n].spec is None}
        return frozenset(refused | {name for name, each in held.items() if each.failure})

    @property
    def config_problems(self) -> tuple[str, ...]:
        """What is wrong with entries of a config file that reads, each told for itself."""
        if self._config.state != "ok":
            return ()
        return self._reading.texts()

    def model_set(self) -> ModelSet:
        """The ModelSet of this moment."""
        return model_set(
            self._node,
            self._store,
            self._outbox,
            self._config,
            reading=self._reading,
            recent=self._recent,
            time=self._now(),
        )

    # The config file

    def seen(self, seen: ConfigSeen) -> None:
        """Take a look at the config file; what is no readable array changes no model."""
        startup = not self.read_once
        self.changes += 1
        if seen.error is not None:
            self._say_nothing_read("invalid", f"cannot be read: {seen.error}")
        elif seen.raw is None:
            self._say_nothing_read("missing", "no such file; the models stay as they are")
        else:
            try:
                reading = read_config(seen.raw)
            except ConfigFileError as error:
                self._say_nothing_read("invalid", f"{error}; the models stay as they are")
            else:
                self._take(reading, startup)

    def _say_nothing_read(self, state: str, message: str) -> None:
        self._config = ConfigState(
            path=self._config.path,
            state="missing" if state == "missing" else "invalid",
            message=message,
        )
        # Once for a file that is written bit by bit, however many bits there are.
        if self._said.new("config", state):
            log.warning(f"model config {state}", path=self._config.path, reason=message)

    def _take(self, reading: ConfigReading, startup: bool) -> None:
        message = describe(reading)
        self._config = ConfigState(path=self._config.path, state="ok", message=message)
        self._said.over("config")
        if reading.problems and self._said.new("problems", message):
            log.warning("model config has bad entries", path=self._config.path, problems=message)
        elif not reading.problems:
            self._said.over("problems")
        self._reading = reading
        self._outbox.read(reading, startup=startup)
        log.info(
            "model config read",
            models=len(reading.entries),
            ops=len(self._outbox.pending),
            startup=startup,
        )

    # The session

    def own_set(self, found: ModelSet | None, new_id: Callable[[], str]) -> None:
        """What the broker keeps of this node's models at the start; from now on ops may go.

        A greater seq of our own store says that the store was restored from a backup: what it
        would call seq n is something else than what consumers saw. It goes on under a new id.
        Raises StoreError, and is called again then.
        """
        if self._released:
            return
        outbox = self._outbox
        if found and found.store == self._store and found.seq > outbox.seq:
            store, renewal = new_id(), outbox.renewal()
            self._storage.renew(store, renewal, self._now())
            log.warning(
                "the store is older than what it sent: a new store id, models are loaded again",
                seq=outbox.seq,
                sent=found.seq,
                store=store,
            )
            self._store = store
            outbox.renew(renewal)
            self._recent.clear()
            self._remember(renewal)
        self._released = True

    def connected(self) -> None:
        """A new connection: what is not settled goes again, what was refused is looked at again."""
        self._outbox.go_again()
        self.retry_refused()
        self._too_large.clear()
        self._paused = False

    def retry_refused(self) -> None:
        """The limit may be another: the ops that were too large for it are pending again."""
        if self._outbox.refused:
            self._outbox.retry_refused()
            self.changes += 1

    def acknowledged(self, token: Token) -> bool:
        """The broker has the op; the next `commit` settles it.

        False for an answer from before a refusal or a loss: it counts no more, the op goes again.
        """
        self._outbox.acknowledge(token)
        return self._outbox.current(token)

    def refused(self, token: Token, reason: str, *, too_large: bool) -> None:
        """The broker does not take the op.

        One that is too large is set aside by the next `commit`. Any other refusal stops the ops,
        since a later one must not overtake it, until `resume` or a new connection.
        """
        if too_large:
            self._too_large[token.seq] = reason
        elif self._outbox.current(token):
            self._outbox.go_again()
            self._paused = True
            if self._said.new("refused", reason):
                log.warning("the broker refuses model ops", seq=token.seq, reason=reason)

    def resume(self) -> None:
        """After a refusal, and the caller's pause: all that is not settled goes again."""
        self._paused = False

    # The work

    def commit(self, room: int) -> None:
        """Make durable what was answered and the ops that go next, at most `room` of them.

        `room`: how many publishes the session takes now. Raises StoreError: nothing is lost, and
        nothing new is sent before a later call succeeds.
        """
        self._set_aside()
        self._settle()
        room -= len(self._outbox.unhanded())
        if room > 0 and self._released and not self._paused:
            self._mark(room)

    def _set_aside(self) -> None:
        for seq, reason in list(self._too_large.items()):
            aside = self._outbox.asided(seq, reason)
            if aside is not None:
                self._storage.set_aside(aside)
                self._outbox.set_aside(aside)
                self.changes += 1
                log.error("model op set aside", model=aside.op.model, seq=seq, reason=reason)
            del self._too_large[seq]

    def _settle(self) -> None:
        done = self._outbox.settled()
        if done:
            self._storage.settle(done)
            self._outbox.settle(done)
            self._said.over("refused")

    def _mark(self, room: int) -> None:
        waiting = len(self._outbox.pending)
        batch = self._outbox.propose(lambda sent: self._oversize(self._message(sent)), room)
        if len(self._outbox.pending) < waiting:
            self._say_refused()
        if batch:
            self._storage.mark_sent(batch, self._now())
            self._outbox.mark_sent(batch)
            self._remember(batch)
            log.info("model ops sent", ops=len(batch), first=batch[0].seq, last=batch[-1].seq)

    def _say_refused(self) -> None:
        self.changes += 1
        for model, reason in self._outbox.refused.items():
            if self._said.new(("refused", model), reason):
                log.error("model op is too large to be sent", model=model, reason=reason)

    def _remember(self, batch: Sequence[SentOp]) -> None:
        self.changes += 1
        time = self._now()
        self._recent.extend(
            RecentOp(seq=each.seq, op=each.op.word, model=each.op.model, time=time)
            for each in batch[-RECENT:]
        )

    def publications(self, room: int) -> list[tuple[Token, ModelOp]]:
        """The durable ops to hand to the session now, in order, at most `room`."""
        if not self._released or self._paused:
            return []
        ready = self._outbox.unhanded()[:room]
        return [(self._outbox.hand(each), self._message(each)) for each in ready]

    def _message(self, sent: SentOp) -> ModelOp:
        return ModelOp(
            node=self._node,
            store=self._store,
            seq=sent.seq,
            op=sent.op.word,
            model=sent.op.model,
            spec=sent.op.spec.value(),
            on_startup=sent.on_startup,
        )
