"""The session against a real broker: what it says arrives, as it was said."""

from __future__ import annotations

import time

import pytest

from nodecast.session import (
    Acknowledged,
    Connected,
    Outgoing,
    Received,
    Refused,
    Subscribed,
    Subscription,
)
from tests.support.mosquitto import Broker
from tests.support.mqtt import Observer
from tests.support.sessions import message, owner
from tests.support.wait import eventually

pytestmark = pytest.mark.broker


def test_a_publish_arrives_with_its_properties_and_is_retained(
    broker: Broker, observer: Observer
) -> None:
    with owner(broker.url) as tested:
        tested.next(Connected)
        tested.session.publish(Outgoing("node/a/resources", b"body", True, "zlib"), "token")
        assert tested.next(Acknowledged) == Acknowledged("token")
    seen = eventually(lambda: observer.latest("node/a/resources"))
    assert seen.payload == b"body"
    assert seen.content_type == "application/json"
    assert seen.properties == {"encoding": "zlib"}
    late = Observer(broker.port)
    assert eventually(lambda: late.latest("node/a/resources")).retained
    late.close()


def test_a_subscription_replays_what_is_retained_and_one_without_does_not(
    broker: Broker, observer: Observer
) -> None:
    observer.publish("a", b"old", encoding="zlib")
    observer.publish("b", b"old")
    with owner(broker.url) as tested:
        tested.next(Connected)
        tested.session.subscribe([Subscription("a"), Subscription("b", replay=False)], "sub")
        assert tested.next(Subscribed) == Subscribed("sub", ())
        assert tested.next(Received) == Received("a", b"old", True, "zlib")
        observer.publish("b", b"new")
        assert tested.next(Received) == Received("b", b"new", False, None)


def test_all_of_many_publishes_are_acknowledged_and_retained(
    broker: Broker, observer: Observer
) -> None:
    waiting = [f"t/{i}" for i in range(1000)]
    with owner(broker.url) as tested:
        tested.next(Connected)
        while waiting or len(tested.of(Acknowledged)) < 1000:
            while waiting and tested.session.free:
                topic = waiting.pop()
                tested.session.publish(message(topic), topic)
            tested.pump()
    assert {event.token for event in tested.of(Acknowledged)} == {f"t/{i}" for i in range(1000)}
    eventually(lambda: len(observer.retained) == 1000)


def test_a_body_of_megabytes_arrives_whole(broker: Broker, observer: Observer) -> None:
    body = bytes(range(256)) * 16_384
    with owner(broker.url) as tested:
        tested.next(Connected)
        tested.session.publish(Outgoing("large", body, True), 1)
        tested.session.subscribe([Subscription("large")], 2)
        assert tested.next(Received).payload == body
    assert eventually(lambda: observer.latest("large")).payload == body


def test_the_will_comes_after_its_delay_when_the_connection_dies(
    broker: Broker, observer: Observer
) -> None:
    will = Outgoing("state", b"offline", True, will_delay=1)
    with owner(broker.url, will=will, reconnect_min=30.0, reconnect_max=30.0) as tested:
        tested.next(Connected)
        link = tested.session._link
        assert link is not None
        link.drop()
        seen = eventually(lambda: observer.latest("state"))
        assert seen.payload == b"offline"
        assert seen.content_type == "application/json"


def test_a_return_within_the_delay_publishes_no_will(broker: Broker, observer: Observer) -> None:
    will = Outgoing("state", b"offline", True, will_delay=1)
    with owner(broker.url, will=will) as tested:
        tested.next(Connected)
        link = tested.session._link
        assert link is not None
        link.drop()
        tested.next(Connected)
        over = time.monotonic() + 2.5
        tested.until(lambda: time.monotonic() > over)
    assert observer.latest("state") is None


@pytest.mark.parametrize("how", ["close", "disconnect"])
def test_leaving_publishes_no_will(broker: Broker, observer: Observer, how: str) -> None:
    will = Outgoing("state", b"offline", True, will_delay=0)
    with owner(broker.url, will=will) as tested:
        tested.next(Connected)
        if how == "disconnect":
            tested.session.disconnect("enough")
            tested.pump()
    eventually(lambda: "Client tested disconnected." in broker.log)
    observer.publish("after", b"x")
    eventually(lambda: observer.latest("after"))
    assert observer.latest("state") is None


def test_what_was_queued_before_a_close_is_sent(broker: Broker, observer: Observer) -> None:
    with owner(broker.url) as tested:
        tested.next(Connected)
        tested.session.publish(message("state"), 1)
    eventually(lambda: observer.latest("state"))


def test_a_topic_that_the_broker_forbids_is_refused_with_its_code(broker: Broker) -> None:
    (broker.directory / "acl").write_text("topic readwrite mine/#\n")
    broker.config = f"acl_file {broker.directory / 'acl'}"
    broker.restart()
    with owner(broker.url) as tested:
        tested.next(Connected)
        tested.session.publish(message("theirs"), "theirs")
        tested.session.publish(message("mine/a"), "mine")
        refused = tested.next(Refused)
        assert (refused.token, refused.code, refused.too_large) == ("theirs", 0x87, False)
        assert "authorized" in refused.reason.lower()
        tested.until(lambda: tested.of(Acknowledged))
        assert tested.of(Acknowledged) == [Acknowledged("mine")]


def test_a_subscribe_above_the_packet_limit_goes_in_parts(broker: Broker) -> None:
    broker.config = "max_packet_size 300"
    broker.restart()
    topics = [f"node/edge-{i:02d}/status" for i in range(60)]
    with owner(broker.url) as tested:
        assert tested.next(Connected).limit == 300
        tested.session.subscribe([Subscription(topic) for topic in topics], "all")
        assert tested.next(Subscribed) == Subscribed("all", ())
        tested.session.publish(message(topics[-1]), 1)
        assert tested.next(Received).topic == topics[-1]
