"""What the bridge does where the broker swallows what it says to itself."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from bridge.charge import Charge, Identity
from bridge.guard import Counts
from bridge.own_topics import OwnTopics
from bridge.tokens import LEDGER, REPLAY
from nodecast.backoff import Backoff
from nodecast.names import BridgeName, NodeName
from nodecast.session import Outgoing, Subscription
from nodecast.topics import Topics

NODES = {NodeName(f"n{number}") for number in range(150)}


class Port:
    """A broker; `asked`: how many topics are to be replayed, as long as that is under way."""

    limit: int | None = None
    free = 100

    def __init__(self) -> None:
        self.asked = 0
        self.batches: list[int] = []
        self.probe = b""

    def publish(self, message: Outgoing, _token: object) -> None:
        if message.topic == "bridge/b/probe":
            self.probe = message.payload

    def subscribe(self, filters: Sequence[Subscription], token: object) -> None:
        if token == REPLAY:
            self.asked = len(filters)
            self.batches.append(self.asked)

    def disconnect(self, reason: str) -> None:
        raise AssertionError(reason)


def in_charge(port: Port) -> OwnTopics:
    """In charge of all nodes, whose reports are to be heard."""
    identity = Identity(BridgeName("b"), "s", "me")
    charge = Charge(identity)
    own = OwnTopics(
        identity, charge, Topics(), port, since="", again=Backoff(1, 60), rng=random.Random(1)
    )
    charge.connected()
    charge.echoed(charge.probe, 0.0)
    charge.listed(5.0)
    charge.written()
    own.write_ledger(NODES, 0, lambda _: Counts({}, sure=True), 0.0)
    own.acknowledged(LEDGER)
    return own


def test_where_the_broker_lets_no_report_be_heard_nodes_are_served_unheard() -> None:
    port = Port()
    own = in_charge(port)
    own.work(NODES, 0.0)
    assert own.open_nodes == set()
    own.subscribed(REPLAY, ("node/n0/status",), 0.0)
    assert own.open_nodes == NODES
    assert own.refusals == {REPLAY.what: "the broker refused node/n0/status"}


@pytest.mark.parametrize("queue", [40, 2, 0])
def test_reports_whose_replay_the_broker_cuts_short_are_asked_for_again_in_smaller_batches(
    queue: int,
) -> None:
    """With a broker that lets no echo through at all the nodes are served unheard in the end."""
    port = Port()
    own = in_charge(port)
    now, turns = 0.0, 0
    while own.open_nodes != NODES:
        turns += 1
        assert turns < 500, f"{len(own.open_nodes)} of {len(NODES)} are open: {port.batches}"
        due = own.work(NODES, now)
        if port.asked:  # SUBACK, then the probe
            port.asked, dropped = 0, port.asked >= queue
            own.subscribed(REPLAY, (), now)
            if not dropped:
                own.echoed(port.probe, now)
        else:
            now = min(due, now + 3600)
    assert port.batches[0] == len(NODES)
    assert sum(port.batches) < 4 * len(NODES)
    assert now < 3600 * 3
