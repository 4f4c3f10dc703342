"""The agent's store file: opened, found broken, set aside, and never mistaken for an empty one."""

from __future__ import annotations

import shutil
import sqlite3
import stat
from pathlib import Path

import pytest

from agent.store.database import KEPT_BAD, open_database, transaction
from nodecast.errors import StoreBroken, StoreError, Unavailable
from tests.support.device import Device, resource, snapshot

A = "Dataset.sedna.io/default/a"
B = "Dataset.sedna.io/default/b"
MORE = [f"Dataset.sedna.io/default/n{i}" for i in range(60)]


@pytest.fixture
def device(tmp_path: Path) -> Device:
    """A stopped device with two versions behind it, and a good deal in its store."""
    made = Device(tmp_path)
    made.start()
    made.receive(snapshot((5, 1), [resource(A), *(resource(k, "x" * 500) for k in MORE)]))
    made.kill()
    return made


def _damage(device: Device, how: str) -> None:
    store = device.state / "agent.db"
    content = store.read_bytes()
    if how == "empty":
        store.write_bytes(b"")
    elif how == "nuls":
        store.write_bytes(bytes(len(content)))
    elif how == "half":
        store.write_bytes(content[: len(content) // 2])
    elif how == "half page":
        store.write_bytes(content[: len(content) // 2 + 1000])
    elif how == "holes":
        hole = bytes(4096)
        store.write_bytes(content[:4096] + hole * 3 + content[4 * 4096 :])
    elif how == "text":
        store.write_bytes(b"this is no database at all" * 500)
    elif how == "tables":
        with sqlite3.connect(store) as db:
            db.execute("DROP TABLE resources")
        db.close()
    elif how == "id":
        with sqlite3.connect(store) as db:
            db.execute("DELETE FROM meta")
        db.close()
    elif how == "only wal":
        store.rename(store.with_name("agent.db-wal"))


@pytest.mark.parametrize(
    "how",
    ["empty", "nuls", "half", "half page", "holes", "text", "tables", "id", "only wal"],
)
def test_e5_a_broken_store_is_kept_aside_and_a_fresh_one_fills_from_the_broker(
    device: Device, how: str
) -> None:
    files = device.files
    _damage(device, how)
    device.start()
    assert device.opened.store == "store-2"
    assert list(device.state.glob("agent.db.bad-1*"))
    assert device.files == files
    assert device.agent.incomplete
    device.receive(snapshot((5, 2), [resource(A, 2)]), retained=True)
    assert device.values[A] == 2
    assert len(device.files) == len(files)
    device.receive(snapshot((5, 3), [resource(A, 2)]))
    assert device.values == {A: 2}
    device.kill()


def test_e5_a_lost_wal_is_an_older_store_that_removes_nothing(device: Device) -> None:
    device.start()
    device.receive(snapshot((5, 2), [resource(A, 2), resource(B)]))
    files = device.files
    # Killed: the main file is as of an earlier checkpoint, and the -wal does not come back.
    (device.root / "old").mkdir()
    shutil.copy(device.state / "agent.db", device.root / "old")
    device.kill()
    for end in ("", "-wal", "-shm"):
        (device.state / f"agent.db{end}").unlink(missing_ok=True)
    shutil.copy(device.root / "old" / "agent.db", device.state)
    device.start()
    assert device.agent.accepted.version == (5, 1)
    assert device.files == files
    device.kill()


def test_e5_a_stale_wal_of_another_store_removes_nothing(device: Device, tmp_path: Path) -> None:
    other = Device(tmp_path / "other")
    other.stores = 100
    other.start()
    other.receive(snapshot((7, 1), [resource(B)]))
    shutil.copy(other.state / "agent.db-wal", tmp_path / "stale")
    other.kill()
    files = device.files
    shutil.copy(tmp_path / "stale", device.state / "agent.db-wal")
    device.start()
    assert device.files == files
    device.receive(snapshot((8, 1), [resource(A, 3)]), retained=True)
    assert device.values[A] == 3
    assert len(device.files) == len(files)
    device.kill()


def test_e5_a_store_that_was_being_made_when_the_power_went_is_set_aside_with_its_journal(
    tmp_path: Path,
) -> None:
    (tmp_path / "agent.db").touch()
    (tmp_path / "agent.db-journal").write_bytes(bytes(512))
    opened = open_database(tmp_path, [], "s")
    opened.connection.close()
    assert opened.store == "s"
    assert not (tmp_path / "agent.db-journal").exists()
    assert (tmp_path / "agent.db.bad-1-journal").read_bytes() == bytes(512)


def test_only_the_newest_bad_stores_are_kept(tmp_path: Path) -> None:
    for number in range(KEPT_BAD + 3):
        (tmp_path / "agent.db").write_bytes(b"bad" * 1000)
        (tmp_path / "agent.db-wal").write_bytes(b"")
        opened = open_database(tmp_path, [], f"s{number}")
        opened.connection.close()
        for file in tmp_path.glob("agent.db-*"):
            file.unlink()
    names = {p.name for p in tmp_path.glob("agent.db.bad-*") if not p.name.endswith("-wal")}
    assert names == {"agent.db.bad-4", "agent.db.bad-5", "agent.db.bad-6"}
    assert not (tmp_path / "agent.db.bad-1-wal").exists()


def test_the_store_of_a_newer_release_is_left_alone(tmp_path: Path) -> None:
    open_database(tmp_path, [], "s").connection.close()
    with sqlite3.connect(tmp_path / "agent.db") as db:
        db.execute("PRAGMA user_version=99")
    db.close()
    with pytest.raises(Unavailable, match="newer release"):
        open_database(tmp_path, [], "t")
    assert not list(tmp_path.glob("*.bad-*"))


def test_the_store_is_for_its_owner_alone(tmp_path: Path) -> None:
    opened = open_database(tmp_path, [], "s")
    modes = {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.glob("agent.db*")}
    opened.connection.close()
    assert modes == {0o600}


def test_a_store_that_was_closed_opens_with_its_id(tmp_path: Path) -> None:
    open_database(tmp_path, [], "first").connection.close()
    opened = open_database(tmp_path, [], "second")
    opened.connection.close()
    assert opened.store == "first"


def test_a_commit_is_durable_when_it_returns(tmp_path: Path) -> None:
    opened = open_database(tmp_path, [], "s")
    (synchronous,) = opened.connection.execute("PRAGMA synchronous").fetchone()
    (mode,) = opened.connection.execute("PRAGMA journal_mode").fetchone()
    opened.connection.close()
    assert (synchronous, mode) == (2, "wal")


def test_a_failed_transaction_leaves_nothing_and_the_connection_works(tmp_path: Path) -> None:
    opened = open_database(tmp_path, ["CREATE TABLE IF NOT EXISTS t (x UNIQUE);"], "s")
    with (
        pytest.raises(StoreError, match="cannot write it"),
        transaction(opened.connection, "write it"),
    ):
        opened.connection.executemany("INSERT INTO t VALUES (?)", [(1,), (1,)])
    with transaction(opened.connection, "write it"):
        opened.connection.execute("INSERT INTO t VALUES (2)")
    assert opened.connection.execute("SELECT x FROM t").fetchall() == [(2,)]
    opened.connection.close()


def test_a_store_that_breaks_at_work_is_told_from_a_full_disk(device: Device) -> None:
    device.start()
    device.opened.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    device.opened.connection.execute("PRAGMA shrink_memory")
    with open(device.state / "agent.db", "r+b") as file:
        file.seek(4096)
        file.write(b"garbage!" * 4096)
    with pytest.raises(StoreBroken), transaction(device.opened.connection, "read it"):
        device.opened.connection.execute("SELECT count(*) FROM resources").fetchall()
    device.kill()
