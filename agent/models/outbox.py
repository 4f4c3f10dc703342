"""The outbox: which model ops are to be sent, which were, and what is settled.

What always holds:
- An op is *marked sent*, with its `seq`, before it is handed to the session. From then on it is
  never collapsed, changed or forgotten: it goes again, in order, until it is settled.
- An op that is not marked yet is nothing but a difference between what was marked and what the
  file says: its successor takes its place, and `load, unload` before sending is nothing.
- Ops settle in the order of `seq`. An acknowledgement that overtakes an older op waits for it, so
  that going again never leaves an older op as the last word on a model.
- Nothing changes here before it is durable: `propose` and `settled` say what would be, the caller
  commits that, `mark_sent` and `settle` make it so. A commit that fails changes nothing.

Pure: no clock, disk or socket. It belongs to the loop thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent.models.configfile import ConfigReading
from agent.models.diff import Op, diff
from agent.models.spec import UNKNOWN, Spec
from nodecast.messages import RecentOp

WINDOW = 20
"""Ops that may be marked sent and not settled; what is not marked yet can still be replaced."""
RECENT = 10
"""Ops that the ModelSet shows to people."""


@dataclass(frozen=True, slots=True)
class SentOp:
    """An op with its `seq`. `aside`: why it is not sent any more; it settles as a failure."""

    seq: int
    op: Op
    on_startup: bool = False
    aside: str | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """What a model is after the ops so far. `spec` None: not there; `failure`: why not as asked."""

    spec: Spec | None
    failure: str | None = None


def effect(sent: SentOp) -> Held | None:
    """What its model is after `sent`; None: gone without a trace.

    A load that was set aside counts as carried out, and failed: it may have arrived, and asking
    again waits for another spec. An unload that was set aside leaves a model of which no more than
    the name is known, and so is asked for again in its smallest form; if that is set aside too,
    only the failure stays.
    """
    if sent.op.word == "load":
        return Held(sent.op.spec, sent.aside)
    if sent.aside is None:
        return None
    return Held(UNKNOWN if sent.op.spec != UNKNOWN else None, sent.aside)


@dataclass(frozen=True, slots=True)
class OutboxState:
    """The durable part. `base`: what the settled ops made of each model; `sent`: by `seq`."""

    seq: int = 0
    base: Mapping[str, Held] = field(default_factory=dict)
    sent: Sequence[SentOp] = ()
    recent: Sequence[RecentOp] = ()


@dataclass(frozen=True, slots=True)
class Token:
    """Names one sending of an op to the session; those of an earlier round count no more."""

    seq: int
    round: int


Oversize = Callable[[SentOp], str | None]
"""Why an op cannot be sent (it is above the limit), or None."""


class Outbox:
    """The ops of one store. `window`: how many may be sent and not settled."""

    def __init__(self, state: OutboxState, window: int = WINDOW) -> None:
        self.seq = state.seq
        self._window = window
        self._base = dict(state.base)
        self._sent: deque[SentOp] = deque(state.sent)
        self._held: dict[str, Held] = {}
        self._replay()
        self._want: dict[str, Spec] | None = None
        self._startup: frozenset[str] = frozenset()
        self._refused: dict[str, tuple[Spec | None, str]] = {}
        self._pending: deque[Op] = deque()
        self._round = 0
        self._handed = 0  # the greatest seq handed to the session in this round
        self._acknowledged: set[int] = set()

    # What is asked for

    @property
    def want(self) -> Mapping[str, Spec] | None:
        """The models asked for; None before a file that speaks was read in this process."""
        return self._want

    @property
    def held(self) -> Mapping[str, Held]:
        """Each model after op `seq`: what consumers of the ops have, or will have."""
        return self._held

    @property
    def sent(self) -> tuple[SentOp, ...]:
        """The ops that are marked sent and not settled, by `seq`."""
        return tuple(self._sent)

    @property
    def pending(self) -> tuple[Op, ...]:
        """The ops that are not marked sent yet, without the refused ones."""
        return tuple(self._pending)

    @property
    def refused(self) -> Mapping[str, str]:
        """The models whose next op is not sent, and why."""
        return {model: reason for model, (_, reason) in self._refused.items()}

    def read(self, reading: ConfigReading, *, startup: bool) -> None:
        """Take what a config file says. `startup`: this is the first look of this process.

        A model whose entry is bad keeps what was last asked for it, else what it has.
        """
        before = self._want or {}
        have = self._models()
        want = dict(reading.entries)
        for name in reading.keep:
            kept = before.get(name) or have.get(name)
            if kept is not None:
                want[name] = kept
        if startup:
            self._startup = frozenset(op.model for op in diff(have, want))
        else:
            self._startup = frozenset(n for n in self._startup if before.get(n) == want.get(n))
        self._want = want
        self._derive()

    def _models(self) -> dict[str, Spec]:
        return {name: held.spec for name, held in self._held.items() if held.spec is not None}

    def _derive(self) -> None:
        """Ops not marked yet are derived anew: what is refused stays so until its want changes."""
        if self._want is None:
            return
        want = self._want
        self._refused = {n: r for n, r in self._refused.items() if r[0] == want.get(n)}
        ops = diff(self._models(), want)
        self._pending = deque(op for op in ops if op.model not in self._refused)

    # Marking and sending

    def propose(self, oversize: Oversize, room: int = WINDOW) -> tuple[SentOp, ...]:
        """The next ops to mark sent, at most `room` and what the window allows.

        One that cannot be sent is refused here, and shown; its model keeps what it had, so a
        change is refused before its `unload` goes. An `unload` that is too large goes without its
        spec, which no consumer needs.
        """
        room = min(room, self._window - len(self._sent))
        batch: list[SentOp] = []
        while len(batch) < min(room, len(self._pending)):
            op = self._pending[len(batch)]
            sent = SentOp(self.seq + len(batch) + 1, op, op.model in self._startup)
            reason = self._too_large(sent, oversize)
            if reason is None:
                if oversize(sent):
                    sent = replace(sent, op=replace(op, spec=UNKNOWN))
                batch.append(sent)
            else:
                self._refuse(op.model, reason, at=len(batch))
        return tuple(batch)

    def _too_large(self, sent: SentOp, oversize: Oversize) -> str | None:
        """Why `sent`, or the load that an unload makes way for, can be sent in no form."""
        if sent.op.word == "load":
            return oversize(sent)
        want = (self._want or {}).get(sent.op.model)
        if want is not None:
            load = SentOp(sent.seq + 1, Op("load", sent.op.model, want), sent.on_startup)
            reason = oversize(load)
            if reason is not None:
                return reason
        return oversize(replace(sent, op=replace(sent.op, spec=UNKNOWN)))

    def _refuse(self, model: str, reason: str, *, at: int) -> None:
        """Drop the pending ops of `model`, side by side from index `at` on."""
        self._refused[model] = ((self._want or {}).get(model), reason)
        while at < len(self._pending) and self._pending[at].model == model:
            del self._pending[at]

    def retry_refused(self) -> None:
        """Look again at what was refused: the limit may have changed."""
        if self._refused:
            self._refused.clear()
            self._derive()

    def mark_sent(self, batch: Iterable[SentOp]) -> None:
        """The proposed ops are durable now: they are the next to hand to the session."""
        for each in batch:
            op = self._pending.popleft()
            assert (op.word, op.model) == (each.op.word, each.op.model), "propose, then mark"
            self._sent.append(each)
            self.seq = each.seq
            _set(self._held, each)

    def unhanded(self) -> tuple[SentOp, ...]:
        """The ops to hand to the session in this round, in order; those set aside are skipped."""
        return tuple(s for s in self._sent if s.seq > self._handed and s.aside is None)

    def hand(self, sent: SentOp) -> Token:
        """`sent` goes to the session now, under this token."""
        self._handed = sent.seq
        return Token(sent.seq, self._round)

    def go_again(self) -> None:
        """The connection is lost, or an op was refused: all goes again that is not settled, from
        the first that nobody acknowledged on."""
        done = self.settled()
        self._round += 1
        self._handed = done[-1].seq if done else 0
        self._acknowledged = {each.seq for each in done}

    # Settling

    def current(self, token: Token) -> bool:
        """Whether an answer to `token` counts; to one of an earlier round it says nothing."""
        return token.round == self._round

    def acknowledge(self, token: Token) -> None:
        """The broker has the op."""
        if self.current(token):
            self._acknowledged.add(token.seq)

    def settled(self) -> tuple[SentOp, ...]:
        """The oldest ops that are acknowledged or set aside, up to the first that is neither."""
        done: list[SentOp] = []
        for each in self._sent:
            if each.aside is None and each.seq not in self._acknowledged:
                break
            done.append(each)
        return tuple(done)

    def settle(self, done: Iterable[SentOp]) -> None:
        """The settled ops are durable in the base now."""
        for each in done:
            assert self._sent[0].seq == each.seq, "ops settle in order"
            self._sent.popleft()
            self._acknowledged.discard(each.seq)
            _set(self._base, each)

    def asided(self, seq: int, reason: str) -> SentOp | None:
        """The sent op `seq` as it would be set aside; None when it is not here any more."""
        for each in self._sent:
            if each.seq == seq:
                return replace(each, aside=reason)
        return None

    def set_aside(self, aside: SentOp) -> None:
        """The op is durably set aside: it is not sent again, and settles in its turn."""
        self._sent = deque(aside if each.seq == aside.seq else each for each in self._sent)
        self._replay()
        self._derive()

    def _replay(self) -> None:
        """What every model is after the base and the sent ops."""
        self._held = dict(self._base)
        for each in self._sent:
            _set(self._held, each)

    # A new store id

    def renewal(self) -> tuple[SentOp, ...]:
        """The ops that begin a new store: all that is there is loaded again, from seq 1 on.

        So whoever replays the ops of one store alone ends in the state of the file, and a crash
        or a file that is missing then loses nothing: the ops are marked sent with the new id.
        """
        loads = diff({}, self._models())
        return tuple(SentOp(seq, op, on_startup=True) for seq, op in enumerate(loads, start=1))

    def renew(self, renewal: Iterable[SentOp]) -> None:
        """The new store id and its first ops are durable now."""
        self._base = {}
        self._sent = deque(renewal)
        self.seq = len(self._sent)
        self.go_again()
        self._replay()
        self._derive()


def _set(models: dict[str, Held], sent: SentOp) -> None:
    held = effect(sent)
    if held is None:
        models.pop(sent.op.model, None)
    else:
        models[sent.op.model] = held
