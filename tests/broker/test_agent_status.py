"""What `status` says of a running agent that something is wrong with."""

from __future__ import annotations

import pytest

from tests.support.agents import AgentProcess, Hand
from tests.support.mosquitto import free_port
from tests.support.mqtt import Observer
from tests.support.wait import eventually

pytestmark = pytest.mark.broker


def _says(agent: AgentProcess, text: str) -> None:
    """Wait until `status` says `text` and finds a problem."""

    def said() -> bool:
        done = agent.run("status")
        return text in done.stdout and done.returncode == 1

    eventually(said, 20, every=0.2, what=f"status says {text!r}")


def test_a_broker_that_is_away_and_a_bad_model_entry_are_told_with_their_reasons(
    agent: AgentProcess,
) -> None:
    agent.models(m={"memory": "1Gi"})
    agent.settings["mqtt_url"] = f"mqtt://127.0.0.1:{free_port()}"
    agent.start()
    _says(agent, "ok but for 1 entry")
    _says(agent, "Connection refused")
    _says(agent, "/models.json: [0] 'm': ")


def test_a_snapshot_of_another_bridge_is_a_problem_that_says_what_to_do(
    agent: AgentProcess, observer: Observer
) -> None:
    agent.start()
    hand = Hand(observer)
    hand.online()
    hand.say((5, 1), [], bridge="other")
    _says(agent, "set the agent's bridge to 'other'")
