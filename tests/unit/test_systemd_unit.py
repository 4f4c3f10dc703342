"""The units, judged by systemd itself."""

from __future__ import annotations

import configparser
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bridge.api.place import client_paths, socket_path
from nodecast.session.settings import MqttSettings

UNITS = Path(__file__).parents[2] / "docker" / "systemd"


def directives(text: str) -> configparser.SectionProxy:
    """The [Service] section; of a directive given twice, the last."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    return parser["Service"]


def seconds(value: str) -> float:
    return float(value.removesuffix("s"))


@pytest.fixture(params=["nodecast-agent", "nodecast-bridge"])
def unit(request: pytest.FixtureRequest) -> Path:
    return UNITS / f"{request.param}.service"


@pytest.fixture
def installed(unit: Path, tmp_path: Path) -> Path:
    """The unit as if installed: `verify` wants the program of ExecStart to exist."""
    text, count = re.subn(r"(?m)^ExecStart=\S+", f"ExecStart={sys.executable}", unit.read_text())
    assert count == 1
    copy = tmp_path / unit.name
    copy.write_text(text)
    return copy


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_systemd_finds_nothing_wrong_with_the_unit(installed: Path) -> None:
    result = analyze("verify", installed)

    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_the_exposure_of_the_unit_is_at_most_2(installed: Path) -> None:
    result = analyze("security", "--offline=true", "--no-pager", installed)

    exposure = re.search(r"Overall exposure level for \S+: ([\d.]+)", result.stdout)
    assert exposure is not None, result.stderr
    assert float(exposure[1]) <= 2.0


def test_the_stop_leaves_time_for_the_drain(unit: Path) -> None:
    assert seconds(directives(unit.read_text())["TimeoutStopSec"]) > MqttSettings().drain


def test_a_wrong_setting_and_what_another_process_has_are_not_started_again(unit: Path) -> None:
    service = directives(unit.read_text())

    assert service["Restart"] == "always"
    assert {"69", "78"} <= set(service["RestartPreventExitStatus"].split())


def test_the_user_of_the_unit_is_one_that_is_made_for_it(unit: Path) -> None:
    users = unit.with_suffix(".sysusers.conf").read_text()
    assert f"\nu {directives(unit.read_text())['User']} - " in users


def test_root_finds_the_bridges_socket_where_the_unit_has_it_made() -> None:
    service = directives((UNITS / "nodecast-bridge.service").read_text())
    made = {"RUNTIME_DIRECTORY": f"/run/{service['RuntimeDirectory']}"}
    assert client_paths(None, "b", {}, uid=0) == (socket_path(None, "b", made, uid=999),)
