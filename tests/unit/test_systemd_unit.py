"""The agent's unit, judged by systemd itself."""

from __future__ import annotations

import configparser
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nodecast.session.settings import MqttSettings

UNIT = Path(__file__).parents[2] / "docker" / "systemd" / "nodecast-agent.service"


def directives(text: str) -> configparser.SectionProxy:
    """The [Service] section; of a directive given twice, the last."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    return parser["Service"]


def seconds(value: str) -> float:
    return float(value.removesuffix("s"))


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The unit as if installed: `verify` wants the program of ExecStart to exist."""
    text, count = re.subn(r"(?m)^ExecStart=\S+", f"ExecStart={sys.executable}", UNIT.read_text())
    assert count == 1
    copy = tmp_path / UNIT.name
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


def test_the_stop_leaves_time_for_the_drain() -> None:
    assert seconds(directives(UNIT.read_text())["TimeoutStopSec"]) > MqttSettings().drain


def test_a_wrong_setting_and_a_state_directory_in_use_are_not_started_again() -> None:
    service = directives(UNIT.read_text())

    assert service["Restart"] == "always"
    assert {"69", "78"} <= set(service["RestartPreventExitStatus"].split())
