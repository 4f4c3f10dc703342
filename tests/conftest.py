"""Fixtures that all tests share; the repository goes on the path, for `tests.support`."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from tests.support.agents import AgentProcess, Hand  # noqa: E402
from tests.support.bridge_commands import GOOD  # noqa: E402
from tests.support.mosquitto import Broker  # noqa: E402
from tests.support.mqtt import Observer, observing  # noqa: E402

# A busy machine is no failure.
settings.register_profile("searching", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", settings.get_profile("searching"), derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.fixture(autouse=True)
def _logs_as_they_were() -> Iterator[None]:
    """A command that runs inside a test sets up logs for the process: undone after it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings of the shell that the tests run in do not count."""
    for name in [each for each in os.environ if each.startswith("NODECAST_")]:
        monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def _sockets_of_this_test(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Bridges of tests that run at the same time have one name: each test has a place of its own
    for their sockets."""
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    """A directory of good manifests, one object a file."""
    path = tmp_path / "manifests"
    path.mkdir()
    for number, thing in enumerate(GOOD):
        (path / f"{number}.json").write_text(json.dumps(thing))
    return path


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A running Mosquitto without a store."""
    with Broker(tmp_path / "broker") as running:
        yield running


@pytest.fixture
def observer(broker: Broker) -> Iterator[Observer]:
    """A client that sees everything on `broker`."""
    with observing(broker.port) as observer:
        yield observer


@pytest.fixture
def hand(observer: Observer) -> Hand:
    """Speaks to `agent` as its bridge would, and reads what it says."""
    return Hand(observer)


@pytest.fixture
def agent(broker: Broker, tmp_path: Path) -> Iterator[AgentProcess]:
    """An agent on `broker`, yet to be started; ended with the test."""
    made = AgentProcess(tmp_path / "node", broker.url)
    yield made
    made.kill()
