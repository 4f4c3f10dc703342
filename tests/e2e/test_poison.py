"""Bytes on our topics that nobody of ours wrote."""

from __future__ import annotations

import json

import pytest

from nodecast.messages import Version, encode_snapshot, snapshot_digest
from nodecast.names import BridgeName, NodeName
from tests.support.fleet import Fleet
from tests.support.objects import dataset
from tests.support.wait import eventually

pytestmark = pytest.mark.broker

ONE = dataset("one", "edge0")
TWO = dataset("two", "edge0")
TOPIC = "node/edge0/resources"


def _emptying(bridge: str, node: str) -> bytes:
    """A snapshot that would take everything away, were it meant for us."""
    return encode_snapshot(
        bridge=BridgeName(bridge),
        instance="f" * 16,
        node=NodeName(node),
        version=Version(2**50, 1),
        digest=snapshot_digest([], [], []),
        resources=[],
        held=(),
        omitted=(),
    )


POISONS = {
    "no UTF-8": b"\xff\xfe",
    "an array": b"[]",
    "null": b"null",
    "a string": b'"everything"',
    "20 MB of brackets": b"[" * 20_000_000,
    "no fields": b'{"schema": 1}',
    "another bridge's": _emptying("other", "edge0"),
    "another node's": _emptying("default", "edge1"),
    "a greater schema": json.dumps(
        {**json.loads(_emptying("default", "edge0")), "schema": 99}
    ).encode(),
    "no zlib": b"\x78\x9c nothing",
}


LEDGER = "bridge/default/nodes"
NEWER = b'{"schema": 99}'
TOPICS = (
    LEDGER,
    "bridge/default/state",
    "bridge/default/probe",
    "node/edge0/status",
    "node/edge0/state",
    "node/edge0/models",
    "node/Upper/status",
)


WRITTEN_OVER = {
    "garbled": POISONS["an array"],
    "another bridge's": POISONS["another bridge's"],
    "another node's": POISONS["another node's"],
}


def test_m3_poison_on_the_topic_changes_nothing(make_fleet: type[Fleet]) -> None:
    fleet = make_fleet("edge0")
    agent = fleet.agents["edge0"]
    fleet.put(ONE)
    fleet.start()
    fleet.should_be({"edge0": (ONE,)})
    fleet.bridge.stop()  # with it, the topic is soon right again
    before = agent.mark()
    with fleet.look() as look:
        for what, payload in POISONS.items():
            since = len(agent.log)
            encoding = "zlib" if what == "no zlib" else None
            for _ in range(2):
                look.observer.publish(TOPIC, payload, encoding=encoding)
            agent.says("message left alone", since=since)
            agent.stop()
            assert agent.logged("message left alone", since) == 1, what
            agent.start()
            agent.says("message left alone", since=agent.started_at)
            assert fleet.agents["edge0"].untouched(before), what
        look.observer.publish(TOPIC, b"")
        agent.says("reason=empty")
        assert agent.untouched(before)
    fleet.bridge.start()
    fleet.put(TWO)
    fleet.should_be({"edge0": (ONE, TWO)})


@pytest.mark.parametrize(
    "payload", [b"", *WRITTEN_OVER.values()], ids=["cleared", *WRITTEN_OVER.keys()]
)
def test_m3_a_topic_that_somebody_wrote_to_is_right_again_without_any_change(
    make_fleet: type[Fleet], payload: bytes
) -> None:
    fleet = make_fleet("edge0")
    agent = fleet.agents["edge0"]
    fleet.put(ONE)
    fleet.start()
    fleet.should_be({"edge0": (ONE,)})
    before = agent.mark()
    with fleet.look() as look:
        look.observer.publish(TOPIC, payload)
        fleet.should_be({"edge0": (ONE,)})
        said = [seen.payload for seen in look.observer.of(TOPIC)]
    right = said[0]
    assert said == [right, payload, right], "one answer is enough"
    assert agent.untouched(before)


@pytest.mark.parametrize("payload", WRITTEN_OVER.values(), ids=WRITTEN_OVER.keys())
def test_m3_a_topic_written_to_while_its_agent_was_away_is_right_again_when_it_is_back(
    make_fleet: type[Fleet], payload: bytes
) -> None:
    fleet = make_fleet("edge0")
    agent = fleet.agents["edge0"]
    fleet.put(ONE)
    fleet.start()
    fleet.should_be({"edge0": (ONE,)})
    before = agent.mark()
    agent.stop()
    with fleet.look() as look:
        look.observer.publish(TOPIC, payload)
    agent.start()
    fleet.should_be({"edge0": (ONE,)})
    assert agent.untouched(before)


def test_m3_poison_on_the_other_topics_stops_neither_side(fleet: Fleet) -> None:
    fleet.put(ONE)
    fleet.agents["edge0"].models({"one": "s3://one"})
    fleet.start()
    fleet.should_be({"edge0": (ONE,), "edge1": ()})
    with fleet.look() as look:
        for topic in TOPICS:
            for payload in (b"\xff\xfe", b"[]", b'{"schema": 1}', NEWER, b""):
                # A ledger of a newer release is no poison: see the next test.
                if (topic, payload) != (LEDGER, NEWER):
                    look.observer.publish(topic, payload)
        for state in ("bridge/default/state", "node/edge0/state"):
            eventually(lambda each=state: look.online(each), 20, what=f"{state} is put right")
    assert all(each.running for each in (fleet.bridge, *fleet.agents.values()))
    fleet.put(TWO)
    fleet.should_be({"edge0": (ONE, TWO), "edge1": ()})

    for process in (fleet.bridge, fleet.agents["edge0"]):
        process.kill()
    with fleet.look() as look:
        for topic in (LEDGER, "node/edge0/status", "node/edge0/models"):
            look.observer.publish(topic, b'{"schema": 1}')
    fleet.start()
    fleet.should_be({"edge0": (ONE, TWO), "edge1": ()})


def test_a_ledger_of_a_newer_release_ends_an_older_bridge_with_69(fleet: Fleet) -> None:
    fleet.put(ONE)
    fleet.broker.start()
    with fleet.look() as look:
        look.observer.publish(LEDGER, NEWER)
        fleet.bridge.start()
        assert fleet.bridge.wait(15) == 69
        assert fleet.bridge.logged("schema 99 is newer than 1") == 1
        kept = look.observer.latest(LEDGER)
        assert kept is not None
        assert kept.payload == NEWER
