"""The agent as a real process, and a bridge that is a test's own hand."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

from nodecast.messages import ModelOp, ModelSet, Presence, Report, Wire, decode
from tests.support.device import BRIDGE, NODE, snapshot
from tests.support.mqtt import Observer
from tests.support.wait import eventually

RESOURCES = f"node/{NODE}/resources"
STATE = f"node/{NODE}/state"
STATUS = f"node/{NODE}/status"
MODELS = f"node/{NODE}/models"
OPS = f"node/{NODE}/models/ops"
COMMAND = [sys.executable, "-c", "from agent.cli import main; main()"]
ROOT = Path(__file__).resolve().parents[2]


class AgentProcess:
    """One node's agent: its directories stay while it comes and goes."""

    def __init__(self, root: Path, url: str, **settings: object) -> None:
        self.root = root
        self.state = root / "state"
        self.tree = self.state / "resources"
        self.models_dir = root / "models"
        self.models_dir.mkdir(parents=True, exist_ok=True)
        self.settings: dict[str, object] = {
            "mqtt_url": url,
            "node": NODE,
            "state_dir": self.state,
            "model_config_dir": self.models_dir,
            "report_coalesce": 0.1,
            "retry_max": 2,
            "mqtt_reconnect_min": 0.05,
            "mqtt_reconnect_max": 0.5,
            **settings,
        }
        self.piped_log = False
        """The log goes through a pipe: then it is written whatever becomes of the agent's files."""
        self.command = COMMAND
        self._process: subprocess.Popen[bytes] | None = None
        self._logging: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Without the variables of whoever runs the tests."""
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("NODECAST_", "NOTIFY_"))}
        names = {f"NODECAST_{k.upper()}": str(v) for k, v in self.settings.items()}
        return plain | names | {"PYTHONPATH": str(ROOT)}

    @property
    def log(self) -> str:
        path = self.root / "agent.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def start(self, environ: Mapping[str, str] | None = None) -> AgentProcess:
        assert self._process is None
        with (self.root / "agent.log").open("ab") as file:
            self._process = subprocess.Popen(
                [*self.command, "run"],
                env=self.environment | dict(environ or {}),
                cwd=self.root,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if self.piped_log else file,
                stderr=subprocess.STDOUT,
            )
            if self._process.stdout is not None:
                self._logging = subprocess.Popen(["cat"], stdin=self._process.stdout, stdout=file)
                self._process.stdout.close()
        return self

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL: as good as a loss of power for the process."""
        if self._process is not None:
            self._process.kill()
            self.wait(10)

    def stop(self, within: float = 20.0) -> int:
        """SIGTERM; the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self.wait(within)

    def wait(self, within: float = 20.0) -> int:
        """The exit code of a process that ends by itself."""
        assert self._process is not None
        code = self._process.wait(within)
        self._process = None
        if self._logging is not None:
            self._logging.wait(within)
            self._logging = None
        return code

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command of the agent on its directories."""
        return subprocess.run(
            [*self.command, *arguments],
            env=self.environment,
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    def status(self) -> dict[str, Any]:
        done = self.run("status", "--json")
        value: dict[str, Any] = orjson.loads(done.stdout) if done.stdout else {}
        return value

    def models(self, **specs: object) -> None:
        """Put models.json in place: name to storage URI, or to a whole spec."""
        entries = [
            {
                "modelName": name,
                "modelSpec": spec if isinstance(spec, dict) else {"storageUri": spec},
            }
            for name, spec in specs.items()
        ]
        temporary = self.models_dir / ".models.json"
        temporary.write_bytes(orjson.dumps(entries))
        temporary.replace(self.models_dir / "models.json")

    @property
    def values(self) -> dict[str, object]:
        """The values in the resource files, by key."""
        found: dict[str, object] = {}
        for path in sorted(self.tree.rglob("*.json")):
            if path.name.startswith("."):
                continue
            try:
                value = orjson.loads(path.read_bytes())["spec"]["value"]
            except FileNotFoundError:
                continue  # removed since it was listed
            found[str(path.relative_to(self.tree)).removesuffix(".json")] = value
        return found


class Hand:
    """Speaks as the bridge, and reads what the agent says."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer

    def say(self, version: tuple[int, int], resources: Iterable[bytes] = (), **more: Any) -> None:
        """Publish a snapshot: retained, and live for who is subscribed."""
        wire = snapshot(version, resources, **more)
        self.observer.publish(RESOURCES, wire.payload)

    def presence(self) -> Presence | None:
        return self._last(Presence, STATE)

    def report(self) -> Report | None:
        return self._last(Report, STATUS)

    def model_set(self) -> ModelSet | None:
        return self._last(ModelSet, MODELS)

    def ops(self) -> list[ModelOp]:
        return [decode(ModelOp, Wire(seen.payload)) for seen in self.observer.of(OPS)]

    def replay(self) -> dict[str, str]:
        """What a consumer that follows the ops has loaded, by model: its storage URI."""
        loaded: dict[str, str] = {}
        for op in self.ops():
            if op.op == "load":
                loaded[op.model] = op.spec["storageUri"]
            else:
                loaded.pop(op.model, None)
        return loaded

    def reported(self, version: tuple[int, int], within: float = 30) -> Report:
        """Wait for a report of this version."""

        def found() -> Report | None:
            report = self.report()
            return report if report and report.version == version else None

        report = eventually(found, within, what=f"a report of {version}")
        assert report is not None
        return report

    def online(self, within: float = 30) -> Presence:
        """Wait until the agent is there."""

        def found() -> Presence | None:
            presence = self.presence()
            return presence if presence and presence.online else None

        presence = eventually(found, within, what="the agent says it is online")
        assert presence is not None
        return presence

    def _last(self, kind: Any, topic: str) -> Any:
        seen = self.observer.latest(topic)
        if seen is None or not seen.payload:
            return None
        return decode(kind, Wire(seen.payload, seen.properties.get("encoding")))


__all__ = ["BRIDGE", "AgentProcess", "Hand"]
