"""What people are told of a kind that is held, and of what they can do."""

from __future__ import annotations

from collections import Counter

import pytest

from bridge.guard import Guarded, KindGuard
from bridge.kind_views import kind_views
from nodecast.names import BridgeName, KindName
from tests.support.core import ALONE, RULES, Core, record

ALL = [f"Alone/{n}" for n in range(12)]


def reasons(core: Core, kind: KindName, bridge: str = "default") -> tuple[str, ...]:
    views = kind_views(BridgeName(bridge), core.catalog, core.holding, core.now)
    return next(view.reasons for view in views if view.kind == kind)


def test_a_kind_that_loses_too_much_says_how_much_and_the_command_that_lets_it_go() -> None:
    core = Core()
    core.put(*(record(each, "n") for each in ALL))
    core.charge()
    core.remove(*ALL[1:])
    core.after(0)
    gone = "11 of its 12 placed objects would be on no node any more"
    command = f"nodecast-bridge approve {ALONE}"
    assert reasons(core, ALONE) == (f"{gone}: `{command}` lets them go",)
    assert reasons(core, ALONE, "b") == (f"{gone}: `{command} --bridge b` lets them go",)


def test_a_kind_that_is_held_for_a_time_says_for_how_long() -> None:
    core = Core()
    core.put(record("Alone/0", "n"))
    core.charge({})
    core.after(20)
    (reason,) = reasons(core, ALONE)
    assert "held for 40 s more" in reason


def test_each_guard_is_asked_no_oftener_where_there_are_more_kinds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    core = Core()
    core.charge()
    asked: Counter[KindGuard] = Counter()
    guarded = KindGuard.guarded

    def counted(guard: KindGuard, placed: int) -> Guarded | None:
        asked[guard] += 1
        return guarded(guard, placed)

    monkeypatch.setattr(KindGuard, "guarded", counted)
    kind_views(BridgeName("default"), core.catalog, core.holding, core.now)
    assert list(asked.values()) == [2] * len(RULES.kinds)
