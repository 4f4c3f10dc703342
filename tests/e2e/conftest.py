"""A fleet for each test, ended with it; what its processes wrote is shown when the test fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.fleet import Fleet

Make = Callable[..., Fleet]

_TAIL = 60


@pytest.fixture
def make_fleet(tmp_path: Path) -> Iterator[Make]:
    """Make the fleet of the test, of these nodes; nothing of it runs yet."""
    made: list[Fleet] = []

    def make(*nodes: str, **options: Any) -> Fleet:
        made.append(Fleet(tmp_path, *nodes, **options))
        return made[0]

    yield make
    for each in made:
        each.end()
    for log in sorted(tmp_path.rglob("*.log")):
        print(f"--- {log.name}", *log.read_text(errors="replace").splitlines()[-_TAIL:], sep="\n")


@pytest.fixture
def fleet(make_fleet: Make) -> Fleet:
    """Two nodes, `edge0` and `edge1`."""
    return make_fleet("edge0", "edge1")
