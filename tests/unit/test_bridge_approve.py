"""`nodecast-bridge approve`, as a person runs it, beside a bridge that answers or not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nodecast.names import KindName
from tests.support.api_served import DATASET, Served, Subject, serving
from tests.support.bridge_commands import Output, errors, run

CLOUD = KindName("Model.example.com")


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A bridge that knows two kinds called Model, at the socket of the settings."""
    path = tmp_path / "b.sock"
    monkeypatch.setenv("NODECAST_API_SOCKET", str(path))
    with serving(path, Subject(CLOUD)) as served:
        yield served


@pytest.mark.parametrize("name", [DATASET, "Dataset", "dataset", "dataset.sedna.io"])
def test_a_kind_is_named_in_full_or_as_far_as_it_is_clear(
    name: str, served: Served, capsys: Output
) -> None:
    assert run("approve", name) == 0
    assert capsys.readouterr().out == f"approved   {DATASET}\n"
    assert not served.subject.held


def test_what_was_held_along_and_goes_too_is_said(served: Served, capsys: Output) -> None:
    served.subject.along = (CLOUD,)
    assert run("approve", DATASET) == 0
    assert capsys.readouterr().out == (
        f"approved   {DATASET}\n           let go with it: {CLOUD}\n"
    )


def test_what_is_not_needed_ends_with_1_and_what_is_held(served: Served, capsys: Output) -> None:
    assert run("approve", CLOUD) == 1
    seen = capsys.readouterr()
    assert seen.err == f"nothing to approve: {CLOUD} is not held\n"
    assert seen.out == f"           held: {DATASET}: because\n"
    assert served.subject.held


def test_a_name_that_two_kinds_have_ends_with_64_and_both(served: Served, capsys: Output) -> None:
    assert run("approve", "Model") == 64
    assert f"Model is one of Model.sedna.io, {CLOUD}" in capsys.readouterr().err
    assert served.subject.held


@pytest.mark.parametrize("name", ["", "a/b", "Dataset.", "1"])
def test_what_is_no_kind_ends_with_64(name: str, served: Served, capsys: Output) -> None:
    assert run("approve", name) == 64
    assert "KIND" in capsys.readouterr().err
    assert served.subject.held


def test_a_kind_that_the_bridge_does_not_know_ends_with_1(served: Served, capsys: Output) -> None:
    assert run("approve", "Camera.example.com") == 1
    assert errors(capsys) == ["Camera.example.com has no rule"]
    assert served.subject.held


def test_a_bridge_of_another_name_on_the_socket_is_asked_for_nothing(
    served: Served, capsys: Output
) -> None:
    assert run("approve", "--bridge", "other", DATASET) == 69
    (said,) = errors(capsys)
    assert "the bridge that answers is 'default', not 'other'" in said
    assert served.subject.held


def test_the_settings_file_names_the_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    path = tmp_path / "from-file.sock"
    config = tmp_path / "bridge.toml"
    config.write_text(f'[api]\nsocket = "{path}"\n')
    with serving(path):
        assert run("approve", "--config", config, DATASET) == 0
    monkeypatch.delenv("RUNTIME_DIRECTORY")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    capsys.readouterr()
    assert run("approve", "--bridge", "no-such-bridge-anywhere", DATASET) == 69
    (line,) = errors(capsys)
    assert line.startswith("nodecast-bridge: no bridge answers: there is no ")
    assert "no-such-bridge-anywhere.sock" in line


def test_check_shows_what_a_running_bridge_holds(
    served: Served, manifests: Path, capsys: Output
) -> None:
    run("check", "--manifests", manifests, "--mqtt-url", "mqtt://127.0.0.1:1")
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("running    in charge of 0 nodes")
    assert lines[at + 1] == f"           held: {DATASET}: because"
    assert served.subject.asked


def test_check_says_nothing_of_a_bridge_where_none_runs(manifests: Path, capsys: Output) -> None:
    run("check", "--manifests", manifests, "--mqtt-url", "mqtt://127.0.0.1:1")
    assert "running" not in capsys.readouterr().out
