"""The replay of retained reports: exact topics, a batch at a time.

A node is sent nothing in a connection before its own last word was heard: it may belong to another
bridge by now, or have a version that this one never gave. A broker drops what goes beyond about a
thousand retained messages of one subscription, without a word; so each batch is followed by a probe
to ourselves, and its echo starts the next. An echo that does not come was dropped itself, and some
reports with it: its batch is asked for again, in halves.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Set

from nodecast.messages import Probe, encode
from nodecast.names import NodeName
from nodecast.session import Subscription
from nodecast.topics import Topics

_BATCH = 200


class Replay:
    """What was heard in this connection, and what is still to be. One owner thread.

    `heard`: the nodes whose retained report has come, if there is one. `probe`: what is to be sent
    to ourselves once the batch under way is subscribed to.
    """

    def __init__(self, topics: Topics, instance: str) -> None:
        self._topics = topics
        self._instance = instance
        self._asked: set[NodeName] = set()
        self._left: list[NodeName] = []
        self._batch: tuple[NodeName, ...] = ()
        self._size = _BATCH
        self._probes = itertools.count()
        self.heard: set[NodeName] = set()
        self.probe = b""

    def reset(self) -> None:
        """A new connection: nothing was heard in it."""
        self._asked.clear()
        self._left.clear()
        self._batch = ()
        self.heard = set()
        self.probe = b""

    def want(self, nodes: Set[NodeName]) -> None:
        """All of these are to be heard."""
        if len(nodes) > len(self._asked):  # nodes only ever come
            new = sorted(nodes - self._asked, reverse=True)
            self._left = new + self._left
            self._asked.update(new)

    @property
    def under_way(self) -> bool:
        """Whether the echo after a batch is still to come."""
        return bool(self._batch)

    def next_batch(self) -> list[Subscription]:
        """The next topics, with a new `probe` to go after them; none while a batch is under way."""
        if self._batch or not self._left:
            return []
        self.probe = encode(Probe(instance=self._instance, replay=next(self._probes)))
        self._batch = tuple(reversed(self._left[-self._size :]))
        del self._left[-self._size :]
        return [Subscription(self._topics.status(node)) for node in self._batch]

    def echoed(self, payload: bytes) -> bool:
        """Whether this is the echo that was waited for: the batch was heard."""
        if not self._batch or payload != self.probe:
            return False
        self._hear(self._batch)
        return True

    def again(self) -> int:
        """The echo did not come: the batch goes again, in halves; how many nodes are in it."""
        size = len(self._batch)
        self._left += reversed(self._batch)
        self._batch = ()
        self._size = max(1, size // 2)
        return size

    def give_up(self) -> None:
        """The broker lets us hear nothing: what was asked for counts as heard."""
        self._hear((*self._batch, *self._left))
        self._left.clear()

    def _hear(self, nodes: Iterable[NodeName]) -> None:
        self.heard = self.heard.union(nodes)
        self._batch = ()
