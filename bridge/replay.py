"""The replay of retained reports: exact topics, a batch at a time.

A broker drops what goes beyond about a thousand retained messages of one subscription, without a
word. So each batch is followed by a probe to ourselves, and its echo starts the next.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from nodecast.messages import Probe, encode
from nodecast.names import NodeName
from nodecast.session import Subscription
from nodecast.topics import Topics

_BATCH = 200


class Replay:
    """What is still to be replayed in this connection. One owner thread."""

    def __init__(self, topics: Topics, instance: str) -> None:
        self._topics = topics
        self._instance = instance
        self._left: list[NodeName] = []
        self._probes = itertools.count()
        self.probe = b""

    def start(self, nodes: Iterable[NodeName]) -> None:
        """A new connection: everything is replayed."""
        self._left = sorted(nodes, reverse=True)

    def next_batch(self) -> list[Subscription]:
        """The next topics, and a new `probe` that goes after them."""
        self.probe = encode(Probe(instance=self._instance, replay=next(self._probes)))
        batch, self._left = self._left[-_BATCH:], self._left[:-_BATCH]
        return [Subscription(self._topics.status(node)) for node in reversed(batch)]

    def echoed(self, payload: bytes) -> bool:
        """Whether this is the echo that was waited for."""
        return payload == self.probe
