"""The demo's objects and model configs: what the built-in rules make of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.models.configfile import read_config
from bridge.catalog import Catalog
from bridge.objects import read_object
from bridge.placement import Rules, built_in
from bridge.record import ObjectRecord
from nodecast.names import NodeName, kind_of

DEMO = Path(__file__).parents[2] / "docker" / "demo"
RULES = Rules(built_in())
EXPECTED = {
    "edge-a": [
        "Dataset/berth-images-north",
        "FederatedLearningJob/berth-occupancy",
        "JointInferenceService/quay-safety",
        "Model/quay-detector-small",
    ],
    "edge-b": [
        "Dataset/berth-images-south",
        "Dataset/crane-vibration",
        "FederatedLearningJob/berth-occupancy",
        "IncrementalLearningJob/crane-wear",
        "Model/crane-wear-base",
        "Model/crane-wear-live",
    ],
    "edge-c": ["Dataset/meter-readings", "LifelongLearningJob/cold-store-energy"],
}


def documents() -> Iterator[dict[str, Any]]:
    for path in sorted((DEMO / "manifests").iterdir()):
        yield from yaml.safe_load_all(path.read_text())


def records() -> list[ObjectRecord]:
    return [read_object(document, RULES, "") for document in documents()]


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    catalog = Catalog(RULES)
    catalog.apply({record.key: record for record in records()})
    return catalog


def short(record: ObjectRecord) -> str:
    kind, _, name = record.key.split("/")
    return f"{kind.removesuffix('.sedna.io')}/{name}"


def test_every_demo_object_is_on_the_nodes_that_its_comment_says(catalog: Catalog) -> None:
    placed = {node: list(map(short, catalog.on_node(node))) for node in catalog.nodes()}

    assert placed == EXPECTED


def test_the_demo_has_every_kind_and_none_of_its_references_dangles(catalog: Catalog) -> None:
    assert {kind_of(record.key) for record in catalog.records()} == set(RULES.kinds)
    assert catalog.dangling() == []
    assert [record.problem for record in records() if record.problem] == []


def test_moving_the_dataset_moves_the_job_that_follows_it_and_its_models() -> None:
    catalog = Catalog(RULES)
    for document in documents():
        if document["metadata"]["name"] == "crane-vibration":
            document["spec"]["nodeName"] = "edge-c"
        record = read_object(document, RULES, "")
        catalog.apply({record.key: record})

    moved = set(EXPECTED["edge-b"][1:]) - {"FederatedLearningJob/berth-occupancy"}
    on_c = set(map(short, catalog.on_node(NodeName("edge-c"))))
    on_b = set(map(short, catalog.on_node(NodeName("edge-b"))))
    assert on_c == {*EXPECTED["edge-c"], *moved}
    assert on_b == set(EXPECTED["edge-b"]) - moved


@pytest.mark.parametrize(
    ("node", "models"),
    [("edge-a", {"plate-reader", "quay-detector-small"}), ("edge-b", {"crane-wear-live"})],
)
def test_the_model_configs_of_the_demo_read_without_a_problem(node: str, models: set[str]) -> None:
    reading = read_config((DEMO / "models" / node / "models.json").read_bytes())

    assert (set(reading.entries), reading.problems) == (models, ())
