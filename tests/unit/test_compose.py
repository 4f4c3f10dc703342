"""What is shipped for containers: the compose file by the Compose Specification, and its parts.

No container engine runs here; what the images run is run by the end-to-end tests.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import compose_spec
import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
DOCKERFILES = sorted(DOCKER.glob("*.Dockerfile"))


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """The file with its YAML merges resolved."""
    loaded: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
    return loaded


def validate(compose: dict[str, Any]) -> None:
    """Raises ValueError where the Compose Specification does not know something."""
    compose_spec.PyCompose.from_json(json.dumps(compose)).to_spec()


def bind_mounts(compose: dict[str, Any]) -> set[str]:
    return {
        volume.split(":")[0]
        for service in compose["services"].values()
        for volume in service.get("volumes", ())
        if volume.startswith(".")
    }


def test_the_compose_file_keeps_to_the_compose_specification(compose: dict[str, Any]) -> None:
    validate(compose)


def test_a_misspelt_key_in_a_compose_file_is_found(compose: dict[str, Any]) -> None:
    wrong = json.loads(json.dumps(compose))
    wrong["services"]["bridge"]["restrat"] = "always"

    with pytest.raises(ValueError, match="restrat"):
        validate(wrong)


def test_what_the_services_mount_and_build_is_there(compose: dict[str, Any]) -> None:
    builds = [s["build"] for s in compose["services"].values() if "build" in s]

    assert all((DOCKER / source).exists() for source in bind_mounts(compose))
    assert all((DOCKER / b["context"] / b["dockerfile"]).is_file() for b in builds)
    assert len(builds) == 3


def test_every_named_volume_is_declared_and_no_two_agents_share_one(
    compose: dict[str, Any],
) -> None:
    named = [
        volume.split(":")[0]
        for service in compose["services"].values()
        for volume in service.get("volumes", ())
        if not volume.startswith(".")
    ]

    assert sorted(named) == sorted(compose["volumes"])


def test_each_agent_is_the_node_of_its_service_name(compose: dict[str, Any]) -> None:
    agents = {
        name: service
        for name, service in compose["services"].items()
        if service["image"] == "nodecast-agent"
    }

    assert sorted(agents) == ["edge-a", "edge-b"]
    for name, service in agents.items():
        assert f"--node={name}" in service["command"]
        assert f"./demo/models/{name}:/etc/nodecast/models:ro" in service["volumes"]


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_what_an_image_copies_is_in_the_build_context(path: Path) -> None:
    allowed = {
        line[1:]
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied = {
        source
        for words in re.findall(r"(?m)^COPY (?!--from)(.+)$", path.read_text())
        for source in words.split()[:-1]
    }

    assert copied == allowed
    assert all((ROOT / source).exists() for source in copied)


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_an_image_does_not_run_as_root(path: Path) -> None:
    last_stage = path.read_text().rpartition("\nFROM ")[2]

    assert re.search(r"(?m)^USER [1-9]\d*$", last_stage)


def test_the_bridge_can_write_where_its_image_has_the_socket_of_its_api(
    compose: dict[str, Any],
) -> None:
    image = (DOCKER / "bridge.Dockerfile").read_text()
    (directory,) = re.findall(r"(?m)^ENV .* RUNTIME_DIRECTORY=(\S+)", image)
    bridge = compose["services"]["bridge"]

    assert bridge["read_only"]
    assert directory in bridge["tmpfs"]
