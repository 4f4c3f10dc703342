"""Names that would collide if anything joined them, and names that are none."""

from __future__ import annotations

import pytest

from tests.support.fleet import Fleet
from tests.support.objects import Object, dataset, made
from tests.support.wait import eventually

pytestmark = pytest.mark.broker

RULES = """
[[rules]]
kind = "Dataset.example.com"
nodes = ["spec.nodeName"]

[[rules]]
kind = "Data.example.com"
nodes = ["spec.nodeName"]
"""
LONG = "l" * 252


WHAT = ("resources", "state", "status", "models")


def _camera(kind: str, name: str) -> Object:
    return made(kind, name, {"nodeName": "edge0"})


PAIRS: list[tuple[Object, Object]] = [
    (
        dataset("c", "edge0", namespace="a-b"),
        dataset("b-c", "edge0", namespace="a"),
    ),
    (dataset("x.y", "edge0"), dataset("x-y", "edge0")),
    (dataset("same", "edge0"), _camera("Dataset.example.com", "same")),
    (_camera("Dataset.example.com", "both"), _camera("Data.example.com", "both")),
    (dataset(f"{LONG}a", "edge0"), dataset(f"{LONG}b", "edge0")),
    (dataset("ns", "edge0", namespace="one"), dataset("ns", "edge0", namespace="two")),
]


def test_e10_names_that_look_alike_are_kept_apart_and_go_one_by_one(
    make_fleet: type[Fleet],
) -> None:
    fleet = make_fleet("edge0")
    config = fleet.root / "bridge.toml"
    config.write_text(RULES)
    # So that no kind becomes empty, which would wait for a second list.
    keep = [_camera("Dataset.example.com", "keep"), _camera("Data.example.com", "keep")]
    fleet.put(*keep)
    for pair in PAIRS:
        fleet.put(*pair)
    fleet.broker.start()
    fleet.bridge.start("--config", str(config))
    fleet.start()
    fleet.should_be({"edge0": [*keep, *(each for pair in PAIRS for each in pair)]})
    before = fleet.agents["edge0"].mark()
    for first, _ in PAIRS:
        fleet.drop(first)
    fleet.should_be({"edge0": [*keep, *(second for _, second in PAIRS)]})

    assert len(fleet.agents["edge0"].wrote(before)) == len(PAIRS)


def test_k11_a_node_field_that_names_no_node_is_refused_for_its_object_alone(
    fleet: Fleet,
) -> None:
    good = dataset("good", "edge0")
    fleet.put(good)
    fields = ["a/b", "+", "#", "$SYS", "has space", "Upper", "n" * 300, 7, ["edge1"], {"a": 1}]
    for number, field in enumerate(fields):
        fleet.put(made("Dataset", f"bad-{number}", {"nodeName": field}))
    fleet.start()
    fleet.should_be({"edge0": (good,), "edge1": ()})

    with fleet.look() as look:
        topics = {f"node/{node}/{what}" for node in fleet.agents for what in WHAT}
        eventually(lambda: topics <= set(look.observer.retained), what="all that is retained")
        assert {t for t in look.observer.retained if t.startswith("node/")} == topics
    for number in range(len(fields)):
        assert fleet.bridge.logged(f"key=Dataset.sedna.io/default/bad-{number} ") == 1
    later = dataset("later", "edge1")
    fleet.put(later)
    fleet.should_be({"edge0": (good,), "edge1": (later,)})
