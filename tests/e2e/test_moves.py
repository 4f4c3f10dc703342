"""An object goes from node to node and away: each change seen as it happens, and missed."""

from __future__ import annotations

import pytest

from tests.support.fleet import Fleet
from tests.support.objects import Object, dataset, federated, inference, model

pytestmark = pytest.mark.broker

MOVED = dataset("moved", "edge0")
STAYS = dataset("stays", "edge0")
DELETED = dataset("deleted", "edge1")
CLEARED = dataset("cleared", "edge1")
JOB = federated("job", "edge0", "edge1")
OTHER_JOB = federated("other-job", "edge1")
MODEL = model("detector")
SERVICE = inference("service", "edge0", "detector")
ALL = (MOVED, STAYS, DELETED, CLEARED, JOB, OTHER_JOB, MODEL, SERVICE)


def _begin(fleet: Fleet) -> None:
    fleet.put(*ALL)
    fleet.start()
    fleet.should_be(
        {
            "edge0": (MOVED, STAYS, JOB, SERVICE, MODEL),
            "edge1": (DELETED, CLEARED, JOB, OTHER_JOB),
        }
    )


def _change(fleet: Fleet) -> dict[str, tuple[Object, ...]]:
    """Move, delete, drop a worker, clear the field, move a service with its model; the end."""
    moved, cleared = dataset("moved", "edge1"), dataset("cleared", None)
    job, service = federated("job", "edge0"), inference("service", "edge1", "detector")
    fleet.put(moved, cleared, job, service)
    fleet.drop(DELETED)
    return {"edge0": (STAYS, job), "edge1": (moved, OTHER_JOB, service, MODEL)}


UNTOUCHED = {
    "edge0": "Dataset.sedna.io/default/stays.json",
    "edge1": "FederatedLearningJob.sedna.io/default/other-job.json",
}


def test_what_moves_or_goes_while_all_run_ends_on_exactly_the_right_nodes(fleet: Fleet) -> None:
    _begin(fleet)
    marks = {node: agent.mark() for node, agent in fleet.agents.items()}
    fleet.should_be(_change(fleet))

    for node, path in UNTOUCHED.items():
        assert path not in fleet.agents[node].wrote(marks[node])


@pytest.mark.parametrize("stopped", ["bridge", "bridge and agents"])
def test_k3_what_moved_or_went_while_processes_were_stopped_ends_on_exactly_the_right_nodes(
    fleet: Fleet, stopped: str
) -> None:
    _begin(fleet)
    assert fleet.bridge.stop() == 0
    if stopped == "bridge and agents":
        for agent in fleet.agents.values():
            assert agent.stop() == 0
    marks = {node: agent.mark() for node, agent in fleet.agents.items()}
    end = _change(fleet)
    fleet.start()
    fleet.should_be(end)

    for node, path in UNTOUCHED.items():
        assert path not in fleet.agents[node].wrote(marks[node])
        assert fleet.agents[node].listed().keys() == fleet.agents[node].disk().keys()


def test_e2_an_object_made_anew_under_its_name_arrives_as_it_is_now(fleet: Fleet) -> None:
    again = dataset("again", "edge1", url="/first")
    fleet.put(STAYS, again, OTHER_JOB)
    fleet.broker.start()
    fleet.bridge.start()
    fleet.agents["edge0"].start()
    fleet.should_be({"edge0": (STAYS,)})
    fleet.drop(again)
    again = dataset("again", "edge1", url="/second")
    fleet.put(again)
    fleet.start()
    fleet.should_be({"edge0": (STAYS,), "edge1": (again, OTHER_JOB)})
    again = dataset("again", "edge1", url="/third")
    fleet.put(again)
    fleet.should_be({"edge0": (STAYS,), "edge1": (again, OTHER_JOB)})


def test_e2_an_object_made_anew_while_its_node_listens_ends_as_it_is_now(fleet: Fleet) -> None:
    anew = dataset("anew", "edge0", url="/0")
    fleet.put(STAYS, anew)
    fleet.start()
    fleet.should_be({"edge0": (STAYS, anew)})
    before = fleet.agents["edge0"].mark()
    for number in range(1, 6):
        fleet.drop(anew)
        anew = dataset("anew", "edge0", url=f"/{number}")
        anew["metadata"] |= {"uid": f"uid-{number}", "generation": 1}
        fleet.put(anew)
        anew = dataset("anew", "edge0", url=f"/{number}/updated")
        anew["metadata"] |= {"uid": f"uid-{number}", "generation": 2}
        fleet.put(anew)
        fleet.should_be({"edge0": (STAYS, anew)})
    assert fleet.agents["edge0"].wrote(before) == {"Dataset.sedna.io/default/anew.json"}
    fleet.drop(anew)
    fleet.should_be({"edge0": (STAYS,)})
