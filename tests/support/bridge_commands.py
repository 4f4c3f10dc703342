"""`nodecast-bridge` run inside the test, on a directory of good manifests."""

from __future__ import annotations

import pytest

from bridge.cli import bridge
from nodecast.command import run_command
from tests.support.objects import dataset, federated, inference, model

GOOD = [
    dataset("shelf", "hall-1"),
    inference("plates", "gate-2", "small"),
    model("small"),
    federated("wear", "hall-1", "crane-1"),
]
"""What the fixture `manifests` holds, each in a file of its own."""

Output = pytest.CaptureFixture[str]


def run(*arguments: object) -> int:
    """The exit code."""
    return run_command(bridge, [str(each) for each in arguments])


def errors(capsys: Output) -> list[str]:
    """The lines on standard error so far."""
    return capsys.readouterr().err.splitlines()
