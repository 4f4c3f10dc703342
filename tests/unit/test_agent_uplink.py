"""What the agent says to the broker, and when it says it again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from agent.pace import NEVER
from nodecast.messages import ConfigState, ModelSet, Presence
from nodecast.session import Connected, Subscribed, wire_size
from tests.support.device import NODE, resource, snapshot
from tests.support.uplinks import (
    BRIDGE_STATE,
    MODELS,
    OPS,
    RESOURCES,
    STATE,
    STATUS,
    Rig,
)

A = "Dataset.sedna.io/default/a"
B = "Dataset.sedna.io/default/b"
ONE = b'[{"modelName": "m", "modelSpec": {"storageUri": "s3://m", "memory": "1Gi"}}]'
TWO = b'[{"modelName": "m", "modelSpec": {"storageUri": "s3://n", "memory": "1Gi"}}]'


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path)
    yield made
    made.close()


def test_a_connection_subscribes_to_the_own_topics_alone_with_state_last(rig: Rig) -> None:
    rig.connect()
    [filters] = rig.session.subscribed
    assert [each.filter for each in filters] == [MODELS, RESOURCES, BRIDGE_STATE, STATE]


@pytest.mark.parametrize(("topic", "what"), [(STATE, "the birth"), (STATUS, "the report")])
def test_a_refusal_names_the_topic_and_what_to_do(
    rig: Rig, caplog: pytest.LogCaptureFixture, topic: str, what: str
) -> None:
    rig.connect()
    rig.refuse(topic)
    (line,) = [str(vars(r)) for r in caplog.records if f"refuses {what}" in r.getMessage()]
    assert topic in line
    assert "look at the broker's ACL" in line


def test_every_connection_brings_birth_and_report(rig: Rig) -> None:
    for _ in range(2):
        rig.connect()
        assert [(each.online, each.instance) for each in rig.births()] == [(True, "me")]
        assert len(rig.reports()) == 1
        rig.take()
        rig.lose()


def test_the_will_says_offline_for_this_instance(rig: Rig) -> None:
    will = rig.uplink.will()
    presence = msgspec.json.decode(will.payload, type=Presence)
    assert (will.topic, will.retain, will.will_delay) == (STATE, True, 10)
    assert (presence.online, presence.instance) == (False, "me")


def test_a_message_of_another_topic_is_dropped(rig: Rig) -> None:
    rig.connect()
    rig.receive("node/edge-b/resources", snapshot((5, 1), [resource(A)]).payload)
    rig.receive(f"node/{NODE}/resources/x", snapshot((5, 1), [resource(A)]).payload)
    rig.work()
    assert rig.device.files == {}


def test_a_snapshot_is_applied_and_reported_within_the_coalescing_time(rig: Rig) -> None:
    rig.connect()
    rig.acknowledge()
    rig.work(10)
    rig.receive(RESOURCES, snapshot((5, 1), [resource(A)]).payload)
    rig.work(1)
    [report] = rig.reports()
    assert (report.epoch, report.revision, report.incomplete) == (5, 1, False)
    assert [(each.key, each.state) for each in report.resources] == [(A, "Applied")]
    rig.acknowledge()
    rig.receive(RESOURCES, snapshot((5, 2), [resource(A, 2)]).payload)
    rig.receive(RESOURCES, snapshot((5, 3), [resource(A, 3)]).payload)
    rig.work(3)
    assert rig.reports() == []
    rig.work(3)
    assert [each.revision for each in rig.reports()] == [3]


def test_reports_have_a_rising_seq_and_a_heartbeat(rig: Rig) -> None:
    rig.connect()
    seqs = [each.seq for each in rig.reports()]
    for _ in range(3):
        rig.acknowledge()
        rig.work(331)
        seqs += [each.seq for each in rig.reports()]
    assert seqs == [1, 2, 3, 4]


def test_a_report_under_way_is_not_overtaken(rig: Rig) -> None:
    rig.connect()
    rig.receive(RESOURCES, snapshot((5, 1), [resource(A)]).payload)
    rig.work(60)
    assert len(rig.reports()) == 1
    rig.acknowledge()
    rig.work(1)
    assert [each.revision for each in rig.reports()] == [1]


def test_a_bridge_that_comes_after_the_report_is_told_again(rig: Rig) -> None:
    rig.connect()
    rig.acknowledge()
    rig.work(20)
    assert rig.reports() == []
    rig.receive(BRIDGE_STATE, _presence("bridge-1"))
    rig.work(5)
    assert len(rig.reports()) == 1


def test_another_instance_of_the_bridge_is_told_after_a_random_pause(rig: Rig) -> None:
    rig.connect()
    rig.receive(BRIDGE_STATE, _presence("bridge-1"), retained=True)
    rig.acknowledge()
    rig.work(20)
    assert rig.reports() == []
    rig.receive(BRIDGE_STATE, _presence("bridge-1"))
    rig.work(20)
    assert rig.reports() == []
    rig.receive(BRIDGE_STATE, _presence("bridge-2"))
    rig.work(0)
    assert rig.reports() == []
    rig.work(5)
    assert len(rig.reports()) == 1


def test_a_refused_snapshot_is_reported_once(rig: Rig) -> None:
    rig.connect()
    rig.receive(RESOURCES, snapshot((5, 2)).payload)
    rig.work(6)
    rig.acknowledge()
    rig.work(6)
    rig.acknowledge()
    rig.receive(RESOURCES, snapshot((5, 1)).payload)
    rig.work(6)
    [report] = rig.reports()
    assert report.refused is not None
    assert (report.refused.epoch, report.refused.revision) == (5, 1)
    rig.acknowledge()
    rig.work(331)
    assert [each.refused for each in rig.reports()] == [None]


def test_an_omitted_key_that_is_not_there_is_pending(rig: Rig) -> None:
    rig.connect()
    rig.acknowledge()
    rig.receive(RESOURCES, snapshot((5, 1), omitted=[A]).payload)
    rig.work(6)
    [report] = rig.reports()
    assert [(e.key, e.state, e.reason) for e in report.resources] == [(A, "Pending", "Omitted")]


def test_orphans_make_a_report_incomplete_and_are_named(rig: Rig) -> None:
    path = rig.device.tree / (A + ".json")
    path.parent.mkdir(parents=True)
    path.write_bytes(resource(A) + b"\n")
    rig.device.pass_time(700)
    rig.connect()
    [report] = rig.reports()
    assert report.incomplete
    assert [(e.key, e.state, e.reason) for e in report.resources] == [(A, "Applied", "Orphan")]


def test_a_report_above_the_limit_sheds_entries_and_never_the_version(rig: Rig) -> None:
    keys = [f"Dataset.sedna.io/default/{i:x}-{i * 7919:x}" for i in range(300)]
    rig.receive(RESOURCES, snapshot((5, 1), [resource(k, k) for k in keys]).payload)
    rig.device.settle()
    rig.session.limit = 1000
    rig.connect()
    [report] = rig.reports()
    assert (report.epoch, report.revision, report.resources) == (5, 1, [])
    assert wire_size(rig.said(STATUS)[0]) <= 1000


def test_a_refused_report_goes_again_after_growing_pauses(rig: Rig) -> None:
    rig.connect()
    count = 0
    for _ in range(600):
        rig.refuse(STATUS)
        rig.work(1)
        count += len(rig.reports())
    assert 4 <= count <= 12


def test_own_state_taken_away_is_said_again(rig: Rig) -> None:
    rig.connect()
    for gone in (Presence(online=False, instance="me"), None, Presence(online=True, instance="x")):
        rig.acknowledge()
        rig.say_state(gone)
        rig.work(0)
        assert rig.births() == []
        rig.work(20)
        assert len(rig.births()) == 1
        rig.echo()


def test_the_state_that_was_kept_before_the_birth_is_not_answered(rig: Rig) -> None:
    rig.connect(echo=False)
    rig.take()
    rig.say_state(Presence(online=False, instance="before"), retained=True)
    rig.work(60)
    assert rig.births() == []


def test_m5_two_agents_of_one_name_slow_down_and_say_so(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.connect()
    births = 0
    for _ in range(1200):
        rig.acknowledge()
        rig.say_state(Presence(online=True, instance="twin"))
        rig.work(0.5)
        if rig.births():
            births += len(rig.births())
            rig.echo()
    assert 5 <= births <= 20
    said = [r.message for r in caplog.records if "another agent" in r.message]
    assert len(said) == 1


def test_m6_a_refused_subscription_is_shown_and_tried_again(rig: Rig) -> None:
    rig.connect(refused=(RESOURCES,))
    assert rig.uplink.subscription_error is not None
    rig.work(3)
    assert len(rig.session.subscribed) == 2
    rig.connect()
    assert rig.uplink.subscription_error is None


def test_a_subscription_that_is_tried_again_says_nothing_again(rig: Rig) -> None:
    rig.config(ONE)
    rig.connect(refused=(RESOURCES,))
    rig.work(0.5)
    ops = rig.ops()
    rig.take()
    rig.work(3)
    rig.uplink.handle(Subscribed("subscribe", (RESOURCES,)), rig.now)
    rig.work(3)
    assert (len(ops), rig.births(), rig.reports(), rig.sets(), rig.ops()) == (1, [], [], [], [])
    rig.uplink.handle(Subscribed("subscribe", ()), rig.now)
    assert rig.uplink.subscription_error is None


def test_a_presence_says_when_the_process_started(rig: Rig) -> None:
    rig.connect()
    rig.work(60)
    will = msgspec.json.decode(rig.uplink.will().payload, type=Presence)
    assert {each.since for each in (*rig.births(), will)} == {"the start"}


def test_a_model_above_the_limit_goes_when_the_limit_rises(rig: Rig) -> None:
    rig.session.limit = 100
    rig.config(ONE)
    rig.connect()
    rig.work(2)
    assert rig.ops() == []
    rig.session.limit = None
    rig.work(2)
    assert [(op.op, op.model) for op in rig.ops()] == [("load", "m")]


def test_a_model_set_above_the_limit_goes_when_the_limit_rises(rig: Rig) -> None:
    rig.config(b"[]")
    rig.session.limit = 10
    rig.connect()
    rig.work(2)
    assert rig.sets() == []
    rig.session.limit = None
    rig.work(2)
    assert [each.config.state for each in rig.sets()] == ["ok"]


@pytest.mark.parametrize("payload", [b"", b"[]", snapshot((9, 9), bridge="other").payload])
def test_a_rogue_that_repeats_itself_is_reported_at_most_every_coalescing_time(
    rig: Rig, payload: bytes
) -> None:
    rig.connect()
    rig.acknowledge()
    told = 0
    for _ in range(300):
        rig.receive(RESOURCES, payload)
        rig.work(0.1)
        told += len(rig.reports())
        rig.acknowledge()
    assert 4 <= told <= 7


def test_a_message_of_another_bridge_is_reported_and_then_over(rig: Rig) -> None:
    rig.connect()
    rig.acknowledge()
    rig.work(6)
    rig.receive(RESOURCES, snapshot((9, 9), bridge="other").payload)
    told = []
    for _ in range(30):
        rig.work(1)
        told += rig.reports()
        rig.acknowledge()
    assert [each.refused and each.refused.epoch for each in told] == [9, None]


def test_ops_wait_for_what_the_broker_keeps_of_the_own_models(rig: Rig) -> None:
    rig.config(ONE)
    rig.connect(echo=False)
    rig.work(1)
    assert rig.ops() == []
    rig.echo()
    rig.work(1)
    assert [(op.op, op.model, op.seq, op.store) for op in rig.ops()] == [
        ("load", "m", 1, "store-1")
    ]


def test_ops_do_not_wait_for_ever_for_the_own_birth(rig: Rig) -> None:
    rig.config(ONE)
    rig.connect(echo=False)
    rig.work(11)
    assert [op.model for op in rig.ops()] == ["m"]


def test_a_greater_seq_of_the_own_store_gives_a_new_store_id(rig: Rig) -> None:
    rig.config(ONE)
    rig.connect(echo=False)
    rig.receive(MODELS, _set("store-1", 9), retained=True)
    rig.echo()
    rig.work(2)
    assert rig.device.agent.store.store == "renewed-1"
    assert {op.store for op in rig.ops()} == {"renewed-1"}
    assert [each.store for each in rig.sets()] == ["renewed-1"]


def test_a_greater_seq_of_another_store_means_nothing(rig: Rig) -> None:
    rig.config(ONE)
    rig.connect(echo=False)
    rig.receive(MODELS, _set("old", 9), retained=True)
    rig.echo()
    rig.work(2)
    assert {op.store for op in rig.ops()} == {"store-1"}


def test_ops_go_again_in_order_after_a_lost_connection(rig: Rig) -> None:
    rig.config(ONE)
    rig.connect()
    rig.take()
    rig.config(TWO)
    rig.lose()
    rig.connect()
    assert [(op.seq, op.op) for op in rig.ops()] == [(1, "load"), (2, "unload"), (3, "load")]
    rig.acknowledge()
    assert rig.models.idle


def test_o2_what_is_new_does_not_overtake_what_goes_again_while_the_suback_is_awaited(
    rig: Rig,
) -> None:
    rig.config(ONE)
    rig.connect()
    rig.take()
    rig.config(TWO)
    rig.lose()
    rig.uplink.handle(Connected(None, 20), rig.now)
    rig.work(1)
    assert rig.ops() == []
    assert rig.uplink.due() > rig.now
    rig.connect()
    assert [op.seq for op in rig.ops()] == [1, 2, 3]


def test_refused_ops_go_again_after_a_pause(rig: Rig) -> None:
    rig.config(ONE)
    rig.connect()
    rig.refuse(OPS)
    rig.work(0)
    assert rig.ops() == []
    rig.work(2)
    assert [op.seq for op in rig.ops()] == [1]


def test_every_connection_brings_the_model_set(rig: Rig) -> None:
    rig.config(ONE)
    rig.connect()
    rig.acknowledge()
    rig.work(2)
    rig.acknowledge()
    rig.take()
    rig.lose()
    rig.connect()
    rig.work(2)
    assert [(each.seq, each.models[0].state) for each in rig.sets()] == [(1, "Requested")]


def test_o7_no_model_set_is_said_before_the_config_was_read(rig: Rig) -> None:
    rig.connect()
    rig.work(20)
    assert rig.sets() == []
    rig.config(b"[]")
    rig.work(2)
    assert [each.config.state for each in rig.sets()] == ["ok"]


def test_a_model_set_above_the_limit_is_given_up_until_something_changes(rig: Rig) -> None:
    rig.config(ONE)
    rig.session.limit = 100
    rig.connect()
    rig.work(20)
    assert rig.sets() == []
    rig.session.limit = None
    rig.config(TWO)
    rig.work(2)
    assert len(rig.sets()) == 1


def test_nothing_is_due_for_an_idle_agent_but_its_heartbeat(rig: Rig) -> None:
    rig.config(ONE)
    rig.connect(echo=False)
    assert rig.uplink.due() > rig.now
    rig.echo()
    for _ in range(4):
        rig.work(2)
        rig.acknowledge()
    assert rig.uplink.idle
    assert rig.now + 100 < rig.uplink.due() < NEVER
    rig.lose()
    assert rig.uplink.due() == NEVER


def test_leaving_says_what_was_put_off_and_then_offline(rig: Rig) -> None:
    rig.connect()
    rig.acknowledge()
    rig.receive(RESOURCES, snapshot((5, 1), [resource(A)]).payload)
    rig.work(0)
    assert rig.reports() == []
    rig.uplink.leave(rig.now)
    assert not rig.uplink.idle
    rig.work(0)
    assert [each.revision for each in rig.reports()] == [1]
    rig.acknowledge()
    assert rig.uplink.idle
    rig.uplink.say_offline()
    assert [each.online for each in rig.births()] == [False]
    rig.acknowledge()
    assert rig.uplink.offline_said


def _presence(instance: str) -> bytes:
    return msgspec.json.encode(Presence(online=True, instance=instance))


def _set(store: str, seq: int) -> bytes:
    config = ConfigState(path="", state="ok")
    return msgspec.json.encode(ModelSet(node=NODE, store=store, seq=seq, config=config))


def test_an_own_birth_that_was_kept_is_no_echo(rig: Rig) -> None:
    rig.config(ONE)
    rig.connect(echo=False)
    rig.say_state(Presence(online=True, instance="me"), retained=True)
    rig.work(1)
    assert rig.ops() == []
    rig.echo()
    rig.work(1)
    assert len(rig.ops()) == 1
