"""The stamp of the tree outlives what happens to the tree, so that an old store is known as old."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.handlers.tree import STAMP
from tests.support.device import Device, resource, snapshot

A = "Dataset.sedna.io/default/a"
B = "Dataset.sedna.io/default/b"
ROUND = 700.0


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Device]:
    """A device with a backup of its first version, and a newer one at work."""
    made = Device(tmp_path)
    made.start()
    made.receive(snapshot((5, 1), [resource(A, 1)]))
    made.kill()
    made.back_up()
    made.start()
    made.receive(snapshot((5, 2), [resource(A, 2)]))
    yield made
    made.kill()


def _restored_is_behind(device: Device) -> bool:
    """Whether the agent knows the restored store as older than its files, offline."""
    device.kill()
    device.restore()
    device.start()
    return device.agent.behind


def test_e13_a_tree_that_was_removed_comes_back_with_its_stamp(device: Device) -> None:
    shutil.rmtree(device.tree)
    device.pass_time(ROUND)
    assert device.values == {A: 2}
    assert _restored_is_behind(device)
    assert device.values == {A: 2}


def test_e13_a_tree_that_was_removed_has_its_stamp_before_the_next_file(device: Device) -> None:
    (device.tree / f"{B}.json").mkdir()
    device.receive(snapshot((5, 3), [resource(A, 2), resource(B, 1)]))
    assert device.states() == {A: "Applied", B: "Failed"}
    shutil.rmtree(device.tree)
    device.pass_time(5)
    assert device.values == {B: 1}
    assert _restored_is_behind(device)


@pytest.mark.parametrize("how", ["gone", "garbled", "older"])
def test_e13_a_stamp_that_somebody_changed_is_right_after_a_round_without_any_file_written(
    device: Device, how: str
) -> None:
    stamp = device.tree / STAMP
    good = stamp.read_bytes()
    if how == "gone":
        stamp.unlink()
    else:
        stamp.write_bytes(b"garbled" if how == "garbled" else good.replace(b":2}", b":1}"))
    file = device.tree / f"{A}.json"
    before = file.stat().st_ino
    device.pass_time(ROUND)
    assert stamp.read_bytes() == good
    assert file.stat().st_ino == before


def test_a_tree_that_never_had_a_file_gets_no_stamp(tmp_path: Path) -> None:
    device = Device(tmp_path / "fresh")
    device.start()
    device.pass_time(ROUND)
    assert not (device.tree / STAMP).exists()
    device.kill()
