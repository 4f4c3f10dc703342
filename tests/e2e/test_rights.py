"""A broker that lets nobody hear anything: by its answer, or without a word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.fleet import Fleet
from tests.support.mqtt import Observer
from tests.support.objects import dataset
from tests.support.systemd import Systemd
from tests.support.wait import eventually

pytestmark = pytest.mark.broker

ONE = dataset("one", "edge0")
CONTROL = "$CONTROL/dynamic-security/v1"
_PLUGIN = "mosquitto_dynamic_security.so"


def _plugin() -> Path:
    """Debian's mosquitto package brings it."""
    (found, *_) = sorted(Path("/usr/lib").glob(f"*/{_PLUGIN}"))
    return found


def _nobody_subscribes(path: Path) -> str:
    """The broker's configuration under which every SUBACK says no."""
    access = {
        "publishClientSend": True,
        "publishClientReceive": True,
        "subscribe": False,
        "unsubscribe": True,
    }
    control = {"acltype": "publishClientSend", "topic": "$CONTROL/#", "allow": True}
    rights = {
        "defaultACLAccess": access,
        "roles": [{"rolename": "control", "acls": [control]}],
        "groups": [{"groupname": "all", "roles": [{"rolename": "control"}]}],
        "anonymousGroup": "all",
    }
    path.write_text(json.dumps(rights))
    path.chmod(0o600)
    return f"plugin {_plugin()}\nplugin_opt_config_file {path}"


def _let_subscribe(port: int) -> None:
    command = {
        "command": "setDefaultACLAccess",
        "acls": [{"acltype": "subscribe", "allow": True}],
    }
    admin = Observer(port, "nothing")
    admin.publish(CONTROL, json.dumps({"commands": [command]}).encode(), retain=False)
    admin.close()


def test_m6_a_suback_that_says_no_is_an_error_on_both_sides_until_it_says_yes(
    make_fleet: type[Fleet], tmp_path: Path
) -> None:
    fleet = make_fleet("edge0", config=_nobody_subscribes(tmp_path / "rights.json"))
    agent = fleet.agents["edge0"]
    fleet.put(ONE)
    with Systemd(tmp_path / "notify") as systemd:
        agent.variables |= systemd.variables
        fleet.start()
        agent.says("subscription refused, tried again")
        systemd.shows("does not let this node subscribe")
    fleet.bridge.says("the broker refused what the bridge needs: look at its ACL and limits")
    status = eventually(lambda: (s := agent.status()).get("connected") and s, 20, what="status")
    assert any("does not let this node subscribe" in each for each in status["problems"])
    assert agent.command("status")[0] == 1
    assert not fleet.bridge.logged("taking charge")

    _let_subscribe(fleet.broker.port)
    fleet.should_be({"edge0": (ONE,)}, within=60)
    assert agent.status()["problems"] == []
    assert agent.logged("connected to the broker") == 1
    assert agent.logged("subscription refused") == 1


def test_m6_an_acl_that_lets_nothing_through_is_visible_on_both_sides(
    make_fleet: type[Fleet], tmp_path: Path
) -> None:
    acl = tmp_path / "acl"
    acl.write_text("topic write #\n")
    fleet = make_fleet("edge0", config=f"acl_file {acl}")
    agent = fleet.agents["edge0"]
    fleet.put(ONE)
    fleet.start()
    eventually(
        lambda: "connected, but no snapshot ever seen" in agent.command("status")[1],
        20,
        what="the agent's status says it",
    )
    fleet.bridge.says("the probe did not come back: the ACL must let it through", within=120)
    assert not fleet.bridge.logged("taking charge")

    acl.write_text("topic readwrite #\n")
    fleet.broker.reload()
    fleet.should_be({"edge0": (ONE,)}, within=120)
