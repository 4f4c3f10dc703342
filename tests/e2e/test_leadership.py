"""Two bridges on one directory, without a Lease: the newest that starts is in charge, and the older
ends. Its supervisor starts it again only when it was killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nodecast.errors import EXIT_UNAVAILABLE
from tests.support.rivals import DirectoryWorld, who
from tests.support.witness import check_order, check_reports

pytestmark = pytest.mark.broker


@pytest.fixture
def world(tmp_path: Path) -> Iterator[DirectoryWorld]:
    world = DirectoryWorld(tmp_path)
    yield world
    world.end()


def test_of_two_bridges_one_is_in_charge_while_they_are_killed_paused_and_woken(
    world: DirectoryWorld,
) -> None:
    world.begin_changes(seed=2)
    world.rivals[0].start()
    serving = world.serving()
    for number in range(20):
        old, other = who(world.rivals, serving)
        match number % 3:
            case 0:
                old.kill()
                old.start()
                serving = world.serving(serving)
            case 1:
                other.start()
                assert old.wait(30) == EXIT_UNAVAILABLE
                serving = world.serving(serving)
            case 2:
                old.freeze()
                other.start()
                serving = world.serving(serving)
                old.thaw()
                assert old.wait(30) == EXIT_UNAVAILABLE
                assert other.running
    world.end_changes()
    world.disks_become_right()

    words = world.said()
    check_order(words)
    check_reports(world.witness.reports())
    assert len({word.epoch for word in words}) >= 21
