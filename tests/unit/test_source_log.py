"""What is said of a source, and how often."""

from __future__ import annotations

import logging

import pytest

from bridge.source_log import SourceLog
from bridge.sources.events import KindStatus, Listed
from nodecast.names import KindName

A, B = KindName("A.x"), KindName("B.x")


def listed(kind: KindName, reason: str = "") -> Listed:
    status = KindStatus.INCOMPLETE if reason else KindStatus.OK
    return Listed(kind, status, None, 0.0, reason)


def test_kinds_with_one_cause_are_said_together_and_once(caplog: pytest.LogCaptureFixture) -> None:
    log = SourceLog()
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            log.listed(listed(B, "no directory"))
            log.listed(listed(A, "no directory"))
            log.flush()
        log.listed(listed(A))
        log.listed(listed(B))
        log.flush()
        log.flush()
    said = [(r.getMessage().split(":")[0], r.nodecast_fields["kinds"]) for r in caplog.records]
    assert said == [
        ("kinds cannot be seen in full", "A.x, B.x"),
        ("kinds are seen in full again", "A.x, B.x"),
    ]
