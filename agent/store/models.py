"""The models' part of the agent's store: what was settled, what is sent, and the last ops.

What always holds: each transition of the outbox is one transaction, durable when the method
returns. A record that does not read is set aside with a log line; its model counts as there with a
spec that nobody knows, so that it is unloaded or loaded anew and never forgotten. The loop thread
calls it; a commit waits for the disk.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from agent.models.diff import Op, OpWord
from agent.models.outbox import RECENT, Held, OutboxState, SentOp, effect
from agent.models.spec import UNKNOWN, Spec
from agent.store.database import transaction, translated, write_store_id
from nodecast.errors import ObjectError
from nodecast.log import logger
from nodecast.messages import MAX_NUMBER, RecentOp

log = logger(__name__)

SCHEMA = """
CREATE TABLE IF NOT EXISTS model_seq (one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER);
CREATE TABLE IF NOT EXISTS model_base (name TEXT PRIMARY KEY, spec TEXT, failure TEXT);
CREATE TABLE IF NOT EXISTS model_sent (seq INTEGER PRIMARY KEY, word TEXT, model TEXT, spec TEXT,
    on_startup INTEGER, aside TEXT);
CREATE TABLE IF NOT EXISTS model_recent (seq INTEGER PRIMARY KEY, word TEXT, model TEXT, time TEXT);
CREATE TABLE IF NOT EXISTS model_bad (id INTEGER PRIMARY KEY, origin TEXT, record TEXT, reason TEXT)
"""
KEPT_BAD = 100
"""Records that were set aside and stay for whoever looks for the cause."""
_RECORD = 4096  # characters of one of them

_BASE = (
    "SELECT rowid, CAST(name AS BLOB), CAST(spec AS BLOB), CAST(failure AS BLOB)"
    " FROM model_base ORDER BY name"
)
_SENT = (
    "SELECT seq, CAST(word AS BLOB), CAST(model AS BLOB), CAST(spec AS BLOB), on_startup,"
    " CAST(aside AS BLOB) FROM model_sent ORDER BY seq"
)
_RECENT = (
    "SELECT seq, CAST(word AS BLOB), CAST(model AS BLOB), CAST(time AS BLOB)"
    " FROM model_recent ORDER BY seq"
)


class _Bad(NamedTuple):
    """A record that does not read, and where it is; `name`: of its model, as a blob."""

    table: str
    rowid: int
    name: object
    row: Sequence[object]
    reason: str


class ModelStore:
    """Reads and writes on `connection`, which the opener made with SCHEMA.

    `read_only`: for commands that look at the store of an agent that may be running.
    """

    def __init__(self, connection: sqlite3.Connection, *, read_only: bool = False) -> None:
        self._connection = connection
        self._read_only = read_only

    # Reading

    def load(self) -> OutboxState:
        """What is durable, its bad records set aside. Raises StoreError."""
        base: dict[str, Held] = {}
        sent: list[SentOp] = []
        bad: list[_Bad] = []
        for rowid, *row in self._rows(_BASE):
            try:
                base[_text(row[0], "name")] = _held(row[1], row[2])
            except ObjectError as error:
                bad.append(_Bad("model_base", rowid, row[0], row, str(error)))
        for seq, *row in self._rows(_SENT):
            try:
                sent.append(_sent(seq, row))
            except ObjectError as error:
                bad.append(_Bad("model_sent", seq, row[1], row, str(error)))
        if bad:
            base |= self._set_records_aside(bad)
        return OutboxState(self._seq(sent), base, tuple(sent), self._recent())

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(query).fetchall()
        except sqlite3.Error as error:
            raise translated(error, "read the models") from error

    def _seq(self, sent: Sequence[SentOp]) -> int:
        """The last seq; never below that of an op, so that none is given twice."""
        found = [row[0] for row in self._rows("SELECT seq FROM model_seq")]
        found += [row[0] for row in self._rows("SELECT max(seq) FROM model_recent")]
        return max([0, *(each.seq for each in sent), *(n for n in found if isinstance(n, int))])

    def _recent(self) -> tuple[RecentOp, ...]:
        ops: list[RecentOp] = []
        for seq, word, model, time in self._rows(_RECENT):
            try:
                name, said = _text(model, "model"), _text(time, "time")
                ops.append(RecentOp(seq=seq, op=_word(word), model=name, time=said))
            except ObjectError as error:  # only shown to people, and soon gone
                log.debug("recent model op does not read", seq=seq, reason=error)
        return tuple(ops[-RECENT:])

    def _set_records_aside(self, bad: Sequence[_Bad]) -> dict[str, Held]:
        """Move bad records away; the models that they name, of which no spec is known."""
        unknown: dict[str, Held] = {}
        for each in bad:
            try:
                name = _text(each.name, "name")
            except ObjectError:
                continue  # it is kept as it is; nothing more can be known of it
            unknown[name] = Held(UNKNOWN, f"its record was damaged: {each.reason}")
        if self._read_only:
            return unknown
        with transaction(self._connection, "set aside bad model records"):
            for each in bad:
                log.error("model record set aside", table=each.table, reason=each.reason)
                self._connection.execute(
                    "INSERT INTO model_bad (origin, record, reason) VALUES (?, ?, ?)",
                    (each.table, repr(each.row)[:_RECORD], each.reason),
                )
                self._connection.execute(f"DELETE FROM {each.table} WHERE rowid = ?", (each.rowid,))
            for name, held in unknown.items():
                self._write_base(name, held)
            self._connection.execute(
                "DELETE FROM model_bad WHERE id <= (SELECT max(id) FROM model_bad) - ?", (KEPT_BAD,)
            )
        return unknown

    # Writing

    def mark_sent(self, batch: Sequence[SentOp], time: str) -> None:
        """The ops are about to be handed to the session. Raises StoreError, nothing written."""
        if batch:
            with transaction(self._connection, "mark model ops as sent"):
                self._insert(batch, time)

    def settle(self, done: Iterable[SentOp]) -> None:
        """The ops are acknowledged or set aside. Raises StoreError, nothing written."""
        with transaction(self._connection, "settle model ops"):
            for each in done:
                self._connection.execute("DELETE FROM model_sent WHERE seq = ?", (each.seq,))
                self._write_base(each.op.model, effect(each))

    def set_aside(self, aside: SentOp) -> None:
        """The op is not sent any more. Raises StoreError, nothing written."""
        with transaction(self._connection, "set a model op aside"):
            self._connection.execute(
                "UPDATE model_sent SET aside = ? WHERE seq = ?", (aside.aside, aside.seq)
            )

    def renew(self, store: str, renewal: Sequence[SentOp], time: str) -> None:
        """Begin a new store id with these ops. Raises StoreError, nothing written."""
        with transaction(self._connection, "begin a new store id"):
            for table in ("model_base", "model_sent", "model_recent", "model_seq"):
                self._connection.execute(f"DELETE FROM {table}")
            write_store_id(self._connection, store)
            self._insert(renewal, time)

    def _insert(self, batch: Sequence[SentOp], time: str) -> None:
        self._connection.executemany(
            "INSERT INTO model_sent VALUES (?, ?, ?, ?, ?, ?)",
            (
                (s.seq, s.op.word, s.op.model, s.op.spec.body, int(s.on_startup), s.aside)
                for s in batch
            ),
        )
        self._connection.executemany(
            "INSERT OR REPLACE INTO model_recent VALUES (?, ?, ?, ?)",
            ((s.seq, s.op.word, s.op.model, time) for s in batch[-RECENT:]),
        )
        last = batch[-1].seq if batch else 0
        self._connection.execute("DELETE FROM model_recent WHERE seq <= ?", (last - RECENT,))
        self._connection.execute("INSERT OR REPLACE INTO model_seq VALUES (1, ?)", (last,))

    def _write_base(self, name: str, held: Held | None) -> None:
        if held is None:
            self._connection.execute("DELETE FROM model_base WHERE name = ?", (name,))
            return
        spec = held.spec.body if held.spec is not None else None
        self._connection.execute(
            "INSERT OR REPLACE INTO model_base VALUES (?, ?, ?)", (name, spec, held.failure)
        )


def _text(value: object, what: str) -> str:
    """A column read as a blob, since one whose bytes are no UTF-8 would stop the whole query."""
    try:
        text = value.decode() if isinstance(value, bytes) else ""
    except UnicodeDecodeError as error:
        raise ObjectError(f"{what} is no UTF-8") from error
    if not text:
        raise ObjectError(f"{what} is no text")
    return text


def _held(spec: object, failure: object) -> Held:
    if spec is None and failure is None:
        raise ObjectError("neither spec nor failure")
    return Held(
        Spec.read(_text(spec, "spec")) if spec is not None else None,
        _text(failure, "failure") if failure is not None else None,
    )


def _sent(seq: int, row: Sequence[Any]) -> SentOp:
    word, model, spec, on_startup, aside = row
    if not 0 < seq <= MAX_NUMBER:
        raise ObjectError(f"seq {seq} is out of range")
    op = Op(_word(word), _text(model, "model"), Spec.read(_text(spec, "spec")))
    return SentOp(seq, op, bool(on_startup), _text(aside, "aside") if aside is not None else None)


def _word(value: object) -> OpWord:
    if value == b"load":
        return "load"
    if value == b"unload":
        return "unload"
    raise ObjectError(f"op {str(value)[:20]} is neither load nor unload")
