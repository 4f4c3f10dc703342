"""Sends reports: when they are due, as large as the broker takes, one under way at a time.

Owned by the loop thread; waits for nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agent.broker.report import TimeText, build_report, fit
from agent.pace import ReportPace
from agent.resources import NodeResources
from nodecast.log import Repeats, logger
from nodecast.messages import Refusal, Wire
from nodecast.names import NodeName
from nodecast.session import Outgoing, Refused
from nodecast.topics import Topic

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class ReportToken:
    """Names a report that was handed over, by the refusal that it told of."""

    refused: Refusal | None


class Reporter:
    """The reports of one instance of an agent, numbered from 1 on."""

    def __init__(
        self,
        resources: NodeResources,
        node: NodeName,
        instance: str,
        topic: Topic,
        *,
        pace: ReportPace,
        text: TimeText,
        publish: Callable[[Outgoing, object], None],
        oversize: Callable[[Outgoing], str | None],
    ) -> None:
        self.pace = pace
        self._resources = resources
        self._node = node
        self._instance = instance
        self._topic = topic
        self._text = text
        self._publish = publish
        self._oversize = oversize
        self._said = Repeats()
        self._seq = 0
        self._known = -1  # the resources' `changes` that the pace knows of

    def notice(self, now: float) -> None:
        """Look whether there is something new to report; with or without a connection."""
        if self._resources.changes != self._known:
            self._known = self._resources.changes
            self.pace.changed(now)

    def work(self, now: float) -> None:
        """Send the report that is due."""
        if self.pace.due() > now:
            return
        self._seq += 1
        report = build_report(
            self._resources, self._node, self._instance, self._seq, now, self._text
        )
        wire = fit(report, lambda wire: self._oversize(self._outgoing(wire)) is None)
        self.pace.sent(now)
        self._publish(self._outgoing(wire), ReportToken(report.refused))

    def acknowledged(self, token: ReportToken) -> None:
        self.pace.acknowledged()
        self._said.over("report")
        self._resources.reported(token.refused)

    def refused(self, event: Refused, now: float) -> None:
        """The broker did not take a report; after a limit is known a smaller one goes at once."""
        self.pace.refused(now, again=event.too_large)
        if self._said.new("report", str(event.code)):
            log.warning(
                "the broker refuses the report",
                topic=self._topic,
                reason=event.reason,
                do=event.remedy,
            )

    def _outgoing(self, wire: Wire) -> Outgoing:
        return Outgoing(self._topic, wire.payload, retain=True, encoding=wire.encoding)
