"""The model config file, as people and the kubelet really write it, under a running agent."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodecast.messages import ModelSet
from tests.support.agents import COMMAND, AgentProcess, Hand
from tests.support.disks import mounted
from tests.support.inotify_limits import InotifyLimit
from tests.support.mosquitto import Broker
from tests.support.wait import eventually

pytestmark = pytest.mark.broker

NEVER = 86_400
"""Seconds: a slow poll that no test sees."""


@pytest.fixture
def agent(broker: Broker, tmp_path: Path) -> Iterator[AgentProcess]:
    """What it sees, it sees by events: its slow poll is a day."""
    made = AgentProcess(tmp_path / "node", broker.url, model_config_poll=NEVER)
    yield made
    made.kill()


@pytest.fixture
def config(agent: AgentProcess) -> Path:
    return agent.models_dir / "models.json"


def _text(version: object, **more: str) -> str:
    """A config file with the model `a`, of `version`, and more models."""
    models = {"a": f"s3://{version}", **more}
    entries = [
        {"modelName": name, "modelSpec": {"storageUri": uri}} for name, uri in models.items()
    ]
    return json.dumps(entries) + "\n"


def _acts(hand: Hand, **models: str) -> ModelSet:
    """Wait until these models, by storage URI, are what was asked for."""

    def there() -> ModelSet | None:
        found = hand.model_set()
        said = found and {each.name: (each.spec["storageUri"], each.state) for each in found.models}
        return found if said == {n: (uri, "Requested") for n, uri in models.items()} else None

    found = eventually(there, 30, what=f"the models are {models}")
    assert found is not None
    assert hand.replay() == models
    return found


def _state(hand: Hand, state: str) -> ModelSet:
    found = eventually(
        lambda: (m := hand.model_set()) and m.config.state == state and m,
        30,
        what=f"the config is {state}",
    )
    assert found
    return found


def _swap(directory: Path, version: object, text: str) -> None:
    """One version of a ConfigMap mount, as the kubelet's AtomicWriter puts it in place."""
    inner = directory / f"..2026_{version}"
    inner.mkdir()
    (inner / "models.json").write_text(text)
    (directory / "..data_tmp").symlink_to(inner.name)
    (directory / "..data_tmp").replace(directory / "..data")
    if not (directory / "models.json").is_symlink():
        (directory / "models.json").symlink_to("..data/models.json")
    for old in directory.glob("..2026_*"):
        if old != inner:
            shutil.rmtree(old)


def test_f1_a_directory_mounted_over_is_found_by_the_poll_and_watched_from_then_on(
    agent: AgentProcess, hand: Hand, tmp_path: Path
) -> None:
    agent.settings["model_config_poll"] = 0.2
    before, after = tmp_path / "before", tmp_path / "after"
    for directory in (before, after):
        directory.mkdir()
        _swap(directory, 0, _text(directory.name))
    # The settings name a link to a link, so that the second can lead elsewhere without any event
    # for who looks at the first: as good as a mount where mounting is not permitted.
    (tmp_path / "link").symlink_to("before")
    agent.models_dir.rmdir()
    agent.models_dir.symlink_to(tmp_path / "link")
    agent.start()
    _acts(hand, a="s3://before")
    with mounted(before, "--bind", str(after)) as real:
        if not real:
            (tmp_path / "new").symlink_to("after")
            (tmp_path / "new").replace(tmp_path / "link")
        _acts(hand, a="s3://after")
        for version in (1, 2, 3):
            _swap(after, version, _text(version))
            _acts(hand, a=f"s3://{version}")


def test_f2_content_decides_whatever_the_times_of_the_file_say(
    agent: AgentProcess, hand: Hand, config: Path
) -> None:
    config.write_text(_text(0))
    agent.start()
    _acts(hand, a="s3://0")
    stat = config.stat()

    def write(version: int, nanoseconds: int) -> None:
        new = config.with_name("new")
        new.write_text(_text(version))
        os.utime(new, ns=(nanoseconds, nanoseconds))
        new.replace(config)

    write(1, stat.st_mtime_ns)  # the same size, the same time
    _acts(hand, a="s3://1")
    write(2, stat.st_mtime_ns - 10**12)  # older than what it takes the place of
    _acts(hand, a="s3://2")
    config.touch()
    os.utime(config, (1, 1))
    (config.parent / "other-key").write_text("x")
    write(3, stat.st_mtime_ns)
    assert _acts(hand, a="s3://3").seq == 7  # one load, and two ops a change


def test_f2_another_key_of_the_config_map_and_a_touch_do_nothing(
    agent: AgentProcess, hand: Hand
) -> None:
    _swap(agent.models_dir, 0, _text(0))
    agent.start()
    _acts(hand, a="s3://0")
    for version in range(1, 4):
        _swap(agent.models_dir, version, _text(0))
        (agent.models_dir / "..data" / "other-key").write_text(str(version))
        (agent.models_dir / "models.json").touch()
    _swap(agent.models_dir, 9, _text(9))
    assert _acts(hand, a="s3://9").seq == 3
    assert agent.log.count("model config read") == 2


def _mv(config: Path, text: str) -> None:
    new = config.with_name("new")
    new.write_text(text)
    subprocess.run(["mv", "-f", str(new), str(config)], check=True, timeout=30)


def _mv_from_elsewhere(config: Path, text: str) -> None:
    new = config.parent.with_name("new")
    new.write_text(text)
    subprocess.run(["mv", "-f", str(new), str(config)], check=True, timeout=30)


def _cp(config: Path, text: str) -> None:
    new = config.parent.with_name("new")
    new.write_text(text)
    subprocess.run(["cp", str(new), str(config)], check=True, timeout=30)


def _sed(config: Path, text: str) -> None:
    command = ["sed", "-i", f"s|.*|{text.strip()}|", str(config)]
    subprocess.run(command, check=True, timeout=30)


def _rsync(config: Path, text: str) -> None:
    source = config.parent.with_name("source")
    source.mkdir(exist_ok=True)
    (source / config.name).write_text(text)
    command = ["rsync", "--recursive", "--checksum", "--delete", f"{source}/", f"{config.parent}/"]
    subprocess.run(command, check=True, timeout=60)


def _editor(config: Path, text: str) -> None:
    """vi's way: the old file becomes the backup, a new one is written in its place."""
    commands = f"set backupcopy=no\n1c\n{text.strip()}\n.\nwq\n"
    subprocess.run(["ex", "-s", str(config)], input=commands.encode(), check=True, timeout=60)


def _editor_in_place(config: Path, text: str) -> None:
    commands = f"set backupcopy=yes\n1c\n{text.strip()}\n.\nwq\n"
    subprocess.run(["ex", "-s", str(config)], input=commands.encode(), check=True, timeout=60)


WAYS = (_mv, _mv_from_elsewhere, _cp, _sed, _rsync, _editor, _editor_in_place)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__.strip("_"))
def test_f3_every_version_acts_whatever_puts_it_in_place(
    agent: AgentProcess, hand: Hand, config: Path, way: Callable[[Path, str], None]
) -> None:
    config.write_text(_text(0))
    agent.start()
    _acts(hand, a="s3://0")
    for version in range(1, 6):
        way(config, _text(version))
        assert _acts(hand, a=f"s3://{version}").seq == 1 + 2 * version
    steps = [(op.op, op.spec["storageUri"]) for op in hand.ops()]
    assert steps == [("load", "s3://0")] + [
        step
        for version in range(1, 6)
        for step in (("unload", f"s3://{version - 1}"), ("load", f"s3://{version}"))
    ]


def test_f4_a_file_written_bit_by_bit_is_one_set_of_ops_at_the_end(
    agent: AgentProcess, hand: Hand, config: Path
) -> None:
    config.write_text(_text(0, b="s3://b", c="s3://c"))
    agent.start()
    before = _acts(hand, a="s3://0", b="s3://b", c="s3://c")
    text = _text(1, b="s3://b", d="s3://d")
    for part, reason in (("", "empty"), (text[: len(text) // 2], "not JSON"), (text[:-3], "char")):
        config.write_text(part)
        eventually(lambda reason=reason: reason in _state(hand, "invalid").config.message, 30)
        assert hand.replay() == {"a": "s3://0", "b": "s3://b", "c": "s3://c"}
    config.write_text(text)
    after = _acts(hand, a="s3://1", b="s3://b", d="s3://d")
    assert after.seq == before.seq + 4
    steps = [(op.op, op.model) for op in hand.ops()[before.seq :]]
    assert steps == [("unload", "c"), ("unload", "a"), ("load", "a"), ("load", "d")]
    assert agent.log.count("model config invalid") == 1


_WRITER = """
import sys, time
with open(sys.argv[1], "w") as file:
    file.write(sys.argv[2])
    file.flush()
    print("half", flush=True)
    time.sleep(600)
"""


def test_f4_a_writer_that_is_killed_half_way_leaves_the_last_good_with_a_warning(
    agent: AgentProcess, hand: Hand, config: Path
) -> None:
    config.write_text(_text(0, b="s3://b"))
    agent.start()
    before = _acts(hand, a="s3://0", b="s3://b")
    command = [sys.executable, "-c", _WRITER, str(config), _text(1)[:30]]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"half\n"
        writer.send_signal(signal.SIGKILL)
    found = _state(hand, "invalid")
    assert found.seq == before.seq
    assert [each.name for each in found.models] == ["a", "b"]
    assert agent.log.count("model config invalid") == 1
    # The same after a restart: what is on disk is still half a file.
    agent.kill()
    agent.start()
    eventually(lambda: agent.log.count("model config invalid") == 2, 20, what="the warning")
    assert [each.name for each in _state(hand, "invalid").models] == ["a", "b"]
    config.write_text(_text(1))
    assert _acts(hand, a="s3://1").seq == before.seq + 3


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 30)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(path))


_MODEL = b'{"modelName": "a", "modelSpec": '
ODD: dict[str, tuple[Callable[[Path], object], str]] = {
    "a pipe": (os.mkfifo, "no regular file"),
    "a directory": (Path.mkdir, "no regular file"),
    "a socket": (_socket, "cannot be read"),
    "a device": (lambda path: path.symlink_to("/dev/zero"), "no regular file"),
    "a link to itself": (lambda path: path.symlink_to(path.name), "symbolic links"),
    "memory": (lambda path: path.symlink_to("/proc/self/mem"), "cannot be read"),
    "a gigabyte": (_sparse, "larger than"),
    "a million numbers": (lambda path: path.write_bytes(b"[" + b"0," * 2_000_000), "values"),
    "no UTF-8": (lambda path: path.write_bytes(b"[\xff]"), "not UTF-8"),
    "UTF-16": (lambda path: path.write_bytes("[]".encode("utf-16")), "not UTF-8"),
    "NULs": (lambda path: path.write_bytes(bytes(100)), "not JSON"),
    "a deep array": (lambda path: path.write_bytes(b"[" * 100_000), "nested"),
    "a deep object": (lambda path: path.write_bytes(b"[" + _MODEL + b'{"a":' * 9_000), "nested"),
    "an object": (lambda path: path.write_bytes(_MODEL + b"{}}"), "not an array"),
    "two arrays": (lambda path: path.write_bytes(b"[][]"), "not JSON"),
    "NaN": (lambda path: path.write_bytes(b"[NaN]"), "not JSON"),
}
MOST_MEMORY = 400_000
"""kB: far above what an agent has, far below what a file that is taken at its word would cost."""


def test_f4_whatever_is_in_the_place_of_the_file_keeps_the_models_and_costs_little(
    agent: AgentProcess, hand: Hand, config: Path
) -> None:
    agent.settings["model_config_poll"] = 0.2  # a socket and a link to it give no event of theirs
    config.write_text(_text(0))
    agent.start()
    seq = _acts(hand, a="s3://0").seq
    for what, (make, reason) in ODD.items():
        if config.is_dir() and not config.is_symlink():
            config.rmdir()
        else:
            config.unlink()
        eventually(lambda: _state(hand, "missing"), 30, what=f"nothing before {what}")
        make(config)
        found = _state(hand, "invalid")
        assert reason in found.config.message, what
        assert [(each.name, each.state) for each in found.models] == [("a", "Requested")], what
        assert found.seq == seq, what
    status = Path(f"/proc/{agent.pid}/status").read_text()
    (peak,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    assert peak < MOST_MEMORY
    config.unlink()
    config.write_bytes(b"\xef\xbb\xbf" + _text(1).encode())
    _acts(hand, a="s3://1")
    assert agent.log.count("agent starts") == 1


def test_f4_a_file_that_is_closed_to_the_agent_keeps_the_models_until_it_is_opened(
    agent: AgentProcess, hand: Hand, config: Path
) -> None:
    if os.geteuid() == 0:  # without these, to root too
        rights = "--bounding-set=-dac_override,-dac_read_search"
        agent.command = ["setpriv", rights, *COMMAND]
    config.write_text(_text(0))
    agent.start()
    _acts(hand, a="s3://0")
    new = config.with_name("new")
    new.write_text(_text(1))
    new.chmod(0)
    new.replace(config)
    found = _state(hand, "invalid")
    assert "cannot be read: Permission denied" in found.config.message
    assert [each.name for each in found.models] == ["a"]
    config.chmod(0o644)
    _acts(hand, a="s3://1")


def test_f5_what_is_missing_is_picked_up_each_time_and_what_vanishes_keeps_the_models(
    agent: AgentProcess, hand: Hand
) -> None:
    above = agent.models_dir
    directory = above / "deep" / "down"
    agent.settings["model_config_dir"] = directory
    agent.start()
    assert _state(hand, "missing").models == []
    directory.mkdir(parents=True)
    (directory / "models.json").write_text(_text(1))
    _acts(hand, a="s3://1")
    for version, gone in enumerate((directory / "models.json", directory, above / "deep"), 2):
        if gone.is_dir():
            shutil.rmtree(gone)
        else:
            gone.unlink()
        found = _state(hand, "missing")
        assert [(each.name, each.state) for each in found.models] == [("a", "Requested")]
        assert agent.log.count("model config missing") == version
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "models.json").write_text(_text(version))
        assert _acts(hand, a=f"s3://{version}").seq == 2 * version - 1
    # And while the agent is off.
    agent.stop()
    (directory / "models.json").unlink()
    agent.start()
    found = _state(hand, "missing")
    assert [(each.name, each.state) for each in found.models] == [("a", "Requested")]
    assert found.seq == 7


@pytest.mark.parametrize(
    ("limit", "sysctl"),
    [
        ("max_inotify_instances", "fs.inotify.max_user_instances"),
        ("max_inotify_watches", "fs.inotify.max_user_watches"),
    ],
)
def test_f6_at_the_limits_of_inotify_one_warning_names_the_sysctl_and_the_poll_takes_over(
    agent: AgentProcess, hand: Hand, config: Path, tmp_path: Path, limit: str, sysctl: str
) -> None:
    limited = InotifyLimit(limit, tmp_path)
    agent.command = limited.command(COMMAND)
    agent.settings["model_config_poll"] = 0.2
    config.write_text(_text(0))
    agent.start()
    for version in range(4):
        whole = config.with_name("new")  # the poll must not see it half written
        whole.write_text(_text(version))
        whole.replace(config)
        _acts(hand, a=f"s3://{version}")
    warnings = [line for line in agent.log.splitlines() if " warning " in line]
    assert len(warnings) == 1
    assert "inotify is not to be had, polling instead" in warnings[0]
    assert sysctl in warnings[0]
    limited.lift(agent.pid)
    eventually(lambda: "inotify works again" in agent.log, 20, what="inotify is taken up again")
    config.write_text(_text(9))
    _acts(hand, a="s3://9")


def test_f7_a_version_that_gives_no_event_is_seen_by_the_poll(
    agent: AgentProcess, hand: Hand, config: Path, tmp_path: Path
) -> None:
    # Written behind a link: nothing in the directory changes, as on NFS.
    agent.settings["model_config_poll"] = 0.2
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text(_text(0))
    config.symlink_to(elsewhere)
    agent.start()
    _acts(hand, a="s3://0")
    for version in range(1, 4):
        elsewhere.write_text(_text(version))
        _acts(hand, a=f"s3://{version}")


def test_f7_a_file_that_is_itself_mounted_is_warned_of_at_the_start(
    agent: AgentProcess, hand: Hand, config: Path, tmp_path: Path
) -> None:
    source = tmp_path / "volume.json"
    source.write_text(_text(0))
    config.touch()
    with mounted(config, "--bind", str(source)) as real:
        if not real:
            source.replace(config)
        agent.start()
        _acts(hand, a="s3://0")
        warned = "the model config file is itself a mount point" in agent.log
        assert warned == real
