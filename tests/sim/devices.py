"""Devices: the real core of the agent on a disk that can be lost, backed up and restored.

The store is SQLite in memory; the files are a table. What the agent writes and removes is checked
as it happens.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import orjson

from agent.broker.report import build_report
from agent.handlers.files import OrphanFile, Stamp
from agent.handlers.outcome import Done
from agent.handlers.paths import path_of
from agent.resources import NodeResources, Pacing
from agent.store.records import content_sum
from agent.store.resources import SCHEMA, ResourceStore
from nodecast.backoff import Backoff
from nodecast.errors import MessageError
from nodecast.messages import NONE, Presence, Refusal, Wire, decode, encode
from nodecast.names import NodeName, ResourceKey
from nodecast.session import Acknowledged, Connected, Lost, Outgoing, Received, Subscription
from nodecast.topics import agent_client_id
from tests.sim.bridges import NAME, TOPICS
from tests.sim.broker import Broker
from tests.sim.clock import Simulation
from tests.sim.session import Session
from tests.sim.truth import Truth

HEARTBEAT = 300.0
COALESCE = 0.5
CRASH = 0.02
"""Share of the snapshots after whose commit the agent is killed, before it changes a file."""


@dataclass(slots=True)
class Files:
    """The resources directory."""

    content: dict[ResourceKey, bytes] = field(default_factory=dict)
    stamp: Stamp | None = None

    def copy(self) -> Files:
        return Files(dict(self.content), self.stamp)


class TableHandler:
    """What the agent does with files, on a table. `removing` and `rewritten` are told before."""

    def __init__(
        self,
        files: Files,
        removing: Callable[[ResourceKey], None],
        rewritten: Callable[[ResourceKey], None],
    ) -> None:
        self._files = files
        self._removing = removing
        self._rewritten = rewritten

    def holds(self, key: ResourceKey, sum_: str) -> bool:
        content = self._files.content.get(key)
        return content is not None and content_sum(content) == sum_

    def apply(self, key: ResourceKey, content: bytes) -> Done:
        if self._files.content.get(key) == content:
            self._rewritten(key)
        self._files.content[key] = content
        return Done()

    def settle(self, keys: Iterable[ResourceKey]) -> dict[ResourceKey, Done]:
        return dict.fromkeys(keys, Done())

    def remove(self, key: ResourceKey) -> Done:
        if key in self._files.content:
            self._removing(key)
            del self._files.content[key]
        return Done()

    def orphans(self, known: Callable[[object], bool]) -> Iterator[OrphanFile | None]:
        for key, content in list(self._files.content.items()):
            if known(path_of(key)):
                yield None
            else:
                yield OrphanFile(key, orjson.loads(content)["digest"], None, None)

    def stamp(self) -> Stamp | None:
        return self._files.stamp

    def stamped(self) -> bool:
        return self._files.stamp is not None

    def write_stamp(self, stamp: Stamp) -> None:
        self._files.stamp = stamp


@dataclass(slots=True)
class Disk:
    """What survives the agent."""

    store: str
    database: sqlite3.Connection
    files: Files

    @classmethod
    def fresh(cls, store: str, files: Files | None = None) -> Disk:
        """A new store, beside `files` that may be there."""
        database = _database()
        database.executescript(SCHEMA)
        return cls(store, database, files or Files())

    def copy(self) -> Disk:
        database = _database()
        database.deserialize(self.database.serialize())
        return Disk(self.store, database, self.files.copy())


def _database() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None)


class Device:
    """A node: its disk, its backups, and the agent while it runs."""

    def __init__(
        self,
        sim: Simulation,
        broker: Broker,
        truth: Truth,
        node: NodeName,
        violate: Callable[[str, str], None],
    ) -> None:
        self.sim = sim
        self.broker = broker
        self.truth = truth
        self.node = node
        self.violate = violate
        self.fragile = True
        """Whether the agent may crash by itself."""
        self._stores = 0
        self.disk = Disk.fresh(self._new_store())
        self.agent: Agent | None = None
        self._starts = 0
        self._backups: list[Disk] = []

    def start(self) -> None:
        if self.agent is None:
            self._starts += 1
            self.agent = Agent(self, f"{self.node}.{self._starts}")

    def kill(self) -> None:
        if self.agent is not None:
            self.agent.stop()
            self.agent = None

    def back_up(self) -> None:
        self._backups.append(self.disk.copy())

    def restore(self, pick: int, *, files: bool) -> None:
        """A backup takes the place of the store, and of the files if `files`."""
        if self._backups:
            backup = self._backups[pick % len(self._backups)].copy()
            self._replace(
                Disk(backup.store, backup.database, backup.files if files else self.disk.files)
            )

    def wipe(self, *, store: bool, files: bool) -> None:
        """Lose the store, the files, or both."""
        left = Files() if files else self.disk.files
        if store:
            self._replace(Disk.fresh(self._new_store(), left))
        else:
            self._replace(Disk(self.disk.store, self.disk.database, left))

    def removing(self, key: ResourceKey) -> None:
        """A file is about to go: may it?"""
        accepted = self.agent.resources.accepted.version if self.agent else NONE
        why = self.truth.why_wrong(self.node, key, accepted)
        self.sim.say(self.node, "removes", key=key, wrong=why or "no")
        if why:
            self.violate("wrong removal", f"{self.node} lost {key}: {why}")

    def _new_store(self) -> str:
        self._stores += 1
        return f"{self.node}-store-{self._stores}"

    def _replace(self, disk: Disk) -> None:
        if disk.database is not self.disk.database:
            self.disk.database.close()
        self.disk = disk


class Agent:
    """One start of an agent."""

    def __init__(self, device: Device, name: str) -> None:
        self._device = device
        self._sim = device.sim
        self._name = name
        self._rng = device.sim.rng(name)
        self._stopped = False
        self._turn_at = math.inf
        self._seq = 0
        self._changes = 0
        self._report_at = math.inf
        self._heartbeat_at = math.inf
        self._bridge: str | None = None
        self._version = NONE
        disk = device.disk
        self.resources = NodeResources(
            ResourceStore(disk.database, disk.store, NAME),
            TableHandler(disk.files, device.removing, self._rewritten),  # type: ignore[arg-type]
            device.node,
            clock=lambda: self._sim.now,
            rng=self._rng,
            pacing=Pacing(600.0, Backoff(1.0, 300.0), Backoff(0.5, 60.0)),
        )
        self.resources.start()
        self._session = Session(
            self._sim,
            device.broker,
            agent_client_id(device.node),
            lambda: None,
            self._wake,
            name=f"{name}/session",
            window=10,
        )
        self._wake()

    def stop(self) -> None:
        self._stopped = True
        self._session.close(clean=False)

    # -- its loop

    def _wake(self) -> None:
        self._turn_by(self._sim.now)

    def _turn_by(self, moment: float) -> None:
        if moment < self._turn_at:
            self._turn_at = moment
            self._sim.after(moment - self._sim.now, self._turn, moment)

    def _turn(self, moment: float) -> None:
        if moment != self._turn_at or self._stopped:
            return
        self._turn_at = math.inf
        events = self._session.take()
        for event in events:
            self._happened(event)
            if self._device.agent is not self:  # it crashed by what happened
                return
        self.resources.work(self._sim.now + 1)
        self._check_version()
        if self.resources.changes != self._changes:
            self._changes = self.resources.changes
            self._report_by(self._sim.now + self._rng.uniform(0.05, COALESCE))
        if self._sim.now >= min(self._report_at, self._heartbeat_at):
            self._report()
        due = min(self.resources.due(), self._report_at, self._heartbeat_at)
        self._turn_by(self._sim.now if events else max(due, self._sim.now + 0.001))

    def _happened(self, event: object) -> None:
        match event:
            case Connected():
                own, state = TOPICS.resources(self._device.node), TOPICS.bridge_state(NAME)
                self._session.subscribe([Subscription(own), Subscription(state)], None)
                self._report_by(self._sim.now)
            case Lost():
                self._report_at = self._heartbeat_at = math.inf
            case Received() if event.topic == TOPICS.bridge_state(NAME):
                self._bridge_said(event)
            case Received():
                self._snapshot_came(event)
            case Acknowledged(Refusal() | None as refused):
                self.resources.reported(refused)

    def _bridge_said(self, event: Received) -> None:
        try:
            presence = decode(Presence, Wire(event.payload, event.encoding))
        except MessageError:
            return
        if presence.online and presence.instance != self._bridge:
            self._bridge = presence.instance
            self._report_by(self._sim.now + self._rng.uniform(0.2, 3))

    def _snapshot_came(self, event: Received) -> None:
        before = self.resources.accepted.version
        self.resources.receive(Wire(event.payload, event.encoding), retained=event.retained)
        after = self.resources.accepted.version
        if after == before:
            return
        self._sim.say(
            self._name,
            "accepts",
            version=f"{after.epoch}.{after.revision}",
            live=not event.retained,
        )
        if self._device.fragile and self._rng.random() < CRASH:
            self._sim.say(self._name, "crashes after the commit")
            self._device.kill()
            self._sim.after(1.0, self._device.start)

    def _check_version(self) -> None:
        version = self.resources.accepted.version
        if version < self._version:
            self._device.violate("agent went back", f"{self._name} {self._version} {version}")
        self._version = version

    def _report_by(self, moment: float) -> None:
        if self._session.connected:
            self._report_at = min(self._report_at, moment)
            self._turn_by(self._report_at)

    def _report(self) -> None:
        self._report_at = math.inf
        self._heartbeat_at = self._sim.now + HEARTBEAT
        self._seq += 1
        report = build_report(
            self.resources, self._device.node, self._name, self._seq, self._sim.now, str
        )
        message = Outgoing(TOPICS.status(self._device.node), encode(report), retain=True)
        self._session.publish(message, report.refused)

    def _rewritten(self, key: ResourceKey) -> None:
        self._device.violate("written twice", f"{self._name} {key}")
