"""The resources side of the store: the accepted version, and one row a resource.

What always holds: a key has a row from the moment it is first desired until its removal is
confirmed on disk, so a crash in between can never make an orphan of a file of our own; accepting a
snapshot is one transaction that writes only the rows that changed (equal content: the version row
alone); the rows in memory are those of the last commit that succeeded. One bad record is set aside
and the store marked damaged, so that the same version is accepted once more.

Owned by the loop thread; every write waits for the disk (3 ms, 13 at worst, on a good one).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import orjson

from agent.store.database import give_room_back, transaction, translated
from agent.store.records import (
    RECORDS,
    Accepted,
    Row,
    content_sum,
    file_content,
    read_accepted,
    read_row,
)
from nodecast.log import logger
from nodecast.messages import Resource, Snapshot
from nodecast.names import ResourceKey

log = logger(__name__)

SCHEMA = """
CREATE TABLE IF NOT EXISTS accepted (
    one INTEGER PRIMARY KEY CHECK (one = 1), bridge TEXT NOT NULL, epoch INTEGER NOT NULL,
    revision INTEGER NOT NULL, digest TEXT NOT NULL, held TEXT NOT NULL, withheld TEXT NOT NULL,
    damaged INTEGER NOT NULL, unconfirmed INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS resources (
    key TEXT PRIMARY KEY, body BLOB, digest TEXT NOT NULL, sum TEXT NOT NULL, uid TEXT,
    generation INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS progress (
    key TEXT PRIMARY KEY, leaving INTEGER NOT NULL, applied TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS set_aside (
    id INTEGER PRIMARY KEY, key, body, reason TEXT NOT NULL);
"""
KEPT_ASIDE = 100
"""How many bad records stay to be looked at; the oldest goes when there are more."""


class ResourceStore:
    """The accepted version and the rows, in memory as on disk. Methods raise StoreError."""

    def __init__(self, connection: sqlite3.Connection, store: str, bridge: str) -> None:
        self._db = connection
        self.store = store
        self.accepted = Accepted(bridge)
        self.rows: dict[ResourceKey, Row] = {}
        self._load(bridge)

    # --- what is there

    def body(self, key: ResourceKey) -> bytes:
        """The JSON of a row that is not leaving without a body."""
        try:
            row = self._db.execute("SELECT body FROM resources WHERE key = ?", (key,)).fetchone()
        except sqlite3.Error as error:
            raise translated(error, f"read {key}") from error
        return bytes(row[0])

    # --- changes, each one transaction

    def accept(
        self,
        snapshot: Snapshot,
        *,
        live: bool,
        orphans: Iterable[ResourceKey] = (),
        behind: bool = False,
        gone: Collection[ResourceKey] = (),
    ) -> None:
        """Make `snapshot` the desired set.

        What it neither names nor keeps is leaving. `live`: it came without the retain flag, so the
        bridge speaks now: then `orphans` (keys of files that no row knows) may leave as well.
        `behind`: the store was behind the disk until now; only a live snapshot ends that doubt.
        `gone`: keys that are no longer on the disk as their rows say; where the snapshot keeps
        them without naming them, their rows go.
        """
        changed = self._changed(snapshot, orphans if live else (), gone)
        accepted = Accepted(
            self.accepted.bridge,
            snapshot.version,
            snapshot.digest,
            snapshot.held_kinds,
            snapshot.withheld,
            damaged=False,
            unconfirmed=(self.accepted.unconfirmed or behind) and not live,
        )
        bodies = {each.key: each.body for each in snapshot.resources if each.key in changed}
        size = sum(map(len, bodies.values()))
        with transaction(self._db, "accept a snapshot", size):
            for key, row in changed.items():
                self._write_row(key, row, bodies.get(key))
            self._write_accepted(accepted)
        self.accepted = accepted
        self._remember(changed)

    def applied(self, sums: Mapping[ResourceKey, str]) -> None:
        """These keys are on disk, with these sums."""
        rows = {
            key: replace(self.rows[key], applied=sum_)
            for key, sum_ in sums.items()
            if key in self.rows and self.rows[key].applied != sum_
        }
        if not rows:
            return
        with transaction(self._db, "note what is on disk"):
            self._db.executemany(
                "UPDATE progress SET applied = ? WHERE key = ?",
                [(row.applied, key) for key, row in rows.items()],
            )
        self.rows.update(rows)

    def removed(self, keys: Iterable[ResourceKey]) -> None:
        """These keys are off the disk: their rows go, unless they are desired again."""
        gone = [k for k in keys if k in self.rows and self.rows[k].leaving]
        if not gone:
            return
        with transaction(self._db, "note what was removed"):
            for key in gone:
                self._delete(key)
        for key in gone:
            del self.rows[key]

    def give_room_back(self) -> None:
        """The disk is full: the store takes no more of it than it must."""
        give_room_back(self._db)

    # --- within

    def _changed(
        self,
        snapshot: Snapshot,
        orphans: Iterable[ResourceKey],
        gone: Collection[ResourceKey],
    ) -> dict[ResourceKey, Row | None]:
        """The rows that differ from those in memory; None: the row goes without a removal."""
        changed: dict[ResourceKey, Row | None] = {}
        named = {each.key: each for each in snapshot.resources}
        for key, each in named.items():
            row = _row(each, self.rows.get(key))
            if row != self.rows.get(key):
                changed[key] = row
        for key, row in self.rows.items():
            if key in named:
                continue
            kept = snapshot.keeps(key)
            if kept and key in gone:
                changed[key] = None
            elif kept and row.leaving:
                # Not removed yet, and wanted for all we know now. Without a desired content (it
                # was an orphan) it is one again.
                changed[key] = replace(row, leaving=False) if row.sum else None
            elif not kept and not row.leaving:
                changed[key] = replace(row, leaving=True)
        for key in orphans:
            if key not in named and key not in self.rows and not snapshot.keeps(key):
                changed[key] = Row(key, "", "", None, None, leaving=True)
        return changed

    def _write_row(self, key: ResourceKey, row: Row | None, body: bytes | None) -> None:
        if row is None:
            self._delete(key)
            return
        before = self.rows.get(key)
        if before is None or before.digest != row.digest:
            self._db.execute(
                "INSERT OR REPLACE INTO resources VALUES (?, ?, ?, ?, ?, ?)",
                (key, body, row.digest, row.sum, row.uid, row.generation),
            )
        self._db.execute(
            "INSERT OR REPLACE INTO progress VALUES (?, ?, ?)", (key, row.leaving, row.applied)
        )

    def _delete(self, key: ResourceKey) -> None:
        for table in ("resources", "progress"):
            self._db.execute(f"DELETE FROM {table} WHERE key = ?", (key,))

    def _remember(self, changed: Mapping[ResourceKey, Row | None]) -> None:
        for key, row in changed.items():
            if row is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = row

    def _write_accepted(self, accepted: Accepted) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO accepted VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                accepted.bridge,
                accepted.version.epoch,
                accepted.version.revision,
                accepted.digest,
                orjson.dumps(sorted(accepted.held)).decode(),
                orjson.dumps(sorted(accepted.withheld)).decode(),
                accepted.damaged,
                accepted.unconfirmed,
            ),
        )

    # --- at start

    def _load(self, bridge: str) -> None:
        try:
            record = self._db.execute("SELECT * FROM accepted").fetchone()
            records = self._db.execute(RECORDS).fetchall()
        except sqlite3.Error as error:
            raise translated(error, "read the resources") from error
        bad: list[tuple[Any, Any, str]] = []
        for each in records:
            row = read_row(each)
            if isinstance(row, Row):
                self.rows[row.key] = row
            else:
                bad.append((each[0], each[1], row))
        accepted, reason = read_accepted(record, bridge)
        if reason:
            log.error("the record of the accepted snapshot is bad, accepted anew", reason=reason)
            # What is on disk may be newer than what comes next: nothing goes on a retained word.
            accepted = replace(accepted, damaged=True, unconfirmed=True)
        changed = accepted.bridge != bridge
        if changed:
            log.warning("bridge changed, version starts anew", before=accepted.bridge, now=bridge)
            accepted = Accepted(bridge, damaged=accepted.damaged, unconfirmed=accepted.unconfirmed)
        if bad:
            accepted = replace(accepted, damaged=True)
        self._keep(bad, accepted, write=record is None or changed or bool(bad or reason))

    def _keep(self, bad: list[tuple[Any, Any, str]], accepted: Accepted, *, write: bool) -> None:
        if write:
            with transaction(self._db, "set bad records aside"):
                for key, body, reason in bad:
                    log.error("bad record in the store, set aside", key=ascii(key), reason=reason)
                    where = "CAST(? AS TEXT)" if isinstance(key, str) else "?"
                    self._db.execute(
                        f"INSERT INTO set_aside (key, body, reason) VALUES ({where}, ?, ?)",
                        (_raw(key), _raw(body), reason),
                    )
                    for table in ("resources", "progress"):
                        self._db.execute(f"DELETE FROM {table} WHERE key = {where}", (_raw(key),))
                self._db.execute(
                    "DELETE FROM set_aside WHERE id NOT IN"
                    " (SELECT id FROM set_aside ORDER BY id DESC LIMIT ?)",
                    (KEPT_ASIDE,),
                )
                self._write_accepted(accepted)
        self.accepted = accepted


def _raw(value: object) -> object:
    """A value of a bad record as it can be bound: its text need not be UTF-8."""
    return value.encode(errors="surrogateescape") if isinstance(value, str) else value


def _row(resource: Resource, before: Row | None) -> Row:
    if before is not None and before.digest == resource.digest and before.sum:
        # The digest decides; uid and generation are part of what it covers.
        return replace(before, leaving=False)
    return Row(
        resource.key,
        resource.digest,
        content_sum(file_content(resource.body)),
        resource.uid,
        resource.generation,
        applied=before.applied if before else None,
    )
