"""An agent's uplink on a session that only remembers, with a real store and tree below."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from agent.broker.presence import Identity
from agent.broker.uplink import Uplink
from agent.config import AgentSettings
from agent.models.configfile import ConfigSeen
from agent.models.sync import ModelSync
from agent.pace import ReportTimes
from agent.store.database import open_database
from agent.store.models import SCHEMA, ModelStore
from nodecast.messages import ModelOp, ModelSet, Presence, Report, Wire, decode
from nodecast.names import BridgeName
from nodecast.session import (
    Acknowledged,
    Connected,
    Lost,
    Outgoing,
    Received,
    Refused,
    Subscribed,
    Subscription,
)
from nodecast.topics import Topics
from tests.support.device import BRIDGE, NODE, Device

M = TypeVar("M", bound=msgspec.Struct)

STATE = f"node/{NODE}/state"
STATUS = f"node/{NODE}/status"
MODELS = f"node/{NODE}/models"
OPS = f"node/{NODE}/models/ops"
RESOURCES = f"node/{NODE}/resources"
BRIDGE_STATE = f"bridge/{BRIDGE}/state"


class FakeSession:
    """Remembers what was published and subscribed."""

    def __init__(self) -> None:
        self.connected = True
        self.free = 20
        self.limit: int | None = None
        self.published: list[tuple[Outgoing, object]] = []
        self.subscribed: list[list[Subscription]] = []

    def publish(self, message: Outgoing, token: object) -> None:
        self.published.append((message, token))

    def subscribe(self, filters: Sequence[Subscription], token: object) -> None:
        assert token == "subscribe"
        self.subscribed.append(list(filters))


class Rig:
    """An uplink, and the broker's part of the conversation. `durable`: see `Device`."""

    def __init__(
        self, root: Path, times: ReportTimes | None = None, *, durable: bool = True
    ) -> None:
        self.device = Device(root, durable=durable)
        self.session = FakeSession()
        self.ids = 0
        models_dir = root / "models"
        models_dir.mkdir(parents=True, exist_ok=True)
        self.opened = open_database(models_dir, [SCHEMA], "store-1")
        if not durable:
            self.opened.connection.execute("PRAGMA synchronous=OFF")
        self.device.start()
        self.models = ModelSync(
            NODE,
            "store-1",
            "models.json",
            ModelStore(self.opened.connection),
            oversize=lambda op: self.uplink.oversize(
                Outgoing(OPS, msgspec.json.encode(op), retain=False)
            ),
            now=lambda: "",
        )
        self.uplink = Uplink(
            self.session,
            Identity(NODE, BridgeName(BRIDGE), "me", "the start"),
            Topics(),
            self.device.agent,
            self.models,
            clock=self.device.clock,
            text=str,
            times=times or AgentSettings().report_times(),
            rng=random.Random(3),
            new_id=self.new_id,
        )

    def new_id(self) -> str:
        self.ids += 1
        return f"renewed-{self.ids}"

    def close(self) -> None:
        self.device.kill()
        self.opened.connection.close()

    @property
    def now(self) -> float:
        return self.device.clock.now

    def connect(self, *, refused: tuple[str, ...] = (), echo: bool = True) -> None:
        """A connection with its SUBACK, and the own birth coming back."""
        self.uplink.handle(Connected(None, 20), self.now)
        self.uplink.handle(Subscribed("subscribe", refused), self.now)
        if echo:
            self.echo()
        self.work()

    def echo(self) -> None:
        self.say_state(Presence(online=True, instance="me"))

    def say_state(self, presence: Presence | None, *, retained: bool = False) -> None:
        self.receive(STATE, msgspec.json.encode(presence) if presence else b"", retained=retained)

    def receive(self, topic: str, payload: bytes, *, retained: bool = False) -> None:
        self.uplink.handle(Received(topic, payload, retained, None), self.now)

    def lose(self) -> None:
        self.uplink.handle(Lost("gone", ()), self.now)

    def config(self, raw: bytes) -> None:
        self.models.seen(ConfigSeen(raw))

    def work(self, seconds: float = 0.0) -> None:
        """Let time pass in small steps, working at each."""
        end = self.now + seconds
        while True:
            self.device.settle()
            self.uplink.work(self.now)
            if self.now >= end:
                return
            self.device.clock.now = min(end, self.now + 0.1)

    def acknowledge(self) -> None:
        """The broker has everything."""
        for _, token in self.take():
            self.uplink.handle(Acknowledged(token), self.now)
        self.work()

    def refuse(self, topic: str, *, too_large: bool = False) -> None:
        """The broker refuses what waits for a topic, and takes the rest."""
        for message, token in self.take():
            if message.topic == topic:
                answer = Refused(token, "no", 0x95 if too_large else 0x87, too_large)
                self.uplink.handle(answer, self.now)
            else:
                self.uplink.handle(Acknowledged(token), self.now)

    def take(self) -> list[tuple[Outgoing, object]]:
        """What was published since the last time."""
        taken, self.session.published = self.session.published, []
        return taken

    def said(self, topic: str) -> list[Outgoing]:
        """What is published on a topic and not answered yet."""
        return [message for message, _ in self.session.published if message.topic == topic]

    def reports(self) -> list[Report]:
        return [_decoded(Report, each) for each in self.said(STATUS)]

    def births(self) -> list[Presence]:
        return [_decoded(Presence, each) for each in self.said(STATE)]

    def sets(self) -> list[ModelSet]:
        return [_decoded(ModelSet, each) for each in self.said(MODELS)]

    def ops(self) -> list[ModelOp]:
        return [_decoded(ModelOp, each) for each in self.said(OPS)]


def _decoded(kind: type[M], message: Outgoing) -> M:
    return decode(kind, Wire(message.payload, message.encoding))
