"""Reports: what a node says it has, beside what it was sent.

Pure: decides and says why, and does nothing. A report is judged when it arrives and, if the node
is merely behind, again when the lag time is over; each report is answered at most once.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from enum import Enum, auto

from bridge.nodes import NodeState
from nodecast.backoff import Backoff
from nodecast.messages import Report
from nodecast.names import NodeName
from nodecast.wakes import Wakes


class Judgement(Enum):
    """What a report calls for."""

    CURRENT = auto()  # nothing: the node has what it was sent, or is about to be sent more
    AHEAD = auto()  # it has a version that was never given: the next must be greater
    REPAIR = auto()  # it must be sent its version again, now
    BEHIND = auto()  # it may be on its way: judge again when the lag time is over


def judge(report: Report, state: NodeState) -> Judgement:
    """Compare a report of our own bridge with the state of a node that was sent something."""
    version = report.version
    content = state.content
    assert content is not None, "before its first snapshot a node is owed that anyway"
    if version > state.version or (version == state.version and report.digest != content.digest):
        return Judgement.AHEAD
    if report.incomplete or report.refused is not None:
        return Judgement.REPAIR
    if version < state.acknowledged:
        return Judgement.BEHIND
    return Judgement.CURRENT


@dataclass(slots=True)
class Reporter:
    """What is kept of a node's reports: the newest, and when it may be answered."""

    report: Report
    arrived_at: float
    behind_since: float | None = None
    answered: bool = False
    answers: int = 0  # in a row
    not_before: float = -math.inf


class Reports:
    """The newest report of every node, and the pauses between answers. One owner thread."""

    def __init__(self, lag: float, backoff: Backoff, rng: random.Random) -> None:
        self._lag = lag
        self._backoff = backoff
        self._rng = rng
        self._of: dict[NodeName, Reporter] = {}
        self._wakes: Wakes[NodeName] = Wakes()

    def forget(self) -> None:
        """Nothing was heard yet."""
        self._of.clear()
        self._wakes = Wakes()

    def arrived(self, node: NodeName, report: Report, now: float) -> bool:
        """Keep a report; False for one that is not newer than the last of its instance."""
        last = self._of.get(node)
        if last is None:
            self._of[node] = Reporter(report, now)
            return True
        if last.report.instance == report.instance and report.seq <= last.report.seq:
            return False
        last.report, last.arrived_at, last.answered = report, now, False
        return True

    def newest(self, node: NodeName) -> Report:
        return self._of[node].report

    def answers(self, node: NodeName, judgement: Judgement, now: float) -> bool:
        """Whether the newest report of a node is to be answered now.

        If only later, `due` names the node then, to be judged again.
        """
        reporter = self._of[node]
        if judgement is not Judgement.BEHIND:
            reporter.behind_since = None
        elif reporter.behind_since is None:
            reporter.behind_since = reporter.arrived_at
        if judgement is Judgement.CURRENT:
            reporter.answers = 0
            return False
        if reporter.answered:
            return False
        at = reporter.not_before
        if reporter.behind_since is not None:
            at = max(at, reporter.behind_since + self._lag)
        if now < at:
            self._wakes.set(node, at)
            return False
        reporter.answered = True
        reporter.answers += 1
        reporter.not_before = now + self._backoff.pause(reporter.answers, self._rng)
        return True

    def due(self, now: float) -> list[NodeName]:
        """The nodes whose reports are to be judged again."""
        return self._wakes.due(now)

    @property
    def next_at(self) -> float:
        """When `due` names the next node."""
        return self._wakes.next_at
