"""The demo, run as a person runs it: to its end, until Ctrl-C, and with a part that dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.wait import eventually

pytestmark = pytest.mark.broker

RUN = Path(__file__).parents[2] / "docker" / "demo" / "run.py"
_ONCE_WITHIN = 120.0
_STARTED_WITHIN = 30.0
_ENDED_WITHIN = 40.0


class Demo:
    """A running demo whose temporary files are below `directory`, and what it prints."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.directory = directory / "temporary"
        self.directory.mkdir()
        self._output = directory / "output"
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, str(RUN), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "TMPDIR": str(self.directory)},
            )

    @property
    def output(self) -> str:
        return self._output.read_text(errors="replace")

    def says(self, text: str) -> None:
        """Wait until it has printed `text`."""
        eventually(lambda: text in self.output, _STARTED_WITHIN, what=f"it says {text!r}")

    def children(self) -> dict[int, str]:
        """The command lines of all processes that work below `directory`, by id."""
        found = {}
        for entry in Path("/proc").iterdir():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if entry.name.isdigit() and str(self.directory) in command:
                found[int(entry.name)] = command
        return found

    def end(self) -> None:
        """End it in any case; what it started ends with it."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(_ENDED_WITHIN)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Demo]:
    """The live demo, as it prints into a pipe, with everything in place."""
    demo = Demo(tmp_path)
    try:
        demo.says("Model.sedna.io/port/quay-detector-small: on disk")
        yield demo
    finally:
        demo.end()


def test_the_demo_goes_through_all_its_steps_and_leaves_nothing_behind(tmp_path: Path) -> None:
    demo = Demo(tmp_path, "--once")
    try:
        code = demo.process.wait(_ONCE_WITHIN)
    finally:
        demo.end()

    assert code == 0, demo.output
    assert "steps came out as expected" in demo.output
    assert demo.children() == {}
    assert list(demo.directory.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_live_demo_and_all_that_it_started(
    started: Demo, number: signal.Signals
) -> None:
    assert len(started.children()) == 4
    started.process.send_signal(number)

    assert started.process.wait(_ENDED_WITHIN) == 0, started.output
    assert started.children() == {}
    assert list(started.directory.iterdir()) == []


def test_steps_that_are_interrupted_are_no_success(tmp_path: Path) -> None:
    demo = Demo(tmp_path, "--once")
    try:
        demo.says(" 2/")
        demo.process.send_signal(signal.SIGINT)
        code = demo.process.wait(_ENDED_WITHIN)
    finally:
        demo.end()

    assert code == 130, demo.output
    assert demo.children() == {}


def test_a_part_that_dies_fails_the_demo_and_ends_the_others(started: Demo) -> None:
    (bridge,) = (pid for pid, command in started.children().items() if "nodecast-bridge" in command)
    os.kill(bridge, signal.SIGKILL)

    assert started.process.wait(_ENDED_WITHIN) == 1
    assert "bridge ended by itself" in started.output
    assert started.children() == {}


def test_the_live_demo_says_where_its_broker_and_logs_are_and_what_has_no_agent(
    started: Demo,
) -> None:
    started.says("Broker mqtt://127.0.0.1:")
    started.says("logs/bridge.log")
    started.says("edge-c has no agent, on purpose")


def test_an_edited_manifest_shows_in_the_live_demo(started: Demo) -> None:
    (manifest,) = started.directory.glob("*/manifests/datasets.yaml")
    text = manifest.read_text().replace("nodeName: edge-c", "nodeName: edge-a")
    manifest.write_text(text)

    started.says("edge-a   Dataset.sedna.io/port/meter-readings: on disk")
