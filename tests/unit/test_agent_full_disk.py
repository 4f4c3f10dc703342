"""A full disk: what the store holds of it without need is given back, so that files have room."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from agent.store.database import open_database, transaction
from agent.store.resources import SCHEMA
from nodecast.errors import StoreError
from tests.support.device import Device, resource, snapshot

A = "Dataset.sedna.io/default/a"
BIG = "Dataset.sedna.io/default/big"


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Device]:
    made = Device(tmp_path)
    made.start()
    made.receive(snapshot((5, 1), [resource(A, 1)]))
    yield made
    made.kill()


def _wal(device: Device) -> int:
    return (device.state / "agent.db-wal").stat().st_size


def _limit(device: Device) -> None:
    """The store takes no page more, and what it cannot take is in the -wal by then."""
    connection = device.opened.connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count={pages + 200}")
    connection.execute("PRAGMA cache_size=10")


def test_e6_a_transaction_that_found_no_room_leaves_nothing_in_the_wal(device: Device) -> None:
    connection = device.opened.connection
    connection.execute("CREATE TABLE big (x)")
    _limit(device)
    grown: list[int] = []

    def fill() -> None:
        with transaction(connection, "write it"):
            for _ in range(1000):
                connection.execute("INSERT INTO big VALUES (zeroblob(10000))")
                grown.append(_wal(device))

    with pytest.raises(StoreError, match="SQLITE_FULL"):
        fill()
    assert grown[-1] > 500_000
    assert _wal(device) == 0
    with transaction(connection, "write less"):
        connection.execute("INSERT INTO big VALUES (1)")
    assert connection.execute("SELECT count(*) FROM big").fetchone() == (1,)


def test_e6_room_is_given_back_beside_a_reader_as_soon_as_it_is_gone(device: Device) -> None:
    reader = open_database(device.state, [SCHEMA], "unused").connection
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM resources").fetchone()
    device.receive(snapshot((5, 2), [resource(A, "x" * 1000)]))
    device.agent.store.give_room_back()
    assert _wal(device) > 0
    reader.close()
    device.agent.store.give_room_back()
    assert _wal(device) == 0
    assert device.opened.connection.execute("PRAGMA busy_timeout").fetchone() == (5000,)


def test_e6_files_that_find_no_room_get_that_of_the_wal(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write

    def full(descriptor: int, content: bytes) -> int:
        if _wal(device):
            raise OSError(28, "No space left on device")
        return write(descriptor, content)

    monkeypatch.setattr(os, "write", full)
    device.receive(snapshot((5, 2), [resource(A, 2)]))
    assert device.states() == {A: "Failed"}
    device.pass_time(2)
    assert device.values == {A: 2}


def test_e6_what_is_in_the_wal_is_in_the_store_before_a_large_snapshot_may_fill_the_disk(
    device: Device,
) -> None:
    device.receive(snapshot((5, 2), [resource(A, "x" * 100_000)]))
    main = device.state / "agent.db"
    before = main.stat().st_size
    _limit(device)
    device.agent.receive(
        snapshot((5, 3), [resource(A, 1), resource(BIG, "y" * 2_000_000)]), retained=False
    )
    assert device.agent.store_error is not None
    assert main.stat().st_size > before
    assert _wal(device) == 0


def test_e6_a_start_gives_back_what_a_killed_agent_left(device: Device, tmp_path: Path) -> None:
    other = tmp_path / "killed"
    other.mkdir()
    for name in ("agent.db", "agent.db-wal"):
        shutil.copy(device.state / name, other)
    assert (other / "agent.db-wal").stat().st_size > 0
    opened = open_database(other, [SCHEMA], "unused")
    assert (other / "agent.db-wal").stat().st_size == 0
    assert opened.connection.execute("SELECT key FROM resources").fetchall() == [(A,)]
    opened.connection.close()


def test_e6_a_large_snapshot_waits_for_room_for_its_log_and_its_store_and_a_small_one_goes_on(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = 3_000_000
    monkeypatch.setattr(
        os, "statvfs", lambda _: SimpleNamespace(f_blocks=1, f_bavail=free // 1000, f_frsize=1000)
    )
    before = _wal(device)
    device.receive(snapshot((5, 2), [resource(A, 2), resource(BIG, "y" * 1_200_000)]))
    assert "bytes of room on the disk" in (device.agent.store_error or "")
    assert _wal(device) == before or _wal(device) == 0
    assert device.values == {A: 1}
    device.receive(snapshot((5, 3), [resource(A, 3)]))
    assert device.agent.store_error is None
    assert device.values == {A: 3}
    free = 4_000_000
    device.receive(snapshot((5, 4), [resource(A, 3), resource(BIG, "y" * 1_200_000)]))
    assert set(device.values) == {A, BIG}


def test_a_file_system_that_says_nothing_of_its_size_takes_a_large_snapshot(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        os, "statvfs", lambda _: SimpleNamespace(f_blocks=0, f_bavail=0, f_frsize=4096)
    )
    device.receive(snapshot((5, 2), [resource(BIG, "y" * 1_200_000)]))
    assert set(device.values) == {BIG}


def test_e6_how_far_a_large_resource_is_costs_no_room_for_its_content(device: Device) -> None:
    body = resource(BIG, "y" * 2_000_000)
    device.agent.receive(snapshot((5, 2), [resource(A), body]), retained=False)
    device.agent.store.give_room_back()
    device.settle()
    assert device.states()[BIG] == "Applied"
    assert 0 < _wal(device) < 100_000
    device.agent.store.give_room_back()
    device.receive(snapshot((5, 3), [resource(A)]))
    assert set(device.values) == {A}
    assert 0 < _wal(device) < 100_000
