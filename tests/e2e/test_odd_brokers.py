"""Bridge and agent on brokers that answer half, answer little, or offer little."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from nodecast.messages import ModelOp, Wire, decode
from tests.support import scripted
from tests.support.fleet import Fleet
from tests.support.objects import Object, dataset, key
from tests.support.scripted import Packet, ScriptedBroker
from tests.support.wait import eventually

pytestmark = pytest.mark.broker

ONE = dataset("one", "edge0")
LATE = dataset("late", "edge0")
OTHER = dataset("other", "edge1")
SNAPSHOT = "node/edge0/resources"
OPS = "node/edge0/models/ops"
BRIDGE_STATE = "bridge/default/state"


@pytest.fixture
def odd() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        yield broker


@pytest.fixture
def fleet(make_fleet: type[Fleet], odd: ScriptedBroker) -> Fleet:
    """Two nodes on the scripted broker; the fleet's own broker is not started."""
    fleet = make_fleet("edge0", "edge1", url=lambda *_: odd.url)
    for process in (fleet.bridge, *fleet.agents.values()):
        process.settings["mqtt.answer_timeout"] = 2
    fleet.put(ONE, OTHER)
    return fleet


def _start(fleet: Fleet) -> None:
    for process in (fleet.bridge, *fleet.agents.values()):
        process.start()


def _silence(kind: int, topic: str, *, times: int = 1) -> Callable[[Packet], bytes | None]:
    """No answer to the first packets of a kind, and of a topic (or with it among the filters)."""
    left = times

    def reply(each: Packet) -> bytes | None:
        nonlocal left
        fits = each.kind == kind and (topic == each.topic or topic in _filters(each))
        if not fits or not left:
            return None
        left -= 1
        return b""

    return reply


def _filters(each: Packet) -> list[str]:
    return each.filters if each.kind == scripted.SUBSCRIBE else []


@pytest.mark.parametrize(
    ("kind", "topic"),
    [
        (scripted.PUBLISH, SNAPSHOT),
        (scripted.PUBLISH, "bridge/default/nodes"),
        (scripted.PUBLISH, "node/edge0/status"),
        (scripted.SUBSCRIBE, SNAPSHOT),
        (scripted.SUBSCRIBE, "bridge/default/nodes"),
        (scripted.SUBSCRIBE, "node/edge0/status"),
    ],
)
def test_m4_one_packet_that_is_swallowed_holds_up_nothing_for_good(
    fleet: Fleet, odd: ScriptedBroker, kind: int, topic: str
) -> None:
    odd.reply = _silence(kind, topic)
    fleet.agents["edge0"].models({"m": "s3://m"})
    _start(fleet)
    fleet.disks_should_be({"edge0": (ONE,), "edge1": (OTHER,)}, within=60)
    eventually(
        lambda: fleet.agents["edge0"].model_states() == {"m": "Requested"}, 60, what="the model"
    )
    fleet.put(LATE)
    fleet.disks_should_be({"edge0": (ONE, LATE), "edge1": (OTHER,)}, within=60)
    eventually(lambda: _reports(odd, LATE), 60, what="the report of it")


def _reports(odd: ScriptedBroker, thing: Object) -> bool:
    reports = odd.published("node/edge0/status")
    return bool(reports) and f'"{key(thing)}"'.encode() in reports[-1].body


def test_b3_a_broker_whose_quota_is_exceeded_is_asked_ever_more_seldom_until_it_takes_all(
    fleet: Fleet, odd: ScriptedBroker
) -> None:
    def full(each: Packet) -> bytes | None:
        """Nothing is taken but what the bridge says to itself."""
        kept = each.topic and not each.topic.startswith("bridge/")
        return scripted.puback(each.id, 0x97) if kept else None

    odd.reply = full
    for process in (fleet.bridge, *fleet.agents.values()):
        process.settings["mqtt.answer_timeout"] = 120
    fleet.bridge.settings["mqtt.keep_alive"] = 1
    fleet.agents["edge0"].models({"m": "s3://m"})
    _start(fleet)
    eventually(lambda: len(odd.published(SNAPSHOT)) >= 3, 60, what="it is tried a third time")
    eventually(lambda: len(odd.of(scripted.PINGREQ)) >= 4, 60, what="the bridge is idle between")
    for topic in {each.topic for each in odd.of(scripted.PUBLISH)}:
        assert len(odd.published(topic)) < 30, topic
    assert fleet.bridge.logged("the broker refused a snapshot") == 2  # for each node
    assert odd.connections == 3
    odd.reply = lambda _: None
    fleet.disks_should_be({"edge0": (ONE,), "edge1": (OTHER,)}, within=90)
    eventually(
        lambda: fleet.agents["edge0"].model_states() == {"m": "Requested"}, 60, what="the model"
    )


def test_an_op_whose_answer_is_swallowed_goes_again_as_what_it_was(
    fleet: Fleet, odd: ScriptedBroker
) -> None:
    odd.reply = _silence(scripted.PUBLISH, OPS)
    fleet.agents["edge0"].models({"m": "s3://m"})
    _start(fleet)
    eventually(lambda: len(odd.published(OPS)) >= 2, 60, what="the op goes again")
    fleet.disks_should_be({"edge0": (ONE,)}, within=60)
    first, again = (_op(each) for each in odd.published(OPS)[:2])
    assert first == again


def _op(each: Packet) -> ModelOp:
    return decode(ModelOp, Wire(each.body[each.body.index(b"{") :]))


def test_m9_a_bridge_that_is_stopped_waits_for_the_answers_that_are_due(
    fleet: Fleet, odd: ScriptedBroker
) -> None:
    fleet.bridge.settings |= {"mqtt.answer_timeout": 600, "mqtt.drain": 600, "mqtt.keep_alive": 1}
    fleet.bridge.start()
    fleet.bridge.says("taking charge")
    eventually(lambda: odd.published(SNAPSHOT), 20, what="a first snapshot")
    kept_back: list[Packet] = []

    def keep_back(each: Packet) -> bytes | None:
        if each.topic != SNAPSHOT:
            return None
        kept_back.append(each)
        return b""

    odd.reply = keep_back
    fleet.put(LATE)
    eventually(lambda: kept_back, 20, what="the snapshot under way")
    births = len(odd.published(BRIDGE_STATE))
    fleet.bridge.ask_to_stop()
    eventually(lambda: len(odd.published(BRIDGE_STATE)) > births, 20, what="it says offline")
    pings = len(odd.of(scripted.PINGREQ))
    eventually(lambda: len(odd.of(scripted.PINGREQ)) > pings, 30, what="it waits")
    assert fleet.bridge.running
    assert not odd.of(scripted.DISCONNECT)
    odd.say(b"".join(scripted.puback(each.id) for each in kept_back))
    assert fleet.bridge.wait(120) == 0
    assert odd.of(scripted.DISCONNECT)


NARROW = {
    "one at a time": "max_inflight_messages 1",
    "a short queue": "max_queued_messages 5",
}


@pytest.mark.parametrize("config", NARROW.values(), ids=NARROW.keys())
def test_a_broker_that_offers_little_is_enough(make_fleet: type[Fleet], config: str) -> None:
    fleet = make_fleet("edge0", "edge1", config=config)
    things = tuple(dataset(f"d{number}", f"edge{number % 2}") for number in range(20))
    fleet.agents["edge0"].models({f"m{number}": f"s3://{number}" for number in range(20)})
    fleet.put(*things)
    fleet.start()
    fleet.should_be({"edge0": things[::2], "edge1": things[1::2]})
    with fleet.look() as look:
        eventually(lambda: (found := look.model_set("edge0")) and found.seq == 20, 30)
    everything = (fleet.bridge, *fleet.agents.values())
    assert [each.logged("connected to the broker") for each in everything] == [1, 1, 1]


def test_a_broker_without_retained_messages_is_refused_by_both_sides_with_the_reason(
    make_fleet: type[Fleet],
) -> None:
    fleet = make_fleet("edge0", config="retain_available false")
    fleet.put(ONE)
    fleet.start()
    everything = (fleet.bridge, fleet.agents["edge0"])
    for process in everything:
        process.says("let the broker offer QoS 1 and retained messages")
        assert not process.logged("connected to the broker")
    assert fleet.agents["edge0"].disk() == {}
