"""The demo's live table: what it says of each resource, and that it fits a terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nodecast.messages import Presence, Report, Resource, ResourceReport, Snapshot, Version
from nodecast.names import parse_key

DEMO = Path(__file__).parents[2] / "docker" / "demo"
KEY = "FederatedLearningJob.sedna.io/port/berth-occupancy"
NEW, OLD = "0" * 32, "1" * 32


@pytest.fixture(scope="module")
def demo() -> Iterator[Any]:
    """Imports a module of the demo as its script does: from the script's directory."""
    before = set(sys.modules)
    sys.path.insert(0, str(DEMO))
    yield import_module
    sys.path.remove(str(DEMO))
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(DEMO)):
            del sys.modules[name]


def snapshot(*keys: str) -> Snapshot:
    resources = tuple(Resource(parse_key(key), NEW, b"{}") for key in keys)
    return Snapshot("default", "i", "edge-a", Version(7, 2), NEW, resources)


def lines_of(demo: Any, *, resources: int, models: int, ops: int, height: int = 23) -> list[str]:
    """The live table with its notes, without its colours."""
    shapes = demo("picture")
    lines = tuple(shapes.ResourceLine(KEY, "on disk", NEW) for _ in range(resources))
    had = tuple(shapes.ModelLine(f"m{n}", "Requested") for n in range(models))
    node = shapes.NodePicture("edge-a", shapes.NO_AGENT, "1", lines, had)
    done = tuple(shapes.OpLine("edge-a", n + 1, "load m") for n in range(ops))
    picture = shapes.Picture("connected", "not seen", (node,), done)
    directory = Path("/tmp/nodecast-demo-abcdefgh")
    stage = SimpleNamespace(
        directory=directory, broker=SimpleNamespace(url="mqtt://127.0.0.1:12345")
    )
    drawn = demo("table").draw(picture, set(), demo("live").notes(stage), height)
    return [re.sub(r"\x1b\[[\d;]*m", "", line) for line in drawn]


def view(demo: Any, wanted: Snapshot | None, **known: Any) -> Any:
    presence = Presence(online=True, instance="i")
    snapshots = {} if wanted is None else {"edge-a": wanted}
    return demo("observer").View(snapshots=snapshots, presences={"edge-a": presence}, **known)


@pytest.mark.parametrize(
    ("wanted", "disk", "state"),
    [
        (snapshot(KEY), {KEY: {"digest": NEW}}, "on disk"),
        (snapshot(KEY), {KEY: {"digest": OLD}}, "changes"),
        (snapshot(KEY), {}, "comes"),
        (snapshot(), {KEY: {"digest": NEW}}, "goes"),
        (snapshot(KEY), None, "at broker"),
        (None, {KEY: {"digest": NEW}}, "on disk"),
    ],
)
def test_the_state_of_a_resource_compares_the_disk_with_the_snapshot(
    demo: Any, wanted: Snapshot | None, disk: Any, state: str
) -> None:
    disks = {} if disk is None else {"edge-a": disk}
    (node,) = demo("picture").picture(view(demo, wanted), disks).nodes

    assert [(line.key, line.state) for line in node.resources] == [(KEY, state)]


def test_a_resource_that_failed_says_why(demo: Any) -> None:
    report = Report(
        bridge="default",
        node="edge-a",
        instance="i",
        seq=1,
        epoch=7,
        revision=1,
        resources=[ResourceReport(key=KEY, state="Failed", reason="DiskFull")],
    )
    seen = view(demo, snapshot(KEY), reports={"edge-a": report})
    (node,) = demo("picture").picture(seen, {"edge-a": {}}).nodes

    assert (node.revision, node.resources[0].state) == ("1 of 2", "failed: DiskFull")


def test_the_longest_line_of_the_demo_fits_into_80_columns(demo: Any) -> None:
    key = "LifelongLearningJob.sedna.io/port/cold-store-energy"
    picture = demo("picture").picture(view(demo, snapshot(key)), {})

    lines = [
        re.sub(r"\x1b\[[\d;]*m", "", line) for line in demo("table").draw(picture, set(), [], 99)
    ]
    assert [line for line in lines if len(line) > 80] == []
    assert any(
        line.endswith("LifelongLearningJob port/cold-store-energy at broker") for line in lines
    )


def test_the_whole_demo_with_a_model_more_fits_into_24_lines(demo: Any) -> None:
    shown = lines_of(demo, resources=12, models=4, ops=4)

    assert len(shown) <= 23
    assert [line for line in shown if "lines more" in line] == []
    assert [len(line) <= 80 for line in shown] == [True] * len(shown)
    assert sum("#" in line for line in shown) == 4


def test_a_low_terminal_says_how_much_is_missing_and_still_shows_models_and_ops(demo: Any) -> None:
    shown = lines_of(demo, resources=40, models=9, ops=6)

    assert len(shown) == 23
    assert [line for line in shown if "lines more" in line] == [
        "... 29 lines more: they need a higher terminal",
        "... 6 lines more: they need a higher terminal",
    ]
    assert "#6 load m" in "".join(shown)


def test_a_high_terminal_parts_the_tables(demo: Any) -> None:
    shown = lines_of(demo, height=60, resources=2, models=1, ops=1)

    assert [shown.index(""), shown.count("")] == [5, 2]
    assert "on purpose" in shown[0]


def test_a_clipped_line_counts_what_is_seen_and_ends_its_style(demo: Any) -> None:
    table = demo("table")
    painted = table.paint("edge-a online", table.Style.BAD)

    assert table.clip(painted, 6) == "\x1b[31medge-a\x1b[0m"
    assert table.clip("edge-a", 6) == "edge-a"


def test_only_what_differs_from_the_picture_before_is_a_change_and_fresh_for_a_while(
    demo: Any,
) -> None:
    changes = demo("live").Changes()
    make = demo("picture").picture
    first = make(view(demo, snapshot(KEY)), {"edge-a": {}})
    then = make(view(demo, snapshot(KEY)), {"edge-a": {KEY: {"digest": NEW}}})
    changes.take(first, 0.0)

    assert [(node, what) for node, what, _ in changes.take(then, 10.0)] == [("edge-a", KEY)]
    assert changes.take(then, 11.0) == []
    assert changes.fresh(12.0) == {("edge-a", KEY)}
    assert changes.fresh(20.0) == set()
