"""The agent's SQLite file: opened, checked, made anew, and its errors in our words.

What always holds: a commit that returned is on disk (`synchronous=FULL`); a file that is no store
of ours is never read as an empty one, but set aside whole (database, `-wal` and `-shm`: a stale
`-wal` would silently replace the content of the next database) and a fresh one begun, which fills
from the broker. A disk that is full or read-only is no broken store: that is a StoreError, and the
file stays. The connection belongs to the loop thread; a commit waits for the disk, and for another
process's lock at most `BUSY_S`.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nodecast.errors import StoreBroken, StoreError, Unavailable
from nodecast.log import logger

log = logger(__name__)

FILE = "agent.db"
SCHEMA_VERSION = 1
BUSY_S = 5.0
KEPT_BAD = 3
"""How many stores that were set aside stay; the oldest goes when there are more."""

META = "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;"
# SQLITE_ERROR: our own statements do not fit the tables, so they are not the tables we made.
_BROKEN = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR})
# `-journal`: a power loss while the store was made leaves one, which SQLite would play back.
_COMPANIONS = ("-wal", "-shm", "-journal")
_LARGE = 256 * 1024  # bytes of a transaction that may fill a disk
_MARGIN = 1024 * 1024  # bytes that a large transaction leaves to the small ones after it
_PRIMARY = 0xFF  # an extended result code holds its primary code in the low byte


@dataclass(frozen=True, slots=True)
class Opened:
    """An open store, and its id."""

    connection: sqlite3.Connection
    store: str


def as_text(raw: bytes) -> str:
    """Text of a damaged record need not be UTF-8: it is judged with its record, not in SQLite."""
    return raw.decode(errors="surrogateescape")


def translated(error: sqlite3.Error, what: str) -> StoreError:
    """`error` of SQLite as ours; `what` says which work failed."""
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    if _primary(error) in _BROKEN:
        return StoreBroken(f"cannot {what}: the store is damaged ({name}: {error})")
    return StoreError(f"cannot {what}: {error} ({name}); it is tried again")


@contextmanager
def transaction(connection: sqlite3.Connection, what: str, size: int = 0) -> Iterator[None]:
    """One durable transaction of about `size` bytes: all of it is on disk afterwards, or nothing.

    Raises StoreError for what SQLite raises; the transaction is rolled back then, and the same
    connection works again once the disk does.
    """
    if size > _LARGE:
        # What is in the -wal already could not leave it any more once this has filled the disk.
        _checkpoint(connection, "PASSIVE")
        _check_room(connection, what, size)
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("COMMIT")
    except BaseException as error:
        _roll_back(connection)
        if isinstance(error, sqlite3.Error):
            if _primary(error) == sqlite3.SQLITE_FULL:
                give_room_back(connection)
            raise translated(error, what) from error
        raise


def give_room_back(connection: sqlite3.Connection) -> None:
    """Empty the -wal, which keeps its room otherwise, also that of what was rolled back: on a full
    disk nothing else could use it. Where that does not work now, a later call may.
    """
    _checkpoint(connection, "TRUNCATE")


def _checkpoint(connection: sqlite3.Connection, how: str) -> None:
    """Waits for the disk, and for no reader."""
    try:
        connection.execute("PRAGMA busy_timeout=0")
        try:
            connection.execute(f"PRAGMA wal_checkpoint({how})").fetchone()
        finally:
            connection.execute(f"PRAGMA busy_timeout={round(BUSY_S * 1000)}")
    except sqlite3.Error as error:  # whatever is wrong, the next transaction says it
        log.debug("no checkpoint", how=how, error=error)


def _check_room(connection: sqlite3.Connection, what: str, size: int) -> None:
    """Raises StoreError where `size` bytes find no room twice, in the -wal and then in the store.

    With room for the first alone they would stay in the -wal, and a disk that is full of it takes
    nothing any more that could make it smaller.
    """
    path = connection.execute("PRAGMA database_list").fetchone()[2]
    try:
        disk = os.statvfs(path)
    except OSError as error:
        log.debug("room not known", path=path, error=error)
        return
    needed = 2 * size + _MARGIN
    # Some file systems (of FUSE) say nothing of their size: all is zero.
    if disk.f_blocks and disk.f_bavail * disk.f_frsize < needed:
        raise StoreError(
            f"cannot {what}: it needs {needed} bytes of room on the disk of {path}; free some"
            " space; it is tried again"
        )


def _primary(error: sqlite3.Error) -> int | None:
    """The primary result code; None where the error is not SQLite's own."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & _PRIMARY


def _roll_back(connection: sqlite3.Connection) -> None:
    try:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    except sqlite3.Error as error:  # SQLite rolls back by itself when it can no longer be asked to
        log.debug("rollback failed", error=error)


def open_database(state_dir: Path, schemas: Sequence[str], new_id: str) -> Opened:
    """Open `<state_dir>/agent.db`, or begin one with the store id `new_id`.

    `schemas`: `CREATE TABLE IF NOT EXISTS` scripts. Raises StoreError when the disk does not allow
    it now, Unavailable when a newer release made the store.
    """
    path = state_dir / FILE
    if path.exists() or _beside(path):
        try:
            return _open_existing(path, schemas)
        except StoreBroken as error:
            kept = set_aside(path)
            log.error("store is broken, set aside; a fresh one begins", error=error, kept=kept)
    try:
        return Opened(_create(path, schemas, new_id), new_id)
    except StoreError:
        # What was begun would be set aside at the next try, and push out what is worth keeping.
        _unmake(path)
        raise


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
    connection.text_factory = as_text
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA journal_size_limit=4194304")
        # Some builds of SQLite write zeros over what is deleted: as much room as to write it.
        connection.execute("PRAGMA secure_delete=FAST")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _open_existing(path: Path, schemas: Sequence[str]) -> Opened:
    """The store at `path`. Raises StoreBroken for what is no store of ours."""
    if not path.exists() or path.stat().st_size == 0:
        raise StoreBroken(f"{path} is empty or missing beside its -wal")
    if not path.is_file():
        raise StoreBroken(f"{path} is no file")
    try:
        connection = _connect(path)
    except sqlite3.Error as error:
        raise translated(error, f"open {path}") from error
    try:
        store = _check(connection, path, schemas)
        give_room_back(connection)
        return Opened(connection, store)
    except sqlite3.Error as error:
        connection.close()
        raise translated(error, f"read {path}") from error
    except BaseException:
        connection.close()
        raise


def _check(connection: sqlite3.Connection, path: Path, schemas: Sequence[str]) -> str:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA_VERSION:
        raise Unavailable(
            f"{path} was made by a newer release (store version {version}, this one reads"
            f" {SCHEMA_VERSION}): install that release again, or move the file away"
        )
    missing = _table_names(schemas) - _tables_of(connection)
    if missing:
        raise StoreBroken(f"{path} lacks the tables {', '.join(sorted(missing))}")
    verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if verdict != "ok":
        raise StoreBroken(f"{path}: {verdict}")
    row = connection.execute("SELECT value FROM meta WHERE key = 'store'").fetchone()
    if row is None or not isinstance(row[0], str) or not row[0].isprintable() or not row[0]:
        raise StoreBroken(f"{path} has no store id")
    return row[0]


def _tables_of(connection: sqlite3.Connection) -> set[str]:
    return {r[0] for r in connection.execute("SELECT name FROM sqlite_schema WHERE type='table'")}


def _table_names(schemas: Sequence[str]) -> set[str]:
    """The tables that `schemas` make, asked of SQLite itself."""
    scratch = sqlite3.connect(":memory:")
    try:
        for schema in (META, *schemas):
            scratch.executescript(schema)
        return _tables_of(scratch)
    finally:
        scratch.close()


def _create(path: Path, schemas: Sequence[str], store: str) -> sqlite3.Connection:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StoreError(f"cannot make {path}: {error.strerror}") from error
    try:
        connection = _connect(path)
    except sqlite3.Error as error:
        raise translated(error, f"make {path}") from error
    try:
        with transaction(connection, f"make {path}"):
            for schema in (META, *schemas):
                for statement in filter(str.strip, schema.split(";")):
                    connection.execute(statement)
            connection.execute("INSERT INTO meta VALUES ('store', ?)", (store,))
            connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        # The tables and the id into the main file: it stays ours even if the -wal is lost.
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        _sync_directory(path.parent)
    except (sqlite3.Error, OSError) as error:
        connection.close()
        if isinstance(error, sqlite3.Error):
            raise translated(error, f"make {path}") from error
        raise StoreError(f"cannot make {path}: {error.strerror}") from error
    except StoreError:
        connection.close()
        raise
    return connection


def _unmake(path: Path) -> None:
    for each in (path, *_beside(path)):
        try:
            each.unlink(missing_ok=True)
        except OSError as error:
            log.debug("a store that could not be made stays", path=each, error=error)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_store_id(connection: sqlite3.Connection, store: str) -> None:
    """Give the store a new id, inside the caller's transaction."""
    connection.execute("UPDATE meta SET value = ? WHERE key = 'store'", (store,))


def _beside(path: Path) -> list[Path]:
    """The files that belong to the database at `path` and are there."""
    return [p for p in (path.with_name(path.name + end) for end in _COMPANIONS) if p.exists()]


def set_aside(path: Path) -> Path:
    """Rename the store and its companions to `agent.db.bad-<n>`, and drop the oldest of many.

    Raises StoreError.
    """
    number = max(_bad_numbers(path), default=0) + 1
    target = path.with_name(f"{path.name}.bad-{number}")
    try:
        # The companions first: a crash between leaves a database without them, never the reverse.
        for each in _beside(path):
            each.rename(target.with_name(target.name + each.name[len(path.name) :]))
        if path.exists():
            path.rename(target)
        for old in sorted(_bad_numbers(path))[:-KEPT_BAD]:
            for each in path.parent.glob(f"{path.name}.bad-{old}*"):
                if each.name.removeprefix(f"{path.name}.bad-{old}") in ("", *_COMPANIONS):
                    each.unlink()
        _sync_directory(path.parent)
    except OSError as error:
        raise StoreError(f"cannot set {path} aside: {error.strerror}") from error
    return target


def _bad_numbers(path: Path) -> set[int]:
    ends = (
        p.name[len(path.name) + 5 :].partition("-")[0]
        for p in path.parent.glob(f"{path.name}.bad-*")
    )
    return {int(end) for end in ends if end.isdecimal()}
