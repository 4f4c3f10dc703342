"""What is larger than the broker takes is left out, and everything else goes on."""

from __future__ import annotations

import random

import pytest

from tests.support.fleet import Fleet
from tests.support.objects import Object, dataset
from tests.support.wait import eventually

pytestmark = pytest.mark.broker

LIMIT = 20_000
SMALL = tuple(dataset(f"small-{number}", "edge0") for number in range(3))
OTHER = dataset("other", "edge1")
CONNECTED = "connected to the broker"


def _big(size: int) -> Object:
    """A Dataset of about `size` bytes, which no compression makes much smaller."""
    return dataset("big", "edge0", url=random.Random(1).randbytes(size // 2).hex())


@pytest.mark.parametrize("limit", ["message_size_limit", "max_packet_size"])
def test_b4_an_object_above_the_limit_is_left_out_until_it_fits(
    make_fleet: type[Fleet], limit: str
) -> None:
    fleet = make_fleet("edge0", "edge1", config=f"{limit} {LIMIT}")
    big = _big(6 * LIMIT)
    fleet.put(*SMALL, big, OTHER)
    agent = fleet.agents["edge0"]
    agent.write_config(_models(6 * LIMIT))
    fleet.start()
    fleet.should_be({"edge0": SMALL, "edge1": (OTHER,)}, omitted={"edge0": (big,)})
    assert fleet.bridge.logged("too large for the broker") == 1
    assert agent.listed()["Dataset.sedna.io/default/big"] == "Pending"
    with fleet.look() as look:
        eventually(
            lambda: (
                (found := look.model_set("edge0"))
                and {each.name: each.state for each in found.models}
                == {"big": "Failed", "small": "Requested"}
            ),
            20,
            what="the small model goes, and the big one is shown as failed",
        )

    changed = dataset("small-0", "edge0", url="/changed")
    fleet.put(changed)
    fleet.should_be({"edge0": (changed, *SMALL[1:]), "edge1": (OTHER,)}, omitted={"edge0": (big,)})
    assert fleet.bridge.logged(CONNECTED) <= 4
    assert agent.logged(CONNECTED) <= 4

    fits = _big(LIMIT // 4)
    fleet.put(fits)
    fleet.should_be({"edge0": (changed, *SMALL[1:], fits), "edge1": (OTHER,)})


def _models(size: int) -> str:
    uri = random.Random(2).randbytes(size // 2).hex()
    return (
        f'[{{"modelName": "big", "modelSpec": {{"storageUri": "{uri}"}}}},'
        ' {"modelName": "small", "modelSpec": {"storageUri": "s3://small"}}]'
    )


@pytest.mark.parametrize("limit", ["message_size_limit", "max_packet_size"])
def test_b4_an_object_that_grows_above_the_limit_stays_on_the_node_as_it_was(
    make_fleet: type[Fleet], limit: str
) -> None:
    fleet = make_fleet("edge0", config=f"{limit} {LIMIT}")
    agent = fleet.agents["edge0"]
    was = _big(LIMIT // 4)
    fleet.put(*SMALL, was)
    fleet.start()
    fleet.should_be({"edge0": (*SMALL, was)})
    before = agent.mark()
    fleet.put(_big(6 * LIMIT))
    with fleet.look() as look:
        eventually(
            lambda: (
                (found := look.report("edge0"))
                and (sent := look.snapshot("edge0"))
                and sent.omitted
                and found.version == sent.version
            ),
            20,
            what="the agent has the snapshot that leaves it out",
        )
    assert agent.untouched(before)
    fleet.disks_should_be({"edge0": (*SMALL, was)})
