"""Programs that log in and do not end: waited for, but not for good."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.sources.kubernetes import api as api_module
from bridge.sources.kubernetes.access import Access
from bridge.sources.kubernetes.api import Api
from bridge.sources.kubernetes.patience import Overdue, Patience
from nodecast.errors import SettingsError, ThreadDied
from tests.fakes.apiserver import ADMIN, ApiServer
from tests.fakes.identities import MASTERS
from tests.support.informing import informing, quick_time, serving
from tests.support.objects import dataset
from tests.support.wait import eventually

LONG = 600.0
SHORT = 0.05


@pytest.fixture
def door() -> Iterator[threading.Event]:
    """Closed until the end of the test at the latest."""
    event = threading.Event()
    yield event
    event.set()


def test_a_call_gives_its_value() -> None:
    patience = Patience(LONG)
    assert [patience.call(lambda n=n: n) for n in range(100)] == list(range(100))


def test_an_expected_error_is_raised_as_it_is() -> None:
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        Patience(LONG).call(fail, ValueError)


def test_any_other_error_is_loud() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ThreadDied):
        Patience(LONG).call(fail, ValueError)


def test_what_does_not_end_is_given_up_and_not_begun_again_before_it_has_ended(
    door: threading.Event,
) -> None:
    begun: list[bool] = []

    def hang() -> bool:
        begun.append(True)
        return door.wait()

    patience = Patience(SHORT)
    with pytest.raises(Overdue, match="not ended within"):
        patience.call(hang)
    with pytest.raises(Overdue, match="still runs"):
        patience.call(hang)
    assert len(begun) == 1
    door.set()
    eventually(lambda: _works(patience), what="it goes on")


def _works(patience: Patience) -> bool:
    try:
        return patience.call(lambda: True)
    except Overdue:
        return False


# -- with a real program


class Login:
    """A kubeconfig whose program gives what is in `says`, once `open` is there."""

    def __init__(self, directory: Path, server: ApiServer) -> None:
        self.open = directory / "open"
        self.says = directory / "says"
        self.program = directory / "program"
        self.program.write_text(
            f"#!/bin/sh\necho x >>{directory}/started\n"
            f"until [ -e {self.open} ]; do sleep 0.05; done\ncat {self.says}\n"
        )
        self.program.chmod(0o755)
        self._started = directory / "started"
        path = server.kubeconfig(directory / "kubeconfig")
        config = json.loads(path.read_text())
        version = "client.authentication.k8s.io/v1"
        program = {"apiVersion": version, "command": str(self.program), "interactiveMode": "Never"}
        config["users"][0]["user"] = {"exec": program}
        path.write_text(json.dumps(config))
        self.access = Access(str(path))
        self.give(server.admin_token)

    def give(self, token: str) -> None:
        credential = {"kind": "ExecCredential", "status": {"token": token}}
        version = {"apiVersion": "client.authentication.k8s.io/v1"}
        self.says.write_text(json.dumps(version | credential))

    @property
    def starts(self) -> int:
        return len(self._started.read_text().split())


@pytest.fixture
def login(tmp_path: Path) -> Iterator[tuple[Login, ApiServer]]:
    with serving(dataset("a", "edge0")) as server:
        made = Login(tmp_path, server)
        yield made, server
        made.open.touch()  # whatever is left of it ends


def test_a_program_that_hangs_at_the_start_is_said(
    login: tuple[Login, ApiServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_module, "LOGIN", SHORT)
    with pytest.raises(SettingsError, match=r"has not ended within 0\.05 s: run it by hand"):
        Api(login[0].access)


def test_a_program_that_hangs_later_is_said_and_all_goes_on_once_it_ends(
    login: tuple[Login, ApiServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, server = login
    program.open.touch()
    with informing(server, tmp_path, access=program.access, clock=quick_time) as it:
        it.watching()
        monkeypatch.setattr(it.api._patience, "_limit", SHORT)
        program.open.unlink()
        server.revoke_token(server.admin_token)
        server.faults.cut_watches()
        eventually(lambda: "credentials cannot be read" in it.log.text, what="it is said")
        assert "has not ended within" in it.log.text
        assert program.starts == 2, "one that hangs is started once"
        program.give(server.token(ADMIN, (MASTERS,)))
        program.open.touch()
        server.create(dataset("b", "edge0"))
        monkeypatch.setattr(it.api._patience, "_limit", LONG)
        it.knows("a", "b")
        assert it.told.gone == []
