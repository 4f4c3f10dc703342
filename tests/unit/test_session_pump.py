"""The session's own rules, on links without a broker and a clock that a test moves."""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from nodecast.errors import SessionError, ThreadDied
from nodecast.session import (
    Acknowledged,
    Connected,
    Lost,
    MqttSettings,
    Outgoing,
    Refused,
    Session,
    Subscribed,
    Subscription,
    wire_size,
)
from nodecast.session.limits import RETRY_AFTER, Sign
from nodecast.session.link import Granted
from tests.support.links import Clock, FakeLink, FakeNetwork
from tests.support.sessions import Owner, message
from tests.support.wait import eventually


class Highest(random.Random):
    """Always the longest pause, so that a test knows it."""

    def uniform(self, a: float, b: float) -> float:
        return max(a, b)


class Stage:
    """A session with everything around it in a test's hands."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.network = FakeNetwork()
        self.will: Outgoing | None = None
        self.permit = True
        self.session = Session(
            MqttSettings(window=3),
            "tested",
            will=lambda: self.will,
            permit=lambda: self.permit,
            clock=self.clock,
            rng=Highest(),
            connect=self.network.connect,
        )
        self.owner = Owner(self.session, timeout=0)

    def poll(self) -> None:
        self.owner.pump()

    def up(self, limit: int | None = None, window: int = 100) -> FakeLink:
        """A new connection, once its pause is over."""
        link = self.network.link()
        link.accept(limit, window)
        self.clock.now += 121
        self.owner.until(lambda: self.session.connected)
        return link

    def down(self, link: FakeLink, sign: Sign = Sign.CLOSED, reason: str = "gone") -> Lost:
        link.end(sign, reason)
        return self.owner.next(Lost)

    def attempted(self, times: int) -> bool:
        """Whether so many attempts came and their outcomes were taken."""
        self.poll()
        return self.network.attempts == times and not self.session._connector.busy


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.session.close(made.clock.now)


def test_the_first_connection_is_tried_at_once(stage: Stage) -> None:
    link = stage.network.link()
    link.accept(limit=5000, window=2)
    connected = stage.owner.next(Connected)
    assert connected == Connected(5000, 2)
    assert stage.session.limit == 5000
    assert stage.session.free == 2


def test_the_own_window_counts_where_the_broker_takes_more(stage: Stage) -> None:
    stage.up(window=100)
    assert stage.session.free == 3


def test_a_poll_without_events_returns_while_the_resolver_hangs() -> None:
    answer = threading.Event()

    def hang(*_: object) -> FakeLink:
        answer.wait()
        raise SessionError("no such host")

    session = Session(MqttSettings(), "tested", will=lambda: None, connect=hang)
    assert session.poll(0.05) == []  # or never
    session.close(time.monotonic())
    answer.set()


def test_wake_ends_a_poll_from_another_thread() -> None:
    session = Session(MqttSettings(), "tested", will=lambda: None, connect=FakeNetwork().connect)
    threading.Timer(0.05, session.wake).start()
    session.poll(math.inf)  # it returns, or never does
    session.close(time.monotonic())


def test_a_wake_before_the_poll_is_not_lost() -> None:
    session = Session(MqttSettings(), "tested", will=lambda: None, connect=FakeNetwork().connect)
    session.wake()
    session.poll(math.inf)  # it returns, or never does
    session.close(time.monotonic())


def test_publishing_needs_a_connection(stage: Stage) -> None:
    assert stage.session.free == 0
    with pytest.raises(SessionError, match="not connected"):
        stage.session.publish(message("a"), 1)
    with pytest.raises(SessionError, match="not connected"):
        stage.session.subscribe([Subscription("a")], 1)


def test_no_more_than_the_window_is_in_flight(stage: Stage) -> None:
    link = stage.up()
    messages = [message(f"t/{i}") for i in range(5)]
    for token, each in enumerate(messages):
        stage.session.publish(each, token)
    stage.poll()
    assert list(link.sent.values()) == messages[:3]
    assert stage.session.free == 0
    link.answer(messages[1])
    assert stage.owner.next(Acknowledged) == Acknowledged(1)
    stage.poll()
    assert list(link.sent.values()) == messages[:4]


def test_nobody_subscribed_is_success_and_no_right_is_refused(stage: Stage) -> None:
    link = stage.up()
    first, second = message("a"), message("b")
    stage.session.publish(first, "first")
    stage.session.publish(second, "second")
    stage.poll()
    link.answer(first, 0x10)
    link.answer(second, 0x87)
    assert stage.owner.next(Acknowledged) == Acknowledged("first")
    assert stage.owner.of(Refused) == [Refused("second", "no", 0x87, too_large=False)]


def test_lost_names_what_flew_and_what_was_queued(stage: Stage) -> None:
    link = stage.up()
    for token in range(5):
        stage.session.publish(message(f"t/{token}"), token)
    stage.poll()
    assert stage.down(link) == Lost("gone", (0, 1, 2, 3, 4))
    assert link.dropped
    assert stage.session.free == 0


def test_nothing_is_sent_again_on_the_next_connection(stage: Stage) -> None:
    link = stage.up()
    stage.session.publish(message("a"), 1)
    stage.poll()
    stage.down(link)
    again = stage.up()
    stage.poll()
    assert again.sent == {}


def test_the_first_reason_of_an_end_counts(stage: Stage) -> None:
    link = stage.up()
    link.end(Sign.UNRELATED, "keep alive")
    link.end(Sign.CLOSED, "closed")
    stage.owner.next(Lost)
    assert [lost.reason for lost in stage.owner.of(Lost)] == ["keep alive"]


def test_a_publish_between_the_end_and_its_lost_is_named_in_it(stage: Stage) -> None:
    link = stage.up()
    flown = message("a")
    stage.session.publish(flown, 1)
    stage.poll()
    link.answer(flown)
    link.end()
    stage.owner.next(Acknowledged)
    assert stage.session.connected
    stage.session.publish(message("b"), 2)
    stage.session.subscribe([Subscription("c")], 3)
    assert stage.owner.next(Lost).unacknowledged == (2,)
    assert not stage.session.connected


def test_above_the_limit_is_answered_without_sending(stage: Stage) -> None:
    link = stage.up(limit=1000)
    stage.session.publish(message("a", 2000), "large")
    stage.session.publish(message("b", 20), "small")
    refused = stage.owner.next(Refused)
    assert (refused.token, refused.code, refused.too_large) == ("large", 0x95, True)
    assert [sent.topic for sent in link.sent.values()] == ["b"]


def test_a_large_subscribe_goes_in_parts_and_is_answered_once(stage: Stage) -> None:
    link = stage.up(limit=200)
    filters = [f"node/edge-{i:02d}/status" for i in range(20)]
    stage.session.subscribe([Subscription(each) for each in filters], "all")
    parts = dict(link.subscribed)
    assert len(parts) > 1
    assert [each.filter for part in parts.values() for each in part] == filters
    for mid, part in parts.items():
        assert stage.owner.of(Subscribed) == []
        link.happened.append(
            Granted(mid, tuple(0x87 if p.filter == filters[3] else 1 for p in part))
        )
        stage.poll()
    assert stage.owner.of(Subscribed) == [Subscribed("all", (filters[3],))]


def test_a_subscribe_to_nothing_is_answered(stage: Stage) -> None:
    stage.up()
    stage.session.subscribe([], "none")
    assert stage.owner.next(Subscribed) == Subscribed("none", ())


def test_pauses_grow_while_nobody_listens(stage: Stage) -> None:
    stage.owner.until(lambda: stage.attempted(1))
    for attempt, pause in enumerate([1, 2, 4, 8], start=1):
        stage.clock.now += pause - 0.1
        assert stage.attempted(attempt)
        stage.clock.now += 0.1
        stage.owner.until(lambda wanted=attempt + 1: stage.attempted(wanted))  # type: ignore[misc]


def test_a_mere_connack_does_not_start_the_pauses_anew(stage: Stage) -> None:
    for _ in range(6):
        stage.down(stage.up(), Sign.UNRELATED)
    before = stage.network.attempts
    stage.clock.now += 31
    stage.poll()
    assert stage.network.attempts == before


def test_an_acknowledgement_starts_the_pauses_anew(stage: Stage) -> None:
    for _ in range(6):
        stage.down(stage.up(), Sign.UNRELATED)
    link = stage.up()
    each = message("a")
    stage.session.publish(each, 1)
    stage.poll()
    link.answer(each)
    stage.poll()
    stage.down(link, Sign.UNRELATED)
    before = stage.network.attempts
    stage.clock.now += 1
    stage.owner.until(lambda: stage.attempted(before + 1))


def test_two_clients_with_one_id_are_named_and_slow_each_other_down(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    pauses = []
    for _ in range(6):
        link = stage.up()
        stage.session.subscribe([Subscription("a")], 1)
        link.happened.append(Granted(1, (1,)))
        stage.owner.next(Subscribed)
        stage.down(link, Sign.CLOSED)
        pauses.append(stage.session._reconnect.due - stage.clock.now)
    assert pauses == [1, 2, 4, 8, 16, 32]
    assert "same client id" in caplog.text


def test_a_takeover_that_is_said_is_named_at_once(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.down(stage.up(), Sign.TAKEN_OVER)
    assert "same client id" in caplog.text


def test_a_refused_login_waits_long_and_is_said_once(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    for attempt in range(1, 4):
        stage.network.link().refuse(0x86, "Bad user name or password")
        stage.clock.now += 121
        stage.owner.until(lambda wanted=attempt: stage.attempted(wanted))  # type: ignore[misc]
        stage.owner.until(lambda: stage.session._link is None)
        assert stage.session._reconnect.due - stage.clock.now >= 60
    assert [r.levelno for r in caplog.records].count(logging.ERROR) == 1
    assert stage.owner.events == []


def test_the_last_failure_is_kept_until_there_is_a_connection(stage: Stage) -> None:
    assert stage.session.failure is None
    stage.owner.until(lambda: stage.attempted(1))
    assert stage.session.failure == "nobody listens"
    stage.network.link().refuse(0x86, "Bad user name or password")
    stage.clock.now += 121
    stage.owner.until(lambda: stage.attempted(2))
    stage.owner.until(lambda: stage.session._link is None)
    assert stage.session.failure == "the broker refused the connection: Bad user name or password"
    link = stage.up()
    assert stage.session.failure is None
    stage.down(link, reason="keep alive")
    assert stage.session.failure == "keep alive"


def test_no_connack_in_time_is_a_failed_attempt(stage: Stage) -> None:
    link = stage.network.link()
    stage.owner.until(lambda: stage.session._link is link)
    stage.clock.now += 9.9
    stage.poll()
    assert not link.dropped
    stage.clock.now += 0.1
    stage.poll()
    assert link.dropped
    assert stage.owner.events == []


def test_a_message_that_kills_alone_is_refused_and_the_others_go_on(stage: Stage) -> None:
    link = stage.up()
    stage.session.publish(message("small"), "small")
    stage.session.publish(message("poison", 9000), "poison")
    stage.poll()
    assert stage.down(link, Sign.TOO_LARGE).unacknowledged == ("small", "poison")

    link = stage.up()
    small, poison = message("small"), message("poison", 9000)
    stage.session.publish(poison, "poison")
    stage.session.publish(small, "small")
    stage.poll()
    assert list(link.sent.values()) == [small]
    link.answer(small)
    stage.poll()
    stage.poll()
    assert list(link.sent.values()) == [small, poison]
    assert stage.down(link, Sign.TOO_LARGE).unacknowledged == ()
    refused = stage.owner.of(Refused)
    assert [(r.token, r.too_large) for r in refused] == [("poison", True)]
    assert stage.session.limit == wire_size(poison) - 1


def test_a_learnt_limit_is_tried_again_after_an_hour(stage: Stage) -> None:
    link = stage.up()
    stage.session.publish(message("poison", 9000), 1)
    stage.poll()
    stage.down(link, Sign.TOO_LARGE)
    link = stage.up()
    stage.session.publish(message("poison", 9000), 2)
    stage.owner.next(Refused)
    assert link.sent == {}
    stage.clock.now += RETRY_AFTER
    stage.session.publish(message("poison", 9000), 3)
    stage.poll()
    assert len(link.sent) == 1


def test_a_link_that_flaps_teaches_nothing(stage: Stage) -> None:
    for turn in range(40):
        link = stage.up()
        for each in (message("a", 300), message(f"b/{turn}", 4000 + turn)):
            stage.session.publish(each, each.topic)
            stage.poll()
            if stage.session.free < 3 and turn % 3:
                link.answer(each) if each in link.sent.values() else None
            stage.poll()
        stage.clock.now += 6.0
        stage.down(link, Sign.CLOSED)
    assert stage.session.limit is None
    assert stage.owner.of(Refused) == []


def test_disconnect_leaves_without_a_will_and_comes_back(stage: Stage) -> None:
    link = stage.up()
    stage.session.publish(message("a"), 1)
    stage.session.disconnect("the lease is lost")
    assert link.left
    assert link.dropped
    assert stage.owner.next(Lost) == Lost("the lease is lost", (1,))
    stage.up()


def test_close_sends_what_is_queued_and_leaves(stage: Stage) -> None:
    link = stage.up()
    last = message("state")
    stage.session.publish(last, 1)
    stage.session.close(stage.clock.now + 1)
    assert list(link.sent.values()) == [last]
    assert link.left
    assert link.dropped
    with pytest.raises(SessionError, match="closed"):
        stage.session.poll(0)
    stage.session.wake()


def test_a_link_that_comes_after_close_is_dropped() -> None:
    asked, answer = threading.Event(), threading.Event()
    link = FakeLink()

    def slow(*_: object) -> FakeLink:
        asked.set()
        answer.wait(10)
        return link

    session = Session(MqttSettings(), "tested", will=lambda: None, connect=slow)
    session.poll(0)
    assert asked.wait(10)
    session.close(time.monotonic())
    answer.set()
    for thread in threading.enumerate():
        if thread.name == "mqtt-connect":
            thread.join(10)
    assert link.dropped


class Resolver:
    """Attempts to connect stand still in it until it is woken."""

    def __init__(self, stage: Stage) -> None:
        self.awake = threading.Event()
        self.attempts = 0
        self.stage = stage
        self._connect = stage.network.connect
        stage.network.connect = self.connect  # type: ignore[method-assign]
        stage.session._connector._connect = self.connect

    def connect(self, *arguments: Any) -> FakeLink:
        self.attempts += 1
        if not self.awake.is_set():
            self.awake.wait()
        return self._connect(*arguments)

    def hang_once(self) -> None:
        """The next attempt begins, and is given up."""
        before = self.attempts
        self.stage.clock.now += 1000
        self.stage.owner.until(lambda: self.attempts > before)
        self.stage.clock.now += 1000
        self.stage.poll()


@pytest.fixture
def resolver(stage: Stage) -> Iterator[Resolver]:
    made = Resolver(stage)
    yield made
    made.awake.set()


def test_an_attempt_that_hangs_is_left_behind_and_another_one_succeeds(
    stage: Stage, resolver: Resolver
) -> None:
    late, good = stage.network.link(), stage.network.link()
    late.accept()
    good.accept()
    resolver.hang_once()
    assert stage.session.failure is not None
    assert "an attempt to connect hangs, for 160 s by now" in stage.session.failure
    resolver.awake.set()
    eventually(lambda: len(stage.network.wills) == 1, what="the one that hung has its link")
    eventually(lambda: late.dropped, what="nobody wants it any more")
    stage.clock.now += 1000
    stage.owner.until(lambda: stage.session.connected)
    assert not good.dropped


def test_an_attempt_has_its_time(stage: Stage, resolver: Resolver) -> None:
    stage.clock.now += 1000
    stage.owner.until(lambda: resolver.attempts == 1)
    stage.clock.now += 159
    stage.poll()
    assert stage.session.failure is None


def test_where_every_attempt_hangs_the_process_starts_anew(resolver: Resolver) -> None:
    for _ in range(5):
        resolver.hang_once()
    with pytest.raises(ThreadDied, match="6 attempts to connect hang"):
        resolver.hang_once()


def test_the_will_is_asked_before_each_connection(stage: Stage) -> None:
    stage.will = message("first")
    stage.down(stage.up())
    stage.will = message("second")
    stage.up()
    assert [will and will.topic for will in stage.network.wills] == ["first", "second"]


def test_an_unexpected_error_while_connecting_ends_the_owner_loudly(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def connect(*_: object) -> FakeLink:
        raise ZeroDivisionError("a bug")

    session = Session(MqttSettings(), "tested", will=lambda: None, connect=connect)
    with pytest.raises(ThreadDied, match="mqtt-connect"):
        Owner(session).until(lambda: session.connected)
    assert "a bug" in caplog.text
    session.close(time.monotonic())


def test_a_connection_that_the_owner_gives_up_again_and_again_comes_at_growing_pauses(
    stage: Stage,
) -> None:
    pauses = []
    for _ in range(4):
        link = stage.up()
        stage.session.publish(message("a"), "a")
        stage.poll()
        link.answer(link.sent[1])
        stage.owner.next(Acknowledged)
        stage.session.disconnect("of no use")
        stage.owner.next(Lost)
        pauses.append(stage.session._reconnect.due - stage.clock.now)
    assert pauses == [1.0, 2.0, 4.0, 8.0]


def test_an_answer_is_late_by_the_time_it_has_been_the_next_to_come(stage: Stage) -> None:
    """A full window on a slow link is not late as long as it moves."""
    link = stage.up()
    messages = [message(f"t/{i}") for i in range(3)]
    for token, each in enumerate(messages):
        stage.session.publish(each, token)
    stage.poll()
    for token, each in enumerate(messages):
        stage.clock.now += 119
        stage.poll()
        link.answer(each)
        assert stage.owner.next(Acknowledged) == Acknowledged(token)
    stage.session.publish(message("late"), "late")
    stage.poll()
    stage.clock.now += 119
    stage.poll()
    assert stage.session.connected
    stage.clock.now += 1
    lost = stage.owner.next(Lost)
    assert "did not answer" in lost.reason
    assert lost.unacknowledged == ("late",)


def test_an_answer_behind_a_large_message_that_still_comes_in_is_not_late(stage: Stage) -> None:
    link = stage.up()
    stage.session.publish(message("a"), "a")
    stage.session.subscribe([Subscription("b")], "b")
    for _ in range(30):
        stage.clock.now += 9
        link.received_a_part_at = stage.clock.now
        stage.poll()
    assert stage.session.connected
    stage.clock.now += 10
    assert stage.owner.next(Lost).unacknowledged == ("a",)


def test_a_packet_that_comes_in_for_ever_does_not_hold_up_an_answer_for_ever(stage: Stage) -> None:
    link = stage.up()
    stage.session.publish(message("a"), "a")
    stage.poll()
    begun = stage.clock.now
    while not stage.owner.of(Lost):
        stage.clock.now += 9
        link.received_a_part_at = stage.clock.now
        stage.poll()
        assert stage.clock.now < begun + 2 * 3600


def test_a_link_without_anything_to_answer_stays(stage: Stage) -> None:
    link = stage.up()
    stage.session.publish(message("a"), "a")
    stage.session.subscribe([Subscription("b")], "b")
    stage.poll()
    (sent,) = link.sent.values()
    link.answer(sent)
    (asked,) = link.subscribed
    link.happened.append(Granted(asked, (1,)))
    stage.poll()
    stage.clock.now += 100_000
    stage.poll()
    assert stage.session.connected


def test_connections_that_do_not_last_come_at_growing_pauses_though_each_proved_itself(
    stage: Stage,
) -> None:
    """A broker that throws us out as soon as we say much: 0x96, 0x97, an administrator."""
    pauses = []
    for lived in (1, 1, 1, 1, 31):
        link = stage.up()
        each = message("a")
        stage.session.publish(each, 1)
        stage.poll()
        link.answer(each)
        stage.owner.next(Acknowledged)
        stage.clock.now += lived
        stage.down(link, Sign.UNRELATED)
        pauses.append(stage.session._reconnect.due - stage.clock.now)
    assert pauses == [1.0, 2.0, 4.0, 8.0, 1.0]


# -- permit


def test_without_a_permit_no_connection_is_begun(stage: Stage) -> None:
    stage.permit = False
    stage.network.link()
    stage.clock.now += 1000
    stage.poll()
    stage.poll()
    assert stage.network.attempts == 0
    stage.permit = True
    stage.owner.until(lambda: stage.network.attempts == 1)


def test_a_connection_that_came_about_after_the_permit_was_gone_is_dropped(stage: Stage) -> None:
    link = stage.network.link()
    link.accept()
    stage.owner.until(lambda: stage.network.attempts == 1)
    stage.permit = False
    eventually(lambda: stage.poll() or link.dropped)
    assert not stage.session.connected


def test_a_cut_aborts_the_connection_and_gives_what_was_not_acknowledged(stage: Stage) -> None:
    link = stage.up()
    stage.session.publish(message("a"), "a")
    stage.poll()
    stage.session.cut("the lease is lost")
    lost = stage.owner.next(Lost)
    assert (lost.reason, lost.unacknowledged) == ("the lease is lost", ("a",))
    assert (link.aborted, link.left) == (True, False)


def test_a_cut_without_a_connection_is_nothing(stage: Stage) -> None:
    stage.session.cut("the lease is lost")
    stage.poll()
    assert stage.owner.of(Lost) == []
