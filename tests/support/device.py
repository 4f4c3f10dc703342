"""A device without a broker: the agent's resources side on a real store and a real tree."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import orjson

from agent.handlers.files import FilesHandler
from agent.handlers.tree import Tree
from agent.resources import NodeResources, Pacing
from agent.store.database import Opened, open_database
from agent.store.resources import SCHEMA, ResourceStore
from nodecast.backoff import Backoff
from nodecast.messages import (
    Version,
    Wire,
    encode_snapshot,
    resource_digest,
    snapshot_digest,
)
from nodecast.names import NodeName

NODE = NodeName("edge-a")
BRIDGE = "default"


class Clock:
    """A time that moves when a test says so."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def resource(key: str, value: object = 1, **metadata: Any) -> bytes:
    """The bytes of a resource in a snapshot; `value` is in its spec."""
    kind, namespace, name = key.split("/")
    kind, _, group = kind.partition(".")
    projected: dict[str, Any] = {
        "apiVersion": f"{group}/v1" if group else "v1",
        "kind": kind,
        "metadata": {"namespace": namespace, "name": name, "uid": "u-" + name, **metadata},
        "spec": {"value": value},
    }
    projected["digest"] = resource_digest(projected)
    return orjson.dumps(projected, option=orjson.OPT_SORT_KEYS)


def snapshot(
    version: tuple[int, int],
    resources: Iterable[bytes] = (),
    *,
    held: Iterable[str] = (),
    omitted: Iterable[str] = (),
    node: str = NODE,
    bridge: str = BRIDGE,
    digest: str | None = None,
) -> Wire:
    """A snapshot as the broker has it."""
    bodies = sorted(resources, key=_key)
    held, omitted = sorted(held), sorted(omitted)
    digests = [orjson.loads(each)["digest"] for each in bodies]
    return Wire(
        encode_snapshot(
            bridge=bridge,
            instance="bridge-1",
            node=node,
            version=Version(*version),
            digest=digest or snapshot_digest(digests, held, omitted),
            resources=bodies,
            held=held,
            omitted=omitted,
        )
    )


def _key(body: bytes) -> str:
    value = orjson.loads(body)
    group = value["apiVersion"].rpartition("/")[0]
    kind = f"{value['kind']}.{group}" if group else value["kind"]
    return f"{kind}/{value['metadata']['namespace']}/{value['metadata']['name']}"


class Device:
    """A node's disk, and the agent on it, which can be killed and started at any moment.

    `durable` False: nothing waits for the disk, for tests whose crashes are of the process alone.
    """

    def __init__(self, root: Path, *, bridge: str = BRIDGE, durable: bool = True) -> None:
        self.root = root
        self.state = root / "state"
        self.state.mkdir(parents=True, exist_ok=True)
        self.tree = self.state / "resources"
        self.bridge = bridge
        self.durable = durable
        self.sync: Callable[[int], None] = os.fsync if durable else lambda _: None
        self.clock = Clock()
        self.rng = random.Random(7)
        self.stores = 0
        self.opened: Opened
        self.agent: NodeResources

    def start(self, *, work: bool = True) -> NodeResources:
        """Start the agent and, with `work`, let it serve from disk."""
        self.stores += 1
        self.opened = open_database(self.state, [SCHEMA], f"store-{self.stores}")
        if not self.durable:
            self.opened.connection.execute("PRAGMA synchronous=OFF")
        store = ResourceStore(self.opened.connection, self.opened.store, self.bridge)
        pacing = Pacing(round=600, retry=Backoff(1, 60), store=Backoff(1, 60))
        self.agent = NodeResources(
            store,
            FilesHandler(Tree(self.tree, sync=lambda descriptor: self.sync(descriptor))),
            NODE,
            clock=self.clock,
            rng=self.rng,
            pacing=pacing,
        )
        self.agent.start()
        if work:
            self.settle()
        return self.agent

    def kill(self) -> None:
        """The process is gone. What SQLite committed is there; nothing else is."""
        self.opened.connection.close()

    def restart(self) -> NodeResources:
        self.kill()
        return self.start()

    def lose_store(self) -> None:
        """The store is lost while the agent is down; the files stay."""
        for file in self.state.glob("agent.db*"):
            file.unlink()

    def back_up(self, name: str = "backup") -> None:
        shutil.rmtree(self.root / name, ignore_errors=True)
        (self.root / name).mkdir()
        for file in self.state.glob("agent.db*"):
            shutil.copy(file, self.root / name)

    def restore(self, name: str = "backup") -> None:
        self.lose_store()
        for file in (self.root / name).iterdir():
            shutil.copy(file, self.state)

    def settle(self) -> None:
        """Let it do all that is due now."""
        for _ in range(10_000):
            self.agent.work(self.clock.now + 1)
            if self.agent.due() > self.clock.now:
                return
        raise AssertionError("the agent does not come to rest")

    def receive(self, wire: Wire, *, retained: bool = False) -> None:
        self.agent.receive(wire, retained=retained)
        self.settle()

    def pass_time(self, seconds: float) -> None:
        self.clock.now += seconds
        self.settle()

    @property
    def files(self) -> dict[str, bytes]:
        """What is in the tree, by path, without the stamp."""
        return {
            str(path.relative_to(self.tree)): path.read_bytes()
            for path in sorted(self.tree.rglob("*"))
            if path.is_file() and not path.name.startswith(".")
        }

    @property
    def values(self) -> dict[str, object]:
        """The values in the resource files, by path without `.json`."""
        return {
            path.removesuffix(".json"): orjson.loads(content)["spec"]["value"]
            for path, content in self.files.items()
        }

    def states(self) -> dict[str, str]:
        return {key: str(each.state) for key, each in self.agent.reconciler.progress.items()}
