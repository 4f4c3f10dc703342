"""The agent's store is lost, damaged, or comes from a backup, and its files are still there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.support.fleet import Agent, Fleet, Mark, end_state
from tests.support.objects import dataset
from tests.support.wait import eventually

pytestmark = pytest.mark.broker

STAYS = dataset("stays", "edge0")
GOES = dataset("goes", "edge0")
CHANGES = dataset("changes", "edge0")
CHANGED = dataset("changes", "edge0", url="/changed")
ADDED = dataset("added", "edge0")
GOES_FILE = "Dataset.sedna.io/default/goes.json"


@pytest.fixture
def fleet(make_fleet: type[Fleet]) -> Fleet:
    """One node, `edge0`, that has all that belongs to it at first."""
    fleet = make_fleet("edge0")
    fleet.put(STAYS, GOES, CHANGES)
    fleet.start()
    fleet.should_be({"edge0": (STAYS, GOES, CHANGES)})
    return fleet


@pytest.fixture
def agent(fleet: Fleet) -> Agent:
    return fleet.agents["edge0"]


def _store(agent: Agent) -> list[Path]:
    return sorted(agent.state_dir.glob("agent.db*"))


def _lose_store(agent: Agent) -> None:
    for path in _store(agent):
        path.unlink()


def _back_up(agent: Agent, to: Path) -> None:
    """Copy the store of a stopped agent."""
    to.mkdir()
    for path in _store(agent):
        shutil.copy2(path, to)


def _restore(agent: Agent, backup: Path) -> None:
    _lose_store(agent)
    for path in backup.iterdir():
        shutil.copy2(path, agent.state_dir)


def _status(agent: Agent) -> dict[str, object]:
    found: dict[str, object] = json.loads(agent.command("status", "--json")[1])
    return found


def test_e13_a_replay_takes_nothing_from_a_node_that_lost_its_store_and_the_live_bridge_does(
    fleet: Fleet, agent: Agent
) -> None:
    agent.stop()
    fleet.drop(GOES)
    with fleet.look() as look:
        eventually(
            lambda: (s := look.snapshot("edge0")) and not s.held_kinds and len(s.resources) == 2,
            what="the bridge has said that it goes",
        )
    fleet.bridge.stop()
    _lose_store(agent)
    before = agent.mark()
    agent.start()
    with fleet.look() as look:
        eventually(
            lambda: (r := look.report("edge0")) and r.incomplete and r.epoch > 0,
            what="the replay is accepted, and it is said that files are left over",
        )
        report = look.report("edge0")
        assert report is not None
        left = [each.key for each in report.resources if each.reason == "Orphan"]
        assert left == ["Dataset.sedna.io/default/goes"]
    assert agent.untouched(before)

    fleet.bridge.start()
    fleet.should_be({"edge0": (STAYS, CHANGES)})
    assert agent.wrote(before) == {GOES_FILE}


def test_e13_a_node_that_lost_its_store_adopts_its_files_unwritten(
    fleet: Fleet, agent: Agent
) -> None:
    agent.stop()
    _lose_store(agent)
    before = agent.mark()
    agent.start()
    fleet.should_be({"edge0": (STAYS, GOES, CHANGES)})

    assert agent.untouched(before)


def _restored(fleet: Fleet, agent: Agent, tmp_path: Path) -> Mark:
    """The agent stands still with files that are newer than the store it was given back."""
    agent.stop()
    _back_up(agent, tmp_path / "backup")
    agent.start()
    fleet.put(CHANGED, ADDED)
    fleet.drop(GOES)
    fleet.should_be({"edge0": (STAYS, CHANGED, ADDED)})
    agent.stop()
    _restore(agent, tmp_path / "backup")
    return agent.mark()


def test_e1_a_restored_backup_brings_nothing_back(
    fleet: Fleet, agent: Agent, tmp_path: Path
) -> None:
    before = _restored(fleet, agent, tmp_path)
    agent.start()
    fleet.should_be({"edge0": (STAYS, CHANGED, ADDED)})

    assert agent.wrote(before) == set()
    assert not agent.logged("resource written", before.log)


def test_e13_a_restored_backup_writes_nothing_before_the_broker_is_back(
    fleet: Fleet, agent: Agent, tmp_path: Path
) -> None:
    before = _restored(fleet, agent, tmp_path)
    fleet.bridge.stop()
    fleet.broker.kill()
    fleet.broker.wipe()
    agent.start()
    eventually(lambda: _status(agent)["ready"], 20, what="the agent serves from disk")
    assert agent.untouched(before)

    fleet.start()
    fleet.should_be({"edge0": (STAYS, CHANGED, ADDED)})
    assert agent.untouched(before)


@pytest.mark.parametrize("damage", ["empty", "nuls", "half"])
def test_e5_a_damaged_store_is_kept_aside_and_costs_no_file(
    fleet: Fleet, agent: Agent, damage: str
) -> None:
    agent.kill()
    store = agent.state_dir / "agent.db"
    size = store.stat().st_size
    store.write_bytes(
        {"empty": b"", "nuls": bytes(size), "half": store.read_bytes()[: size // 2]}[damage]
    )
    before = agent.mark()
    agent.start()
    fleet.should_be({"edge0": (STAYS, GOES, CHANGES)})

    assert agent.untouched(before)
    assert list(agent.state_dir.glob("agent.db.bad-*"))


def test_e8_a_reinstalled_device_gets_the_full_set_again(fleet: Fleet, agent: Agent) -> None:
    models = {"one": "s3://one", "two": "s3://two"}
    agent.models(models)
    with fleet.look() as look:
        eventually(lambda: len(look.ops("edge0")) == 2, 20, what="the ops")
        before = {op.store for op in look.ops("edge0")}
    agent.stop()
    shutil.rmtree(agent.state_dir)
    with fleet.look() as look:
        agent.start()

        fleet.should_be({"edge0": (STAYS, GOES, CHANGES)})
        # Its models too, in a store of its own, so that nobody takes the seq for one it knows.
        eventually(lambda: len(look.ops("edge0")) == 2, 20, what="the ops")
        assert [op.seq for op in look.ops("edge0")] == [1, 2]
        assert not {op.store for op in look.ops("edge0")} & before
        assert end_state(look.ops("edge0")).keys() == models.keys()
