"""What the bridge makes of reports, over several epochs."""

from __future__ import annotations

import random

from bridge.feedback import Feedback
from nodecast.backoff import Backoff
from nodecast.messages import Report, ResourceReport, Wire, encode
from nodecast.names import BridgeName, NodeName
from tests.support.core import ALONE, Core, key

N = NodeName("n")
REPORT = Report(
    bridge="b",
    node=N,
    instance="i",
    seq=1,
    time="",
    epoch=0,
    revision=0,
    digest="",
    resources=[ResourceReport(key=key("Alone/a"), digest="", state="Applied")],
)


def test_a_report_that_comes_back_in_a_new_epoch_counts_in_it_too() -> None:
    core = Core()
    feedback = Feedback(
        BridgeName("b"),
        core.publisher,
        core.holding,
        lag=60,
        again=Backoff(1, 60),
        rng=random.Random(1),
    )
    for _ in range(2):
        core.charge({})  # without a ledger: what agents report counts as placed
        feedback.take_charge()
        assert placed(core) == 0
        feedback.came(N, Wire(encode(REPORT)), core.now)
        assert placed(core) == 1


def placed(core: Core) -> int:
    return core.holding.counts(core.now).kinds[ALONE]
