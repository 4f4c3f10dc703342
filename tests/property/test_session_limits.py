"""Whatever a broker takes: all that fits is delivered, and only what does not is refused.

The broker here answers each packet in order, and ends the connection at the first that is too
large for it, with a sign or without; links also die for reasons of their own.
"""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from nodecast.session.events import Acknowledged, Refused
from nodecast.session.limits import SMALLEST_BY_CLOSE, Sign
from nodecast.session.link import Answered
from nodecast.session.packets import wire_size
from nodecast.session.sending import Sending
from tests.support.links import Clock, FakeLink
from tests.support.sessions import message

TURNS = 300


class Run:
    """Messages on their way to a broker that takes `limit` bytes a packet."""

    def __init__(self, bodies: list[int], limit: int, sign: Sign, rng: random.Random) -> None:
        self.messages = {f"t/{i}": message(f"t/{i}", size) for i, size in enumerate(bodies)}
        self.limit = limit
        self.sign = sign
        self.rng = rng
        self.clock = Clock()
        self.sending = Sending(10, 0, self.clock)
        self.taken: set[object] = set()
        self.refused: set[object] = set()

    @property
    def waiting(self) -> list[str]:
        return [topic for topic in self.messages if topic not in self.taken | self.refused]

    def connection(self) -> None:
        """One connection, from its CONNACK to its end or to the end of the work."""
        link = FakeLink()
        self.sending.connected(None, 100)
        self._settle(self.sending.offer(message("state", 1), "birth"))
        unread = self._answer(link, 0)
        given: set[str] = set()
        while self.waiting and unread is not None:
            for topic in self.waiting:
                if topic not in given and self.sending.free:
                    given.add(topic)
                    self._settle(self.sending.offer(self.messages[topic], topic))
            if self.rng.random() < 0.1:
                return self._died(link, Sign.UNRELATED)
            unread = self._answer(link, unread)
        if unread is None:
            return self._died(link, self.sign)
        return link.drop()

    def _answer(self, link: FakeLink, answered: int) -> int | None:
        """Let the broker read what is sent now; None: it ended the connection."""
        self.sending.send(link, self.clock.now)
        for mid in range(answered + 1, len(link.sent) + 1):
            if wire_size(link.sent[mid]) > self.limit:
                return None
            self._settle(self.sending.answered(Answered(mid, 0, ""), 0.0))
        return len(link.sent)

    def _died(self, link: FakeLink, sign: Sign) -> None:
        link.drop()
        _, withheld = self.sending.died(sign, proved=True, now=self.clock.now)
        self._settle(withheld)

    def _settle(self, event: Acknowledged | Refused | None) -> None:
        if isinstance(event, Acknowledged):
            self.taken.add(event.token)
        elif isinstance(event, Refused):
            self.refused.add(event.token)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(0, 40_000), min_size=1, max_size=25),
    st.integers(SMALLEST_BY_CLOSE, 32_000),
    st.sampled_from([Sign.TOO_LARGE, Sign.CLOSED]),
    st.integers(),
)
def test_what_fits_is_delivered_and_only_what_does_not_is_refused(
    bodies: list[int], limit: int, sign: Sign, seed: int
) -> None:
    run = Run(bodies, limit, sign, random.Random(seed))
    turns = 0
    while run.waiting:
        turns += 1
        assert turns < TURNS, "the messages never settle"
        run.connection()
        assert run.sending.limit is None or run.sending.limit >= limit
    too_large = {topic for topic, each in run.messages.items() if wire_size(each) > limit}
    assert run.refused == too_large
