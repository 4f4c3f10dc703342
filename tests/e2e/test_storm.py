"""Everything moves at once while the broker dies again and again.

STORM_SECONDS in the environment: how long, 15 by default; a minute is what people run before a
release.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from nodecast.messages import Report, encode
from tests.support.fleet import Fleet
from tests.support.objects import Object, dataset
from tests.support.wait import eventually

pytestmark = pytest.mark.broker

SECONDS = float(os.environ.get("STORM_SECONDS", "15"))
A_SECOND = 100
BEATS = 10
"""Changes and reports come in so many bursts a second."""
REAL = ("edge0", "edge1")
CROWD = [f"crowd{number}" for number in range(20)]
"""Nodes that only report, and never take what they are sent."""


@contextmanager
def _again_and_again(beat: Callable[[int], None]) -> Iterator[None]:
    """Call `beat` BEATS times a second, in a thread, with its number. What it raises fails the
    test."""
    over = threading.Event()

    def run() -> None:
        for number in itertools.count():
            if over.wait(1 / BEATS):
                return
            beat(number)

    thread = threading.Thread(target=run, name="storm", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(30)
    assert not thread.is_alive()


class Crowd:
    """Reports of many nodes, at QoS 0: a device does not wait either."""

    def __init__(self, port: int) -> None:
        self._client = Client(
            CallbackAPIVersion.VERSION2, client_id="crowd", protocol=MQTTProtocolVersion.MQTTv5
        )
        self._client.reconnect_delay_set(1, 1)
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        self._seq = 0

    def report(self, _beat: int) -> None:
        for _ in range(A_SECOND // BEATS):
            self._seq += 1
            node = CROWD[self._seq % len(CROWD)]
            report = Report(
                bridge="default",
                node=node,
                instance="c" * 16,
                seq=self._seq,
                time="",
                epoch=0,
                revision=0,
                digest="",
                incomplete=False,
                refused=None,
                resources=[],
            )
            if self._client.is_connected():
                self._client.publish(f"node/{node}/status", encode(report), 0, retain=True)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def _things(beat: int) -> list[Object]:
    return [
        dataset(f"d{number}", REAL[number % 2], url=f"/{beat}")
        for number in range(A_SECOND // BEATS)
    ]


@pytest.mark.parametrize(("seconds", "every"), [(SECONDS, 5.0), (SECONDS / 2, 1.0)])
def test_m4_a_storm_of_changes_and_reports_over_broker_restarts_ends_in_the_last_state(
    make_fleet: type[Fleet], seconds: float, every: float
) -> None:
    fleet = make_fleet(*REAL)
    fleet.start()
    fleet.should_be(dict.fromkeys(REAL, ()))
    crowd = Crowd(fleet.broker.port)
    models = fleet.agents["edge0"]
    last = 0

    def change(beat: int) -> None:
        nonlocal last
        fleet.put_together("storm.json", *_things(beat))
        models.models({"m": f"s3://{beat}"})
        last = beat

    over = time.monotonic() + seconds
    with _again_and_again(change), _again_and_again(crowd.report):
        while time.monotonic() < over:
            threading.Event().wait(every)
            fleet.broker.kill()
            fleet.broker.start()
        # All is still moving under the storm, on a broker that was just made anew.
        marks = {node: len(agent.log) for node, agent in fleet.agents.items()}
        for node, agent in fleet.agents.items():
            agent.says("snapshot accepted", since=marks[node], within=60)
        fleet.bridge.says("answering a report", since=len(fleet.bridge.log), within=60)
    crowd.close()
    final = _things(last)
    fleet.should_be(
        {node: [each for each in final if each["spec"]["nodeName"] == node] for node in REAL},
        within=90,
    )
    with fleet.look() as look:
        eventually(
            lambda: (
                (found := look.model_set("edge0"))
                and [each.spec["storageUri"] for each in found.models] == [f"s3://{last}"]
                and found.models[0].state == "Requested"
            ),
            60,
            what="the last model",
        )
        ledger = eventually(look.ledger, what="the ledger")
        assert {*REAL, *CROWD} <= set(ledger.nodes)
    everything = (fleet.bridge, *fleet.agents.values())
    assert all(each.running and each.started_at == 0 for each in everything)
    assert not any("Traceback" in each.log for each in everything)
