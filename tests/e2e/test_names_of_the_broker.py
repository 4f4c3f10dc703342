"""The broker by a name: one that does not resolve yet, and one that leads elsewhere later."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.support.fleet import Fleet
from tests.support.objects import dataset
from tests.support.wait import eventually

pytestmark = pytest.mark.broker

ONE = dataset("one", "edge0")
TWO = dataset("two", "edge0")
NAME = "broker.test"
RESOLVER = Path(__file__).resolve().parents[1] / "support" / "resolver"


def _elsewhere() -> str:
    """Another address of this machine: of IPv6, where it has that."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return "127.0.0.3"
    return "::1"


class Hosts:
    """Where the name leads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_text("")

    def lead_to(self, address: str) -> None:
        new = self.path.with_suffix(".new")
        new.write_text(f"{NAME} {address}\n")
        new.replace(self.path)


@pytest.fixture
def hosts(tmp_path: Path) -> Hosts:
    return Hosts(tmp_path / "hosts")


@pytest.fixture
def named(make_fleet: type[Fleet], hosts: Hosts) -> Fleet:
    """A fleet that knows its broker by name only."""
    fleet = make_fleet("edge0", url=lambda _, port: f"mqtt://{NAME}:{port}")
    for process in (fleet.bridge, *fleet.agents.values()):
        process.variables = {"PYTHONPATH": str(RESOLVER), "HOSTS_OF_THE_TEST": str(hosts.path)}
    return fleet


def test_m2_a_name_that_does_not_resolve_yet_is_tried_until_it_does_and_nothing_counts_as_sent(
    named: Fleet, hosts: Hosts
) -> None:
    agent = named.agents["edge0"]
    everything = (named.bridge, agent)
    named.put(ONE)
    agent.models({"one": "s3://one"})
    named.start()  # the broker too: it is the name alone that is missing
    with named.look() as look:
        for process in everything:
            process.says("Name or service not known")
        eventually(lambda: agent.model_states() == {"one": "Pending"}, 20, what="the model waits")
        assert agent.disk() == {}
        assert look.observer.messages == []
        hosts.lead_to("127.0.0.1")
        named.should_be({"edge0": (ONE,)})
        eventually(
            lambda: agent.model_states() == {"one": "Requested"}, 20, what="the model is asked for"
        )
        assert [(op.op, op.model) for op in look.ops("edge0")] == [("load", "one")]
        eventually(
            lambda: look.all_counted("edge0"),
            20,
            what="the ledger counts the snapshots that went out, and no other",
        )
    assert all(each.running and each.started_at == 0 for each in everything)


def test_m2_a_name_that_leads_to_another_address_later_is_followed(
    named: Fleet, hosts: Hosts
) -> None:
    agent, elsewhere = named.agents["edge0"], _elsewhere()
    named.broker.hosts = ("127.0.0.1", "127.0.0.2")
    hosts.lead_to("127.0.0.2")
    named.put(ONE)
    named.start()
    named.should_be({"edge0": (ONE,)})
    before = agent.mark()

    named.broker.kill()
    named.broker.hosts = ("127.0.0.1", elsewhere)
    named.broker.start()
    for process in (named.bridge, agent):
        process.says("no connection to the broker")
    hosts.lead_to(elsewhere)
    named.should_be({"edge0": (ONE,)})
    assert agent.untouched(before)
    named.put(TWO)
    named.should_be({"edge0": (ONE, TWO)})
    assert all(each.running and each.started_at == 0 for each in (named.bridge, agent))
