"""2,000 nodes that report, 10,000 names in the ledger, a Mosquitto as it comes: its queues take a
thousand messages a client, and drop what is beyond without a word.

One bridge process goes through a start into what another one left, a fleet that asks for its
snapshots, and a broker that lost everything. How long that takes depends on the machine; what is
shown does not: how many snapshots may go out in a time, at the most, and which ones must.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodecast.messages import Ledger, Report, Version, Wire, decode, encode, pack
from tests.support.crowd import Crowd, crowd
from tests.support.fleet import BRIDGE_SETTINGS
from tests.support.mosquitto import Broker
from tests.support.mqtt import observing
from tests.support.objects import dataset
from tests.support.process import Process
from tests.support.wait import eventually

NAMES = tuple(f"n-{number:05}" for number in range(10_000))
REPORTING = NAMES[::5]
FOREIGN, AHEAD = frozenset(REPORTING[::20]), frozenset(REPORTING[1::4])
"""Nodes of another bridge, and nodes with a version that was never given."""
OURS = tuple(node for node in NAMES if node not in FOREIGN)
RATE = 700.0
"""Snapshots a second that may be sent again."""
BURST = 0.1 * RATE + 1
GIVEN, NEVER_GIVEN = Version(1_000, 1), Version(2**40, 7)
LUMP = 300
"""Reports at a time: fewer than a broker keeps for the bridge, however slow that is."""
WITHIN = 120.0
LEDGER = "bridge/default/nodes"


def report(node: str, version: Version, digest: str = "0" * 32, seq: int = 1) -> Report:
    """The first one is complete, a later one is not."""
    return Report(
        bridge="another" if node in FOREIGN else "default",
        node=node,
        instance=f"agent of {node}",
        seq=seq,
        epoch=version.epoch,
        revision=version.revision,
        digest=digest,
        incomplete=seq > 1,
    )


def left_behind(broker: Broker, all_: Crowd) -> None:
    """What a bridge, and the fleet, left in the broker."""
    ledger = Ledger(
        bridge="default",
        source="manifests",
        instance="the one before",
        epoch=GIVEN.epoch,
        mark=0,
        nodes=list(NAMES),
        kinds={"Dataset.sedna.io": len(REPORTING)},
    )
    payload, encoding = pack(encode(ledger), compress=True)
    with observing(broker.port, LEDGER) as observer:
        observer.publish(LEDGER, payload, encoding=encoding)
    all_.report(report(each, NEVER_GIVEN if each in AHEAD else GIVEN) for each in REPORTING)


@pytest.fixture
def bridge(broker: Broker, tmp_path: Path) -> Iterator[Process]:
    """One that is yet to be started."""
    directory = tmp_path / "manifests"
    directory.mkdir()
    items = [dataset(f"of-{node}", node) for node in REPORTING]
    listed = {"apiVersion": "v1", "kind": "List", "items": items}
    (directory / "all.json").write_text(json.dumps(listed))
    arguments = ["nodecast-bridge", "run", "--manifests", str(directory), "--mqtt-url", broker.url]
    settings = {**BRIDGE_SETTINGS, "repair_rate": RATE}
    process = Process(tmp_path / "bridge.log", arguments, settings)
    try:
        yield process
    finally:
        process.end()
        print("--- bridge.log", *process.log.splitlines()[-40:], sep="\n")


def everyone_was_sent(all_: Crowd) -> None:
    """Wait until each of our nodes has a snapshot, and see that it is the right one."""
    eventually(lambda: len(all_.told) >= len(OURS), WITHIN, every=0.1, what="all have a snapshot")
    reporting = set(REPORTING)
    wrong = [
        node for node in OURS if len(all_.told[node].snapshot.resources) != (node in reporting)
    ]
    assert wrong == []


def test_a_large_fleet_is_repaired_at_its_pace_and_nobody_is_lost(
    broker: Broker, bridge: Process
) -> None:
    with crowd(broker.port, NAMES) as all_:
        left_behind(broker, all_)
        bridge.start()
        everyone_was_sent(all_)
        assert FOREIGN.isdisjoint(all_.told), "a node of another bridge is sent nothing"
        behind = [node for node in AHEAD if all_.told[node].snapshot.version <= NEVER_GIVEN]
        assert behind == [], "these would not take it: their reports were lost"
        at_first = bridge.resident

        ask_for_repair(all_)
        lose_everything(broker, all_)
        assert bridge.resident < 1.5 * at_first + 64e6
        assert bridge.stop() == 0


def ask_for_repair(all_: Crowd) -> None:
    """All that report say that they have not all of it: each is sent it once more, paced."""
    asking = [node for node in REPORTING if node not in FOREIGN]
    before, began = all_.times(), time.monotonic()
    for at in range(0, len(asking), LUMP):
        lump = asking[at : at + LUMP]
        have = [all_.told[node].snapshot for node in lump]
        all_.report(report(each.node, each.version, each.digest, seq=2) for each in have)
        eventually(
            lambda lump=lump: all(all_.times()[node] > before[node] for node in lump),
            WITHIN,
            every=0.05,
            what="all that asked have it again",
        )
    lasted = max(all_.told[node].at for node in asking) - began
    assert len(asking) <= RATE * lasted + BURST
    assert {node: times - before[node] for node, times in all_.times().items()} == {
        node: int(node in set(asking)) for node in OURS
    }


def lose_everything(broker: Broker, all_: Crowd) -> None:
    """The broker comes back empty: all is sent again, paced, and the ledger names everyone."""
    broker.stop()
    all_.forget()
    began = time.monotonic()
    broker.start()
    everyone_was_sent(all_)
    lasted = max(all_.told[node].at for node in OURS) - began
    assert len(OURS) <= RATE * lasted + BURST
    assert FOREIGN.isdisjoint(all_.told)
    with observing(broker.port, LEDGER) as observer:
        seen = eventually(lambda: observer.latest(LEDGER), what="the ledger")
        ledger = decode(Ledger, Wire(seen.payload, seen.properties.get("encoding")))
    assert ledger.nodes == list(NAMES)
