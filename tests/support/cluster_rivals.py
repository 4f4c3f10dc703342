"""Two bridges of one name on an API server, which share a Lease."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.fakes.apiserver import ApiServer
from tests.support.api_servers import Caller, Stream
from tests.support.fleet import BRIDGE_SETTINGS
from tests.support.objects import KINDS, Object, key, made
from tests.support.process import Process
from tests.support.rivals import World, was
from tests.support.wait import eventually
from tests.support.witness import Word

LEASE = {"lease.duration": 2, "lease.renew": 1.3, "lease.retry": 0.2}
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
_PLURALS = tuple(f"{kind.lower()}s" for kind in KINDS)


class Rival(Process):
    """One of the bridges on a cluster; `user`: whom the API server knows it as."""

    def __init__(
        self, log: Path, arguments: list[str], settings: Mapping[str, object], user: str
    ) -> None:
        super().__init__(log, arguments, settings)
        self.user = user


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
