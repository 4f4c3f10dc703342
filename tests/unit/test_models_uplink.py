"""How model ops and the ModelSet leave the agent."""

from __future__ import annotations

import random

from agent.broker.models import ModelUplink
from agent.models.outbox import Token
from agent.models.sync import ModelSync
from nodecast.messages import ModelOp, ModelSet, Wire, decode
from nodecast.session import Outgoing, Refused
from nodecast.topics import Topic
from tests.support.models import database, see, sync_on

Published = list[tuple[Outgoing, object]]


def _uplink(sync: ModelSync, published: Published, limit: int = 1_000_000) -> ModelUplink:
    return ModelUplink(
        sync,
        ops=Topic("ops"),
        whole=Topic("models"),
        publish=lambda message, token: published.append((message, token)),
        oversize=lambda m: "above the limit" if len(m.payload) > limit else None,
        rng=random.Random(0),
        new_id=lambda: "never",
        renamed=lambda _: None,
    )


def test_a_late_acknowledgement_does_not_stop_refused_ops_from_going_again() -> None:
    published: Published = []
    sync = sync_on(database())
    uplink = _uplink(sync, published)
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


def test_while_the_store_takes_nothing_no_work_is_due_before_its_next_try() -> None:
    published: Published = []
    connection = database()
    sync = sync_on(connection)
    uplink = _uplink(sync, published)
    see(sync, {"a": "1"})
    uplink.connected(0.0)
    uplink.release()
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count={pages}")
    see(sync, {"a": "x" * 100_000})
    uplink.work(0.0, lambda: 20)
    due = uplink.due()
    assert 0.0 < due < 1.0
    uplink.work(due / 2, lambda: 20)
    assert uplink.due() == due
    connection.execute("PRAGMA max_page_count=1000000")
    uplink.work(due, lambda: 20)
    assert any(isinstance(token, Token) for _, token in published)


def _shown(published: Published) -> list[tuple[Outgoing, object]]:
    return [(m, t) for m, t in published if m.topic == "models"]


def test_a_model_set_is_compressed_and_so_fits_where_it_would_not() -> None:
    published: Published = []
    sync = sync_on(database())
    uplink = _uplink(sync, published, limit=2000)
    see(sync, {f"model-{n}": "1" for n in range(100)})
    uplink.connected(0.0)
    uplink.release()
    uplink.work(0.0, lambda: 20)
    ((message, _),) = _shown(published)
    found = decode(ModelSet, Wire(message.payload, message.encoding))
    assert [each.name for each in found.models] == sorted(f"model-{n}" for n in range(100))
    assert any(each.message for each in found.models)
    assert uplink.problem is None


def test_a_model_set_that_fits_in_no_form_is_a_problem_until_one_does() -> None:
    published: Published = []
    sync = sync_on(database())
    uplink = _uplink(sync, published, limit=100)
    see(sync, {"a": "1"})
    uplink.connected(0.0)
    uplink.release()
    uplink.work(0.0, lambda: 20)
    assert _shown(published) == []
    assert uplink.problem == "the ModelSet is too large to be sent: above the limit"
    uplink.lost()
    assert uplink.problem is None


def test_a_model_set_that_the_broker_refuses_is_a_problem_until_it_takes_one() -> None:
    published: Published = []
    sync = sync_on(database())
    uplink = _uplink(sync, published)
    see(sync, {"a": "1"})
    uplink.connected(0.0)
    uplink.release()
    uplink.work(0.0, lambda: 20)
    ((_, token),) = _shown(published)
    uplink.refused(Refused(token, "not authorised", 0x87, False), 0.0)
    assert uplink.problem == (
        "the broker refuses the ModelSet on models: not authorised; look at the broker's ACL"
    )
    published.clear()
    uplink.work(60.0, lambda: 20)
    ((_, token),) = _shown(published)
    uplink.acknowledged(token)
    assert uplink.problem is None
