"""Model ops through a broker that comes and goes: order, names, and when the agent is ready."""

from __future__ import annotations

import json
import os
import socket
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from nodecast.messages import ModelOp, Wire, decode
from tests.support.agents import OPS, AgentProcess, Hand
from tests.support.models import replay
from tests.support.mosquitto import Broker
from tests.support.wait import eventually

pytestmark = pytest.mark.broker


def _write(agent: AgentProcess, *entries: dict[str, Any]) -> None:
    temporary = agent.models_dir / ".new"
    temporary.write_text(json.dumps(entries))
    temporary.replace(agent.models_dir / "models.json")


def _entry(name: str, uri: str) -> dict[str, Any]:
    return {"modelName": name, "modelSpec": {"storageUri": uri}}


class Consumer:
    """Follows the ops with a session that the broker keeps: it misses none, restarts included."""

    def __init__(self, port: int) -> None:
        self.ops: list[ModelOp] = []
        self._client = Client(
            CallbackAPIVersion.VERSION2,
            client_id=f"consumer-{uuid.uuid4().hex[:12]}",
            protocol=MQTTProtocolVersion.MQTTv5,
        )
        self._client.reconnect_delay_set(1, 1)
        self._client.on_message = lambda _client, _data, message: self.ops.append(
            decode(ModelOp, Wire(message.payload))
        )
        self._client.on_connect = lambda client, *_: client.subscribe(OPS, 1)
        kept = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        kept.SessionExpiryInterval = 3600
        self._client.connect("127.0.0.1", port, clean_start=False, properties=kept)
        self._client.loop_start()

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


@contextmanager
def _consuming(port: int) -> Iterator[Consumer]:
    consumer = Consumer(port)
    try:
        yield consumer
    finally:
        consumer.close()


def test_o2_a_model_that_flaps_a_hundred_times_over_broker_restarts_is_told_in_order(
    tmp_path: Path,
) -> None:
    broker = Broker(tmp_path / "broker", persistent=True)
    agent = AgentProcess(tmp_path / "node", broker.url)
    try:
        broker.start()
        with _consuming(broker.port) as consumer:
            agent.start()
            for turn in range(100):
                reads = agent.log.count("model config read")
                _write(agent, _entry("a", f"s3://v1-{turn}"), _entry("b", "s3://b"))
                _write(agent, _entry("b", "s3://b"))
                _write(agent, _entry("a", f"s3://v2-{turn}"), _entry("b", "s3://b"))
                if turn % 4 == 0:  # else the next turn comes at once
                    eventually(lambda n=reads: agent.log.count("model config read") > n, 20)
                if turn % 30 == 20:
                    broker.restart()
            want = {"a": "s3://v2-99", "b": "s3://b"}
            eventually(lambda: replay(consumer.ops) == want, 40, what="the state of the file")
            eventually(lambda: _settled(agent), 20, what="the broker has every op")
            ops = list(consumer.ops)
        assert replay(ops) == want
        first = {op.seq: op for op in reversed(ops)}  # each seq says one thing, however often
        assert all(first[op.seq] == op for op in ops)
        assert sorted(first) == list(range(1, len(first) + 1))
        assert list(dict.fromkeys(op.seq for op in ops)) == sorted(first)
        flaps = [first[seq] for seq in sorted(first) if first[seq].model == "a"]
        assert len(flaps) >= 25
        assert [op.op for op in flaps] == ["load", "unload"] * (len(flaps) // 2) + ["load"]
        for load, unload in zip(flaps[::2], flaps[1::2], strict=False):
            assert load.spec == unload.spec
        assert [op.op for op in ops if op.model == "b"].count("unload") == 0
    finally:
        agent.kill()
        broker.stop()


def _settled(agent: AgentProcess) -> bool:
    done = agent.run("models", "--json")
    models = json.loads(done.stdout)["models"] if done.stdout else []
    return bool(models) and all(each["state"] == "Requested" for each in models)


def test_o5_of_a_name_twice_the_last_counts_and_touching_or_swapping_makes_no_ping_pong(
    agent: AgentProcess, hand: Hand
) -> None:
    one, two, other = _entry("a", "s3://one"), _entry("a", "s3://two"), _entry("b", "s3://b")
    config = agent.models_dir / "models.json"
    _write(agent, one, two, other)
    agent.start()
    eventually(lambda: hand.replay() == {"a": "s3://two", "b": "s3://b"}, 20, what="the last")
    for number in range(3):
        config.touch()
        config.write_text(json.dumps([one, two, other], indent=number))
        eventually(
            lambda n=number: agent.log.count("model config read") == n + 2, 20, what="it was read"
        )
    _write(agent, two, one, other)
    eventually(lambda: hand.replay() == {"a": "s3://one", "b": "s3://b"}, 20, what="swapped")
    config.touch()
    _write(agent, two, one, other, _entry("c", "s3://c"))
    eventually(lambda: "c" in hand.replay(), 20, what="the last word")
    steps = [(op.op, op.model, op.spec["storageUri"]) for op in hand.ops()]
    assert sorted(steps[:2]) == [("load", "a", "s3://two"), ("load", "b", "s3://b")]
    assert steps[2:] == [
        ("unload", "a", "s3://two"),
        ("load", "a", "s3://one"),
        ("load", "c", "s3://c"),
    ]
    found = eventually(hand.model_set, what="the ModelSet")
    assert found is not None
    assert "the last entry counts" in found.config.message
    assert agent.log.count("the last entry counts") == 1


ODD = ["a/b", "a+b", "#", "+", "$SYS/x", "../../etc/x", "/etc/x", "ü", "..", " ", "\u2028", "💥"]
REFUSED = ["nul\0", "n" * 70_000, "line\n", "\ud800", ""]


def test_o6_odd_names_are_carried_or_refused_and_nothing_else_happens(
    agent: AgentProcess, hand: Hand, tmp_path: Path
) -> None:
    entries = [_entry(name, f"s3://{number}") for number, name in enumerate([*ODD, *REFUSED])]
    _write(agent, _entry("good", "s3://good"), *entries)
    agent.start()
    want = {"good": "s3://good"} | {name: f"s3://{number}" for number, name in enumerate(ODD)}
    eventually(lambda: hand.replay() == want, 20, what="all that can be carried")
    found = eventually(
        lambda: (m := hand.model_set()) and len(m.models) == len(want) and m, 20, what="the set"
    )
    assert found
    assert {each.name for each in found.models} == want.keys()
    for number in range(len(REFUSED)):
        assert f"[{1 + len(ODD) + number}]" in found.config.message
    eventually(
        lambda: len(agent.status()["problems"]) == len(REFUSED), 20, what="status shows each"
    )
    agent.kill()
    agent.start()
    _write(agent, _entry("good", "s3://better"))
    eventually(lambda: hand.replay() == {"good": "s3://better"}, 20, what="they go like any other")
    assert agent.log.count("connected to the broker ") == 2  # one a start
    assert agent.stop() == 0
    # What was made is below the state directory, by names that the agent chose.
    made = {str(path.relative_to(tmp_path)) for path in (tmp_path / "node").rglob("*")}
    made = {each for each in made if not each.startswith("node/state/agent.db")}
    assert made == {
        *("node/agent.log", "node/models", "node/models/models.json", "node/state"),
        *("node/state/agent.lock", "node/state/status.json", "node/state/resources"),
    }
    assert sorted(os.listdir(tmp_path)) == ["broker", "node"]


_SLOW_DISK = """
import os, sys, time
import agent.app, agent.models.watch as watch
held, look = sys.argv.pop(1), watch.look
def slow(path):
    while os.path.exists(held):
        time.sleep(0.01)
    return look(path)
watch.look = slow
agent.app._FIRST_LOOK = 0.1
from agent.cli import main
main()
"""


def test_o7_not_read_yet_is_no_empty_set_and_not_ready(
    agent: AgentProcess, hand: Hand, tmp_path: Path
) -> None:
    # The disk of the model config does not answer.
    held = tmp_path / "held"
    held.touch()
    agent.command = [sys.executable, "-c", _SLOW_DISK, str(held)]
    _write(agent, _entry("a", "s3://a"))
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(str(path))
        notify.settimeout(30)
        agent.start({"NOTIFY_SOCKET": str(path)})
        hand.online()
        hand.reported((0, 0))
        status = eventually(
            lambda: (found := agent.status()).get("connected") and found, 20, what="it is connected"
        )
        assert status
        assert status["ready"] is False
        assert (hand.model_set(), hand.ops()) == (None, [])
        notify.setblocking(False)
        early = []
        while words := _received(notify):
            early.append(words)
        assert not any("READY=1" in each for each in early)
        notify.settimeout(30)
        held.unlink()
        while "READY=1" not in notify.recv(4096).decode():
            pass
    eventually(lambda: hand.replay() == {"a": "s3://a"}, 20, what="the op")
    _write(agent)
    found = eventually(
        lambda: (m := hand.model_set()) and not m.models and m, 20, what="no models at all"
    )
    assert found
    assert found.config.state == "ok"


def _received(notify: socket.socket) -> str:
    try:
        return notify.recv(4096).decode()
    except BlockingIOError:
        return ""
