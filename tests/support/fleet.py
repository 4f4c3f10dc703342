"""A whole fleet on one machine: a Mosquitto, a bridge on a directory, and agents, as processes.

`Fleet.should_be` is what most tests end with: it looks at the agents' disks, at the snapshots that
the broker keeps, and at the reports, and all three must say the same. What is expected is built
from the objects as the test wrote them, by nothing of the code under test but the decoder.
Times are short where a setting allows it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from nodecast.errors import MessageError
from nodecast.messages import (
    Ledger,
    ModelOp,
    ModelSet,
    Presence,
    Report,
    Snapshot,
    Wire,
    decode,
    decode_snapshot,
)
from tests.support.mosquitto import Broker
from tests.support.mqtt import Observer, Seen, observing
from tests.support.objects import KINDS, Object, key, made
from tests.support.process import Process, run_to_end
from tests.support.wait import eventually

_MQTT = {"mqtt.reconnect_min": 0.1, "mqtt.reconnect_max": 0.5, "mqtt.connect_timeout": 3}
BRIDGE_SETTINGS: Mapping[str, object] = _MQTT | {
    "hold": 0.4,
    "settle": 0.2,
    "settle_max": 2,
    "interval": 0.05,
    "lag": 2,
}
AGENT_SETTINGS: Mapping[str, object] = _MQTT | {
    "report_coalesce": 0.2,
    "heartbeat": 10,
    "model_config_poll": 5,
    "retry_min": 0.1,
    "retry_max": 1,
}
WITHIN = 30.0
"""Seconds: far above what anything here takes, for a machine that is busy with other things."""

P = TypeVar("P", bound=Process)
M = TypeVar("M")

Identity = tuple[int, int]
"""Inode and time of the last change of content, in nanoseconds: another one means a write."""


@dataclass(frozen=True)
class Mark:
    """An agent at one moment, to see later what it did since."""

    files: Mapping[str, Identity]
    log: int


class Agent(Process):
    """An agent, its state directory and the directory of its model config."""

    def __init__(self, root: Path, node: str, url: str, log: str) -> None:
        self.node = node
        self.state_dir = root / node / "state"
        self.tree = self.state_dir / "resources"
        self.config = root / node / "models" / "models.json"
        self.config.parent.mkdir(parents=True, exist_ok=True)
        self._before: str | None = None
        self._options = [
            *("--node", node, "--state-dir", str(self.state_dir)),
            *("--model-config-dir", str(self.config.parent), "--mqtt-url", url),
        ]
        super().__init__(
            root / f"{log}.log", ["nodecast-agent", "run", *self._options], AGENT_SETTINGS
        )

    def start(self, *extra: str) -> None:
        self._before = self._last_instance()
        super().start(*extra)

    @property
    def instance(self) -> str | None:
        """The instance that runs, once it serves from its disk."""
        last = self._last_instance()
        return last if last != self._before else None

    def _last_instance(self) -> str | None:
        try:
            found: str = json.loads((self.state_dir / "status.json").read_bytes())["instance"]
        except FileNotFoundError:
            return None
        return found

    def disk(self) -> dict[str, Object]:
        """The resources on disk, by key."""
        found = {}
        for path in self._paths():
            try:
                thing = json.loads(path.read_bytes())
            except FileNotFoundError:
                continue  # taken away since it was listed
            found[key(thing)] = thing
        return found

    def mark(self) -> Mark:
        """Everything as it is now, for `wrote` and `untouched`."""
        return Mark(self._identities(), len(self.log))

    def wrote(self, since: Mark) -> set[str]:
        """The files that were written, or taken away, since then: paths in the tree."""
        now = self._identities()
        return {
            path
            for path in now.keys() | since.files.keys()
            if now.get(path) != since.files.get(path)
        }

    def untouched(self, since: Mark) -> bool:
        """No file written or taken away, and no handler that did either and undid it."""
        acted = (
            self.logged("resource written", since.log),
            self.logged("resource removed", since.log),
        )
        return not self.wrote(since) and acted == (0, 0)

    def models(self, specs: Mapping[str, str]) -> None:
        """Replace the model config: storage URIs by name."""
        entries = [
            {"modelName": name, "modelSpec": {"storageUri": uri, "framework": "onnx"}}
            for name, uri in specs.items()
        ]
        self.write_config(json.dumps(entries))

    def write_config(self, text: str) -> None:
        """Replace the model config by rename."""
        temporary = self.config.with_name(".new")
        temporary.write_text(text)
        temporary.replace(self.config)

    def command(self, *arguments: str) -> tuple[int, str]:
        """(exit code, output) of `nodecast-agent <arguments>` on this agent's directories."""
        done = run_to_end("nodecast-agent", *arguments, *self._options)
        return done.returncode, done.stdout + done.stderr

    def listed(self) -> dict[str, str]:
        """What `nodecast-agent resources --json` says: states by key."""
        code, output = self.command("resources", "--json")
        assert code == 0, output
        return {each["key"]: each["state"] for each in json.loads(output)}

    def model_states(self) -> dict[str, str]:
        """What `nodecast-agent models --json` says: states by name; empty before it says any."""
        _, output = self.command("models", "--json")
        try:
            models = json.loads(output)["models"]
        except json.JSONDecodeError:
            return {}
        return {each["name"]: each["state"] for each in models}

    def status(self) -> dict[str, Any]:
        """What `nodecast-agent status --json` says; empty before it says anything."""
        _, output = self.command("status", "--json")
        try:
            found: dict[str, Any] = json.loads(output)
        except json.JSONDecodeError:
            return {}
        return found

    def _paths(self) -> list[Path]:
        tries = 10
        while True:
            try:
                return sorted(self.tree.glob("*/*/*.json"))
            except FileNotFoundError:  # the agent took a directory away while it was walked
                tries -= 1
                if not tries:
                    raise

    def _identities(self) -> dict[str, Identity]:
        found = {}
        for path in self._paths():
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            found[str(path.relative_to(self.tree))] = (status.st_ino, status.st_mtime_ns)
        return found


class Look:
    """What the broker keeps, as a client sees it that connects now and then listens on."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer

    def _wire(self, topic: str) -> Wire | None:
        seen = self.observer.latest(topic)
        return _wire(seen) if seen is not None and seen.payload else None

    def snapshot(self, node: str) -> Snapshot | None:
        return _read(decode_snapshot, self._wire(f"node/{node}/resources"))

    def report(self, node: str) -> Report | None:
        return _read(partial(decode, Report), self._wire(f"node/{node}/status"))

    def model_set(self, node: str) -> ModelSet | None:
        return _read(partial(decode, ModelSet), self._wire(f"node/{node}/models"))

    def ledger(self, bridge: str = "default") -> Ledger | None:
        return _read(partial(decode, Ledger), self._wire(f"bridge/{bridge}/nodes"))

    def presence(self, topic: str) -> Presence | None:
        return _read(partial(decode, Presence), self._wire(topic))

    def online(self, topic: str) -> bool | None:
        """What the presence at `topic` says; None where there is none."""
        presence = self.presence(topic)
        return presence.online if presence else None

    def all_counted(self, node: str) -> bool:
        """Whether the ledger's mark counts the snapshots of `node` that came since this look
        began, and no other: what is counted is not published again for want of it."""
        ledger = self.ledger()
        return ledger is not None and ledger.mark == len(self.observer.of(f"node/{node}/resources"))

    def ops(self, node: str) -> list[ModelOp]:
        """The model ops of a node that came since this look began, in order."""
        return [
            decode(ModelOp, _wire(seen)) for seen in self.observer.of(f"node/{node}/models/ops")
        ]


Url = Callable[[str, int], str]
"""The name of a process and the broker's port to the broker's URL for that process."""


def _directly(_process: str, port: int) -> str:
    return f"mqtt://127.0.0.1:{port}"


class Fleet:
    """One bridge, named `default`, and its agents, one for each of `nodes`."""

    def __init__(self, root: Path, *nodes: str, config: str = "", url: Url = _directly) -> None:
        """`config`: further lines of the broker's; `url` gives each process its way to it."""
        self.root = root
        self._url = url
        self.broker = Broker(root / "broker", persistent=True, config=config)
        self.manifests = root / "manifests"
        self.manifests.mkdir()
        self.objects: dict[str, Object] = {}
        # One of each kind, on no node: the removal of the last object of a kind waits for seconds.
        self.write(
            "keep.yaml", "\n---\n".join(json.dumps(made(kind, "keep", {})) for kind in KINDS)
        )
        self._processes: list[Process] = []
        self.bridge = self.another_bridge("bridge")
        self.agents = {node: self.another_agent(node, node) for node in nodes}

    def another_bridge(
        self, log: str, *, name: str = "default", manifests: Path | None = None
    ) -> Process:
        """A bridge; on the same directory and under the same name, if nothing else is said."""
        directory = manifests or self.manifests
        arguments = ["nodecast-bridge", "run", "--manifests", str(directory), "--bridge", name]
        arguments += ["--mqtt-url", self._url(log, self.broker.port)]
        return self._kept(Process(self.root / f"{log}.log", arguments, BRIDGE_SETTINGS))

    def another_agent(self, node: str, log: str, root: Path | None = None) -> Agent:
        """An agent of `node`; below another `root` it has directories of its own."""
        directory = root or self.root
        directory.mkdir(exist_ok=True)
        return self._kept(Agent(directory, node, self._url(log, self.broker.port), log))

    def _kept(self, process: P) -> P:
        self._processes.append(process)
        return process

    # --- objects

    def put(self, *things: Object) -> None:
        """Write objects, each into a file of its own, by rename."""
        for thing in things:
            self.objects[key(thing)] = thing
            self.write(_file(key(thing)), json.dumps(thing))

    def put_together(self, name: str, *things: Object) -> None:
        """Write objects as the documents of one file."""
        self.objects |= {key(thing): thing for thing in things}
        items = {"apiVersion": "v1", "kind": "List", "items": things}
        self.write(name, json.dumps(items))

    def drop(self, *things: Object) -> None:
        """Delete objects with their files; several go at once for the bridge."""
        with self.bridge.frozen() if len(things) > 1 else nullcontext():
            for thing in things:
                del self.objects[key(thing)]
                (self.manifests / _file(key(thing))).unlink()

    def write(self, name: str, text: str) -> None:
        """Replace a file of the manifests by rename."""
        temporary = self.manifests / ".new"
        temporary.write_text(text)
        temporary.replace(self.manifests / name)

    # --- processes

    def start(self) -> Fleet:
        """Start everything that does not run, the broker first."""
        if not self.broker.running:
            self.broker.start()
        for process in (self.bridge, *self.agents.values()):
            if not process.running:
                process.start()
        return self

    def end(self) -> None:
        """End everything in any case."""
        for process in self._processes:
            process.end()
        if self.broker.running:
            self.broker.kill()

    # --- what is there

    @contextmanager
    def look(self) -> Iterator[Look]:
        """A client that connects now, so that it is told all that is retained."""
        with observing(self.broker.port) as observer:
            yield Look(observer)

    def should_be(
        self,
        placed: Mapping[str, Collection[Object]],
        omitted: Mapping[str, Collection[Object]] | None = None,
        held: int = 0,
        within: float = WITHIN,
    ) -> None:
        """Wait until each node has exactly these objects, as they were put: on its disk, in its
        snapshot at the broker, and in its report. Only what the processes that run
        now have said counts. `omitted`: what belongs to a node besides, and is neither sent to it
        nor there; `held`: how many kinds are held."""
        with self.look() as look:
            try:
                eventually(
                    lambda: not self._differences(placed, omitted or {}, held, look),
                    within,
                    every=0.05,
                )
            except AssertionError as error:
                lines = self._differences(placed, omitted or {}, held, look)
                raise AssertionError(f"not within {within:g} s:\n" + "\n".join(lines)) from error

    def disks_should_be(
        self, placed: Mapping[str, Collection[Object]], within: float = WITHIN
    ) -> None:
        """As `should_be`, of the disks alone: there may be no broker."""
        eventually(lambda: not self._on_disks(placed), within, every=0.05, what="the disks")

    def _bridge_instance(self, look: Look) -> str | None:
        """The instance of the bridge, once the one that runs is in charge; while none runs, the
        one that was."""
        presence = look.presence("bridge/default/state")
        if presence is None:
            return None
        epoch = f"bridge=default epoch={presence.epoch} "
        current = not self.bridge.running or self.bridge.logged(epoch, self.bridge.started_at)
        return presence.instance if current else None

    def _on_disks(self, placed: Mapping[str, Collection[Object]]) -> list[str]:
        return [
            line
            for node, things in placed.items()
            for line in _differ(f"{node}, disk", things, self.agents[node].disk())
        ]

    def _differences(
        self,
        placed: Mapping[str, Collection[Object]],
        omitted: Mapping[str, Collection[Object]],
        held: int,
        look: Look,
    ) -> list[str]:
        lines = self._on_disks(placed)
        for node, things in placed.items():
            snapshot, report = look.snapshot(node), look.report(node)
            if snapshot is None or report is None:
                lines.append(f"{node}: snapshot {snapshot}, report {report}")
                continue
            sent = {each.key: json.loads(each.body) for each in snapshot.resources}
            lines += _differ(f"{node}, snapshot", things, sent)
            lines += _unlike(f"{node}, instance", self.agents[node].instance, report.instance)
            lines += _unlike(f"{node}, bridge", self._bridge_instance(look), snapshot.instance)
            lines += _unlike(f"{node}, held", held, len(snapshot.held_kinds))
            said = (report.version, report.digest, report.incomplete, report.refused)
            lines += _unlike(
                f"{node}, report", (snapshot.version, snapshot.digest, False, None), said
            )
            left_out = {key(each) for each in omitted.get(node, ())}
            lines += _unlike(f"{node}, omitted", left_out, set(snapshot.omitted))
            states = {each.key: each.state for each in report.resources}
            expected = dict.fromkeys(map(key, things), "Applied") | dict.fromkeys(
                left_out, "Pending"
            )
            lines += _unlike(f"{node}, states", expected, states)
        return lines


def _differ(what: str, expected: Collection[Object], there: Mapping[str, Object]) -> list[str]:
    """Lines on what differs between objects as they were put and as they arrived."""
    return _unlike(
        what,
        {key(each): _plain(each) for each in expected},
        {name: _plain(each) for name, each in there.items()},
    )


def _plain(thing: Object) -> Object:
    """An object without what the bridge adds to it."""
    metadata = {each: thing["metadata"][each] for each in ("namespace", "name")}
    return {**thing, "metadata": metadata, "digest": None}


def _unlike(what: str, expected: object, there: object) -> list[str]:
    return [] if expected == there else [f"{what}: expected {expected}, there {there}"]


def _read(reader: Callable[[Wire], M], wire: Wire | None) -> M | None:
    """The message, None where there is none that reads: a test may have put it there."""
    try:
        return reader(wire) if wire else None
    except MessageError:
        return None


def _wire(seen: Seen) -> Wire:
    return Wire(seen.payload, seen.properties.get("encoding"))


def _file(key_: str) -> str:
    return key_.replace("/", "__")[:200] + f"-{zlib.crc32(key_.encode()):08x}.json"


def end_state(
    ops: Iterable[ModelOp], start: Mapping[str, Object] | None = None
) -> dict[str, Object]:
    """What a consumer holds that does what the ops say, in order, once each `seq`."""
    models = dict(start or {})
    seen: set[int] = set()
    for op in ops:
        if op.seq in seen:
            continue
        seen.add(op.seq)
        if op.op == "load":
            models[op.model] = op.spec
        else:
            models.pop(op.model, None)
    return models
