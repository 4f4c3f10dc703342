"""The network between the processes and the broker: half open, half lost, slow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.fleet import Fleet
from tests.support.objects import dataset
from tests.support.proxies import Proxy
from tests.support.systemd import Systemd
from tests.support.wait import eventually

pytestmark = pytest.mark.broker

ONE = dataset("one", "edge0")
LATE = dataset("late", "edge0")
LOST = "connection to the broker lost"
UP = "connected to the broker"


class Links:
    """Each process's own way to the broker, by the name of the process."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.of: dict[str, Proxy] = {}

    def url(self, process: str, port: int) -> str:
        if process not in self.of:
            self.of[process] = self._stack.enter_context(Proxy("127.0.0.1", port))
        return f"mqtt://127.0.0.1:{self.of[process].port}"


@pytest.fixture
def links() -> Iterator[Links]:
    with ExitStack() as stack:
        yield Links(stack)


@pytest.fixture
def linked(make_fleet: type[Fleet], links: Links) -> Fleet:
    """One node; both sides notice soon that nothing comes back."""
    fleet = make_fleet("edge0", url=links.url)
    for process in (fleet.bridge, fleet.agents["edge0"]):
        process.settings |= {"mqtt.keep_alive": 1, "mqtt.answer_timeout": 2}
    return fleet


def test_m7_a_half_open_link_of_the_agent_is_shown_as_not_ready_and_counts_nothing_as_delivered(
    linked: Fleet, links: Links, tmp_path: Path
) -> None:
    agent, link = linked.agents["edge0"], links.of["edge0"]
    linked.put(ONE)
    with Systemd(tmp_path / "notify") as systemd, linked.broker, linked.look() as look:
        agent.variables |= systemd.variables
        linked.start()
        linked.should_be({"edge0": (ONE,)})
        systemd.comes_to("connected")
        link.drop()
        agent.models({"new": "s3://new"})
        linked.put(LATE)
        agent.says(LOST)
        systemd.shows("not connected")
        status = eventually(agent.status, what="the status")
        assert (status["connected"], status["ready"]) == (False, True)
        assert agent.disk().keys() == {"Dataset.sedna.io/default/one"}
        assert look.ops("edge0") == []
        before = look.model_set("edge0")
        assert before is None or before.models == []
        agent.kill()  # what was not acknowledged is on disk all the same

        link.pass_again()
        agent.start()
        linked.should_be({"edge0": (ONE, LATE)})
        systemd.comes_to("connected")
        eventually(lambda: look.ops("edge0"), 20, what="the op")
        said = {(op.seq, op.op, op.model) for op in look.ops("edge0")}
        assert said == {(1, "load", "new")}


def test_m7_a_half_open_link_of_the_bridge_is_noticed_and_what_it_had_not_delivered_goes_again(
    linked: Fleet, links: Links, tmp_path: Path
) -> None:
    bridge, link = linked.bridge, links.of["bridge"]
    linked.put(ONE)
    with Systemd(tmp_path / "notify") as systemd, linked.broker, linked.look() as look:
        bridge.variables |= systemd.variables
        linked.start()
        linked.should_be({"edge0": (ONE,)})
        systemd.shows("in charge")
        eventually(lambda: look.all_counted("edge0"), 30, what="the ledger counts them")
        since = len(bridge.log)
        link.drop()
        linked.put(LATE)
        bridge.says(LOST, since=since)
        systemd.shows("not connected to the broker")
        snapshot = eventually(lambda: look.snapshot("edge0"), what="the snapshot of before")
        assert len(snapshot.resources) == 1
        assert linked.agents["edge0"].disk().keys() == {"Dataset.sedna.io/default/one"}

        link.pass_again()
        linked.should_be({"edge0": (ONE, LATE)})
        systemd.shows("in charge")


def test_m7_a_link_that_loses_only_the_answers_is_noticed_by_both_sides(
    linked: Fleet, links: Links
) -> None:
    """What was sent arrives, and nothing of that is known: it goes again as what it was."""
    agent = linked.agents["edge0"]
    for process in (linked.bridge, agent):
        process.settings["mqtt.keep_alive"] = 30  # the answers that are missing tell it sooner
    linked.put(ONE)
    with linked.broker, linked.look() as look:
        linked.start()
        linked.should_be({"edge0": (ONE,)})
        eventually(lambda: look.all_counted("edge0"), 30, what="the ledger counts them")
        for each in links.of.values():
            each.drop("down")
        linked.put(LATE)
        agent.models({"new": "s3://new"})
        for process in (linked.bridge, agent):
            process.says(LOST)
        eventually(lambda: look.ops("edge0"), 20, what="the op arrived")
        for each in links.of.values():
            each.pass_again()
        linked.should_be({"edge0": (ONE, LATE)})
        eventually(lambda: len(look.ops("edge0")) > 1, 20, what="the op went again")
        first, *again = look.ops("edge0")
        assert all(each == first for each in again)


def test_a_slow_link_is_a_link(linked: Fleet, links: Links) -> None:
    """Every piece of data comes a second later: no connection is given up for it."""
    agent = linked.agents["edge0"]
    for process in (linked.bridge, agent):
        process.settings |= {"mqtt.keep_alive": 60, "mqtt.answer_timeout": 120}
    linked.start()
    linked.should_be({"edge0": ()})
    ups = {each: each.logged(UP) for each in (linked.bridge, agent)}
    for link in links.of.values():
        link.delay = 1.0
    things = tuple(dataset(f"d{number}", "edge0") for number in range(20))
    linked.put(*things)
    agent.models({f"m{number}": f"s3://{number}" for number in range(20)})
    linked.should_be({"edge0": things}, within=120)
    eventually(
        lambda: set(agent.model_states().values()) == {"Requested"}, 60, what="all are asked for"
    )
    with linked.look() as look:
        eventually(lambda: (found := look.model_set("edge0")) and found.seq == 20, 60)
    assert {each: each.logged(UP) for each in (linked.bridge, agent)} == ups
    assert not agent.logged("snapshot refused")
