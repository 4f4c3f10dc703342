"""The bridge's loop lives, and answers, while its source is silent: the whole process, in the test,
on a source that waits until it has seen so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import bridge.app
from bridge.api.client import Client
from bridge.app import App
from bridge.config import BridgeSettings
from bridge.origin import DirectoryOrigin
from bridge.placement import Rules
from bridge.sources.events import Emit, Source
from bridge.status import Phase
from nodecast.errors import ThreadDied
from nodecast.session import MqttSettings
from nodecast.threads import Fail, supervised
from tests.support.api_served import LONG
from tests.support.systemd import Systemd


class Seen(Exception):
    """The source has seen what it waited for."""


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Phase], None]]:
    """Waits until the loop was seen to live, answer and say that it is so far; raises Seen."""
    with Systemd(tmp_path / "notify", watchdog=0.3) as systemd:
        for name, value in systemd.variables.items():
            monkeypatch.setenv(name, value)

        def watched(phase: Phase) -> None:
            systemd.hears("READY=1")
            systemd.hears("WATCHDOG=1", times=3)
            assert Client([tmp_path / "default.sock"], LONG).status().phase == phase
            raise Seen

        yield watched


class Silent(Source):
    """A source that says nothing but that it has seen what it waited for."""

    def __init__(self, watch: Callable[[Phase], None], fail: Fail) -> None:
        self._thread = supervised("source", lambda: watch("listing"), fail)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._thread.join()

    def relist(self, kinds: object) -> None:
        del kinds


def run(origin: DirectoryOrigin, monkeypatch: pytest.MonkeyPatch) -> str:
    """Why the bridge ended."""
    monkeypatch.setattr(bridge.app, "origin_of", lambda _: origin)
    app = App(BridgeSettings(manifests="/", mqtt=MqttSettings(url="mqtt://127.0.0.1:1")))
    with pytest.raises(ThreadDied) as ended:
        app.run()
    return repr(ended.value.__cause__)


def test_while_the_source_does_not_say_which_one_it_is(
    watch: Callable[[Phase], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Origin(DirectoryOrigin):
        def identity(self) -> str:
            watch("starting")
            return ""

    assert run(Origin(tmp_path, LONG, "x"), monkeypatch) == "Seen()"


def test_while_the_source_does_not_list_anything(
    watch: Callable[[Phase], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Origin(DirectoryOrigin):
        def source(self, rules: Rules, emit: Emit, fail: Fail) -> Source:
            del rules, emit
            return Silent(watch, fail)

    assert run(Origin(tmp_path, LONG, "x"), monkeypatch) == "Seen()"
