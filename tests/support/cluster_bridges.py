"""The bridge as a process on a test's corner of a cluster, with a Mosquitto."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nodecast.messages import Snapshot, Wire, decode_snapshot
from tests.support.api_groups import RULES
from tests.support.cluster_sources import Placed
from tests.support.clusters import Cluster
from tests.support.fleet import BRIDGE_SETTINGS, Look
from tests.support.mosquitto import Broker
from tests.support.mqtt import observing
from tests.support.process import Process
from tests.support.wait import eventually

SETTINGS: Mapping[str, object] = {**BRIDGE_SETTINGS, "kubernetes.watch": 2}


def settings_file(cluster: Cluster, more: str = "") -> Path:
    """Settings with the rules of our kinds; they go below `more`."""
    rules = [_toml({**rule, "kind": cluster.kind(rule["kind"])}) for rule in RULES]
    path = cluster.directory / f"{secrets.token_hex(4)}.toml"
    path.write_text("\n".join([more, *(f"[[rules]]\n{rule}" for rule in rules)]))
    return path


def _toml(rule: Mapping[str, Any]) -> str:
    lines = []
    for name, value in rule.items():
        if name == "carries":
            pairs = [f"{{kind = {_text(e['kind'])}, path = {_text(e['path'])}}}" for e in value]
            lines.append(f"{name} = [{', '.join(pairs)}]")
        else:
            lines.append(f"{name} = {_text(value)}")
    return "\n".join(lines)


def _text(value: object) -> str:
    return json.dumps(value)  # text and lists of text are the same in TOML


class ClusterBridge:
    """A bridge on the first namespace, its broker, and what the broker keeps."""

    def __init__(self, cluster: Cluster, broker: Broker, look: Look, process: Process) -> None:
        self.cluster, self.broker, self.look, self.process = cluster, broker, look, process

    def snapshots(self, node: str) -> list[Snapshot]:
        """All that were published for a node since the test began, in order."""
        seen = self.look.observer.of(f"node/{node}/resources")
        return [
            decode_snapshot(Wire(each.payload, each.properties.get("encoding"))) for each in seen
        ]

    def placed(self) -> Placed:
        """What each node's snapshot has of our kinds; nodes that have nothing are left out."""
        found = {
            node: {self._short(each.key) for each in snapshot.resources}
            for node, snapshot in self._all().items()
        }
        return {node: names for node, names in found.items() if names}

    def held(self) -> set[str]:
        """Our kinds that any node's snapshot holds."""
        group = self.cluster.group.name
        kinds = [kind for each in self._all().values() for kind in each.held_kinds]
        return {kind.partition(".")[0] for kind in kinds if kind.partition(".")[2] == group}

    def should_be(self, expected: Placed, held: set[str] | None = None) -> None:
        """Wait until the broker keeps this for every node, and these kinds are held."""
        wanted = (expected, held or set())
        eventually(
            lambda: (self.placed(), self.held()) == wanted,
            30,
            every=0.05,
            what=f"{wanted}, not {(self.placed(), self.held())}",
        )

    def kept_throughout(self, node: str, kind: str, name: str, since: int = 0) -> bool:
        """Whether every snapshot of a node, from the `since`-th on, has this object or holds its
        kind: nothing else keeps it on the node."""
        key, whole = self.cluster.key(kind, name), self.cluster.kind(kind)
        return all(
            whole in each.held_kinds or key in {resource.key for resource in each.resources}
            for each in self.snapshots(node)[since:]
        )

    def says(self, text: str) -> None:
        """Wait until its log says so, in the run that is on."""
        self.process.says(text, since=self.process.started_at)

    def _all(self) -> dict[str, Snapshot]:
        nodes = [topic.split("/")[1] for topic in self.look.observer.retained if _of_node(topic)]
        found = {node: self.look.snapshot(node) for node in nodes}
        return {node: snapshot for node, snapshot in found.items() if snapshot is not None}

    def _short(self, key: str) -> str:
        kind, _, name = key.split("/")
        return f"{kind.partition('.')[0]}/{name}"


def _of_node(topic: str) -> bool:
    return topic.startswith("node/") and topic.endswith("/resources")


@contextmanager
def bridging(
    cluster: Cluster, kubeconfig: Path | None = None, more: str = "", *, start: bool = True
) -> Iterator[ClusterBridge]:
    """A bridge that runs (or is to be started), as the admin if nothing else is said."""
    options = ["--config", str(settings_file(cluster, more)), "--namespace", cluster.namespace]
    options += ["--kubeconfig", str(kubeconfig or cluster.kubeconfig())]
    with Broker(cluster.directory / "broker") as broker, observing(broker.port) as observer:
        arguments = ["nodecast-bridge", "run", *options, "--mqtt-url", broker.url]
        process = Process(cluster.directory / "bridge.log", arguments, SETTINGS)
        try:
            if start:
                process.start()
            yield ClusterBridge(cluster, broker, Look(observer), process)
        finally:
            process.end()
            print("--- bridge.log", *process.log.splitlines()[-60:], sep="\n")
