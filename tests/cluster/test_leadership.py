"""Two bridges on one cluster: whatever happens to them, one at a time is in charge.

On the fake server alone, which takes down what each of them asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from nodecast.messages import encode
from tests.support.cluster_rivals import ClusterWorld, cluster_world
from tests.support.fleet import Look
from tests.support.objects import dataset
from tests.support.rivals import was, who
from tests.support.wait import eventually
from tests.support.witness import check_order, check_reports

pytestmark = pytest.mark.broker

STANDS_BY = "standing by: another instance holds the lease"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ClusterWorld]:
    with cluster_world(tmp_path) as world:
        yield world


def test_of_two_bridges_one_is_in_charge_while_they_are_killed_paused_and_woken(
    world: ClusterWorld,
) -> None:
    world.begin_changes(seed=1)
    for rival in world.rivals:
        rival.start()
    serving = world.serving()
    who(world.rivals, serving)[1].says(STANDS_BY)
    for number in range(20):
        old, _ = who(world.rivals, serving)
        mark = len(old.log)
        if number % 2:
            old.freeze()
            serving = world.serving(serving)
            old.thaw()
            old.says(STANDS_BY, since=mark)
        else:
            old.kill()
            old.start()
            serving = world.serving(serving)
            other = who(world.rivals, serving)[1]
            other.says(STANDS_BY, since=other.started_at)
    world.end_changes()
    world.disks_become_right()

    words = world.said()
    check_order(words)
    check_reports(world.witness.reports())
    assert world.check_leases() >= 20
    assert world.check_lists(words) >= 21


def test_a_bridge_that_was_paused_past_its_lease_and_wakes_says_nothing(
    world: ClusterWorld,
) -> None:
    world.put(dataset("d", "edge0"))
    rival = world.rivals[0]
    rival.settings |= {"interval": 0, "lag": 0.1}
    rival.start()
    serving = world.serving()
    world.disks_become_right()
    mark = len(rival.log)
    rival.freeze()
    for number in range(10):  # it wakes with much to say, on a connection that is good
        world.put(dataset(f"d{number}", "edge0"))
    before = world.said()
    world.take_the_lease()
    rival.thaw()
    rival.says("the lease is lost: in charge no more", since=mark)
    rival.says(STANDS_BY, since=mark)
    eventually(lambda: rival.logged("connection to the broker lost", mark))
    assert world.said() == before
    assert world.witness.online() == serving  # nor a goodbye: the will is the broker's to say


def test_a_bridge_that_stops_hands_the_lease_over_at_once(world: ClusterWorld) -> None:
    for rival in world.rivals:
        rival.settings["lease.duration"] = 600
        rival.start()
    world.put(dataset("d", "edge0"))
    serving = world.serving()
    old, other = who(world.rivals, serving)
    other.says(STANDS_BY)
    assert old.stop() == 0
    assert was(other, world.serving(serving))
    (released,) = (spec for spec in world.leases() if not spec["holderIdentity"])
    assert released["leaseDurationSeconds"] == 1
    world.disks_become_right()
    check_order(world.said())


def test_a_silent_api_server_keeps_no_bridge_in_charge_and_each_term_is_an_epoch(
    world: ClusterWorld,
) -> None:
    world.put(dataset("d", "edge0"))
    rival = world.rivals[0]
    rival.start()
    serving = world.serving()
    (first,) = {word.epoch for word in world.said()}
    world.server.faults.freeze()
    rival.says("the lease is lost: in charge no more")
    world.server.faults.thaw()
    world.put(dataset("e", "edge0"))
    eventually(lambda: any(word.node and word.epoch > first for word in world.said()), 60)
    world.disks_become_right()
    words = world.said()
    check_order(words)
    assert {word.instance for word in words} == {serving}
    assert world.check_lists(words) >= 2


def test_with_the_lease_held_another_instance_in_the_ledger_means_the_next_epoch(
    world: ClusterWorld,
) -> None:
    world.put(dataset("d", "edge0"))
    rival = world.rivals[0]
    rival.start()
    serving = world.serving()
    ledger = Look(world.witness).ledger()
    assert ledger is not None
    forged = msgspec.structs.replace(ledger, instance="another", epoch=ledger.epoch + 1000)
    world.witness.publish("bridge/default/nodes", encode(forged))
    eventually(
        lambda: any(w.node and w.epoch == forged.epoch + 1 for w in world.said()),
        60,
        what="a snapshot of the next epoch",
    )
    world.disks_become_right()
    assert rival.logged("the next epoch is taken") == 1
    assert world.witness.online() == serving
    assert rival.running
