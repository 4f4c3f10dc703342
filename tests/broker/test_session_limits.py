"""The session against a broker that takes only so much, and says so or does not."""

from __future__ import annotations

import pytest

from nodecast.session import Acknowledged, Connected, Lost, Outgoing, Refused
from tests.support.mosquitto import Broker
from tests.support.mqtt import observing
from tests.support.sessions import Owner, message, owner
from tests.support.wait import eventually

pytestmark = pytest.mark.broker


def deliver(tested: Owner, messages: dict[str, Outgoing], within: float = 20.0) -> list[str]:
    """Publish until each is acknowledged or refused, again after each loss; the refused ones."""
    settled: dict[str, bool] = {}
    given: set[str] = set()
    seen = len(tested.events)

    def step() -> bool:
        nonlocal seen
        tested.pump()
        for event in tested.events[seen:]:
            if isinstance(event, Acknowledged | Refused):
                settled[str(event.token)] = isinstance(event, Acknowledged)
            elif isinstance(event, Lost):
                given.clear()
        seen = len(tested.events)
        for topic, each in messages.items():
            if topic not in settled and topic not in given and tested.session.free:
                given.add(topic)
                tested.session.publish(each, topic)
        return len(settled) == len(messages)

    eventually(step, within, every=0.0, what="every message is answered")
    return sorted(topic for topic, taken in settled.items() if not taken)


def test_a_limit_that_the_broker_says_is_kept_without_a_lost_connection(broker: Broker) -> None:
    broker.config = "max_packet_size 2000"
    broker.restart()
    with owner(broker.url) as tested:
        messages = {"large": message("large", 3000), "small": message("small", 1000)}
        assert tested.next(Connected).limit == 2000
        assert deliver(tested, messages) == ["large"]
        assert tested.of(Lost) == []


@pytest.mark.parametrize("large", [1, 3])
def test_a_limit_that_the_broker_does_not_say_is_learnt(broker: Broker, large: int) -> None:
    broker.config = "message_size_limit 2000"
    broker.restart()
    messages = {f"small/{i}": message(f"small/{i}", 900 + i) for i in range(100)}
    messages |= {f"large/{i}": message(f"large/{i}", 4000 + i) for i in range(large)}
    with owner(broker.url) as tested:
        refused = deliver(tested, dict(sorted(messages.items())))
        assert refused == sorted(f"large/{i}" for i in range(large))
        assert len(tested.of(Lost)) <= 3
        limit = tested.session.limit
        assert limit is not None
        assert 2000 < limit < 4100
    expected = {topic for topic in messages if topic.startswith("small")}
    with observing(broker.port) as observer:
        eventually(lambda: set(observer.retained) == expected)


def test_a_limit_that_shrinks_while_the_broker_restarts_is_learnt_anew(broker: Broker) -> None:
    with owner(broker.url) as tested:
        assert deliver(tested, {"a": message("a", 9000)}) == []
        broker.config = "message_size_limit 2000"
        broker.restart()
        tested.next(Lost)
        messages = {"a": message("a", 8000), "b": message("b", 500), "c": message("c", 1500)}
        assert deliver(tested, messages) == ["a"]


def test_ops_of_one_topic_keep_their_order_around_one_that_is_too_large(broker: Broker) -> None:
    broker.config = "message_size_limit 2000"
    broker.restart()
    sizes = [300, 1200, 5000, 350, 1900]
    with observing(broker.port) as observer, owner(broker.url) as tested:
        waiting = list(range(len(sizes)))
        refused: list[int] = []
        seen = 0
        given = False

        def step() -> bool:
            nonlocal seen, given
            tested.pump()
            for event in tested.events[seen:]:
                if isinstance(event, Acknowledged | Refused):
                    waiting.remove(event.token)  # type: ignore[arg-type]
                    if isinstance(event, Refused):
                        refused.append(event.token)  # type: ignore[arg-type]
                elif isinstance(event, Lost):
                    given = False
            seen = len(tested.events)
            if not given and tested.session.free >= len(waiting):
                given = True
                for op in waiting:
                    body = b"%d" % op + b" " * sizes[op]
                    tested.session.publish(Outgoing("ops", body, False), op)
            return not waiting

        eventually(step, within=20, every=0.0)
        assert refused == [2]

        def order() -> list[int]:
            """The ops by their last appearance: what was sent again came again in order."""
            ops = [int(each.payload.split()[0]) for each in observer.of("ops")]
            last = {op: index for index, op in enumerate(ops)}
            return sorted(last, key=lambda op: last[op])

        eventually(lambda: order() == [0, 1, 3, 4], what="the ops arrive in order")
