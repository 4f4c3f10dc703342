"""The resources side of the agent: what snapshots do to the files of a node."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.store.database import write_store_id
from nodecast.errors import StoreError
from nodecast.messages import Version, Wire
from tests.support.device import Device, resource, snapshot

A = "Dataset.sedna.io/default/a"
B = "Dataset.sedna.io/default/b"
M = "Model.sedna.io/default/m"


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Device]:
    made = Device(tmp_path)
    made.start()
    yield made
    made.kill()


def test_a_snapshot_becomes_files(device: Device) -> None:
    device.receive(snapshot((5, 1), [resource(A, 1), resource(M, 2)]))
    assert device.values == {A: 1, M: 2}
    assert device.files[A + ".json"] == resource(A, 1) + b"\n"
    assert device.agent.accepted.version == Version(5, 1)
    assert device.states() == {A: "Applied", M: "Applied"}


def test_what_a_newer_snapshot_does_not_name_is_removed_with_its_empty_directories(
    device: Device,
) -> None:
    device.receive(snapshot((5, 1), [resource(A), resource(M)]))
    device.receive(snapshot((5, 2), [resource(A)]))
    assert device.values == {A: 1}
    assert not (device.tree / "Model.sedna.io").exists()
    assert device.states() == {A: "Applied"}


def test_an_empty_snapshot_takes_everything_away(device: Device) -> None:
    device.receive(snapshot((5, 1), [resource(A), resource(M)]))
    device.receive(snapshot((5, 2)))
    assert device.files == {}


def test_an_older_snapshot_is_refused_and_reported(device: Device) -> None:
    device.receive(snapshot((5, 2), [resource(A, 2)]))
    device.receive(snapshot((5, 1), [resource(A, 1), resource(B)]))
    assert device.values == {A: 2}
    refused = device.agent.refused
    assert refused is not None
    assert (refused.epoch, refused.revision) == (5, 1)
    assert "older" in refused.reason


def test_the_same_version_with_another_digest_is_refused(device: Device) -> None:
    device.receive(snapshot((5, 2), [resource(A, 2)]))
    device.receive(snapshot((5, 2), []))
    assert device.values == {A: 2}
    assert device.agent.refused is not None


def test_a_refusal_that_was_reported_is_not_reported_again(device: Device) -> None:
    device.receive(snapshot((5, 2)))
    device.receive(snapshot((5, 1)))
    first = device.agent.refused
    device.receive(snapshot((5, 0), [resource(A)]))
    device.agent.reported(first)
    assert device.agent.refused is not None
    device.agent.reported(device.agent.refused)
    assert device.agent.refused is None


@pytest.mark.parametrize(
    "wire",
    [
        Wire(b""),
        Wire(b"\xff\xfe"),
        Wire(b"[]"),
        Wire(b"null"),
        Wire(b'"text"'),
        Wire(b"[" * 20_000_000),
        Wire(b"{}"),
        Wire(b'{"schema":1}'),
        Wire(b'{"schema":2,"resources":[]}'),
        snapshot((9, 9), bridge="other"),
        snapshot((9, 9), node="edge-b"),
        snapshot((9, 0)),
        Wire(b"not zlib", "zlib"),
    ],
    ids=range(13),
)
def test_m3_poison_changes_nothing_and_the_next_good_snapshot_is_applied(
    device: Device, wire: Wire
) -> None:
    device.receive(snapshot((5, 1), [resource(A)]))
    device.receive(wire, retained=True)
    assert device.values == {A: 1}
    device.restart()
    device.receive(wire, retained=True)
    assert device.values == {A: 1}
    device.receive(snapshot((5, 2), [resource(A, 2)]))
    assert device.values == {A: 2}


def test_poison_is_said_once(device: Device, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        device.receive(Wire(b"[]"), retained=True)
    assert [r.message for r in caplog.records].count("message left alone, nothing changes") == 1


@pytest.mark.parametrize(
    ("wire", "version"),
    [
        (snapshot((9, 9), bridge="other"), (9, 9)),
        (snapshot((9, 9), node="edge-b"), (9, 9)),
        (Wire(b"[]"), (0, 0)),
        (Wire(b""), (0, 0)),
    ],
    ids=["foreign", "another node's", "garbled", "cleared"],
)
def test_what_took_the_place_of_the_snapshot_is_reported_as_refused(
    device: Device, wire: Wire, version: tuple[int, int]
) -> None:
    device.receive(snapshot((5, 1), [resource(A)]))
    changes = device.agent.changes
    device.receive(wire)
    refused = device.agent.refused
    assert refused is not None
    assert (refused.epoch, refused.revision) == version
    assert refused.reason == device.agent.left_alone
    assert device.agent.changes > changes
    assert device.agent.accepted.version == Version(5, 1)


def test_a_message_that_repeats_while_its_report_is_under_way_is_reported_again(
    device: Device,
) -> None:
    device.receive(Wire(b""))
    under_way = device.agent.refused
    device.receive(Wire(b""))
    device.agent.reported(under_way)
    assert device.agent.refused == under_way
    device.agent.reported(device.agent.refused)
    assert device.agent.refused is None


def test_the_current_snapshot_ends_that_a_message_was_left_alone(device: Device) -> None:
    device.receive(snapshot((5, 1)))
    device.receive(Wire(b"[]"))
    device.receive(snapshot((5, 1)))
    assert device.agent.left_alone is None


def test_held_kinds_and_omitted_keys_keep_what_is_there(device: Device) -> None:
    device.receive(snapshot((5, 1), [resource(A), resource(B), resource(M)]))
    device.receive(snapshot((5, 2), held=["Model.sedna.io"], omitted=[B]))
    assert device.values == {B: 1, M: 1}
    device.receive(snapshot((5, 3)))
    assert device.values == {}


def test_one_unreadable_resource_counts_as_omitted(device: Device) -> None:
    device.receive(snapshot((5, 1), [resource(A, 1), resource(B, 1)]))
    bad = resource(B, 2).replace(b'"digest":"', b'"digest":"!')
    device.receive(snapshot((5, 2), [resource(A, 2), bad]))
    assert device.values == {A: 2, B: 1}


def test_b5_e9_equal_content_writes_no_file(device: Device) -> None:
    device.receive(snapshot((5, 1), [resource(A), resource(M)]))
    before = _inodes(device)
    for epoch in range(6, 16):
        device.receive(snapshot((epoch, 1), [resource(A), resource(M)]), retained=epoch % 2 == 0)
        device.restart()
    assert _inodes(device) == before
    assert device.agent.accepted.version == Version(15, 1)


def test_e9_a_new_epoch_with_equal_content_writes_the_version_row_alone(device: Device) -> None:
    device.receive(snapshot((5, 1), [resource(A), resource(M)]))
    writes: list[str] = []
    device.opened.connection.set_trace_callback(writes.append)
    device.receive(snapshot((6, 1), [resource(A), resource(M)]))
    device.opened.connection.set_trace_callback(None)
    changed = [w.split()[0:4] for w in writes if w.split()[0] not in ("BEGIN", "COMMIT")]
    assert changed == [["INSERT", "OR", "REPLACE", "INTO"]]
    assert "INTO accepted" in writes[1]


def _inodes(device: Device) -> dict[str, int]:
    return {str(p): p.stat().st_ino for p in device.tree.rglob("*")}


def test_a_removed_file_is_put_back_within_a_round(device: Device) -> None:
    device.receive(snapshot((5, 1), [resource(A), resource(M)]))
    (device.tree / (A + ".json")).unlink()
    device.pass_time(700)
    assert device.values == {A: 1, M: 1}


def test_a_file_changed_by_hand_is_put_right_at_the_start(device: Device) -> None:
    device.receive(snapshot((5, 1), [resource(A)]))
    (device.tree / (A + ".json")).write_bytes(b"mine now")
    device.restart()
    assert device.values == {A: 1}


def test_files_that_are_no_resource_files_are_left_alone(device: Device) -> None:
    device.receive(snapshot((5, 1), [resource(A)]))
    notes = device.tree / "Dataset.sedna.io/default/notes.json"
    notes.write_bytes(b'{"mine": true}')
    misplaced = device.tree / "Dataset.sedna.io/default/x.json"
    misplaced.write_bytes(resource(B) + b"\n")
    device.restart()
    device.receive(snapshot((5, 2)))
    assert sorted(device.files) == [
        "Dataset.sedna.io/default/notes.json",
        "Dataset.sedna.io/default/x.json",
    ]
    assert not device.agent.incomplete


def test_a_symlink_does_not_lead_out_of_the_tree(device: Device, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.json").write_bytes(b"precious")
    (device.tree / "Dataset.sedna.io").mkdir(parents=True)
    (device.tree / "Dataset.sedna.io/default").symlink_to(outside)
    device.receive(snapshot((5, 1), [resource(A), resource(M)]))
    assert (outside / "a.json").read_bytes() == b"precious"
    assert device.states() == {A: "Failed", M: "Applied"}
    assert device.agent.reconciler.progress[A].reason == "Blocked"
    device.receive(snapshot((5, 2), [resource(M)]))
    assert (outside / "a.json").read_bytes() == b"precious"
    assert device.states() == {M: "Applied"}


def test_a_symlink_in_the_place_of_a_file_is_replaced_not_followed(
    device: Device, tmp_path: Path
) -> None:
    target = tmp_path / "target.json"
    target.write_bytes(resource(A) + b"\n")
    device.receive(snapshot((5, 1), [resource(A)]))
    (device.tree / (A + ".json")).unlink()
    (device.tree / (A + ".json")).symlink_to(target)
    device.receive(snapshot((5, 2), [resource(A, 2)]))
    assert target.read_bytes() == resource(A) + b"\n"
    assert not (device.tree / (A + ".json")).is_symlink()


def test_a_directory_in_the_way_fails_one_resource_until_it_goes(device: Device) -> None:
    (device.tree / (A + ".json")).mkdir(parents=True)
    device.receive(snapshot((5, 1), [resource(A), resource(B)]))
    assert device.states() == {A: "Failed", B: "Applied"}
    (device.tree / (A + ".json")).rmdir()
    device.pass_time(2)
    assert device.states() == {A: "Applied", B: "Applied"}


def test_what_is_in_the_way_for_long_is_said_once_and_costs_no_descriptor(
    device: Device, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    device.receive(snapshot((5, 1), [resource(A), resource(B), resource(M)]))
    for key in (A, B, M):
        (device.tree / f"{key}.json").unlink()
    (device.tree / f"{A}.json").mkdir()
    (device.tree / f"{A}.json" / "inside").touch()
    os.mkfifo(device.tree / f"{B}.json")
    (device.tree / f"{M}.json").symlink_to(tmp_path)
    (device.tree / ".nodecast.json").unlink()
    (device.tree / ".nodecast.json").mkdir()
    device.receive(snapshot((5, 2), [resource(A, 2), resource(B, 2), resource(M, 2)]))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        device.pass_time(700)
    assert len(os.listdir("/proc/self/fd")) == before
    warnings = [each for each in caplog.records if each.levelname == "WARNING"]
    assert len(warnings) <= 4  # of the three resources, and of the stamp


def test_a_fifo_in_the_way_does_not_block(device: Device) -> None:
    (device.tree / "Dataset.sedna.io/default").mkdir(parents=True)
    os.mkfifo(device.tree / (A + ".json"))
    device.receive(snapshot((5, 1), [resource(A)]))
    assert device.values == {A: 1}


def test_a_stale_temporary_file_is_taken_away(device: Device) -> None:
    device.receive(snapshot((5, 1), [resource(A)]))
    stale = device.tree / "Dataset.sedna.io/default/.nodecast.tmp"
    stale.write_bytes(b"half")
    device.restart()
    assert not stale.exists()


def test_e6_disk_full_keeps_the_old_file_says_so_and_converges(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    device.receive(snapshot((5, 1), [resource(A, 1)]))
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", _full)
        device.receive(snapshot((5, 2), [resource(A, 2)]))
        assert device.values == {A: 1}
        assert device.states() == {A: "Failed"}
        assert device.agent.reconciler.progress[A].reason == "DiskFull"
    device.pass_time(2)
    assert device.values == {A: 2}
    assert device.states() == {A: "Applied"}


def test_many_files_of_a_directory_cost_one_sync_of_it_a_slice(device: Device) -> None:
    keys = [f"Dataset.sedna.io/default/{n}" for n in range(20)]
    device.receive(snapshot((5, 1), [resource(key, 1) for key in keys]))
    synced = _watch_syncs(device)
    device.receive(snapshot((5, 2), [resource(key, 2) for key in keys]))
    assert synced.count(str(device.tree / "Dataset.sedna.io/default")) == 1
    assert set(device.values.values()) == {2}


def test_nothing_is_claimed_whose_directory_could_not_be_synced(device: Device) -> None:
    device.receive(snapshot((5, 1), [resource(A, 1), resource(M, 1)]))
    _watch_syncs(device, failing=str(device.tree / "Dataset.sedna.io/default"))
    device.receive(snapshot((5, 2), [resource(A, 2), resource(M, 2)]))
    assert device.states() == {A: "Failed", M: "Applied"}
    rows = device.agent.store.rows
    assert (rows[A].applied == rows[A].sum, rows[M].applied == rows[M].sum) == (False, True)
    device.sync = os.fsync
    device.pass_time(5)
    assert device.states() == {A: "Applied", M: "Applied"}


def _watch_syncs(device: Device, failing: str = "") -> list[str]:
    """What is synced from now on, by path; `failing`: where the disk says no."""
    synced: list[str] = []

    def sync(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        if synced[-1] == failing:
            raise OSError(5, "Input/output error")
        os.fsync(descriptor)

    device.sync = sync
    return synced


def _full(*_args: object, **_kwargs: object) -> int:
    raise OSError(28, "No space left on device")


def test_e6_a_full_store_accepts_nothing_and_then_the_newest(device: Device) -> None:
    device.receive(snapshot((5, 1), [resource(A, 1)]))
    connection = device.opened.connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count={pages}")
    device.agent.receive(snapshot((5, 2), [resource(A, "x" * 100_000)]), retained=False)
    device.agent.receive(snapshot((5, 3), [resource(A, "y" * 100_000)]), retained=False)
    device.agent.work(device.clock.now + 1)
    assert device.agent.accepted.version == Version(5, 1)
    assert device.values == {A: 1}
    assert device.agent.store_error is not None
    connection.execute("PRAGMA max_page_count=1000000")
    device.pass_time(60)
    assert device.agent.accepted.version == Version(5, 3)
    assert device.values == {A: "y" * 100_000}
    assert device.agent.store_error is None


def test_a_newer_version_takes_the_place_of_a_failed_one_at_once(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", _full)
        device.receive(snapshot((5, 1), [resource(A, 1)]))
        for _ in range(5):
            device.pass_time(60)
        assert device.agent.reconciler.progress[A].attempts > 3
    device.receive(snapshot((5, 2), [resource(A, 2)]))
    assert device.values == {A: 2}


def test_e13_a_lost_store_removes_nothing_by_what_the_broker_kept(device: Device) -> None:
    device.receive(snapshot((5, 2), [resource(A), resource(B)]))
    device.kill()
    device.lose_store()
    device.start()
    assert device.values == {A: 1, B: 1}
    assert device.agent.incomplete
    device.receive(snapshot((5, 1), [resource(A)]), retained=True)
    assert device.values == {A: 1, B: 1}
    assert device.agent.incomplete
    device.receive(snapshot((5, 3), [resource(A)]), retained=False)
    assert device.values == {A: 1}
    assert not device.agent.incomplete


def test_e13_the_same_version_said_live_lets_orphans_go(device: Device) -> None:
    device.receive(snapshot((5, 2), [resource(A), resource(B)]))
    device.kill()
    device.lose_store()
    device.start()
    wire = snapshot((6, 1), [resource(A)])
    device.receive(wire, retained=True)
    device.receive(wire, retained=False)
    assert device.values == {A: 1}


def test_orphans_of_a_held_kind_and_omitted_orphans_stay(device: Device) -> None:
    device.receive(snapshot((5, 2), [resource(A), resource(B), resource(M)]))
    device.kill()
    device.lose_store()
    device.start()
    device.receive(snapshot((6, 1), held=["Model.sedna.io"], omitted=[B]))
    assert device.values == {B: 1, M: 1}
    assert not device.agent.incomplete


def test_an_orphan_that_is_as_desired_is_adopted_unwritten(device: Device) -> None:
    device.receive(snapshot((5, 2), [resource(A)]))
    before = (device.tree / (A + ".json")).stat().st_ino
    device.kill()
    device.lose_store()
    device.start()
    device.receive(snapshot((6, 1), [resource(A)]), retained=True)
    assert device.states() == {A: "Applied"}
    assert (device.tree / (A + ".json")).stat().st_ino == before


def test_e13_a_lost_store_whose_files_are_adopted_serves_them_at_the_next_start(
    device: Device,
) -> None:
    device.receive(snapshot((5, 2), [resource(A)]))
    device.kill()
    device.lose_store()
    device.start()
    device.receive(snapshot((6, 1), [resource(A)]))
    (device.tree / (A + ".json")).unlink()
    device.restart()
    assert device.values == {A: 1}
    assert not device.agent.incomplete


def test_a_store_that_was_renamed_while_it_was_behind_serves_its_files_at_the_next_start(
    device: Device,
) -> None:
    device.receive(snapshot((5, 2), [resource(A)]))
    device.kill()
    device.lose_store()
    device.start()
    device.agent.renamed("another")
    with device.opened.connection as db:
        write_store_id(db, "another")
    device.receive(snapshot((6, 1), [resource(A)]))
    device.restart()
    assert not device.agent.behind


def test_a_stamp_that_could_not_be_written_is_written_in_a_later_round(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    device.receive(snapshot((5, 2), [resource(A)]))
    device.kill()
    device.lose_store()
    device.start()
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", _full)
        device.receive(snapshot((6, 1), [resource(A)]))
    device.pass_time(700)
    device.restart()
    assert not device.agent.behind


def test_e13_a_restored_store_writes_nothing_before_it_has_accepted(device: Device) -> None:
    device.receive(snapshot((5, 1), [resource(A, 1)]))
    device.kill()
    device.back_up()
    device.start()
    device.receive(snapshot((5, 2), [resource(A, 2), resource(B)]))
    device.kill()
    device.restore()
    device.start()
    assert device.values == {A: 2, B: 1}
    assert device.states() == {A: "Pending"}
    device.receive(snapshot((5, 3), [resource(A, 3)]), retained=True)
    assert device.values == {A: 3, B: 1}


def test_e13_a_restored_store_removes_what_it_knows_only_on_a_live_word(device: Device) -> None:
    device.receive(snapshot((5, 1), [resource(A), resource(B)]))
    device.kill()
    device.back_up()
    device.start()
    device.receive(snapshot((5, 3), [resource(A), resource(B), resource(M)]))
    device.kill()
    device.restore()
    device.start()
    older = snapshot((5, 2), [resource(A)])
    device.receive(older, retained=True)
    assert device.values == {A: 1, B: 1, M: 1}
    device.restart()
    device.receive(older, retained=True)
    assert device.values == {A: 1, B: 1, M: 1}
    assert device.agent.incomplete
    device.receive(older, retained=False)
    assert device.values == {A: 1}
    assert not device.agent.incomplete


def test_a_resource_on_its_way_out_stays_when_the_next_snapshot_holds_it(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    device.receive(snapshot((5, 1), [resource(A)]))
    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", _full)
        device.receive(snapshot((5, 2)))
        assert device.states() == {A: "Removing"}
        device.receive(snapshot((5, 3), omitted=[A]))
    assert device.states() == {A: "Applied"}
    assert device.values == {A: 1}


def test_what_a_resource_said_before_it_went_does_not_silence_it_when_it_comes_again(
    device: Device, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    device.receive(snapshot((5, 1), [resource(A)]))
    device.kill()
    device.lose_store()
    device.start()
    monkeypatch.setattr(os, "unlink", _full)
    device.receive(snapshot((6, 1)))
    device.receive(snapshot((6, 2), omitted=[A]))
    assert device.states() == {}
    device.receive(snapshot((6, 3)))
    assert device.states() == {A: "Removing"}
    assert [r.message for r in caplog.records].count("resource not applied") == 2


def test_another_bridge_takes_over_the_resources_with_its_first_snapshot(tmp_path: Path) -> None:
    device = Device(tmp_path)
    device.start()
    device.receive(snapshot((500, 7), [resource(A), resource(B)]))
    device.kill()
    device.bridge = "second"
    device.start()
    assert device.values == {A: 1, B: 1}
    assert device.agent.accepted.version == Version(0, 0)
    device.receive(snapshot((501, 1), bridge="default"))
    assert device.values == {A: 1, B: 1}
    device.receive(snapshot((3, 1), [resource(A)], bridge="second"), retained=True)
    assert device.values == {A: 1}
    device.kill()


def test_e4_a_bad_record_is_set_aside_and_got_again(device: Device) -> None:
    wire = snapshot((5, 1), [resource(A), resource(B), resource(M)])
    device.receive(wire)
    device.kill()
    with sqlite3.connect(device.state / "agent.db") as db:
        db.execute("UPDATE resources SET body = ? WHERE key = ?", (b'{"broken', A))
        db.execute("UPDATE resources SET key = 'no key' WHERE key = ?", (M,))
    db.close()
    device.start()
    assert device.states() == {B: "Applied"}
    assert device.values == {A: 1, B: 1, M: 1}
    assert device.agent.incomplete
    device.receive(wire, retained=True)
    assert device.states() == {A: "Applied", B: "Applied", M: "Applied"}
    assert not device.agent.incomplete
    kept = device.opened.connection.execute("SELECT key FROM set_aside ORDER BY key").fetchall()
    assert kept == [(A,), ("no key",)]


def test_e4_a_bad_record_whose_file_is_lost_too_comes_again(device: Device) -> None:
    wire = snapshot((5, 1), [resource(A), resource(B)])
    device.receive(wire)
    device.kill()
    with sqlite3.connect(device.state / "agent.db") as db:
        db.execute("UPDATE resources SET body = ? WHERE key = ?", (b'{"broken', A))
    db.close()
    (device.tree / f"{A}.json").unlink()
    device.start()
    assert device.values == {B: 1}
    assert device.agent.incomplete
    device.receive(wire, retained=True)
    assert device.values == {A: 1, B: 1}


def test_e4_a_record_with_a_flipped_bit_that_still_reads_is_set_aside(device: Device) -> None:
    wire = snapshot((5, 1), [resource(A, 1), resource(B)])
    device.receive(wire)
    device.kill()
    with sqlite3.connect(device.state / "agent.db") as db:
        flipped = resource(A, 1).replace(b'"value":1', b'"value":3')
        assert db.execute("UPDATE resources SET body = ? WHERE key = ?", (flipped, A)).rowcount
    db.close()
    (device.tree / f"{A}.json").unlink()
    device.start()
    assert device.values == {B: 1}
    device.receive(wire, retained=True)
    assert device.values == {A: 1, B: 1}


def test_e10_names_that_collide_when_joined_are_kept_apart(device: Device) -> None:
    long = "a" * 253
    keys = [
        "Dataset.sedna.io/a-b/c",
        "Dataset.sedna.io/a/b-c",
        "Dataset.sedna.io/n/x.y",
        "Model.sedna.io/n/x.y",
        "Dataset.other.io/n/x.y",
        "Dataset/n/x.y",
        "Dataset.sedna.io//x.y",
        f"Dataset.sedna.io/n/{long}",
        f"Dataset.sedna.io/n/{long[:-1]}b",
    ]
    device.receive(snapshot((5, 1), [resource(key, key) for key in keys]))
    assert sorted(map(str, device.values.values())) == sorted(keys)
    device.receive(snapshot((5, 2), [resource(key, key) for key in keys[1:]]))
    assert sorted(map(str, device.values.values())) == sorted(keys[1:])
    assert all(len(part.encode()) <= 255 for f in device.files for part in f.split("/"))


def test_a_resource_file_that_somebody_put_there_stays_until_the_bridge_speaks_live(
    device: Device,
) -> None:
    device.receive(snapshot((5, 1), [resource(A)]))
    (device.tree / (B + ".json")).write_bytes(resource(B) + b"\n")
    device.pass_time(700)
    assert device.agent.incomplete
    device.receive(snapshot((5, 2), [resource(A, 2)]), retained=True)
    assert device.values == {A: 2, B: 1}
    device.receive(snapshot((5, 2), [resource(A, 2)]), retained=False)
    assert device.values == {A: 2}


def test_a_removal_that_was_not_confirmed_does_not_speak_for_a_later_one(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    device.receive(snapshot((5, 1), [resource(A)]))
    with monkeypatch.context() as patched:
        patched.setattr(device.agent.store, "removed", _store_full)
        device.receive(snapshot((5, 2)))
        assert device.files == {}
        device.receive(snapshot((5, 3), [resource(A)]))
        device.agent.receive(snapshot((5, 4)), retained=False)
    device.clock.now += 100
    device.agent.work(device.clock.now - 1)  # no time for the file, only for the store
    device.restart()
    assert device.agent.orphans == {}
    assert device.files == {}


def _store_full(_keys: object) -> None:
    raise StoreError("database or disk is full")
