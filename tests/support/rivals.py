"""Two bridges of one name, of which one is to be in charge at a time, and a witness of their words.

The witness sees messages in the order in which the broker took them; what it says does not depend
on the speed of anything.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from nodecast.messages import Ledger, Presence, Report, Wire, decode, decode_snapshot
from tests.fakes.apiserver import ApiServer
from tests.support.api_servers import Caller, Stream
from tests.support.fleet import BRIDGE_SETTINGS, Agent, Fleet
from tests.support.mqtt import Observer, Seen
from tests.support.objects import KINDS, Object, dataset, key, made
from tests.support.process import Process
from tests.support.wait import eventually

NODES = ("edge0", "edge1")
LEASE = {"lease.duration": 2, "lease.renew": 1.3, "lease.retry": 0.2}
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
_PLURALS = tuple(f"{kind.lower()}s" for kind in KINDS)


@dataclass(frozen=True)
class Word:
    """What a bridge said: a snapshot (of a node, as a version), its ledger, or its birth."""

    at: float
    instance: str
    epoch: int
    node: str = ""
    revision: int = 0


class Witness(Observer):
    """Takes down when each message came, in monotonic seconds."""

    def __init__(self, port: int) -> None:
        self.times: list[float] = []
        super().__init__(port)

    def _on_message(self, *args: Any) -> None:
        self.times.append(time.monotonic())
        super()._on_message(*args)

    def words(self) -> list[Word]:
        """All that bridges said, in order; nothing of wills and goodbyes."""
        said = (_word(at, seen) for at, seen in zip(self.times, list(self.messages), strict=False))
        return [word for word in said if word is not None]

    def reports(self) -> list[Report]:
        return [
            decode(Report, _wire(seen))
            for seen in list(self.messages)
            if seen.topic.endswith("/status") and seen.payload
        ]

    def online(self) -> str | None:
        """The instance that says it is there, once it has said something to a node too."""
        seen = self.latest("bridge/default/state")
        presence = decode(Presence, _wire(seen)) if seen is not None else None
        if presence is None or not presence.online:
            return None
        served = any(word.node and word.epoch == presence.epoch for word in self.words())
        return presence.instance if served else None


def _wire(seen: Seen) -> Wire:
    return Wire(seen.payload, seen.properties.get("encoding"))


def _word(at: float, seen: Seen) -> Word | None:
    if not seen.payload or seen.retained:
        return None
    match seen.topic.split("/"):
        case ["node", node, "resources"]:
            snapshot = decode_snapshot(_wire(seen))
            version = snapshot.version
            return Word(at, snapshot.instance, version.epoch, node, version.revision)
        case ["bridge", "default", "nodes"]:
            ledger = decode(Ledger, _wire(seen))
            return Word(at, ledger.instance, ledger.epoch)
        case ["bridge", "default", "state"]:
            presence = decode(Presence, _wire(seen))
            if presence.online:
                assert isinstance(presence.epoch, int)
                return Word(at, presence.instance, presence.epoch)
    return None


def check_order(words: list[Word]) -> None:
    """Epochs come one after the other, each of one instance; no node is told anything older."""
    instances: dict[int, str] = {}
    versions: dict[str, tuple[int, int]] = {}
    greatest = 0
    for word in words:
        assert word.epoch >= greatest, f"{word} after epoch {greatest}"
        greatest = word.epoch
        assert instances.setdefault(word.epoch, word.instance) == word.instance, word
        if word.node:
            version = word.epoch, word.revision
            assert version >= versions.get(word.node, (0, 0)), f"{word} after {versions[word.node]}"
            versions[word.node] = version


def check_reports(reports: list[Report]) -> None:
    """No agent goes back."""
    versions: dict[str, tuple[int, int]] = {}
    for report in reports:
        version = report.version.epoch, report.version.revision
        assert version >= versions.get(report.node, (0, 0)), report
        versions[report.node] = version


def was(process: Process, instance: str) -> bool:
    """Whether one of the starts of a bridge had this instance."""
    starts = [line for line in process.log.splitlines() if "bridge starts" in line]
    return any(f"instance={instance} " in line for line in starts)


class Rival(Process):
    """One of the bridges on a cluster; `user`: whom the API server knows it as."""

    def __init__(
        self, log: Path, arguments: list[str], settings: Mapping[str, object], user: str
    ) -> None:
        super().__init__(log, arguments, settings)
        self.user = user


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


class ClusterWorld(World):
    """The same on an API server, with two bridges that share a Lease."""

    def __init__(self, root: Path, server: ApiServer, caller: Caller, stream: Stream) -> None:
        self.server, self._caller, self._stream = server, caller, stream
        server.install_all()
        server.load(made(kind, "keep", {}) for kind in KINDS)
        super().__init__(root)
        self.rivals = [self._rival(root, name) for name in ("left", "right")]

    def _rival(self, root: Path, name: str) -> Rival:
        self.server.grant(name, [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}])
        path = self.server.kubeconfig(root / f"{name}.kubeconfig", user=name)
        arguments = ["nodecast-bridge", "run", "--kubeconfig", str(path)]
        arguments += ["--mqtt-url", self.fleet.broker.url]
        lease = {"lease.mode": "on", "lease.namespace": "default", **LEASE}
        settings = {**BRIDGE_SETTINGS, "kubernetes.watch": 20, **lease}
        settings["api.socket"] = str(root / f"{name}.sock")
        return Rival(root / f"{name}.log", arguments, settings, name)

    def put(self, thing: Object) -> None:
        if key(thing) in self.objects:
            self.server.replace(thing)
        else:
            self.server.create(thing)
        self.objects[key(thing)] = thing

    def drop(self, thing: Object) -> None:
        metadata = thing["metadata"]
        self.server.delete(f"{thing['kind']}.sedna.io", metadata["namespace"], metadata["name"])
        del self.objects[key(thing)]

    def leases(self) -> list[dict[str, Any]]:
        """The spec of the Lease after each write of it, in order."""
        return [
            event["object"]["spec"]
            for event in list(self._stream.events)
            if event["type"] in ("ADDED", "MODIFIED")
        ]

    def end(self) -> None:
        for rival in self.rivals:
            rival.end()
        super().end()

    # -- what must have been so

    def check_leases(self) -> int:
        """Nobody took the Lease before it had stood still for its duration, unless it was
        released; how often it changed hands."""
        before, hands = None, 0
        for spec in self.leases():
            if before is not None and before["holderIdentity"] != spec["holderIdentity"]:
                hands += 1
                assert spec["leaseTransitions"] == before["leaseTransitions"] + 1
                if before["holderIdentity"] and spec["holderIdentity"]:
                    still = _seconds(spec["acquireTime"]) - _seconds(before["renewTime"])
                    assert still >= before["leaseDurationSeconds"], (before, spec)
            before = spec
        return hands

    def check_lists(self, words: list[Word]) -> int:
        """Before the first snapshot of each epoch its bridge had listed every kind, by consistent
        reads, since it won the Lease; how many epochs there were."""
        first: dict[int, Word] = {}
        for word in words:
            if word.node:
                first.setdefault(word.epoch, word)
        for word in first.values():
            (user,) = (rival.user for rival in self.rivals if was(rival, word.instance))
            won = max(at for at in self._won(word.instance) if at < word.at)
            lists = {
                each.wish.resource
                for each in self.server.requests(user=user, verb="list")
                if won <= each.at <= word.at and "resourceVersion" not in each.query
            }
            assert lists >= set(_PLURALS), (word, won, lists)
        return len(first)

    def take_the_lease(self) -> None:
        """Take it as another candidate would, once it has stood still for its duration; whoever
        held it is told nothing."""

        def stood_still() -> bool:
            spec = self.leases()[-1]
            return time.time() > _seconds(spec["renewTime"]) + spec["leaseDurationSeconds"]

        eventually(stood_still, 60, what="the lease was not renewed for its duration")
        path = f"{_LEASES}/nodecast-bridge-default"
        body = self._caller.get(path).body
        body["spec"] |= {"holderIdentity": "somebody else", "leaseDurationSeconds": 3600}
        self._caller.must("PUT", path, body)

    def _won(self, instance: str) -> Iterator[float]:
        """When an instance took the Lease, in monotonic seconds."""
        offset = time.time() - time.monotonic()
        for spec in self.leases():
            if spec["holderIdentity"].endswith(f"_{instance}"):
                yield _seconds(spec["acquireTime"]) - offset - 0.01


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@contextmanager
def cluster_world(root: Path) -> Iterator[ClusterWorld]:
    """A world on an API server of its own."""
    with ExitStack() as stack:
        server = stack.enter_context(ApiServer())
        caller = Caller(server.kubeconfig(root / "admin.kubeconfig"))
        stack.callback(caller.close)
        stream = stack.enter_context(caller.watch(f"{_LEASES}?watch=1"))
        world = ClusterWorld(root, server, caller, stream)
        stack.callback(world.end)
        yield world
        for rival in world.rivals:
            print(f"--- {rival.user}", *rival.log.splitlines()[-40:], sep="\n")
