"""Disks that are full, read-only, or out of inodes under a running agent, and then good again."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.agents import COMMAND, AgentProcess, Hand
from tests.support.device import resource
from tests.support.disks import SmallDisk, mounted, remount, small_disk, take_all, take_nothing
from tests.support.mosquitto import Broker
from tests.support.wait import eventually

pytestmark = pytest.mark.broker

A = "Dataset.sedna.io/default/a"
B = "Dataset.sedna.io/default/b"
C = "Dataset.sedna.io/default/c"
LARGE = "z" * 300_000


@pytest.fixture
def agent(broker: Broker, tmp_path: Path) -> Iterator[AgentProcess]:
    made = AgentProcess(tmp_path / "node", broker.url, retry_min=0.1, retry_max=0.5)
    made.piped_log = True
    yield made
    made.kill()


def _begin(agent: AgentProcess, hand: Hand) -> None:
    """Two resources and a model, on disk and said."""
    agent.models(m1="s3://one")
    agent.start()
    hand.online()
    hand.say((5, 1), [resource(A), resource(B)])
    hand.reported((5, 1))
    eventually(lambda: agent.values == {A: 1, B: 1}, what="the files")
    eventually(lambda: hand.replay() == {"m1": "s3://one"}, what="the op")


@contextmanager
def _full(agent: AgentProcess, hand: Hand, files: bool) -> Iterator[SmallDisk]:
    """What `_begin` begins with, on a disk that has no room (`files`: no inode) from then on."""
    with small_disk(agent.state, files=60 if files else 0) as disk:
        try:
            _begin(agent, hand)
            disk.fill(agent.pid, files=files)
            yield disk
        finally:
            agent.kill()


def _more(agent: AgentProcess, hand: Hand) -> None:
    """One resource changes, a large one comes, and so does a model."""
    hand.say((5, 2), [resource(A, 2), resource(B), resource(C, LARGE)])
    agent.models(m1="s3://one", m2="s3://two")


def _ends_well(agent: AgentProcess, hand: Hand) -> None:
    """Everything of `_more` is there, in the process that was there all the time."""
    instance = hand.online().instance
    report = hand.reported((5, 2), within=30)
    eventually(lambda: agent.values == {A: 2, B: 1, C: LARGE}, 30, what="the files")
    eventually(lambda: hand.replay() == {"m1": "s3://one", "m2": "s3://two"}, 30, what="the ops")
    eventually(lambda: agent.status().get("problems") == [], 30, what="no problem is left")
    assert report.instance == hand.online().instance == instance
    assert agent.log.count("agent starts") == 1
    assert agent.stop() == 0


def _nothing_is_claimed_that_a_crash_would_lose(agent: AgentProcess, hand: Hand) -> None:
    """Stop the process in its tracks and compare what it said with what is on the disk."""
    os.kill(agent.pid, signal.SIGSTOP)
    try:
        report, ops = hand.report(), hand.ops()
        assert report is not None
        copy = agent.root / "copy"
        copy.mkdir()
        for file in agent.state.glob("agent.db*"):
            if not file.name.endswith("-shm"):
                (copy / file.name).write_bytes(file.read_bytes())
        with sqlite3.connect(copy / "agent.db") as db:
            version = db.execute("SELECT epoch, revision FROM accepted").fetchone()
            (seq,) = db.execute("SELECT seq FROM model_seq").fetchone()
            applied = dict(db.execute("SELECT key, applied FROM progress"))
        db.close()
        assert report.version <= version
        assert max(op.seq for op in ops) <= seq
        said = {each.key for each in report.resources if each.state == "Applied"}
        assert said <= {key for key, sum_ in applied.items() if sum_}
    finally:
        os.kill(agent.pid, signal.SIGCONT)


def _says_that_it_is_full(agent: AgentProcess) -> str:
    return eventually(
        lambda: next(
            (
                line
                for line in agent.log.splitlines()
                if "the store does not take a change" in line or "reason=DiskFull" in line
            ),
            None,
        ),
        20,
        what="the disk is said to be full",
    )


@pytest.mark.parametrize("files", [False, True], ids=["no room", "no inode"])
def test_e6_a_full_disk_keeps_what_is_there_and_claims_nothing_until_there_is_room(
    agent: AgentProcess, hand: Hand, files: bool
) -> None:
    with _full(agent, hand, files) as disk:
        _more(agent, hand)
        _says_that_it_is_full(agent)
        eventually(lambda: agent.status().get("problems"), 20, what="status shows it")
        assert agent.values == {A: 1, B: 1}
        _nothing_is_claimed_that_a_crash_would_lose(agent, hand)
        disk.free(agent.pid)
        _ends_well(agent, hand)


@pytest.mark.parametrize("files", [False, True], ids=["no room", "no inode"])
def test_e6_what_goes_goes_from_a_full_disk_too(
    agent: AgentProcess, hand: Hand, files: bool
) -> None:
    with _full(agent, hand, files) as disk:
        hand.say((5, 2), [resource(A)])
        if disk.real:
            eventually(lambda: agent.values == {A: 1}, 20, what="the removal")
        disk.free(agent.pid)
        hand.reported((5, 2), within=30)
        eventually(lambda: agent.values == {A: 1}, 20, what="the removal")


def test_e6_a_read_only_tree_keeps_its_files_and_gets_the_rest_later(
    agent: AgentProcess, hand: Hand
) -> None:
    tree = agent.root / "tree"
    tree.mkdir(parents=True)
    agent.settings["resources_dir"] = agent.tree = tree
    with mounted(tree, "-t", "tmpfs", "-o", "size=6m", "none") as real:
        try:
            _begin(agent, hand)
            if real:
                remount(tree, "ro")
            else:
                take_nothing(agent.pid)
            _more(agent, hand)
            said = "resource not applied" if real else "the store does not take a change"
            eventually(lambda: said in agent.log, 20, what="it is said")
            assert agent.values == {A: 1, B: 1}
            _nothing_is_claimed_that_a_crash_would_lose(agent, hand)
            eventually(lambda: agent.status().get("problems"), 20, what="status shows it")
            if real:
                report = hand.reported((5, 2))
                reasons = {each.key: each.reason for each in report.resources}
                assert reasons == {A: "ReadOnly", B: "", C: "ReadOnly"}
                remount(tree, "rw")
            else:
                take_all(agent.pid)
            _ends_well(agent, hand)
        finally:
            agent.kill()


def test_e6_a_store_that_takes_nothing_lets_nothing_be_claimed(
    agent: AgentProcess, hand: Hand
) -> None:
    # As on a disk that turned read-only under the open store: each write into a file fails.
    _begin(agent, hand)
    take_nothing(agent.pid)
    _more(agent, hand)
    eventually(lambda: "the store does not take a change" in agent.log, 20, what="it is said")
    assert agent.values == {A: 1, B: 1}
    assert hand.reported((5, 1)).version == (5, 1)
    assert hand.replay() == {"m1": "s3://one"}
    eventually(
        lambda: "this is how it was" in " ".join(agent.status().get("problems", [])),
        20,
        what="status shows it",
    )
    _nothing_is_claimed_that_a_crash_would_lose(agent, hand)
    take_all(agent.pid)
    _ends_well(agent, hand)


def test_e6_a_start_on_a_full_disk_ends_and_a_later_one_goes_on(
    agent: AgentProcess, hand: Hand
) -> None:
    with small_disk(agent.state) as disk:
        try:
            _begin(agent, hand)
            assert agent.stop() == 0
            if not disk.real:
                agent.command = ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *COMMAND]
            for name in ("agent.db.bad-1", "agent.db.bad-2", "agent.db.bad-3"):
                (agent.state / name).write_text("worth keeping")
            disk.fill(0)
            for _ in range(3):  # systemd goes on trying
                agent.start()
                assert agent.wait() == 1
            assert "Traceback" not in agent.log
            assert agent.values == {A: 1, B: 1}
            for end in ("", "-wal", "-shm"):
                (agent.state / f"agent.db{end}").unlink(missing_ok=True)
            for _ in range(3):  # and without a store there is none to be made
                agent.start()
                assert agent.wait() == 1
            assert "Traceback" not in agent.log
            disk.free(0)
            agent.command = COMMAND
            agent.start()
            eventually(lambda: agent.status().get("ready"), 20, what="it serves from disk")
            eventually(lambda: hand.reported((5, 1)).instance == hand.online().instance, 20)
            assert agent.values == {A: 1, B: 1}
            kept = sorted(agent.state.glob("agent.db.bad-*"))
            assert [path.read_text() for path in kept] == ["worth keeping"] * 3
        finally:
            agent.kill()
