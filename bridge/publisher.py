"""The publisher: dirty nodes in, snapshots out, latest state wins.

No thread, no socket, no clock: the bridge's loop calls it with the monotonic time and a port. What
always holds: a node has at most one snapshot in flight; a node whose name is not in the
acknowledged ledger gets none; a version is given only to content that differs from the last; memory
is bounded by the number of nodes, however long the broker is away.

A node waits in exactly one way at a time: `_ready` (look at it now), `_wakes` (at a time),
`_blocked` (until something is listed or the node is open), or in flight. Beside that a node may be
owed the version that it should have already: then it waits in `_repairs`, paced, or for its own
time as above.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from typing import Protocol

from bridge.catalog import Catalog
from bridge.contents import Content
from bridge.holding import Holding
from bridge.nodes import NodeState
from bridge.pace import Pace
from bridge.settle import Settle
from bridge.tokens import SnapshotToken
from bridge.writer import SnapshotWriter
from nodecast.backoff import Backoff
from nodecast.log import Repeats, logger
from nodecast.messages import NONE, Version
from nodecast.names import KindName, NodeName, ResourceKey
from nodecast.session import Outgoing, Refused
from nodecast.wakes import Wakes

log = logger(__name__)


class Port(Protocol):
    """What the bridge needs of a session to publish."""

    @property
    def free(self) -> int: ...

    def publish(self, message: Outgoing, token: object) -> None: ...


@dataclass(frozen=True, slots=True)
class PublishPolicy:
    """`interval`: seconds between two snapshots of a node. `repair_rate`: nodes a second that
    are sent what they should have already. `refused`: pauses after a refused snapshot."""

    interval: float = 0.5
    repair_rate: float = 100.0
    refused: Backoff = field(default_factory=lambda: Backoff(first=2.0, most=300.0))


class Publisher:
    """See the module. `nodes` is everything known of the nodes, by name."""

    def __init__(
        self,
        catalog: Catalog,
        holding: Holding,
        settle: Settle,
        writer: SnapshotWriter,
        policy: PublishPolicy,
        rng: random.Random,
    ) -> None:
        self._catalog = catalog
        self._holding = holding
        self._settle = settle
        self._writer = writer
        self._policy = policy
        self._rng = rng
        self._pace = Pace(policy.repair_rate)
        self._said = Repeats()
        self._ready: dict[NodeName, None] = {}
        self._wakes: Wakes[NodeName] = Wakes()
        self._blocked: set[NodeName] = set()
        self._repairs: dict[NodeName, None] = {}
        self._foreign: set[NodeName] = set()
        self._omitted: dict[NodeName, tuple[ResourceKey, ...]] = {}
        self.nodes: dict[NodeName, NodeState] = {}
        self.epoch = 0
        self.acknowledgements = 0
        self.lists_wanted: dict[KindName, float] = {}
        """Kinds to be listed again, and the second after which that must be asked for."""

    @property
    def waiting(self) -> int:
        """How many nodes are to be looked at: now, at their time, or once something is known."""
        return len(self._ready) + len(self._wakes) + len(self._blocked)

    @property
    def foreign(self) -> Set[NodeName]:
        """The nodes that say that they are another bridge's."""
        return self._foreign

    def take_charge(self, epoch: int) -> None:
        """A new epoch: what was sent before it counts no more, since others may have spoken."""
        self.epoch = epoch
        self._ready, self._repairs, self._wakes = {}, {}, Wakes()
        self._blocked.clear()
        self._foreign.clear()
        self._said = Repeats()
        self.nodes = {node: NodeState(floor=old.floor) for node, old in self.nodes.items()}
        self.dirty(list(self.nodes))

    # -- what is to be done

    def dirty(self, nodes: Iterable[NodeName]) -> None:
        """The content of these nodes may have changed."""
        for node in nodes:
            state = self.nodes.get(node)
            if state is None:
                state = self.nodes[node] = NodeState()
            if state.in_flight:
                state.changed_in_flight = True
            else:
                self._ready[node] = None

    def again(self, nodes: Iterable[NodeName]) -> None:
        """These nodes are sent the version that they should have already."""
        for node in nodes:
            state = self.nodes.get(node)
            if state is None or state.content is None:
                self.dirty((node,))
            else:
                state.owed = True
                self._repairs[node] = None

    def renew(self, node: NodeName, floor: Version) -> None:
        """A node has `floor` from elsewhere: its next version must be greater, and comes now."""
        self.dirty((node,))
        state = self.nodes[node]
        state.floor, state.renew = max(state.floor, floor), True

    def expect(self, node: NodeName, floor: Version) -> None:
        """A node that was sent nothing yet has `floor`: what comes will be greater."""
        self.dirty((node,))
        state = self.nodes[node]
        state.floor = max(state.floor, floor)

    def withhold(self, node: NodeName) -> None:
        """A node that says it is another bridge's gets nothing, until it says that it is ours."""
        self._foreign.add(node)

    def release(self, node: NodeName) -> None:
        """A node says that it is ours."""
        if node in self._foreign:
            self._foreign.discard(node)
            self.dirty((node,))
            self.again((node,))

    def recheck(self) -> None:
        """Something was listed, released or acknowledged: who waited for that is looked at."""
        for node in self._blocked:
            self._ready[node] = None
        self._blocked.clear()

    # -- what the connection says

    def connected(self, limit: int | None) -> None:
        """A new connection, in charge: removals settle anew, and limits may be others."""
        changed = limit != self._writer.limit
        self._writer.limit = limit
        for node, state in self.nodes.items():
            state.leaving.clear()
            if changed or state.content is None:
                self.dirty((node,))

    def acknowledged(self, token: SnapshotToken) -> None:
        """The broker has a snapshot."""
        state = self.nodes[token.node]
        self.acknowledgements += 1
        state.acknowledgement = self.acknowledgements
        state.acknowledged = token.version
        if state.failures:
            count, state.failures, state.refusal = self._said.over(token.node), 0, ""
            log.info("the broker takes the node's snapshots again", node=token.node, refused=count)
        self._landed(token.node, state)

    def refused(self, token: SnapshotToken, event: Refused, now: float) -> None:
        """The broker does not take this node's snapshot: it goes again after a pause."""
        state = self.nodes[token.node]
        state.failures += 1
        state.refusal = event.reason
        if self._said.new(token.node, event.reason):
            log.error(
                "the broker refused a snapshot: other nodes are served; look at its ACL and limits",
                node=token.node,
                reason=event.reason,
                code=f"0x{event.code:02x}",
            )
        self._landed(token.node, state)
        state.owed = True
        state.not_before = now + self._policy.refused.pause(state.failures, self._rng)
        self._wakes.set(token.node, state.not_before)

    def limit_changed(self, limit: int | None) -> None:
        """Another size limit is known: what no longer fits, or now does, is worked out anew."""
        if limit != self._writer.limit:
            self._writer.limit = limit
            self.dirty(list(self.nodes))

    def lost(self, tokens: Iterable[object]) -> None:
        """The connection died with these under way: they may have arrived or not."""
        for token in tokens:
            if isinstance(token, SnapshotToken):
                self._landed(token.node, self.nodes[token.node])
                self.again((token.node,))

    def _landed(self, node: NodeName, state: NodeState) -> None:
        state.in_flight = False
        if state.changed_in_flight:
            state.changed_in_flight = False
            self._ready[node] = None

    # -- what goes out

    def pump(self, now: float, port: Port, open_nodes: Set[NodeName]) -> float:
        """Publish what may go now; the monotonic second at which more may (inf: on an event).

        `open_nodes`: those that may be sent anything. Changed nodes come before repairs.
        """
        self._ready.update(dict.fromkeys(self._wakes.due(now)))
        room = port.free
        while self._ready and room > 0:
            node = next(iter(self._ready))
            del self._ready[node]
            room -= self._consider(node, now, port, open_nodes)
        soonest = self._wakes.next_at
        if self._repairs and not self._ready:
            soonest = min(soonest, self._repair(now, port, open_nodes))
        return soonest

    def _consider(self, node: NodeName, now: float, port: Port, open_nodes: Set[NodeName]) -> bool:
        """Publish a node's new content, or find out what it waits for; whether it was sent."""
        state = self.nodes[node]
        if state.in_flight:
            state.changed_in_flight = True
            return False
        if not self._may_go(node, state, now, open_nodes):
            return False
        self._publish_if_due(node, state, now, port)
        if state.owed:
            self._repairs[node] = None
        return state.in_flight

    def _may_go(
        self, node: NodeName, state: NodeState, now: float, open_nodes: Set[NodeName]
    ) -> bool:
        """Whether a node may be sent something now; if not, it is looked at when it may."""
        at = max(state.sent_at + self._policy.interval, state.not_before)
        if node not in open_nodes or node in self._foreign:
            self._blocked.add(node)
        elif now < at:
            self._wakes.set(node, at)
        else:
            return True
        return False

    def _publish_if_due(self, node: NodeName, state: NodeState, now: float, port: Port) -> None:
        records = self._catalog.on_node(node)
        content = self._writer.content(node, records, self._holding.held)
        self._say_omitted(node, content)
        old = state.content
        if old is not None and old.digest == content.digest:
            state.leaving.clear()
            if state.renew and self._stamp(node, state, content):
                self._send(node, state, now, port)
            return
        verdict = self._settle.judge(state.leaving, old, content, now)
        for kind, listed_after in verdict.lists.items():
            after = self.lists_wanted.get(kind, -math.inf)
            self.lists_wanted[kind] = max(after, listed_after)
        if not verdict.go:
            self._blocked.add(node)  # what comes may be sooner than the time
            if verdict.at < math.inf:
                self._wakes.set(node, verdict.at)
        elif self._stamp(node, state, content):
            self._send(node, state, now, port)

    def _repair(self, now: float, port: Port, open_nodes: Set[NodeName]) -> float:
        """Send nodes what they should have already, paced; when the next one may go."""
        while self._repairs and port.free > 0:
            if (at := self._pace.next_at(now)) > now:
                return at
            node = next(iter(self._repairs))
            del self._repairs[node]
            state = self.nodes[node]
            if state.in_flight or state.content is None:
                state.owed = False  # what is under way, or comes first, is as good
            elif self._may_go(node, state, now, open_nodes):
                self._pace.take(now)
                self._send(node, state, now, port)
        return self._wakes.next_at

    def _stamp(self, node: NodeName, state: NodeState, content: Content) -> bool:
        try:
            state.stamp(content, self.epoch)
        except OverflowError as error:
            state.floor, state.renew = NONE, False  # served again once the node has forgotten it
            if self._said.new((node, "version"), str(error)):
                log.error(
                    "no version is left for the node: empty its agent's store",
                    node=node,
                    reason=str(error),
                )
            return False
        return True

    def _send(self, node: NodeName, state: NodeState, now: float, port: Port) -> None:
        content = state.content
        assert content is not None, "a node is sent only what was stamped"
        self._repairs.pop(node, None)
        state.in_flight, state.owed, state.sent_at = True, False, now
        port.publish(
            self._writer.message(node, state.version, content), SnapshotToken(node, state.version)
        )

    def _say_omitted(self, node: NodeName, content: Content) -> None:
        if not content.omitted:
            self._omitted.pop(node, None)
        elif self._omitted.get(node) != content.omitted:
            self._omitted[node] = content.omitted
            log.error(
                "too large for the broker, or nested too deep: left out of the node's snapshot, the"
                " node keeps what it has of them; make them smaller or raise the limit",
                node=node,
                omitted=", ".join(content.omitted),
                limit=self._writer.limit,
            )
