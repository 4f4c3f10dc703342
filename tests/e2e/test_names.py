"""Names that would collide if anything joined them, and names that are none."""

from __future__ import annotations

import json

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
# Groups and a kind as long as they may be, which differ in their last character.
LONG_GROUP = ".".join(["g" * 61] * 4) + ".long"
LONG_KIND = "K" + "k" * 61
ODD = [f"Dataset.{LONG_GROUP}{end}" for end in "ab"] + [
    f"{LONG_KIND}{end}.example.com" for end in "ab"
]
RULES += "".join(f'\n[[rules]]\nkind = "{kind}"\nnodes = ["spec.nodeName"]\n' for kind in ODD)


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
    (_camera(ODD[0], "group"), _camera(ODD[1], "group")),
    (_camera(ODD[2], "kind"), _camera(ODD[3], "kind")),
    (_camera(ODD[0], f"{LONG}a"), _camera(ODD[0], f"{LONG}b")),
]


def test_e10_names_that_look_alike_are_kept_apart_and_go_one_by_one(
    make_fleet: type[Fleet],
) -> None:
    fleet = make_fleet("edge0")
    config = fleet.root / "bridge.toml"
    config.write_text(RULES)
    # So that no kind becomes empty, which would wait for a second list.
    kinds = ["Dataset.example.com", "Data.example.com", *ODD]
    keep = [_camera(kind, "keep") for kind in kinds]
    fleet.put(*keep)
    # No name in Kubernetes, so that nothing can collide with `x.y`.
    underscore = dataset("x_y", "edge0")
    fleet.write("underscore.json", json.dumps(underscore))
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
    assert fleet.bridge.logged("x_y") == 1


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
