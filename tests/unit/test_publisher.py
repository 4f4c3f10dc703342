"""The publisher on a fake port: when a node is sent what, and under which version."""

from __future__ import annotations

import math

import pytest

from bridge.publisher import PublishPolicy
from bridge.tokens import LEDGER
from nodecast.backoff import Backoff
from nodecast.messages import MAX_NUMBER, Version
from nodecast.names import NodeName
from tests.support.core import Core, names, record

NOW = PublishPolicy(interval=0.0)
N = NodeName("n")


def serving(policy: PublishPolicy = NOW, *, window: int = 100, nodes: str = "n") -> Core:
    """In charge, `Alone/a` on each of `nodes`, all acknowledged and quiet."""
    core = Core(policy=policy, window=window)
    core.put(record("Alone/a", *nodes))
    core.charge()
    core.publisher.connected(None)
    for _ in range(len(nodes)):
        core.settled()
    core.port.sent.clear()
    return core


def change(core: Core, spec: str, *nodes: str) -> None:
    core.put(record("Alone/a", *(nodes or ("n",)), spec=spec))


def versions(core: Core) -> list[tuple[str, int, int]]:
    """(node, epoch, revision) of all that was sent since the last look."""
    seen = [(token.node, *token.version) for _, token in core.port.sent]
    core.port.sent.clear()
    return seen


def test_the_first_snapshot_of_an_epoch_is_revision_one() -> None:
    core = Core(policy=NOW)
    core.put(record("Alone/a", "n"))
    core.charge()
    core.publisher.connected(None)
    core.settled()
    assert versions(core) == [("n", 7, 1)]


def test_a_change_takes_the_next_revision() -> None:
    core = serving()
    change(core, "x")
    core.pump()
    core.acknowledge()
    change(core, "y")
    core.pump()
    assert versions(core) == [("n", 7, 2), ("n", 7, 3)]


def test_equal_content_is_not_published() -> None:
    core = serving()
    core.publisher.dirty([N])
    change(core, "")
    assert core.pump() == []


def test_a_change_and_back_before_it_went_out_is_not_published() -> None:
    core = serving()
    change(core, "x")
    change(core, "")
    assert core.pump() == []


def test_one_snapshot_of_a_node_is_in_flight_at_a_time() -> None:
    core = serving()
    change(core, "1")
    core.pump()
    for spec in "234":
        change(core, spec)
        assert core.pump() == []
    assert len(core.port.under_way) == 1


def test_what_changed_in_flight_goes_out_after_it_the_latest_only() -> None:
    core = serving()
    change(core, "1")
    core.pump()
    for spec in "234":
        change(core, spec)
    core.acknowledge()
    (latest,) = core.pump()
    assert b'"spec":"4"' in latest.resources[0].body
    assert latest.version == (7, 3)


def test_what_changed_back_in_flight_goes_back() -> None:
    core = serving()
    change(core, "1")
    core.pump()
    change(core, "")
    core.acknowledge()
    (latest,) = core.pump()
    assert b'"spec":""' in latest.resources[0].body
    assert latest.version == (7, 3)


def test_a_node_is_published_at_most_once_an_interval() -> None:
    core = serving(PublishPolicy(interval=0.5))
    change(core, "1")
    core.pump()
    core.acknowledge()
    change(core, "2")
    core.after(0.4)
    assert core.pump() == []
    assert core.again_at == pytest.approx(core.now + 0.1)
    change(core, "3")
    core.after(0.1)
    assert len(core.pump()) == 1


def test_a_burst_of_changes_costs_no_memory_while_a_node_waits() -> None:
    core = serving(PublishPolicy(interval=0.5))
    change(core, "first")
    core.pump()
    core.acknowledge()
    for number in range(1000):
        change(core, str(number))
        core.pump()
    assert len(core.publisher._wakes._heap) <= 2
    core.after(0.5)
    assert len(core.pump()) == 1


def test_nodes_beyond_the_window_wait_for_acknowledgements() -> None:
    core = serving(window=3, nodes="abcdefgh")
    change(core, "x", *"abcdefgh")
    assert len(core.pump()) == 3
    assert core.pump() == []
    core.acknowledge()
    assert len(core.pump()) == 3
    core.acknowledge()
    assert len(core.pump()) == 2


def test_a_node_that_is_not_in_the_acknowledged_ledger_gets_nothing() -> None:
    core = serving()
    change(core, "x")
    assert core.publisher.pump(core.now, core.port, set()) == math.inf
    assert core.port.sent == []
    core.publisher.recheck()
    assert len(core.pump()) == 1


# -- repair


def test_again_sends_the_same_version() -> None:
    core = serving()
    core.publisher.again([N])
    (snapshot,) = core.pump()
    assert (names(snapshot), snapshot.version) == (["Alone/a"], (7, 1))


def test_again_for_a_node_that_was_sent_nothing_looks_what_it_should_have() -> None:
    core = serving()
    core.publisher.again([NodeName("new")])
    core.pump()
    core.after(1)
    core.listed()
    (snapshot,) = core.pump()
    assert (snapshot.node, snapshot.resources) == ("new", ())


def test_changed_nodes_go_before_repairs() -> None:
    core = serving(nodes="abc", window=6)
    core.publisher.again(map(NodeName, "abc"))
    core.put(record("Alone/b", "c"))
    core.pump()
    assert versions(core)[0] == ("c", 7, 2)


def test_a_repair_that_a_change_overtook_is_not_sent_twice() -> None:
    core = serving()
    core.publisher.again([N])
    change(core, "x")
    core.pump()
    core.acknowledge()
    core.after(10)
    core.pump()
    assert versions(core) == [("n", 7, 2)]


def test_repairs_are_paced() -> None:
    nodes = [f"n{i}" for i in range(30)]
    core = Core(policy=PublishPolicy(interval=0, repair_rate=10))
    core.put(record("Alone/a", *nodes))
    core.charge()
    core.publisher.connected(None)
    for _ in range(3):
        core.settled()
    core.publisher.again(map(NodeName, nodes))
    sent = []
    for _ in range(11):
        sent.append(len(core.pump()))
        core.acknowledge()
        assert core.again_at <= core.now + 0.11
        core.after(0.1)
    assert max(sent) <= 3
    assert 9 <= sum(sent) <= 13


def test_what_was_in_flight_when_the_link_died_goes_again_under_its_version() -> None:
    core = serving()
    change(core, "x")
    core.pump()
    core.reconnect()
    core.pump()
    assert versions(core) == [("n", 7, 2), ("n", 7, 2)]


def test_other_tokens_of_a_lost_connection_mean_nothing() -> None:
    core = serving()
    core.publisher.lost([LEDGER])
    assert core.pump() == []


def test_a_change_that_waits_for_lists_does_not_overtake_a_repair_in_flight() -> None:
    core = Core(policy=NOW)
    core.put(record("Owner/a", "n", carries=["Part/p"]), record("Part/p"))
    core.put(record("Owner/z", "z"), record("Part/z", "z"))
    core.charge()
    core.publisher.connected(None)
    core.settled()
    core.after(5)
    core.put(record("Owner/a", "n"))
    assert core.pump() == []
    core.publisher.again([N])
    assert len(core.pump()) == 1
    core.after(2)
    core.listed()
    assert core.pump() == []
    core.acknowledge()
    (snapshot,) = core.pump()
    assert names(snapshot) == ["Owner/a"]


# -- refusals


REFUSED = PublishPolicy(interval=0, refused=Backoff(2, 300, floor=1.0))


def test_a_refused_snapshot_goes_again_after_a_pause_that_grows() -> None:
    core = serving(REFUSED)
    change(core, "x")
    core.pump()
    for pause in (2, 4, 8):
        core.refuse()
        core.after(pause - 0.1)
        assert core.pump() == []
        core.after(0.1)
        assert len(core.pump()) == 1
    assert versions(core) == [("n", 7, 2)] * 4


def test_a_change_does_not_shorten_the_pause_and_goes_instead_of_what_was_refused() -> None:
    core = serving(REFUSED)
    change(core, "x")
    core.pump()
    core.refuse()
    change(core, "y")
    core.after(1.9)
    assert core.pump() == []
    core.after(0.1)
    core.pump()
    core.acknowledge()
    core.after(100)
    core.pump()
    assert versions(core) == [("n", 7, 2), ("n", 7, 3)]


def test_an_acknowledgement_ends_the_growth_of_the_pause() -> None:
    core = serving(REFUSED)
    for spec in "xy":
        change(core, spec)
        core.pump()
        core.refuse()
        core.after(2)
        assert len(core.pump()) == 1
        core.acknowledge()


def test_a_refusal_of_one_node_does_not_stop_the_others() -> None:
    core = serving(REFUSED, nodes="ab")
    core.put(record("Alone/b", "a"))
    core.pump()
    core.refuse()
    core.put(record("Alone/c", "b"))
    (snapshot,) = core.pump()
    assert snapshot.node == "b"


# -- versions from elsewhere


def test_a_node_that_is_ahead_gets_a_version_above_its_own() -> None:
    core = serving()
    core.publisher.renew(N, Version(9, 40))
    core.pump()
    assert versions(core) == [("n", 9, 41)]


def test_a_node_with_our_version_and_other_content_gets_the_next() -> None:
    core = serving()
    core.publisher.renew(N, Version(7, 1))
    core.pump()
    assert versions(core) == [("n", 7, 2)]


def test_a_node_that_reported_before_its_first_snapshot_gets_a_greater_version() -> None:
    core = Core(policy=NOW)
    core.put(record("Alone/a", "n"))
    core.charge()
    core.publisher.expect(N, Version(8, 5))
    core.publisher.connected(None)
    core.settled()
    assert versions(core) == [("n", 8, 6)]


def test_past_the_greatest_revision_comes_the_next_epoch() -> None:
    core = serving()
    core.publisher.renew(N, Version(7, MAX_NUMBER))
    core.pump()
    assert versions(core) == [("n", 8, 1)]


def test_a_node_that_claims_the_greatest_version_is_served_once_it_has_forgotten_it() -> None:
    core = serving()
    core.publisher.renew(N, Version(MAX_NUMBER, MAX_NUMBER))
    assert core.pump() == []
    core.publisher.again([N])
    change(core, "x")
    core.pump()
    assert versions(core) == [("n", 7, 2)]


def test_a_new_epoch_publishes_equal_content_only_when_asked() -> None:
    core = serving()
    core.publisher.epoch = 8
    core.publisher.dirty([N])
    assert core.pump() == []
    change(core, "x")
    core.pump()
    assert versions(core) == [("n", 8, 1)]


# -- limits


def test_what_is_too_large_is_omitted_and_comes_once_it_fits() -> None:
    core = serving()
    core.put(record("Alone/big", "n", spec="x" * 9000))
    core.publisher.limit_changed(6000)
    (snapshot,) = core.pump()
    core.acknowledge()
    assert (names(snapshot), snapshot.omitted) == (["Alone/a"], {"Alone.x/default/big"})
    core.publisher.limit_changed(None)
    (snapshot,) = core.pump()
    assert (names(snapshot), snapshot.omitted) == (["Alone/a", "Alone/big"], frozenset())


def test_a_limit_that_changes_nothing_publishes_nothing() -> None:
    core = serving()
    core.publisher.limit_changed(100_000)
    assert core.pump() == []


def test_acknowledgements_are_counted_for_the_mark() -> None:
    core = serving(nodes="ab")
    before = core.publisher.acknowledgements
    change(core, "x", "a", "b")
    core.pump()
    core.acknowledge()
    states = core.publisher.nodes
    assert core.publisher.acknowledgements == before + 2
    assert {states[NodeName(n)].acknowledgement for n in "ab"} == {before + 1, before + 2}
    assert states[NodeName("a")].acknowledged == (7, 2)


def test_a_node_of_another_bridge_gets_nothing_until_it_is_ours() -> None:
    core = serving(nodes="nm")
    core.publisher.withhold(N)
    change(core, "x", "n", "m")
    core.publisher.again([N])
    core.pump()
    assert versions(core) == [("m", 7, 2)]
    core.publisher.release(N)
    core.pump()
    assert versions(core) == [("n", 7, 2)]


# -- a new epoch


def test_in_a_new_epoch_every_node_is_sent_its_content_from_revision_one() -> None:
    core = serving(nodes="mn")
    core.publisher.take_charge(9)
    core.settled()
    assert sorted(versions(core)) == [("m", 9, 1), ("n", 9, 1)]


def test_the_first_snapshot_of_a_new_epoch_settles_like_that_of_a_start() -> None:
    core = serving()
    core.publisher.take_charge(9)
    assert core.pump() == []
    assert core.publisher.nodes[N].content is None


def test_what_a_node_is_known_to_have_stands_in_a_new_epoch() -> None:
    core = serving()
    core.publisher.renew(N, Version(20, 3))
    core.publisher.take_charge(9)
    core.settled()
    assert versions(core) == [("n", 20, 4)]


def test_nodes_of_another_bridge_are_heard_again_in_a_new_epoch() -> None:
    core = serving()
    core.publisher.withhold(N)
    core.publisher.take_charge(9)
    core.settled()
    assert versions(core) == [("n", 9, 1)]


def test_a_refusal_is_said_again_in_a_new_epoch(caplog: pytest.LogCaptureFixture) -> None:
    core = serving(REFUSED)
    for epoch in (8, 9):
        core.publisher.take_charge(epoch)
        core.pump()
        core.after(2)
        core.listed()
        assert len(core.pump()) == 1
        core.refuse()
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]


def test_what_was_owed_and_what_waited_is_not_sent_twice_in_a_new_epoch() -> None:
    core = serving()
    core.publisher.again([N])
    change(core, "x")
    core.pump()
    core.refuse()
    core.reconnect()
    core.publisher.take_charge(9)
    for _ in range(3):
        core.settled()
    assert versions(core)[-1:] == [("n", 9, 1)]
