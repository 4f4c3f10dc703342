"""Whatever faults a fleet meets, nothing is lost, and at calm every node is as people want it.

The real cores of bridge and agent run in virtual time, see `tests/sim`. The examples are the same
in every run; `python -m tests.sim` plays any number of others.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sim.fleet import play
from tests.sim.plan import FAULTS_END, WORLDS, Fault, Plan, World, random_plan
from tests.sim.rules import RULES, without
from tests.sim.scripts import SCRIPTED, script

SEEDS = range(15)
SCRIPT_SEEDS = range(30)
OFTEN_NEEDED = (
    "ahead",
    "empty wait",
    "guard",
    "guard together",
    "held dependents",
    "held kinds",
    "ledger counts",
    "settle",
    "versions",
)
"""Rules whose absence shows within a few random runs; each of the others has a script."""


def faults(world: World) -> st.SearchStrategy[tuple[Fault, ...]]:
    """Any faults of a world at any moments."""
    fault = st.builds(
        Fault,
        at=st.floats(1, FAULTS_END - 1),
        what=st.sampled_from(world.faults),
        pick=st.integers(0, 999),
        extent=st.floats(0, 1),
    )
    return st.lists(fault, max_size=25).map(tuple)


@pytest.mark.parametrize("name", WORLDS)
@settings(max_examples=25, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), seed=st.integers(0, 2**16))
def test_any_faults_end_with_every_node_as_wanted(
    name: str, data: st.DataObject, seed: int
) -> None:
    world = WORLDS[name]
    violations = play(Plan(seed, world, data.draw(faults(world))))
    assert violations == []


@pytest.mark.parametrize("name", WORLDS)
def test_a_long_row_of_faults_ends_with_every_node_as_wanted(name: str) -> None:
    found = {seed: play(random_plan(seed, WORLDS[name])) for seed in SEEDS}
    assert {seed: [] for seed in SEEDS} == found


@pytest.mark.parametrize("rule", OFTEN_NEEDED)
def test_a_fleet_without_one_of_the_rules_goes_wrong(rule: str) -> None:
    with without(rule):
        assert any(play(random_plan(seed, WORLDS["kubernetes"])) for seed in range(100))


def test_every_rule_is_shown_to_be_needed() -> None:
    assert sorted(RULES) == sorted((*OFTEN_NEEDED, *SCRIPTED))


@pytest.mark.parametrize("rule", SCRIPTED)
def test_a_scripted_fleet_goes_wrong_without_its_rule_and_well_with_it(rule: str) -> None:
    for seed in SCRIPT_SEEDS:
        assert play(script(rule, seed)) == []
        with without(rule):
            if play(script(rule, seed)):
                return
    pytest.fail(f"no seed needs the rule {rule!r}: the script does not bring it out")
