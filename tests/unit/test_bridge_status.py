"""What is said of a bridge in one line, and how its nodes are counted."""

from __future__ import annotations

import pytest

from bridge.contents import Content
from bridge.guard import Guarded
from bridge.nodes import NodeState
from bridge.status import NAMED, BrokerStatus, NodesStatus, RefusedNode, Status, line, nodes_status
from nodecast.messages import Version
from nodecast.names import NodeName
from tests.support.api_served import DATASET, MODEL, kind, status

GUARD = kind(
    DATASET, held=True, reasons=("it is missing", "11 of its 12 are gone"), guarded=Guarded(12, 11)
)
THROUGH = kind(MODEL, held=True, reasons=("it is placed through Dataset.sedna.io",))


def offline(failure: str | None) -> BrokerStatus:
    return BrokerStatus("mqtt://x", failure=failure)


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (status(phase="starting"), "asking what the source is"),
        (status(phase="listing"), "waiting for the first lists of the source"),
        (status(phase="standing by"), "standing by: not the holder of the lease"),
        (status(phase="connecting", broker=offline(None)), "not connected to the broker"),
        (status(phase="connecting", broker=offline("no")), "not connected to the broker: no"),
        (
            status(phase="taking charge", broker=offline("the probe did not come back")),
            "connected to the broker, taking charge; the last connection ended with: the probe did"
            " not come back",
        ),
        (status(nodes=NodesStatus(known=1)), "in charge of 1 node"),
        (
            status(nodes=NodesStatus(known=9), paused=True),
            "in charge of 9 nodes, paused: no snapshot goes out",
        ),
        (status(phase="stopping"), "stopping"),
        (
            status(nodes=NodesStatus(known=9, unacknowledged=4, in_flight=2, oldest=9.9)),
            "in charge of 9 nodes; 4 nodes without the broker's acknowledgement",
        ),
        (
            status(nodes=NodesStatus(known=9, unacknowledged=1, in_flight=1, oldest=10.0)),
            "in charge of 9 nodes; 1 node without the broker's acknowledgement; the broker has not"
            " answered for 10 s",
        ),
        (
            status(nodes=NodesStatus(refused=2, refused_first=[RefusedNode("e", "not allowed")])),
            "in charge of 0 nodes; the broker refuses the snapshots of 2 nodes (e: not allowed)",
        ),
        (
            status(broker=BrokerStatus("mqtt://x", True, refused={"reports": "no"})),
            "in charge of 0 nodes; the broker refuses this bridge its reports: no",
        ),
        (
            status(nodes=NodesStatus(foreign=3)),
            "in charge of 0 nodes; 3 nodes of another bridge, which get nothing",
        ),
        (
            status(kinds=[GUARD, THROUGH, kind(MODEL)]),
            "in charge of 0 nodes; held: Dataset.sedna.io: it is missing; 11 of its 12 are gone;"
            " held: Model.sedna.io",
        ),
    ],
)
def test_the_line_says_where_it_stands_and_what_stands_in_the_way(known: Status, said: str) -> None:
    assert line(known) == said


@pytest.mark.parametrize(
    ("known", "for_people"),
    [
        (status(), False),
        (status(phase="connecting", broker=offline("no")), False),
        (status(kinds=[THROUGH], nodes=NodesStatus(unacknowledged=3)), False),
        (status(kinds=[GUARD]), True),
        (status(nodes=NodesStatus(refused=1)), True),
        (status(broker=BrokerStatus("mqtt://x", True, refused={"ledger": "no"})), True),
    ],
)
def test_what_only_a_person_can_end_is_told_from_what_passes(
    known: Status, for_people: bool
) -> None:
    assert known.for_people is for_people


def node(**more: object) -> NodeState:
    """A node whose newest version is acknowledged, but for `more`."""
    state = NodeState(content=Content((), (), ()), version=Version(5, 2))
    state.acknowledged = Version(5, 2)
    for name, value in more.items():
        setattr(state, name, value)
    return state


def count(*states: NodeState) -> NodesStatus:
    nodes = {NodeName(f"n{number:02}"): state for number, state in enumerate(states)}
    return nodes_status(nodes, 7, frozenset(), 100.0)


def test_a_node_is_confirmed_once_its_newest_version_is_and_nothing_is_owed() -> None:
    assert count(node()).unacknowledged == 0
    for state in (
        NodeState(),
        node(acknowledged=Version(5, 1)),
        node(owed=True),
        node(version=Version(6, 1), in_flight=True, sent_at=99.0),
    ):
        assert count(node(), state).unacknowledged == 1


def test_nobody_waits_for_what_another_bridges_nodes_have() -> None:
    name = NodeName("theirs")
    found = nodes_status({name: NodeState()}, 0, {name}, 100.0)
    assert (found.known, found.unacknowledged, found.foreign) == (1, 0, 1)


def test_what_is_in_flight_is_counted_with_the_age_of_the_oldest() -> None:
    states = [node(in_flight=True, sent_at=at) for at in (99.0, 40.0, 70.0)]
    found = count(node(sent_at=1.0), *states)
    assert (found.known, found.in_flight, found.oldest) == (4, 3, 60.0)
    assert (found.waiting, found.foreign) == (7, 0)
    assert count(node()).oldest is None


def test_refused_nodes_are_counted_and_the_first_are_named() -> None:
    found = count(*(node(failures=2, refusal="no") for _ in range(NAMED + 5)), node())
    assert (found.refused, len(found.refused_first)) == (NAMED + 5, NAMED)
    assert found.refused_first[0] == RefusedNode("n00", "no")
