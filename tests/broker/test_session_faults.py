"""The session against a broker that dies, freezes, refuses, or is not there yet."""

from __future__ import annotations

import base64
import hashlib
import time
from pathlib import Path

import pytest

from nodecast.session import (
    Acknowledged,
    Connected,
    Lost,
    Outgoing,
    Received,
    Subscribed,
    Subscription,
)
from tests.support.mosquitto import Broker
from tests.support.mqtt import Observer, observing
from tests.support.sessions import message, owner
from tests.support.wait import eventually

pytestmark = pytest.mark.broker


def test_a_broker_that_comes_later_is_found(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "late")
    with owner(broker.url) as tested:
        tested.until(lambda: tested.session._reconnect.due > 0)
        assert tested.events == []
        with broker:
            tested.next(Connected)


def test_a_name_that_does_not_resolve_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    with owner("mqtt://broker.invalid:1883") as tested:
        tested.until(lambda: "no connection to the broker" in caplog.text, within=30)
        assert not tested.session.connected


def test_a_killed_broker_loses_what_was_in_flight_and_is_found_again(broker: Broker) -> None:
    with owner(broker.url) as tested:
        tested.next(Connected)
        tested.session.publish(message("a"), "before")
        tested.next(Acknowledged)
        broker.freeze()
        tested.session.publish(message("b"), "during")
        tested.pump()
        broker.kill()
        assert tested.next(Lost).unacknowledged == ("during",)
        broker.start()
        tested.next(Connected)
        tested.session.publish(message("b"), "after")
        assert tested.next(Acknowledged) == Acknowledged("after")


def test_a_broker_that_stops_is_noticed_at_once(broker: Broker) -> None:
    with owner(broker.url) as tested:
        tested.next(Connected)
        broker.stop()
        assert "closed" in tested.next(Lost).reason


def test_a_frozen_broker_is_noticed_within_two_keep_alives(broker: Broker) -> None:
    with owner(broker.url, keep_alive=1) as tested:
        tested.next(Connected)
        broker.freeze()
        tested.session.publish(message("a"), "stuck")
        lost = tested.next(Lost)
        assert "Keep alive" in lost.reason
        assert lost.unacknowledged == ("stuck",)
        broker.thaw()
        tested.next(Connected)


def test_an_idle_session_stays_connected_and_hardly_wakes(broker: Broker) -> None:
    with owner(broker.url, keep_alive=1) as tested:
        tested.next(Connected)
        over = time.monotonic() + 3.5
        tested.timeout = 30
        exchanges = 0
        exchange = tested.session._exchange

        def counted(wait: float) -> None:
            nonlocal exchanges
            exchanges += 1
            exchange(min(wait, over - time.monotonic()))
            if time.monotonic() >= over:
                tested.session.wake()

        tested.session._exchange = counted  # type: ignore[method-assign]
        tested.pump()
        assert tested.events == [Connected(None, 20)]
        assert exchanges < 25


@pytest.mark.parametrize("size", [20, 8_000_000])
def test_a_close_with_a_frozen_broker_ends_in_time(broker: Broker, size: int) -> None:
    with owner(broker.url) as tested:
        tested.next(Connected)
        broker.freeze()
        tested.session.publish(message("a", size), 1)
        tested.pump()
        tested.session.close(time.monotonic() + 0.5)  # it returns, or never does
    broker.thaw()


def test_a_connect_to_a_frozen_broker_is_given_up_and_tried_again(broker: Broker) -> None:
    broker.freeze()
    with owner(broker.url, connect_timeout=0.3) as tested:
        tested.until(lambda: tested.session._link is not None)
        tested.until(lambda: tested.session._link is None)
        assert tested.events == []
        broker.thaw()
        tested.next(Connected)


def test_a_wrong_password_is_said_once_and_a_right_one_later_works(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker(tmp_path / "broker", anonymous=False)
    passwords = broker.directory / "passwords"
    passwords.write_text(f"agent:{pbkdf2('right')}\n")
    broker.config = f"password_file {passwords}"
    secret = tmp_path / "secret"
    secret.write_text("wrong\n")
    with (
        broker,
        owner(broker.url, username="agent", password_file=str(secret)) as tested,
    ):
        tested.until(lambda: broker.log.count("not authorised") >= 2)
        assert tested.events == []
        assert caplog.text.count("refused the connection") == 1
        assert "wrong" not in caplog.text
        secret.write_text("right\n")
        tested.next(Connected)


def test_another_client_with_the_same_id_is_named(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    with owner(broker.url, client_id="twin") as one, owner(broker.url, client_id="twin") as two:

        def both() -> bool:
            for each in (one, two):
                each.timeout = 0.01
                each.pump()
            return "same client id" in caplog.text

        eventually(both, within=20)


def test_restarts_of_the_broker_leave_the_last_state_of_every_topic(broker: Broker) -> None:
    wanted = {f"t/{i}": b"%d" % i for i in range(200)}
    with owner(broker.url, reconnect_max=0.1) as tested:
        missing = dict(wanted)
        restarts = 3
        while missing or restarts:
            before = len(tested.events)
            tested.pump()
            for event in tested.events[before:]:
                if isinstance(event, Acknowledged):
                    missing.pop(str(event.token), None)
                elif isinstance(event, Lost):
                    missing = dict(wanted)  # the broker keeps no store: all of it again
            flying = 0
            for topic, payload in list(missing.items()):
                if tested.session.free and flying < 10:
                    flying += 1
                    tested.session.publish(Outgoing(topic, payload, True), topic)
            if restarts and len(missing) < 150 and tested.session.connected:
                restarts -= 1
                broker.kill()
                broker.start()
    with observing(broker.port) as observer:
        eventually(lambda: observer.retained == wanted)


def test_garbage_on_a_topic_is_received_as_it_is(broker: Broker, observer: Observer) -> None:
    with owner(broker.url) as tested:
        tested.next(Connected)
        tested.session.subscribe([Subscription("poison")], 1)
        tested.next(Subscribed)
        for payload in (b"", b"\xff\xfe", b"[]", b"[" * 1_000_000):
            observer.publish("poison", payload, encoding="rot13")
            assert tested.next(Received) == Received("poison", payload, False, "rot13")


def pbkdf2(password: str) -> str:
    """A password as Mosquitto 2 keeps it: $7$iterations$salt$hash."""
    salt = b"salt-of-twelve"[:12]
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, 101, 64)
    return f"$7$101${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"
