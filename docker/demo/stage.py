"""The stage of the demo: a broker, a bridge, two agents, an observer, and their files.

`edge-c` has objects and no agent, on purpose: its snapshot waits at the broker. Leaving the stage
ends everything that was started: bridge and agents first, so that they can say goodbye. The main
thread only.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from files import Manifests, ModelConfig, ResourceTree
from observer import Observer
from processes import Broker, Process, command, stop_all
from waiting import Waits, Watched

DEMO = Path(__file__).resolve().parent
AGENTS = ("edge-a", "edge-b")
WITHOUT_AGENT = "edge-c"
NODES = (*AGENTS, WITHOUT_AGENT)
HOLD = 2
"""Seconds: a broker that knows nothing yet is no reason to wait a minute here."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node with an agent."""

    name: str
    state_dir: Path
    agent: Process
    models: ModelConfig
    tree: ResourceTree


class Stage:
    """See the module. Use it as a context: entering starts everything, leaving ends it."""

    def __init__(self, directory: Path, waits: Waits) -> None:
        """Copy the demo's files into `directory`, which is empty. Raises DemoFailed."""
        self.directory = directory
        self.waits = waits
        self._logs = directory / "logs"
        self._logs.mkdir()
        self.manifests = Manifests(directory / "manifests")
        shutil.copytree(DEMO / "manifests", self.manifests.directory)
        self.broker = Broker(directory / "broker", self._log("broker"), waits)
        self.bridge = self._make_bridge()
        self.nodes = {name: self._make_node(name) for name in AGENTS}
        self.observer = Observer(self.broker.url)

    def __enter__(self) -> Stage:
        try:
            self.broker.start()
            self.observer.start()
            self.waits.until(self._unobserved, within=10, watched=self.watched)
            self.bridge.start()
            for node in self.nodes.values():
                node.agent.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End everything that still runs."""
        stop_all([self.bridge, *(node.agent for node in self.nodes.values())])
        self.observer.close()
        self.broker.stop()

    @property
    def processes(self) -> list[Process]:
        return [self.broker, self.bridge, *(node.agent for node in self.nodes.values())]

    @property
    def watched(self) -> list[Watched]:
        """What must go on while we wait."""
        return [*self.processes, self.observer]

    def logs(self) -> str:
        """The last lines of every process."""
        return "\n".join(f"--- {each.name}\n{each.log_tail()}" for each in self.processes)

    def _unobserved(self) -> str | None:
        return None if self.observer.view().connected else "the observer is not connected"

    def _make_bridge(self) -> Process:
        arguments = [
            *(command("nodecast-bridge"), "run"),
            *("--manifests", str(self.manifests.directory)),
            *("--hold", str(HOLD)),
            *self._common(),
        ]
        # Its socket stands among the demo's own files, whoever else runs a bridge here.
        variables = {"RUNTIME_DIRECTORY": str(self.directory)}
        return Process("bridge", arguments, self._log("bridge"), variables)

    def _make_node(self, name: str) -> Node:
        state_dir = self.directory / name / "state"
        config_dir = self.directory / name / "models"
        shutil.copytree(DEMO / "models" / name, config_dir)
        arguments = [
            *(command("nodecast-agent"), "run", "--node", name),
            *("--state-dir", str(state_dir)),
            *("--model-config-dir", str(config_dir)),
            *self._common(),
        ]
        return Node(
            name,
            state_dir,
            Process(f"agent {name}", arguments, self._log(name)),
            ModelConfig(config_dir / "models.json"),
            ResourceTree(state_dir / "resources"),
        )

    def _common(self) -> list[str]:
        return ["--mqtt-url", self.broker.url, "--log-format", "text"]

    def _log(self, name: str) -> Path:
        return self._logs / f"{name}.log"
