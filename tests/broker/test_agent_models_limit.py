"""A ModelSet that the broker does not take is a problem that `status` says."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.agents import AgentProcess, Hand
from tests.support.mosquitto import Broker
from tests.support.mqtt import observing
from tests.support.wait import eventually

pytestmark = pytest.mark.broker

LIMIT = 2000


@pytest.fixture
def narrow(tmp_path: Path) -> Iterator[Broker]:
    """A broker that takes no large packet."""
    with Broker(tmp_path / "narrow", config=f"max_packet_size {LIMIT}") as running:
        yield running


def _names(number: int) -> dict[str, str]:
    """Models whose names do not compress."""
    return {hashlib.sha256(str(n).encode()).hexdigest(): f"s3://{n}" for n in range(number)}


def test_b4_a_model_set_above_the_limit_is_a_problem_in_the_status_until_it_fits(
    narrow: Broker, tmp_path: Path
) -> None:
    agent = AgentProcess(tmp_path / "node", narrow.url)
    agent.models(**_names(100))
    with observing(narrow.port) as observer:
        hand = Hand(observer)
        agent.start()
        try:
            hand.online()

            def said() -> list[str]:
                found: list[str] = agent.status().get("problems", [])
                return [each for each in found if "ModelSet" in each]

            (problem,) = eventually(said, 20, what="the problem in the status")
            assert f"above the broker's limit of {LIMIT}" in problem
            assert hand.model_set() is None
            agent.models(**_names(5))
            eventually(lambda: not said(), 20, what="no problem any more")

            def shown() -> bool:
                found = hand.model_set()
                return found is not None and {m.name for m in found.models} == set(_names(5))

            eventually(shown, 20, what="the ModelSet")
        finally:
            agent.kill()
