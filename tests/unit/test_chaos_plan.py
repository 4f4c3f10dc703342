"""The plan of a chaos run: a pure function of its settings, whose faults all end."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.chaos.__main__ import main
from tests.chaos.acts import Config, Edit, Fault, What
from tests.chaos.plan import LONGEST, SOURCES, Plan, make_plan
from tests.chaos.things import KINDS, kind_of

SEEDS = range(1, 9)
PLANS = [make_plan(seed, 300, source) for seed in SEEDS for source in SOURCES]


def _pairs(plan: Plan, begins: What, ends: tuple[What, ...]) -> list[tuple[float, float]]:
    """(begin, end) of every fault of a kind, whatever it strikes."""
    open_since: dict[str, float] = {}
    pairs = []
    for step in plan.steps:
        if not isinstance(step.act, Fault):
            continue
        if step.act.what is begins:
            open_since[step.act.target] = step.at
        elif step.act.what in ends and step.act.target in open_since:
            pairs.append((open_since.pop(step.act.target), step.at))
    assert not open_since
    return pairs


def test_the_same_settings_give_the_same_plan() -> None:
    assert make_plan(7, 120, SOURCES[0]) == make_plan(7, 120, SOURCES[0])


def test_another_seed_gives_another_plan() -> None:
    assert make_plan(7, 120, SOURCES[0]).steps != make_plan(8, 120, SOURCES[0]).steps


def test_steps_come_in_order_and_within_the_time() -> None:
    for plan in PLANS:
        seconds = [step.at for step in plan.steps]
        assert seconds == sorted(seconds)
        assert seconds[0] >= 0
        assert seconds[-1] <= plan.seconds


@pytest.mark.parametrize(
    ("begins", "ends"),
    [
        (What.BROKER_KILLED, (What.BROKER_UP, What.BROKER_UP_EMPTY, What.BROKER_UP_OLDER)),
        (What.BRIDGE_FROZEN, (What.BRIDGE_THAWED,)),
        (What.AGENT_KILLED, (What.AGENT_UP,)),
        (What.LINK_FROZEN, (What.LINK_HEALED,)),
    ],
)
def test_every_fault_ends_within_the_longest_time(begins: What, ends: tuple[What, ...]) -> None:
    pairs = [pair for plan in PLANS for pair in _pairs(plan, begins, ends)]
    assert pairs
    assert all(0 < end - begin <= LONGEST + 0.01 for begin, end in pairs)


def test_long_runs_meet_every_kind_of_fault_and_every_kind_of_object() -> None:
    steps = [step for plan in PLANS for step in plan.steps]
    met = Counter(step.act.what for step in steps if isinstance(step.act, Fault))
    written = {thing.kind for step in steps if isinstance(step.act, Edit) for thing in step.act.put}
    deleted = {kind_of(k) for step in steps if isinstance(step.act, Edit) for k in step.act.drop}
    assert set(What) - met.keys() == set()
    assert written == deleted == set(KINDS)
    assert any(isinstance(step.act, Config) for step in steps)


def test_a_plan_can_be_printed_without_anything_being_done(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--seed", "3", "--seconds", "30", "--plan"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [str(step) for step in make_plan(3, 30, SOURCES[3 % 2]).steps]
