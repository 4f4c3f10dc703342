"""Two bridges of one name, of which one is to be in charge at a time, among agents, objects that
change all the time, and a witness of their words."""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from tests.support.fleet import Agent, Fleet
from tests.support.objects import Object, dataset, key
from tests.support.process import Process
from tests.support.wait import eventually
from tests.support.witness import Witness, Word

P = TypeVar("P", bound=Process)

NODES = ("edge0", "edge1")


def was(process: Process, instance: str) -> bool:
    """Whether one of the starts of a bridge had this instance."""
    starts = [line for line in process.log.splitlines() if "bridge starts" in line]
    return any(f"instance={instance} " in line for line in starts)


def who(rivals: Sequence[P], instance: str) -> tuple[P, P]:
    """Of two, the bridge of that instance, and the other one."""
    left, right = rivals
    return (left, right) if was(left, instance) else (right, left)


class World:
    """A Mosquitto with its witness, agents, and objects that change all the time."""

    def __init__(self, root: Path) -> None:
        self.fleet = Fleet(root, *NODES)
        self.fleet.broker.start()
        self.witness = Witness(self.fleet.broker.port)
        self.objects: dict[str, Object] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        for agent in self.agents:
            agent.start()

    @property
    def agents(self) -> list[Agent]:
        return list(self.fleet.agents.values())

    def put(self, thing: Object) -> None:
        """Create or replace an object."""
        self.fleet.put(thing)
        self.objects[key(thing)] = thing

    def drop(self, thing: Object) -> None:
        """Delete one."""
        self.fleet.drop(thing)
        del self.objects[key(thing)]

    def begin_changes(self, seed: int) -> None:
        """Some objects, and from now on one change after the other."""
        for number in range(6):
            self.put(dataset(f"d{number}", NODES[number % 2]))
        self._thread = threading.Thread(target=self._change, args=(random.Random(seed),))
        self._thread.start()

    def _change(self, rng: random.Random) -> None:
        try:
            for number in range(10**6):
                if self._stop.wait(rng.uniform(0.02, 0.1)):
                    return
                thing = dataset(f"d{rng.randrange(6)}", rng.choice(NODES), url=f"/{number}")
                if rng.random() < 0.1 and key(thing) in self.objects:
                    self.drop(thing)
                else:
                    self.put(thing)
        except BaseException as error:
            self._error = error
            raise

    def end_changes(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(20)
        assert self._error is None, self._error

    def placed(self) -> dict[str, list[Object]]:
        """What each node should have."""
        return {
            node: [t for t in self.objects.values() if t["spec"].get("nodeName") == node]
            for node in NODES
        }

    def disks_become_right(self) -> None:
        self.fleet.disks_should_be(self.placed(), 60)

    def serving(self, *but: str) -> str:
        """The instance that is in charge and has spoken to a node, once it is none of `but`."""

        def other() -> str | None:
            instance = self.witness.online()
            return instance if instance not in but else None

        return eventually(other, 60, every=0.02, what="another instance serves") or ""

    def said(self) -> list[Word]:
        """All that bridges have said up to now."""
        topic = f"barrier/{uuid.uuid4().hex}"
        self.witness.publish(topic, b"", retain=False)
        eventually(lambda: self.witness.of(topic), what="the witness has seen all before it")
        return self.witness.words()

    def end(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(20)
        self.witness.close()
        self.fleet.end()


class DirectoryWorld(World):
    """The same on a directory, where the ledger alone says who is in charge."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.rivals = [self.fleet.another_bridge(name) for name in ("left", "right")]
        for rival in self.rivals:
            rival.settings["api.socket"] = str(root / f"{id(rival)}.sock")
