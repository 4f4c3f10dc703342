"""Two bridges of different names on one broker, whose objects name the same node."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.fleet import Fleet, Look
from tests.support.objects import Object, dataset
from tests.support.process import Process
from tests.support.wait import eventually

pytestmark = pytest.mark.broker

OURS = dataset("ours", "edge0")
MORE = dataset("more", "edge0")
NOT_THEIRS = dataset("not-theirs", "edge0")
THEIRS = dataset("theirs", "edge1")
THEIRS_CHANGED = dataset("theirs", "edge1", url="/b")


class Other:
    """Another bridge, of the name `other`, on a directory of its own."""

    def __init__(self, fleet: Fleet) -> None:
        self._manifests: Path = fleet.root / "theirs"
        self._manifests.mkdir()
        self.process: Process = fleet.another_bridge(
            "other", name="other", manifests=self._manifests
        )

    def put(self, *things: Object) -> None:
        """Replace all that it serves, at once."""
        temporary = self._manifests / ".new"
        temporary.write_text("\n---\n".join(map(json.dumps, things)))
        temporary.replace(self._manifests / "all.yaml")


@pytest.fixture
def other(fleet: Fleet) -> Other:
    """`edge0` follows the bridge `default` and has what is its; `edge1` follows `other`."""
    other = Other(fleet)
    fleet.agents["edge1"].settings["bridge"] = "other"
    fleet.put(OURS)
    fleet.start()
    fleet.should_be({"edge0": (OURS,)})
    return other


def _has(look: Look, node: str, bridge: str, url: str) -> bool:
    """Whether the broker keeps a snapshot of that bridge, of one Dataset, for the node."""
    snapshot = look.snapshot(node)
    if snapshot is None or snapshot.bridge != bridge or len(snapshot.resources) != 1:
        return False
    return bool(json.loads(snapshot.resources[0].body)["spec"]["url"] == url)


def test_a_node_gets_nothing_from_a_bridge_that_is_not_its_own(fleet: Fleet, other: Other) -> None:
    before = fleet.agents["edge0"].mark()
    other.put(NOT_THEIRS, THEIRS)
    with fleet.look() as look:
        other.process.start()
        eventually(lambda: _has(look, "edge1", "other", "/data"), 30, what="edge1 is served")
        other.process.says("the node is of bridge 'default': it gets nothing from here")
        other.put(dataset("not-theirs", "edge0", url="/b"), THEIRS_CHANGED)
        eventually(lambda: _has(look, "edge1", "other", "/b"), 30, what="edge1 is served again")

        assert _has(look, "edge0", "default", "/data")
        sent = [json.loads(each.payload) for each in look.observer.of("node/edge0/resources")]
        assert {each["bridge"] for each in sent} == {"default"}
    assert fleet.agents["edge0"].untouched(before)

    fleet.put(MORE)
    fleet.should_be({"edge0": (OURS, MORE)})
    fleet.disks_should_be({"edge1": (THEIRS_CHANGED,)})
