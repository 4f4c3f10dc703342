"""What systemd hears of the bridge: ready, alive, stopping, and a line that says what is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import Make
from tests.support.fleet import Fleet
from tests.support.mosquitto import free_port
from tests.support.objects import dataset
from tests.support.process import Process
from tests.support.systemd import Systemd

pytestmark = pytest.mark.broker

ALL = [dataset(f"d{number:02}", "edge0") for number in range(12)]
ALL_BUT_EDGE0 = "topic read #\ntopic write bridge/#\ntopic write node/edge1/#\n"
NO_PROBE = "topic read #\ntopic write bridge/default/state\ntopic write bridge/default/nodes\n"


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    with Systemd(tmp_path / "notify", watchdog=0.3) as systemd:
        yield systemd


def begin(fleet: Fleet, systemd: Systemd) -> None:
    fleet.bridge.variables = systemd.variables
    fleet.broker.start()
    fleet.bridge.start()


def test_ready_comes_without_a_broker_the_loop_lives_and_the_line_follows(
    make_fleet: Make, systemd: Systemd
) -> None:
    fleet = make_fleet("edge0")
    fleet.bridge.variables = systemd.variables
    fleet.bridge.start()
    systemd.hears("READY=1")
    systemd.shows("not connected to the broker: ")
    systemd.hears("WATCHDOG=1", times=3)
    fleet.broker.start()
    systemd.comes_to("in charge of 0 nodes")
    alive = systemd.heard.count("WATCHDOG=1")
    systemd.hears("WATCHDOG=1", times=alive + 3)

    assert fleet.bridge.stop() == 0
    assert "STOPPING=1" in systemd.heard
    assert systemd.status == "stopping"


def test_a_source_that_cannot_be_asked_is_in_the_line_while_the_loop_lives(
    systemd: Systemd, tmp_path: Path
) -> None:
    nobody = f"https://127.0.0.1:{free_port()}"
    named = {"clusters": [{"name": "c", "cluster": {"server": nobody}}]}
    named["contexts"] = [{"name": "c", "context": {"cluster": "c", "user": ""}}]
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps({**named, "current-context": "c"}))
    arguments = ["nodecast-bridge", "run", "--kubeconfig", str(kubeconfig)]
    bridge = Process(tmp_path / "bridge.log", arguments)
    bridge.variables = systemd.variables
    bridge.start()
    try:
        systemd.hears("READY=1")
        systemd.shows("asking what the source is")
        systemd.hears("WATCHDOG=1", times=3)
        assert bridge.stop() == 0
    finally:
        bridge.end()


def test_m7_a_broker_that_stands_still_is_in_the_line(make_fleet: Make, systemd: Systemd) -> None:
    fleet = make_fleet("edge0")
    fleet.bridge.settings["mqtt.keep_alive"] = 1
    begin(fleet, systemd)
    systemd.comes_to("in charge of 0 nodes")
    fleet.broker.freeze()
    systemd.shows("not connected to the broker: ")
    fleet.broker.thaw()
    systemd.comes_to("in charge of 0 nodes")


def test_m6_what_the_acl_keeps_from_the_bridge_is_in_the_line(
    make_fleet: Make, systemd: Systemd, tmp_path: Path
) -> None:
    acl = tmp_path / "acl"
    acl.write_text(NO_PROBE)
    fleet = make_fleet("edge0", config=f"acl_file {acl}")
    begin(fleet, systemd)
    systemd.shows("probe: ")
    assert "in charge" not in systemd.status

    acl.write_text("topic readwrite #\n")
    fleet.broker.reload()
    systemd.comes_to("in charge of 0 nodes")


def test_b3_a_node_that_the_acl_denies_is_in_the_line_until_it_is_served(
    make_fleet: Make, systemd: Systemd, tmp_path: Path
) -> None:
    acl = tmp_path / "acl"
    acl.write_text(ALL_BUT_EDGE0)
    fleet = make_fleet("edge0", config=f"acl_file {acl}")
    fleet.put(ALL[0], dataset("other", "edge1"))
    begin(fleet, systemd)
    systemd.shows("the broker refuses the snapshots of 1 node (edge0: Not authorized)")

    acl.write_text("topic readwrite #\n")
    fleet.broker.reload()
    systemd.comes_to("in charge of 2 nodes")


def test_e11_what_the_guard_holds_is_in_the_line_with_what_to_do(
    make_fleet: Make, systemd: Systemd
) -> None:
    fleet = make_fleet("edge0")
    fleet.put(*ALL)
    begin(fleet, systemd)
    fleet.start()
    fleet.should_be({"edge0": ALL})
    fleet.drop(*ALL)
    systemd.shows("held: Dataset.sedna.io: 12 of its 12 placed objects would be on no node")
    assert "`nodecast-bridge approve Dataset.sedna.io`" in systemd.status
    fleet.put(*ALL)
    systemd.comes_to("in charge of 1 node")
