"""tools/need: what an install on a person's machine leaves behind, with apt-get and systemd faked.

The fakes stand alone on PATH, so that nothing of the real machine can answer or be changed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

NEED = Path(__file__).parents[2] / "tools" / "need"

APT_GET = """
case " $* " in
*" install "*)
    if [ -e "$STATE/no-lists" ]; then exit 100; fi
    cat "$POLICY" > "$STATE/policy-seen"
    touch "$STATE/enabled" "$STATE/installed" "$BIN/some-broker"
    chmod 755 "$BIN/some-broker"
    if sh "$POLICY" some-broker start; then touch "$STATE/active"; fi
    ;;
*" update "*) rm "$STATE/no-lists" ;;
esac
"""
SYSTEMCTL = """
[ "$1" = --quiet ] && shift
case $1 in
is-enabled) [ -e "$STATE/enabled" ] ;;
is-active) [ -e "$STATE/active" ] ;;
disable) rm "$STATE/enabled" ;;
stop) rm "$STATE/active" ;;
esac
"""


class Machine:
    """A Debian machine of a few commands; what happened is in the files of `state`."""

    def __init__(self, root: Path) -> None:
        self.bin, self.state, self.policy = root / "bin", root / "state", root / "policy-rc.d"
        self.bin.mkdir()
        self.state.mkdir()
        for tool in ("sh", "rm", "chmod", "touch", "cat", "env"):
            found = shutil.which(tool)
            assert found is not None
            (self.bin / tool).symlink_to(found)
        self.command("id", "echo 0")
        self.command("apt-get", APT_GET)
        self.command("systemctl", SYSTEMCTL)

    def command(self, name: str, body: str) -> None:
        path = self.bin / name
        path.write_text(f"#!{shutil.which('sh')}\n{body}\n")
        path.chmod(0o755)

    def has(self, mark: str) -> bool:
        return (self.state / mark).exists()

    def need(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [NEED, "some-broker", "some-broker"],
            env={
                "PATH": str(self.bin),
                "STATE": str(self.state),
                "BIN": str(self.bin),
                "POLICY": str(self.policy),
            },
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_what_is_there_is_not_installed(machine: Machine) -> None:
    machine.command("some-broker", "")

    result = machine.need()

    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert not machine.has("installed")


def test_a_missing_package_is_installed_and_its_service_neither_runs_nor_starts_at_boot(
    machine: Machine,
) -> None:
    result = machine.need()

    assert result.returncode == 0, result.stderr
    assert machine.has("installed")
    assert not machine.has("active")
    assert not machine.has("enabled")


def test_the_policy_that_forbids_starting_is_gone_after_the_install(machine: Machine) -> None:
    machine.need()

    assert (machine.state / "policy-seen").read_text().endswith("exit 101\n")
    assert not machine.policy.exists()


def test_the_policy_is_gone_after_an_install_that_failed(machine: Machine) -> None:
    machine.command("apt-get", "exit 100")

    result = machine.need()

    assert result.returncode == 1
    assert not machine.policy.exists()


def test_the_administrators_own_policy_stays_and_what_it_let_start_is_stopped(
    machine: Machine,
) -> None:
    machine.policy.write_text("exit 0\n")

    machine.need()

    assert machine.policy.read_text() == "exit 0\n"
    assert machine.has("installed")
    assert not machine.has("active")


def test_a_service_that_ran_and_was_enabled_before_is_left_so(machine: Machine) -> None:
    (machine.state / "active").touch()
    (machine.state / "enabled").touch()

    machine.need()

    assert machine.has("installed")
    assert machine.has("active")
    assert machine.has("enabled")


def test_a_missing_list_of_packages_is_fetched(machine: Machine) -> None:
    (machine.state / "no-lists").touch()

    assert machine.need().returncode == 0
    assert machine.has("installed")


def test_sudo_without_a_password_installs(machine: Machine) -> None:
    machine.command("id", 'if [ -n "$AS_ROOT" ]; then echo 0; else echo 1000; fi')
    machine.command("sudo", 'shift; if [ "$1" = true ]; then exit 0; fi; AS_ROOT=1 exec "$@"')

    result = machine.need()

    assert result.returncode == 0, result.stderr
    assert machine.has("installed")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda m: m.command("id", "echo 1000"), "you are not root"),
        (lambda m: (m.bin / "apt-get").unlink(), "this is no Debian system"),
    ],
)
def test_who_may_not_install_is_told_in_one_line_what_to_do(
    machine: Machine, change: Callable[[Machine], object], reason: str
) -> None:
    change(machine)

    result = machine.need()

    assert result.returncode == 1
    assert result.stderr == (
        f"some-broker is missing and {reason};"
        " install it, then run this again: apt-get install some-broker\n"
    )
    assert os.listdir(machine.state) == []
