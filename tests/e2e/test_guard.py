"""The removal guard: what looks like a mistake takes nothing from a node, whatever made it so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.support.fleet import Fleet, Mark
from tests.support.objects import dataset, federated
from tests.support.process import run_to_end
from tests.support.wait import eventually

pytestmark = pytest.mark.broker

KIND = "FederatedLearningJob.sedna.io"
JOBS = [federated(f"job{n:02}", f"edge{n % 2}") for n in range(12)]
ON = {"edge0": JOBS[0::2], "edge1": JOBS[1::2]}
GUARDED = f"kind={KIND} missing=12 placed=12"


@pytest.fixture
def fleet(fleet: Fleet) -> Fleet:
    """Twelve jobs on two nodes; no hold, so that nothing but the guard keeps them there."""
    fleet.bridge.settings["hold"] = 0
    fleet.put(*JOBS)
    fleet.start()
    fleet.should_be(ON)
    with fleet.look() as look:
        eventually(lambda: (found := look.ledger()) and found.kinds.get(KIND) == 12, what="counts")
    return fleet


def marks(fleet: Fleet) -> Mapping[str, Mark]:
    return {node: agent.mark() for node, agent in fleet.agents.items()}


def jobs_untouched(fleet: Fleet, since: Mapping[str, Mark]) -> bool:
    """No file of a job was written or removed."""
    return not any(
        KIND in path for node, agent in fleet.agents.items() for path in agent.wrote(since[node])
    )


def other_removals_arrive(fleet: Fleet) -> None:
    """Something else comes to a node and leaves it for another: the jobs had as much time to."""
    fleet.put(dataset("moves", "edge0"))
    fleet.disks_should_be(
        {"edge0": [*ON["edge0"], dataset("moves", "edge0")], "edge1": ON["edge1"]}
    )
    fleet.put(moved := dataset("moves", "edge1"))
    fleet.disks_should_be({"edge0": ON["edge0"], "edge1": [*ON["edge1"], moved]})
    fleet.drop(moved)


def empty(fleet: Fleet) -> Path:
    """Take every file out of the directory; where they are."""
    aside = fleet.root / "aside"
    aside.mkdir()
    move(fleet, fleet.manifests, aside)
    return aside


def move(fleet: Fleet, here: Path, there: Path) -> None:
    """Move all files, all at once for the bridge: what goes slower than removals settle is not
    guarded, and a test may be slow."""
    with fleet.bridge.frozen():
        for path in here.iterdir():
            path.rename(there / path.name)


def unmount(fleet: Fleet) -> Path:
    """What is mounted at the directory is gone: there is an empty mount point."""
    aside = fleet.manifests.rename(fleet.root / "aside")
    fleet.manifests.mkdir()
    return aside


@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("gone", [empty, unmount])
def test_e11_a_directory_without_its_files_takes_nothing_away_until_they_are_back(
    fleet: Fleet, gone: Callable[[Fleet], Path], restarted: bool
) -> None:
    since = marks(fleet)
    if restarted:
        assert fleet.bridge.stop() == 0
    aside = gone(fleet)
    if restarted:
        fleet.bridge.start()
    fleet.bridge.says(GUARDED, since=fleet.bridge.started_at)
    fleet.bridge.says(f"nodecast-bridge approve {KIND}", since=fleet.bridge.started_at)
    other_removals_arrive(fleet)

    move(fleet, aside, fleet.manifests)
    fleet.should_be(ON)
    assert jobs_untouched(fleet, since)


def drop_the_kind(fleet: Fleet) -> None:
    """Restart the bridge with settings that serve another kind only."""
    assert fleet.bridge.stop() == 0
    config = fleet.root / "bridge.toml"
    config.write_text('kinds = ["Dataset.sedna.io"]')
    fleet.bridge.start("--config", str(config))
    fleet.bridge.says(GUARDED, since=fleet.bridge.started_at)


def test_a_kind_that_is_dropped_from_the_settings_stays_and_is_served_again(fleet: Fleet) -> None:
    since = marks(fleet)
    drop_the_kind(fleet)
    other_removals_arrive(fleet)
    assert fleet.bridge.stop() == 0
    fleet.bridge.start()
    fleet.should_be(ON)
    assert jobs_untouched(fleet, since)


def test_a_kind_that_is_dropped_from_the_settings_leaves_once_it_is_approved(fleet: Fleet) -> None:
    drop_the_kind(fleet)
    done = run_to_end("nodecast-bridge", "approve", KIND)
    assert (done.returncode, done.stderr) == (0, "")
    fleet.should_be({"edge0": [], "edge1": []})
    assert fleet.bridge.stop() == 0
    fleet.bridge.start("--config", str(fleet.root / "bridge.toml"))
    fleet.should_be({"edge0": [], "edge1": []})
