from __future__ import annotations

import random

from agent.model_uplink import ModelUplink
from agent.models.outbox import Token
from nodecast.messages import ModelOp, Wire, decode
from nodecast.session import Outgoing, Refused
from nodecast.topics import Topic
from tests.support.models import database, see, sync_on


def test_a_late_acknowledgement_does_not_stop_refused_ops_from_going_again() -> None:
    published: list[tuple[Outgoing, object]] = []
    sync = sync_on(database())
    uplink = ModelUplink(
        sync,
        ops=Topic("ops"),
        whole=Topic("models"),
        publish=lambda message, token: published.append((message, token)),
        oversize=lambda _: None,
        rng=random.Random(0),
        new_id=lambda: "never",
        renamed=lambda _: None,
    )
    see(sync, {"a": "1", "b": "1", "c": "1"})
    uplink.connected(0.0)
    uplink.release()
    uplink.work(0.0, lambda: 20)
    one, two, three = (token for _, token in published if isinstance(token, Token))
    uplink.acknowledged(one)
    uplink.refused(Refused(two, "not authorised", 0x87, False), 0.0)
    uplink.acknowledged(three)
    published.clear()
    uplink.work(600.0, lambda: 20)
    again = [decode(ModelOp, Wire(m.payload)).seq for m, t in published if isinstance(t, Token)]
    assert again == [2, 3]
