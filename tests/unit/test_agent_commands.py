"""`nodecast-agent` on a state directory, without a broker or a running agent."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import shutil
import sqlite3
from pathlib import Path
from types import SimpleNamespace

import click
import msgspec
import orjson
import pytest

from agent.app import SCHEMAS
from agent.cli import agent
from agent.config import AgentSettings
from agent.inspect.live import LiveFile, LiveStatus
from agent.lock import agent_runs, locked
from agent.store.database import open_database
from agent.store.models import SCHEMA
from bridge.cli import bridge
from nodecast.command import run_command
from nodecast.errors import EXIT_PROBLEM, SettingsError, StateDirInUse, StoreError
from nodecast.messages import ConfigState, ModelEntry, ModelSet, Report, ResourceReport
from nodecast.settings import load
from tests.support.device import Device, resource, snapshot
from tests.support.mosquitto import free_port

A = "Dataset.sedna.io/default/a"
B = "Dataset.sedna.io/default/b"


@pytest.fixture
def device(tmp_path: Path) -> Device:
    """A stopped device with two resources."""
    made = Device(tmp_path)
    made.start()
    made.receive(snapshot((5, 1), [resource(A, 1), resource(B, 2)]))
    made.opened.connection.executescript(SCHEMA)
    made.kill()
    return made


def _run(device: Device, *arguments: str) -> int:
    return run_command(agent, [*arguments, "--state-dir", str(device.state)])


def _status(device: Device, **changes: object) -> LiveStatus:
    config = ConfigState(path="/m/models.json", state="ok")
    models = [ModelEntry(name="m", spec={"storageUri": "s3://m"}, state="Requested")]
    report = Report(bridge="default", node="edge-a", instance="i", seq=0, epoch=5, revision=1)
    status = LiveStatus(
        version="1",
        instance="i",
        started="then",
        broker="mqtt://b",
        connected=True,
        since="noon",
        written="later",
        ready=True,
        report=report,
        models=ModelSet(node="edge-a", store="s", seq=1, config=config, models=models),
    )
    status = msgspec.structs.replace(status, **changes)
    LiveFile(device.state, random.Random(1)).write(status)
    return status


def test_status_of_a_stopped_agent_needs_only_the_disk(
    device: Device, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(device, "status") == 1
    out = capsys.readouterr().out
    assert "agent         not running" in out
    assert "snapshot      epoch 5 revision 1, digest " in out
    assert "resources     2 Applied" in out


def test_status_of_a_running_agent_shows_its_connection(
    device: Device, capsys: pytest.CaptureFixture[str]
) -> None:
    _status(device)
    with locked(device.state):
        assert _run(device, "status") == 0
    out = capsys.readouterr().out
    assert "running since then" in out
    assert "mqtt://b, connected since noon" in out
    assert "1 Requested" in out


def test_status_says_why_there_is_no_connection(
    device: Device, capsys: pytest.CaptureFixture[str]
) -> None:
    _status(device, connected=False, failure="the broker refused the connection: Not authorized")
    with locked(device.state):
        _run(device, "status")
        out = capsys.readouterr().out
        _run(device, "status", "--json")
    reason = "the broker refused the connection: Not authorized"
    assert f"mqtt://b, not connected since noon: {reason}\n" in out
    assert orjson.loads(capsys.readouterr().out)["failure"] == reason


def test_a_message_that_is_left_alone_is_a_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    device = Device(tmp_path)
    device.start()
    device.opened.connection.executescript(SCHEMA)
    device.kill()
    _status(device, left_alone="it is from bridge 'default'")
    with locked(device.state):
        assert _run(device, "status") == 1
    out = capsys.readouterr().out
    assert "problem       what the broker keeps for this node is left alone: it is from" in out
    assert "snapshot      none accepted yet" in out


def test_bad_entries_of_the_model_config_are_problems(
    device: Device, capsys: pytest.CaptureFixture[str]
) -> None:
    _status(device, config_problems=tuple(f"[{n}]: no spec" for n in range(12)))
    with locked(device.state):
        assert _run(device, "status") == 1
    out = capsys.readouterr().out
    assert "model config  ok but for 12 entries /m/models.json\n" in out
    assert "problem       model config /m/models.json: [9]: no spec\n" in out
    assert "[10]" not in out
    assert "problem       model config /m/models.json: and 2 more\n" in out


def test_held_kinds_are_told_one_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    device = Device(tmp_path)
    device.start()
    device.receive(snapshot((5, 1), [], held=("B.x", "A.x")))
    device.opened.connection.executescript(SCHEMA)
    device.kill()
    _run(device, "status")
    assert "held          A.x\n              B.x\n" in capsys.readouterr().out


@pytest.mark.parametrize("group", [agent, bridge])
def test_every_command_is_told_in_a_line_that_is_not_cut_short(
    group: click.Group, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(group, ["--help"]) == 0
    out = capsys.readouterr().out
    assert "Commands:" in out
    assert "..." not in out.partition("Commands:")[2]


def test_status_names_what_failed_with_its_reason(
    device: Device, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = orjson.loads(resource(A, 1))["digest"]
    failed = ResourceReport(
        key=A, digest=digest, state="Failed", reason="DiskFull", message="no room"
    )
    report = Report(
        bridge="default",
        node="edge-a",
        instance="i",
        seq=0,
        epoch=5,
        revision=1,
        resources=[failed],
    )
    _status(device, report=report)
    with locked(device.state):
        assert _run(device, "status") == 1
        assert f"problem       {A}: DiskFull: no room" in capsys.readouterr().out
        assert _run(device, "status", "--json") == 1
    value = orjson.loads(capsys.readouterr().out)
    assert value["resources"] == {"Applied": 1, "Failed": 1}
    assert value["running"] is True


def test_what_a_failed_version_said_does_not_speak_for_a_newer_one(
    device: Device, capsys: pytest.CaptureFixture[str]
) -> None:
    old = ResourceReport(key=A, digest="0" * 32, state="Failed", reason="DiskFull")
    gone = ResourceReport(
        key="Dataset.sedna.io/default/gone", digest="1" * 32, state="Pending", reason="Omitted"
    )
    report = Report(
        bridge="default",
        node="edge-a",
        instance="i",
        seq=0,
        epoch=5,
        revision=1,
        resources=[old, gone],
    )
    _status(device, report=report)
    assert _run(device, "resources", "--json") == 0
    found = {each["key"]: each["state"] for each in orjson.loads(capsys.readouterr().out)}
    assert found == {A: "Applied", B: "Applied", gone.key: "Pending"}


@pytest.mark.parametrize(
    ("changes", "text"),
    [({"f_bavail": 0}, "is full"), ({"f_favail": 0}, "is full"), ({"f_flag": 1}, "read-only")],
)
def test_e6_a_disk_that_takes_nothing_is_a_problem_even_if_the_agent_cannot_write_it_down(
    device: Device,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, int],
    text: str,
) -> None:
    disk = {"f_bavail": 5, "f_files": 9, "f_favail": 5, "f_flag": 0} | changes
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(**disk))
    _status(device)
    with locked(device.state):
        assert _run(device, "status") == 1
    assert text in capsys.readouterr().out


def test_resources_are_listed_and_one_is_shown(
    device: Device, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(device, "resources") == 0
    assert f"{A}  Applied" in capsys.readouterr().out
    assert _run(device, "resources", A) == 0
    assert orjson.loads(capsys.readouterr().out) == orjson.loads(resource(A, 1))
    assert _run(device, "resources", "Dataset.sedna.io/default/none") == 1
    assert _run(device, "resources", "no key") == 64


def test_models_are_listed(device: Device, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(device, "models", "--json") == 0
    assert orjson.loads(capsys.readouterr().out)["models"] == []
    _status(device)
    assert _run(device, "models") == 0
    assert "m      Requested  s3://m" in capsys.readouterr().out


def test_a_look_at_a_stopped_store_leaves_nothing_behind(device: Device) -> None:
    before = sorted(p.name for p in device.state.iterdir())
    _run(device, "status")
    _run(device, "resources")
    assert sorted(p.name for p in device.state.iterdir()) == before


def test_a_state_directory_without_a_store_is_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(agent, ["status", "--state-dir", str(tmp_path)]) == 1
    assert capsys.readouterr().err.strip().endswith("no agent ran on this state directory yet")


def test_a_broken_store_is_said_and_left_alone(
    device: Device, capsys: pytest.CaptureFixture[str]
) -> None:
    (device.state / "agent.db").write_bytes(b"no database" * 1000)
    assert _run(device, "status") == 1
    assert "does not read" in capsys.readouterr().err
    assert (device.state / "agent.db").read_bytes().startswith(b"no database")


def test_check_names_every_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = tmp_path / "models"
    models.mkdir()
    (models / "models.json").write_text('[{"modelName": "m"}]')
    arguments = ["--node", "edge-a", "--state-dir", str(tmp_path / "new")]
    arguments += ["--model-config-dir", str(models)]
    arguments += ["--mqtt-url", f"mqtt://127.0.0.1:{free_port()}"]
    assert run_command(agent, ["check", *arguments]) == 1
    out = capsys.readouterr().out
    assert "modelSpec is missing" in out
    assert "broker       cannot connect to 127.0.0.1:" in out
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "node is not set"),
        (["--node", "Edge_A"], "not a DNS-1123 subdomain"),
        (["--node", "edge-a", "--mqtt-url", "http://x"], "mqtt.url"),
        (["--node", "edge-a", "--bridge", "no/bridge"], "bridge name"),
    ],
)
def test_a_wrong_setting_ends_the_run_with_78_and_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    text: str,
) -> None:
    state = ["--state-dir", str(tmp_path / "state")]
    assert run_command(agent, ["run", *state, *arguments]) == 78
    err = capsys.readouterr().err
    assert text in err
    assert err.count("\n") == 1


def test_an_unknown_option_ends_with_64(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(agent, ["run", "--nod", "x"]) == 64
    assert "--nod" in capsys.readouterr().err


def test_the_sample_of_settings_is_complete_and_loads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(agent, ["config"]) == 0
    sample = capsys.readouterr().out
    path = tmp_path / "agent.toml"
    path.write_text(sample)
    assert load(AgentSettings, path) == AgentSettings()
    for name in ("node", "state_dir", "heartbeat", "url", "keep_alive"):
        assert f"# {name} = " in sample


def test_a_lock_that_is_held_is_refused_and_seen(tmp_path: Path) -> None:
    pauses: list[float] = []
    with locked(tmp_path / "state"):
        assert agent_runs(tmp_path / "state")
        with pytest.raises(StateDirInUse), locked(tmp_path / "state", pauses.append):
            pass
    assert sum(pauses) < 1
    assert not agent_runs(tmp_path / "state")
    with locked(tmp_path / "state"):
        pass


def test_a_file_system_without_locks_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(SettingsError, match="No locks available"), locked(tmp_path):
        pass
    with pytest.raises(StoreError, match="No locks available"):
        agent_runs(tmp_path)


def test_a_state_directory_that_cannot_be_made_is_a_setting_that_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="cannot be used"), locked(tmp_path / "file" / "state"):
        pass


@pytest.mark.parametrize("code", [errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_disk_that_takes_no_lock_file_now_is_no_setting_that_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*_args: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StoreError, match="cannot be used now") as caught, locked(tmp_path):
        pass
    assert caught.value.exit_code == EXIT_PROBLEM


def test_a_damaged_model_record_is_shown_by_a_command_that_may_not_write(
    device: Device, capsys: pytest.CaptureFixture[str]
) -> None:
    connection = sqlite3.connect(device.state / "agent.db")
    with connection:
        connection.execute("INSERT INTO model_base VALUES ('m', '{broken', NULL)")
    connection.close()
    assert _run(device, "status") == 1
    assert "problem       model m: its record was damaged" in capsys.readouterr().out
    assert _run(device, "models") == 0
    assert "Failed" in capsys.readouterr().out


def test_a_status_file_that_cannot_be_written_is_said_once(
    device: Device, caplog: pytest.LogCaptureFixture
) -> None:
    status = _status(device)
    (device.state / "status.json").unlink()
    (device.state / "status.json.tmp").mkdir()
    live = LiveFile(device.state, random.Random(1))
    live.write(status)
    live.write(status)
    assert [r.message for r in caplog.records].count("status file not written") == 1
    shutil.rmtree(device.state / "status.json.tmp")
    live.write(status)
    assert (device.state / "status.json").exists()


def test_the_store_of_both_sides_opens_again(tmp_path: Path) -> None:
    open_database(tmp_path, SCHEMAS, "s").connection.close()
    opened = open_database(tmp_path, SCHEMAS, "t")
    assert opened.store == "s"
    opened.connection.close()
