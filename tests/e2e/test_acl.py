"""A broker whose ACL does not let the bridge write all that it should."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fleet import Fleet
from tests.support.objects import dataset
from tests.support.wait import eventually

pytestmark = pytest.mark.broker

ZERO = dataset("zero", "edge0")
ONE = dataset("one", "edge1")
TWO = dataset("two", "edge1")

ALL = "topic readwrite #\n"
ALL_BUT_EDGE0 = "".join(
    f"topic {rule}\n"
    for rule in (
        "read #",
        "write bridge/#",
        "write node/edge1/resources",
        "write node/+/state",
        "write node/+/status",
        "write node/+/models",
        "write node/+/models/ops",
    )
)
REFUSED = "the broker refused a snapshot"
TAKEN = "the broker takes the node's snapshots again"


@pytest.fixture
def acl(tmp_path: Path) -> Path:
    path = tmp_path / "acl"
    path.write_text(ALL_BUT_EDGE0)
    return path


def test_b3_a_node_that_the_acl_denies_costs_no_other_and_is_served_once_it_is_allowed(
    make_fleet: type[Fleet], acl: Path
) -> None:
    fleet = make_fleet("edge0", "edge1", config=f"acl_file {acl}\nlog_type all")
    fleet.put(ZERO, ONE)
    fleet.start()
    fleet.should_be({"edge1": (ONE,)})
    eventually(lambda: _denied(fleet) >= 2, 30, what="it was denied twice")
    fleet.put(TWO)
    fleet.should_be({"edge1": (ONE, TWO)})

    (line,) = [line for line in fleet.bridge.log.splitlines() if REFUSED in line]
    assert "node=edge0" in line
    assert "code=0x87" in line
    assert "look at its ACL" in line
    assert _denied(fleet) <= 6
    assert fleet.agents["edge0"].disk() == {}

    acl.write_text(ALL)
    fleet.broker.reload()
    fleet.should_be({"edge0": (ZERO,), "edge1": (ONE, TWO)})
    assert fleet.bridge.logged(TAKEN) == 1
    assert fleet.bridge.logged("connected to the broker") == 1


def _denied(fleet: Fleet) -> int:
    """How often the broker has denied the snapshot of `edge0`."""
    return sum(
        "Denied PUBLISH from nodecast-bridge" in line and "node/edge0/resources" in line
        for line in fleet.broker.log.splitlines()
    )
