"""Reads an agent's state directory beside it, or when it is stopped; changes nothing.

For the command line. A store in WAL mode makes files beside itself even for a reader, which may be
another user without the right to. So a store without a `-wal` (its agent has stopped, and left it
whole) is opened as immutable, which is right as long as nothing writes to it.
"""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from agent.lock import agent_runs
from agent.models.modelset import model_set
from agent.models.outbox import Outbox
from agent.store.database import FILE, as_text
from agent.store.models import ModelStore
from agent.store.records import RECORDS, Accepted, Row, read_accepted, read_row
from nodecast.errors import StoreError
from nodecast.messages import ConfigState, ModelSet
from nodecast.names import ResourceKey


@dataclass(frozen=True, slots=True)
class DiskState:
    """What a store says. `bad`: records that do not read; the next start sets them aside."""

    store: str
    accepted: Accepted
    rows: dict[ResourceKey, Row]
    bad: int


@contextmanager
def reading(state_dir: Path) -> Iterator[sqlite3.Connection]:
    """The store of `state_dir`, read-only. Raises StoreError where there is none that reads."""
    path = state_dir / FILE
    try:
        _check(path)
        connection = _open(path)
    except (sqlite3.Error, OSError) as error:
        raise _unread(error, path) from error
    try:
        yield connection
    except sqlite3.Error as error:
        raise _unread(error, path) from error
    finally:
        connection.close()


def _unread(error: sqlite3.Error | OSError, path: Path) -> StoreError:
    if isinstance(error, PermissionError):
        return StoreError(f"{path} cannot be read: {error.strerror}; run this as the agent's user")
    return StoreError(f"{path} does not read: {error}")


def _check(path: Path) -> None:
    """Raises StoreError for what is no store at all, OSError for what cannot be looked at."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        text = f"{path} is not there: no agent ran on this state directory yet"
        raise StoreError(text) from error
    if not stat.S_ISREG(found.st_mode):
        raise StoreError(f"{path} is no file: the next start of the agent sets it aside")
    if found.st_size == 0:
        raise StoreError(f"{path} is empty: the next start of the agent begins a fresh store")


def _open(path: Path) -> sqlite3.Connection:
    wal = path.with_name(path.name + "-wal")
    whole = not wal.exists() or wal.stat().st_size == 0
    how = "immutable=1" if whole and not agent_runs(path.parent) else "mode=ro"
    connection = sqlite3.connect(f"file:{quote(str(path.absolute()))}?{how}", uri=True, timeout=5.0)
    connection.text_factory = as_text
    try:
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def read_state(connection: sqlite3.Connection) -> DiskState:
    """The accepted version and the rows."""
    store = connection.execute("SELECT value FROM meta WHERE key = 'store'").fetchone()
    record = connection.execute("SELECT * FROM accepted").fetchone()
    accepted, reason = read_accepted(record, record[1] if record else "")
    found = [read_row(each) for each in connection.execute(RECORDS)]
    rows = {each.key: each for each in found if isinstance(each, Row)}
    return DiskState(
        store[0] if store else "", accepted, rows, len(found) - len(rows) + bool(reason)
    )


def read_body(connection: sqlite3.Connection, key: ResourceKey) -> bytes | None:
    """The JSON of a resource, None where there is none. Raises StoreError for a bad record."""
    record = connection.execute(f"{RECORDS} WHERE resources.key = ?", (key,)).fetchone()
    if record is None:
        return None
    row, body = read_row(record), record[1]
    if not isinstance(row, Row):
        raise StoreError(
            f"the record of {key} does not read ({row}); the agent's next start sets it aside"
        )
    return bytes(body) if body is not None else None


def read_models(connection: sqlite3.Connection, node: str, store: str) -> ModelSet:
    """The models as the store has them, without what their config file says now."""
    outbox = Outbox(ModelStore(connection, read_only=True).load())
    return model_set(node, store, outbox, ConfigState(path="", state="unread"))
