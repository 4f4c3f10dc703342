"""The session against a broker that does what no broker should."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence

import pytest

from nodecast.session import (
    Acknowledged,
    Connected,
    Lost,
    Received,
    Refused,
    Subscribed,
    Subscription,
)
from tests.support import scripted
from tests.support.scripted import HangUp, Packet, Reply, ScriptedBroker, connack, disconnect
from tests.support.sessions import message, owner

CODES = (0x00, 0x04, *range(0x80, 0xA3), 0xFF)
"""Every reason code that a DISCONNECT may have (MQTT 5 §3.14.2.1), and some that it may not."""


def _on(kind: int, answer: bytes, *, first: int = 10**9, topic: str = "") -> Reply:
    """Answer so to the packets of a kind, and of a topic, on the first connections."""

    def reply(each: Packet) -> bytes | None:
        fits = each.kind == kind and each.connection <= first and topic in ("", each.topic)
        return answer if fits else None

    return reply


@pytest.mark.parametrize(
    "answer",
    [b"", connack()[:3], b"\x20", b"\x20\xff\xff\xff\xff\xff", b"\x20\x00", b"HTTP/1.1 400\r\n"],
    ids=["silence", "half", "one byte", "endless length", "empty", "http"],
)
def test_m2_a_connack_that_does_not_come_or_does_not_read_is_a_failed_attempt(
    answer: bytes,
) -> None:
    with (
        ScriptedBroker(_on(scripted.CONNECT, answer, first=3)) as broker,
        owner(broker.url, connect_timeout=0.3) as tested,
    ):
        tested.next(Connected, within=30)
        assert broker.connections == 4
        assert len(tested.events) == 1


def test_a_disconnect_with_any_reason_is_a_loss_and_nothing_else() -> None:
    codes = iter(CODES)

    def reply(each: Packet) -> bytes | None:
        if each.kind == scripted.PUBLISH and (code := next(codes, None)) is not None:
            raise HangUp(disconnect(code))
        return None

    with ScriptedBroker(reply) as broker, owner(broker.url, reconnect_max=0.05) as tested:
        for turn in range(len(CODES)):
            tested.next(Connected, within=30)
            tested.session.publish(message("a"), turn)
            assert tested.next(Lost).unacknowledged in ((turn,), ())
        tested.next(Connected)
        tested.session.publish(message("b"), "last")
        assert tested.next(Acknowledged) == Acknowledged("last")


def test_no_more_publishes_are_under_way_than_the_broker_takes() -> None:
    waiting: list[bytes] = []
    most = 0

    def reply(each: Packet) -> bytes | None:
        nonlocal most
        if each.kind == scripted.CONNECT:
            return connack(scripted.RECEIVE_MAXIMUM + b"\x00\x01")
        if each.kind == scripted.SUBSCRIBE:  # what waits is answered with it
            most = max(most, len(waiting))
            answers = b"".join(map(scripted.puback, waiting))
            waiting.clear()
            return answers + scripted.packet(scripted.SUBACK, each.id + b"\x00\x01")
        if each.kind == scripted.PUBLISH:
            waiting.append(each.id)
            return b""
        return None

    with ScriptedBroker(reply) as broker, owner(broker.url) as tested:
        assert tested.next(Connected).window == 1
        for token in range(5):
            tested.session.publish(message(f"t/{token}"), token)
        for token in range(5):
            tested.until(lambda done=token: len(broker.of(scripted.PUBLISH)) > done)  # type: ignore[misc]
            tested.session.subscribe([Subscription("a")], token)
            assert tested.next(Acknowledged) == Acknowledged(token)
        assert most == 1


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        (scripted.MAXIMUM_QOS + b"\x00", "QoS 0 only"),
        (scripted.RETAIN_AVAILABLE + b"\x00", "no retained messages"),
        (scripted.MAXIMUM_PACKET_SIZE + bytes(4), ""),
        (scripted.RECEIVE_MAXIMUM + bytes(2), ""),
    ],
    ids=["QoS 0", "no retain", "packets of 0 bytes", "receive maximum 0"],
)
def test_a_broker_that_offers_too_little_is_no_connection_and_why_is_said(
    properties: bytes, said: str
) -> None:
    reply = _on(scripted.CONNECT, connack(properties))
    with ScriptedBroker(reply) as broker, owner(broker.url, reconnect_max=0.05) as tested:
        tested.until(lambda: broker.connections >= 3)
        assert tested.events == []
        failure = tested.session.failure
        assert failure is not None
        assert said in failure


def test_the_keep_alive_of_the_broker_counts() -> None:
    reply = _on(scripted.CONNECT, connack(scripted.SERVER_KEEP_ALIVE + b"\x00\x01"))
    with ScriptedBroker(reply) as broker, owner(broker.url, keep_alive=600) as tested:
        tested.until(lambda: broker.of(scripted.PINGREQ))
        assert tested.session.connected


def test_what_else_a_connack_may_hold_changes_nothing() -> None:
    properties = (
        scripted.ASSIGNED_CLIENT_ID + b"\x00\x05other"
        + scripted.TOPIC_ALIAS_MAXIMUM + b"\x00\x0a"
        + b"\x28\x00\x29\x00\x2a\x00"  # no wildcards, no subscription ids, no shared ones
        + b"\x1f\x00\x02hi" + b"\x26\x00\x01k\x00\x01v"
    )  # fmt: skip
    reply = _on(scripted.CONNECT, connack(properties), first=1)
    with ScriptedBroker(reply) as broker, owner(broker.url) as tested:
        tested.next(Connected)
        for token in range(3):
            tested.session.publish(message("a"), token)
            assert tested.next(Acknowledged) == Acknowledged(token)
        assert [each.topic for each in broker.of(scripted.PUBLISH)] == ["a"] * 3


def test_a_publish_without_its_answer_ends_the_link_though_all_others_have_theirs() -> None:
    reply = _on(scripted.PUBLISH, b"", first=1, topic="lost")
    with ScriptedBroker(reply) as broker, owner(broker.url, answer_timeout=0.5) as tested:
        tested.next(Connected)
        tested.session.publish(message("lost"), "lost")
        more = 0

        def publish_more() -> list[Lost]:
            nonlocal more
            if tested.session.free and not tested.of(Lost):
                more += 1
                tested.session.publish(message("other"), more)
            return tested.of(Lost)

        tested.until(publish_more)
        assert "lost" in tested.next(Lost).unacknowledged
        assert len(tested.of(Acknowledged)) > 1
        tested.next(Connected)
        tested.session.publish(message("lost"), "again")
        tested.until(lambda: Acknowledged("again") in tested.of(Acknowledged))


def test_an_answer_behind_a_large_message_on_a_slow_link_is_waited_for() -> None:
    large = scripted.publish("a", b"x" * 1000)

    def reply(each: Packet) -> bytes | None:
        if each.kind != scripted.PUBLISH:
            return None
        for at in range(0, len(large) - 1, 100):
            broker.say(large[at : at + 100])
            threading.Event().wait(0.1)  # the slow link: twice the time limit in all
        return scripted.puback(each.id)

    with ScriptedBroker(reply) as broker, owner(broker.url, answer_timeout=0.5) as tested:
        tested.next(Connected)
        tested.session.publish(message("b"), "b")
        assert tested.next(Acknowledged) == Acknowledged("b")
        assert tested.of(Lost) == []


def test_the_answers_to_pings_do_not_hide_that_another_is_missing() -> None:
    reply = _on(scripted.PUBLISH, b"")
    with (
        ScriptedBroker(reply) as broker,
        owner(broker.url, keep_alive=1, answer_timeout=3) as tested,
    ):
        tested.next(Connected)
        tested.session.publish(message("a"), "a")
        assert "did not answer" in tested.next(Lost, within=30).reason
        assert broker.of(scripted.PINGREQ)


def test_m6_a_subscribe_without_its_answer_ends_the_link() -> None:
    reply = _on(scripted.SUBSCRIBE, b"", first=1)
    with ScriptedBroker(reply) as broker, owner(broker.url, answer_timeout=0.5) as tested:
        tested.next(Connected)
        tested.session.subscribe([Subscription("a")], "first")
        assert "did not answer" in tested.next(Lost).reason
        tested.next(Connected)
        tested.session.subscribe([Subscription("a")], "second")
        assert tested.next(Subscribed) == Subscribed("second", ())


@pytest.mark.parametrize("code", [0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99])
def test_b3_a_puback_that_says_no_is_a_refusal_with_its_code(code: int) -> None:
    def reply(each: Packet) -> bytes | None:
        full = each.kind == scripted.PUBLISH and each.topic == "full"
        return scripted.puback(each.id, code) if full else None

    with ScriptedBroker(reply) as broker, owner(broker.url) as tested:
        tested.next(Connected)
        tested.session.publish(message("full"), "full")
        refused = tested.next(Refused)
        assert (refused.token, refused.code, refused.too_large) == ("full", code, False)
        tested.session.publish(message("other"), "other")
        tested.next(Acknowledged)
        assert tested.of(Lost) == []


def test_answers_to_what_was_never_asked_are_left_alone() -> None:
    def reply(each: Packet) -> bytes | None:
        if each.kind != scripted.PUBLISH:
            return None
        stray = scripted.packet(scripted.SUBACK, b"\x77\x77\x00\x01") + b"\xd0\x00"
        return scripted.puback(b"\x77\x77") + stray + scripted.puback(each.id) * 2

    with ScriptedBroker(reply) as broker, owner(broker.url) as tested:
        tested.next(Connected)
        for token in range(3):
            tested.session.publish(message("a"), token)
            assert tested.next(Acknowledged) == Acknowledged(token)
        assert tested.of(Subscribed) == []
        assert broker.connections == 1


@pytest.mark.parametrize("when", [scripted.CONNECT, scripted.SUBSCRIBE], ids=["before", "second"])
def test_packets_out_of_their_order_end_the_connection(when: int) -> None:
    """A message before the CONNACK, and a second CONNACK."""
    reply = _on(when, scripted.publish("a", b"early") + connack(), first=1)
    with ScriptedBroker(reply) as broker, owner(broker.url) as tested:
        if when == scripted.SUBSCRIBE:
            tested.next(Connected)
            tested.session.subscribe([Subscription("a")], 1)
            assert "second CONNACK" in tested.next(Lost).reason
        tested.next(Connected)
        assert broker.connections == 2
        assert len(tested.of(Received)) == (when == scripted.SUBSCRIBE)


def _random_bytes(rng: random.Random) -> bytes:
    return rng.randbytes(rng.randrange(1, 60))


def _mutated(rng: random.Random) -> bytes:
    """Packets that a broker sends, with some bytes changed, cut off, or put in."""
    good = [
        scripted.publish("a", b"x" * rng.randrange(300), retained=rng.random() < 0.5),
        scripted.puback(b"\x00\x01", rng.choice(CODES)),
        scripted.packet(scripted.SUBACK, b"\x00\x01\x00" + rng.randbytes(3)),
        scripted.packet(rng.choice(range(0, 256, 16)), rng.randbytes(rng.randrange(8))),
        disconnect(rng.choice(CODES)),
        b"\xd0\x00",
    ]
    data = bytearray(b"".join(rng.choices(good, k=rng.randrange(1, 5))))
    for _ in range(rng.randrange(4)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data[: rng.randrange(1, len(data) + 1)])


@pytest.mark.parametrize("make", [_random_bytes, _mutated])
@pytest.mark.parametrize("when", [scripted.CONNECT, scripted.PUBLISH], ids=["first", "later"])
def test_garbage_from_the_broker_costs_its_connection_and_nothing_else(
    make: Callable[[random.Random], bytes], when: int
) -> None:
    rng = random.Random(20240611)
    turns = 120

    def reply(each: Packet) -> bytes | None:
        if each.kind == when and each.connection <= turns:
            raise HangUp(make(rng))
        return None

    with ScriptedBroker(reply) as broker, owner(broker.url, reconnect_max=0.05) as tested:
        seen = 0

        def step() -> bool:
            nonlocal seen
            tested.pump()
            for event in tested.events[seen:]:
                if isinstance(event, Connected):
                    tested.session.subscribe([Subscription("a")], "sub")
                    tested.session.publish(message("a"), "pub")
            seen = len(tested.events)
            return broker.connections > turns and Acknowledged("pub") in tested.events[-4:]

        tested.until(step, within=60)
        _each_connection_ends_once(tested.events)


def _each_connection_ends_once(events: Sequence[object]) -> None:
    up = False
    for event in events:
        if isinstance(event, Connected):
            assert not up
            up = True
        elif isinstance(event, Lost):
            assert up
            up = False
        elif isinstance(event, Acknowledged | Refused | Subscribed | Received):
            assert up
