"""Reports in, nodes to look at out: what the bridge does about what nodes say they have.

A report of another bridge, or of another node than its topic says, is refused and shown. Any other
one makes its node known, counts what it names as placed where the ledger was lost, and is answered
as `reports` judges: with the node's version again, or with a greater one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from bridge.holding import Holding
from bridge.publisher import Publisher
from bridge.reports import Judgement, Reports, judge
from nodecast.backoff import Backoff
from nodecast.errors import InvalidName, MessageError
from nodecast.log import Repeats, logger
from nodecast.messages import Report, Wire, decode
from nodecast.names import BridgeName, NodeName, ResourceKey, parse_key

log = logger(__name__)


class Feedback:
    """Takes reports while the bridge is in charge. One owner thread."""

    def __init__(
        self,
        bridge: BridgeName,
        publisher: Publisher,
        holding: Holding,
        *,
        lag: float,
        again: Backoff,
        rng: random.Random,
    ) -> None:
        """`lag`: seconds a node may be behind; `again`: pauses between answers to one node."""
        self._bridge = bridge
        self._publisher = publisher
        self._holding = holding
        self._reports = Reports(lag, again, rng)
        self._said = Repeats()

    def take_charge(self) -> None:
        """A new epoch: what was heard before it is heard, and judged, again."""
        self._reports.forget()

    def came(self, node: NodeName, wire: Wire, now: float) -> None:
        """A payload on the status topic of `node`."""
        try:
            report = decode(Report, wire)
        except MessageError as error:
            self._ignore(node, str(error))
            return
        if report.node != node:
            self._ignore(node, f"it names node {report.node!r}")
        elif report.bridge != self._bridge:
            self._ignore(
                node, f"the node is of bridge {report.bridge!r}: it gets nothing from here"
            )
            self._publisher.withhold(node)
        else:
            self._said.over(node)
            self._publisher.release(node)
            if self._reports.arrived(node, report, now):
                self._holding.reported(_keys(report), now)
                self._judge(node, report, now)

    def work(self, now: float) -> float:
        """Judge again what is due; the monotonic second of the next."""
        for node in self._reports.due(now):
            self._judge(node, self._reports.newest(node), now)
        return self._reports.next_at

    def _ignore(self, node: NodeName, reason: str) -> None:
        if self._said.new(node, reason):
            log.warning("report refused", node=node, reason=reason)

    def _judge(self, node: NodeName, report: Report, now: float) -> None:
        state = self._publisher.nodes.get(node)
        if state is None or state.content is None:
            self._publisher.expect(node, report.version)
            return
        judgement = judge(report, state)
        if not self._reports.answers(node, judgement, now):
            return
        log.info(
            "answering a report",
            node=node,
            because=judgement.name.lower(),
            reported=report.version,
            published=state.version,
        )
        if judgement is Judgement.AHEAD:
            self._publisher.renew(node, report.version)
        else:
            self._publisher.again((node,))


def _keys(report: Report) -> Iterator[ResourceKey]:
    """The keys in a report that are keys."""
    for resource in report.resources:
        try:
            yield parse_key(resource.key)
        except InvalidName:
            log.debug("key in a report ignored", node=report.node, key=resource.key[:80])
