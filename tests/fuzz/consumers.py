"""Targets that keep what they take: the bridge's core and the agent behind their broker, the agent
on its disk."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

from agent.inspect.disk import read_models, read_state, reading
from agent.inspect.live import FILE as STATUS_FILE
from agent.inspect.live import read_live
from agent.models.configfile import ConfigSeen
from bridge.bridge import Bridge
from bridge.charge import Identity
from bridge.objects import read_object
from bridge.placement import Rules, built_in
from bridge.policy import Policy
from bridge.sources.events import KindStatus, Listed
from nodecast.errors import SettingsError, StoreError, Unavailable
from nodecast.messages import Wire
from nodecast.names import KindName, NodeName
from nodecast.session import (
    Acknowledged,
    Connected,
    Event,
    Outgoing,
    Received,
    Subscribed,
    Subscription,
)
from nodecast.topics import Topics
from tests.fuzz import samples
from tests.fuzz.target import JSON_WORDS, Reader, Target, refusing
from tests.support.device import NODE, Device, resource, snapshot
from tests.support.uplinks import BRIDGE_STATE, MODELS, OPS, RESOURCES, STATE, STATUS, Rig

_RULES = Rules(built_in())
_SHELF = "Dataset.sedna.io/default/shelf"
_DATASET = KindName("Dataset.sedna.io")
_TOPICS = Topics()
_STEPS = 40
"""Turns of a loop in virtual time, of 7 s each: every pause of the contract comes about."""


# -- the bridge

_ENDINGS = (SettingsError, Unavailable)
"""What a ledger may say: that its nodes are another source's, or that another one is in charge."""


class _Echo:
    """A session whose broker takes everything at once, and keeps nothing."""

    def __init__(self) -> None:
        self.events: deque[Event] = deque()
        self.free = 20
        self.limit: int | None = None

    def publish(self, message: Outgoing, token: object) -> None:
        self.events.append(Acknowledged(token))
        if message.topic.startswith("bridge/"):
            self.events.append(Received(message.topic, message.payload, False, message.encoding))

    def subscribe(self, filters: Sequence[Subscription], token: object) -> None:
        del filters
        self.events.append(Subscribed(token, ()))

    def disconnect(self, reason: str) -> None:
        del reason


class _BridgeStage:
    """A bridge with a few objects, in virtual time."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.port = _Echo()
        rng = random.Random(1)
        self.bridge = Bridge(
            Identity(samples.BRIDGE_NAME, "manifests", "me"),
            _RULES,
            _TOPICS,
            Policy(),
            self.port,
            self._list,
            rng=rng,
            wall_clock=lambda: 1.7e9,
        )
        self._list(frozenset(_RULES.kinds))

    def _list(self, kinds: frozenset[KindName]) -> None:
        records = [read_object(each, _RULES, "here") for each in samples.OBJECTS]
        for kind in kinds:
            objects = {each.key: each for each in records if each.kind == kind}
            event = Listed(kind, KindStatus.OK, objects, self.now, "")
            self.bridge.source_event(event, self.now)

    def connect(self) -> None:
        self.port.events.append(Connected(None, 20))

    def receive(self, topic: str, wire: Wire, *, retained: bool = False) -> None:
        event = Received(topic, wire.payload, retained, wire.encoding)
        self.bridge.session_event(event, self.now)

    def go_on(self, steps: int = _STEPS) -> None:
        for _ in range(steps):
            while self.port.events:
                self.bridge.session_event(self.port.events.popleft(), self.now)
            self.bridge.work(self.now)
            self.now += 7.0


def _wires(data: bytes) -> Iterator[Wire]:
    yield Wire(data)
    yield Wire(data, "zlib")


def _bridge(_: Path) -> Reader:
    nodes = [NodeName(name) for name in (NODE, "edge-b", "edge-new")]
    in_charge = [
        *(_TOPICS.status(node) for node in nodes),
        _TOPICS.probe(samples.BRIDGE_NAME),
        _TOPICS.bridge_state(samples.BRIDGE_NAME),
        _TOPICS.ledger(samples.BRIDGE_NAME),
        "node/+/status",
        "node//status",
        "",
    ]

    def read(data: bytes) -> None:
        for wire in _wires(data):
            stage = _BridgeStage()
            stage.connect()
            stage.go_on(4)
            with refusing(*_ENDINGS):
                for topic in in_charge:
                    stage.receive(topic, wire)
                    stage.go_on(1)
                stage.go_on()
            _start_into(wire)

    return read


def _start_into(wire: Wire) -> None:
    """A bridge that finds this ledger."""
    stage = _BridgeStage()
    stage.connect()
    stage.bridge.session_event(stage.port.events.popleft(), stage.now)
    with refusing(*_ENDINGS):
        stage.receive(_TOPICS.ledger(samples.BRIDGE_NAME), wire, retained=True)
        stage.go_on()


# -- the agent


def _agent(root: Path) -> Reader:
    """A new device for each input: a snapshot with the greatest version would end the fun."""

    def read(data: bytes) -> None:
        place = root / "device"
        rig = Rig(place, durable=False)
        try:
            rig.connect()
            rig.config(samples.configs()[0])
            rig.device.receive(snapshot((1_700_000_000, 1), [resource("A.b/c/d")]))
            for topic in (MODELS, STATE, BRIDGE_STATE, OPS, STATUS, "", RESOURCES):
                for retained in (True, False):
                    rig.receive(topic, data, retained=retained)
                    rig.acknowledge()
            rig.models.seen(ConfigSeen(data))
            for _ in range(_STEPS):
                rig.device.clock.now += 20
                rig.acknowledge()
        finally:
            rig.close()
            shutil.rmtree(place)

    return read


def _agent_disk(root: Path) -> Reader:
    """What stands in the agent's directories: stamp, resource files, status file."""

    def read(data: bytes) -> None:
        place = root / "device"
        device = Device(place, durable=False)
        try:
            device.start()
            device.receive(snapshot((5, 1), [resource(_SHELF)]))
            device.kill()
            for path in [each for each in device.tree.rglob("*") if each.is_file()]:
                path.write_bytes(data)
            (device.tree / "Dataset.sedna.io" / "default" / "other.json").write_bytes(data)
            (device.state / STATUS_FILE).write_bytes(data)
            read_live(device.state)
            device.lose_store()
            device.start()
            device.pass_time(700.0)
            device.receive(snapshot((6, 1)))
            device.kill()
        finally:
            shutil.rmtree(place)

    return read


def _agent_store(root: Path) -> Reader:
    """A damaged database. Refused as a whole or in part; what is started then serves."""

    def read(data: bytes) -> None:
        place = root / "device"
        device = Device(place, durable=False)
        try:
            (device.state / "agent.db").write_bytes(data)
            with refusing(StoreError), reading(device.state) as connection:
                read_models(connection, NODE, read_state(connection).store)
            with refusing(StoreError):  # broken at work: the next start sets it aside
                device.start()
                device.receive(snapshot((2**40, 1), [resource(_SHELF)]))
                device.pass_time(700.0)
        finally:
            if hasattr(device, "opened"):
                device.kill()
            shutil.rmtree(place)

    return read


def store_files() -> tuple[bytes, ...]:
    """A store with resources and a version."""
    with tempfile.TemporaryDirectory() as directory:
        device = Device(Path(directory), durable=False)
        device.start()
        keys = (_SHELF, "Model.sedna.io/default/small")
        device.receive(snapshot((5, 1), map(resource, keys), held=["A.b"]))
        device.opened.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        device.kill()
        return ((device.state / "agent.db").read_bytes(),)


CONSUMERS = {
    "bridge": Target(samples.messages, JSON_WORDS, _bridge),
    "agent": Target(samples.messages, JSON_WORDS, _agent),
    "agent-disk": Target(samples.files, JSON_WORDS, _agent_disk),
    "agent-store": Target(store_files, (), _agent_store),
}
