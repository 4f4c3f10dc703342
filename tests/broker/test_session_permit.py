"""A session sends while it may: the question is asked before every write, on a real socket."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from nodecast.session import Lost, MqttSettings, Session
from nodecast.session.connection import connect
from tests.support.mosquitto import Broker
from tests.support.mqtt import Observer
from tests.support.sessions import Owner, message
from tests.support.wait import eventually

pytestmark = pytest.mark.broker


class Permit:
    """Says yes until a test says no."""

    def __init__(self) -> None:
        self.given = True

    def __call__(self) -> bool:
        return self.given


@pytest.fixture
def permit() -> Permit:
    return Permit()


@pytest.fixture
def permitted(broker: Broker, permit: Permit) -> Iterator[Owner]:
    """A session that is connected."""
    settings = MqttSettings(url=broker.url, reconnect_min=0.05, reconnect_max=0.5)
    session = Session(settings, "tested", will=lambda: None, permit=permit)
    owner = Owner(session)
    owner.until(lambda: session.connected)
    yield owner
    session.close(0.0)


def come_through(observer: Observer) -> list[str]:
    """The topics of all that the broker has taken up to now."""
    observer.publish("barrier", b"", retain=False)
    eventually(lambda: observer.of("barrier"), what="the observer has seen all before it")
    return [seen.topic for seen in observer.messages if seen.topic != "barrier"]


def test_what_is_published_without_a_permit_is_lost_and_never_sent(
    permitted: Owner, permit: Permit, observer: Observer
) -> None:
    permitted.session.publish(message("before"), "before")
    eventually(lambda: permitted.pump() or observer.of("before"))
    permit.given = False
    permitted.session.publish(message("after"), "after")
    lost = permitted.next(Lost)
    assert lost.unacknowledged == ("after",)
    assert "nothing may be sent now" in lost.reason
    assert come_through(observer) == ["before"]


def test_it_connects_again_once_it_may(
    permitted: Owner, permit: Permit, observer: Observer
) -> None:
    permit.given = False
    permitted.session.publish(message("after"), "after")
    permitted.next(Lost)
    permit.given = True
    permitted.until(lambda: permitted.session.connected)
    permitted.session.publish(message("again"), "again")
    eventually(lambda: permitted.pump() or observer.of("again"))
    assert come_through(observer) == ["again"]


def test_goodbyes_need_a_permit_too(permitted: Owner, permit: Permit, broker: Broker) -> None:
    permit.given = False
    permitted.session.disconnect("on purpose")
    permitted.next(Lost)
    eventually(lambda: "tested closed its connection" in broker.log or "error" in broker.log)
    assert "tested disconnected" not in broker.log


def test_an_abort_resets_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        link = connect(MqttSettings(url=f"mqtt://127.0.0.1:{port}"), "tested", None)
        peer, _ = listener.accept()
        with peer:
            peer.settimeout(10)
            link.abort()
            with pytest.raises(ConnectionResetError):
                peer.recv(1)
