"""A running bridge and who asks it: real processes, real sockets, a real Mosquitto."""

from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.api.client import Client
from bridge.status import Status
from tests.support.api_served import LONG, answers
from tests.support.fleet import Fleet
from tests.support.objects import Object, dataset
from tests.support.process import run_to_end
from tests.support.wait import eventually

pytestmark = pytest.mark.broker

ALL = [dataset(f"d{number:02}", "edge0") for number in range(12)]
KEPT = ALL[:1]
HELD = "Dataset.sedna.io"


def path(fleet: Fleet) -> Path:
    """The socket of the fleet's bridge: the tests' RUNTIME_DIRECTORY is the fleet's root."""
    return fleet.root / "default.sock"


def client(fleet: Fleet) -> Client:
    return Client([path(fleet)], LONG)


def comes_to(fleet: Fleet, phase: str) -> Status:
    """Wait until the bridge says that it is so far; how it is."""

    def there() -> Status | None:
        if not answers(client(fleet)):
            return None
        known = client(fleet).status()
        return known if known.phase == phase else None

    return eventually(there, 30, what=phase)  # type: ignore[return-value]


@pytest.fixture
def one(make_fleet: type[Fleet]) -> Fleet:
    """One node that has `ALL`; it runs."""
    fleet = make_fleet("edge0")
    fleet.put(*ALL)
    fleet.start()
    fleet.should_be({"edge0": ALL})
    return fleet


def test_a_running_bridge_says_how_it_is(one: Fleet) -> None:
    found = comes_to(one, "in charge")
    with one.look() as look:
        ledger = eventually(look.ledger)
    assert (found.bridge, found.instance, found.epoch) == (
        "default",
        ledger.instance,
        ledger.epoch,
    )
    assert (found.source, found.origin) == ("manifests", f"manifests {one.manifests}")
    assert (found.broker.connected, found.broker.failure) == (True, None)
    assert found.nodes.known == 1
    (kind,) = (each for each in found.kinds if each.kind == HELD)
    assert (kind.objects, kind.placed, kind.held) == (13, 12, False)


def test_what_the_guard_keeps_leaves_the_node_when_it_is_approved_and_not_before(
    one: Fleet,
) -> None:
    shown = ("--manifests", str(one.manifests), "--mqtt-url", one.broker.url)
    one.drop(*ALL[1:])
    eventually(lambda: guarded(one), 30, what="the guard holds it")
    before = one.agents["edge0"].mark()
    checked = run_to_end("nodecast-bridge", "check", *shown)
    assert checked.returncode == 1
    assert f"held: {HELD}: 11 of its 12 placed objects would be on no node" in checked.stdout
    assert f"`nodecast-bridge approve {HELD}`" in checked.stdout
    assert one.agents["edge0"].untouched(before)

    done = run_to_end("nodecast-bridge", "approve", "Dataset")
    through = "IncrementalLearningJob.sedna.io, LifelongLearningJob.sedna.io, Model.sedna.io"
    said = (
        f"approved   {HELD}: 11 of its 12 objects may leave\n           let go with it: {through}\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, said, "")
    one.should_be({"edge0": KEPT})

    again = run_to_end("nodecast-bridge", "approve", HELD)
    assert again.returncode == 1
    assert "nothing to approve" in again.stderr
    assert run_to_end("nodecast-bridge", "check", *shown).returncode == 0


def guarded(fleet: Fleet) -> bool:
    return any(kind.guarded for kind in client(fleet).status().kinds)


def test_an_approval_that_is_for_another_kind_says_what_is_held(one: Fleet) -> None:
    one.drop(*ALL[1:])
    eventually(lambda: guarded(one), 30, what="the guard holds it")

    done = run_to_end("nodecast-bridge", "approve", "FederatedLearningJob")
    assert done.returncode == 1
    assert "nothing to approve" in done.stderr
    assert f"held: {HELD}: 11 of its 12 placed objects" in done.stdout
    done = run_to_end("nodecast-bridge", "approve", "Camera.example.com")
    assert done.returncode == 1
    assert "Camera.example.com has no rule" in done.stderr
    assert guarded(one)


def test_the_socket_is_for_the_bridges_user_and_goes_with_it(one: Fleet) -> None:
    assert stat.S_IMODE(path(one).stat().st_mode) == 0o600
    assert one.bridge.stop() == 0
    assert not os.path.lexists(path(one))

    done = run_to_end("nodecast-bridge", "approve", "Dataset")
    assert done.returncode == 69
    assert done.stderr.startswith(f"nodecast-bridge: no bridge answers: there is no {path(one)}")


def test_a_killed_bridge_leaves_a_socket_that_is_told_from_a_live_one_and_replaced(
    one: Fleet,
) -> None:
    first = comes_to(one, "in charge")
    one.bridge.kill()
    done = run_to_end("nodecast-bridge", "approve", "Dataset")
    assert done.returncode == 69
    assert f"no bridge answers at {path(one)}: it was killed" in done.stderr
    shown = ("--manifests", str(one.manifests), "--mqtt-url", one.broker.url)
    assert run_to_end("nodecast-bridge", "check", *shown).returncode == 0

    one.bridge.start()
    second = comes_to(one, "in charge")
    assert second.instance != first.instance
    assert stat.S_IMODE(path(one).stat().st_mode) == 0o600


def test_a_second_bridge_on_the_same_socket_serves_its_nodes_and_leaves_the_socket_alone(
    fleet: Fleet,
) -> None:
    theirs = fleet.root / "theirs"
    theirs.mkdir()
    other = fleet.another_bridge("other", name="other", manifests=theirs)
    other.settings["api.socket"] = str(path(fleet))
    fleet.start()
    first = comes_to(fleet, "in charge")
    with fleet.look() as look:
        other.start()
        other.says("another process listens on the API's socket")
        eventually(lambda: look.ledger("other"), 30, what="the other one is in charge")

    assert client(fleet).status().instance == first.instance
    assert other.logged("no API: nodes are served all the same") == 1
    assert other.stop() == 0
    assert client(fleet).status().instance == first.instance


@pytest.mark.parametrize("setting", ["relative.sock", "/" + "x" * 107, ""])
def test_a_socket_that_can_never_be_ends_the_start_with_78(setting: str, tmp_path: Path) -> None:
    done = run_to_end(
        *("nodecast-bridge", "run", "--manifests", str(tmp_path)),
        settings={"api.socket": setting},
    )
    assert done.returncode == 78
    (line,) = done.stderr.splitlines()
    assert line.startswith("nodecast-bridge: variable NODECAST_API_SOCKET: api.socket ")


def test_a_bridge_without_a_place_for_its_socket_says_so_and_serves(
    one: Fleet, tmp_path: Path
) -> None:
    one.bridge.stop()
    one.bridge.settings["api.socket"] = str(tmp_path / "not" / "there" / "b.sock")
    one.bridge.start()
    one.bridge.says("no API: nodes are served all the same", since=one.bridge.started_at)
    more = dataset("more", "edge0")
    one.put(more)
    one.should_be({"edge0": [*ALL, more]})


def test_a_bridge_that_stands_still_costs_check_nothing_but_a_line(one: Fleet) -> None:
    one.bridge.freeze()
    shown = ("--manifests", str(one.manifests), "--mqtt-url", one.broker.url)
    checked = run_to_end("nodecast-bridge", "check", *shown)
    assert checked.returncode == 0
    assert f"silent     the bridge at {path(one)} did not answer within 3 s" in checked.stdout
    assert "served     Dataset.sedna.io: 13 objects, 12 on nodes" in checked.stdout
    one.bridge.thaw()
    comes_to(one, "in charge")


@pytest.fixture
def hanging(one: Fleet) -> Iterator[list[socket.socket]]:
    """Connections that ask half a question, and wait."""
    held = []
    for sent in (b"", b"GET /v1/sta", b"POST /v1/status HTTP/1.1\r\nHost: x\r\n"):
        each = socket.socket(socket.AF_UNIX)
        each.connect(str(path(one)))
        each.sendall(sent)
        held.append(each)
    yield held
    for each in held:
        each.close()


def test_questions_in_masses_and_garbage_cost_the_nodes_nothing(
    one: Fleet, hanging: list[socket.socket]
) -> None:
    del hanging
    phases: list[str] = []
    threads = [
        threading.Thread(target=lambda: phases.append(client(one).status().phase))
        for _ in range(200)
    ]
    changed: list[Object] = []
    for number, thread in enumerate(threads):
        thread.start()
        if number % 20 == 0:
            _garbage(path(one))
            changed.append(dataset(f"more{number}", "edge0"))
            one.put(changed[-1])
    for thread in threads:
        thread.join()
    assert phases == ["in charge"] * 200
    one.should_be({"edge0": [*ALL, *changed]})
    since = one.bridge.log[one.bridge.started_at :]
    assert not [line for line in since.splitlines() if " warning " in line or " error " in line]


def _garbage(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.sendall(bytes(range(256)) * 16)


def test_a_bridge_that_stops_waits_for_nobody_that_asks(
    one: Fleet, hanging: list[socket.socket]
) -> None:
    del hanging
    assert one.bridge.stop() == 0
    assert not os.path.lexists(path(one))
    assert one.bridge.logged("bridge stopped") == 1


def test_a_bridge_that_waits_for_its_broker_answers_and_approves_nothing(
    make_fleet: type[Fleet],
) -> None:
    fleet = make_fleet("edge0")
    fleet.bridge.start()
    found = comes_to(fleet, "connecting")
    found = eventually(lambda: (s := client(fleet).status()) and s.broker.failure and s, 30)
    assert not found.broker.connected
    assert found.epoch is None
    done = run_to_end("nodecast-bridge", "approve", "Dataset")
    assert done.returncode == 1
    assert "nothing to approve" in done.stderr
