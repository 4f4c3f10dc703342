"""The processes of a run: a Mosquitto, two bridges of one name, an agent a node, and the links
between them. All of it on loopback, below one directory, and ended with the run.

Used by the run's thread alone.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from nodecast.names import NodeName
from tests.chaos import settings
from tests.chaos.links import Link
from tests.chaos.plan import AGENTS, BRIDGES
from tests.support.fleet import Agent
from tests.support.mosquitto import Broker
from tests.support.process import STOP_WITHIN, Process

SUPERSEDED = 69
"""The exit code of a bridge that found another one in charge: no supervisor starts it again."""


class Host:
    """A process under a supervisor: whether it should run, and whether the run froze it."""

    def __init__(self, name: str, process: Process) -> None:
        self.name = name
        self.process = process
        self.wanted = False
        self.frozen = False
        self.starts: list[float] = []
        self.stopped: list[int] = []
        """Exit codes of those that were asked to stop."""

    def start(self) -> None:
        self.wanted = True
        if not self.process.running:
            self.starts.append(time.monotonic())
            self.process.start()

    def kill(self) -> None:
        self.wanted = self.frozen = False
        if self.process.running:
            self.process.kill()

    def stop(self) -> None:
        """SIGTERM, with no wait."""
        self.thaw()
        self.wanted = False
        if self.process.running:
            self.process.ask_to_stop()

    def finish(self) -> None:
        """Wait until it has ended, where it was asked to."""
        if not self.wanted and self.process.running:
            self.stopped.append(self.process.wait(STOP_WITHIN))

    def freeze(self) -> None:
        if self.process.running:
            self.frozen = True
            self.process.freeze()

    def thaw(self) -> None:
        if self.frozen and self.process.running:
            self.process.thaw()
        self.frozen = False

    def supervise(self) -> int | None:
        """Start it again where it ended by itself, as its unit would; the exit code then."""
        if not self.wanted or self.process.running:
            return None
        code = self.process.wait(1)
        self.wanted = False
        if code != SUPERSEDED:
            self.start()
        return code


class AgentHost(Host):
    """An agent, and the copies of its state directory that were made."""

    def __init__(self, agent: Agent, copies: Path) -> None:
        super().__init__(agent.node, agent)
        self.agent = agent
        self._copies = copies
        self._number = 0

    def back_up(self) -> None:
        """Copy its state; it does not run."""
        if self.agent.state_dir.exists():
            self._number += 1
            shutil.copytree(self.agent.state_dir, self._copies / str(self._number))

    def restore(self, pick: int, *, files: bool) -> bool:
        """Put a copy in the place of its state; not `files`: of all but the resource files. False:
        there is no copy yet."""
        if not self._number:
            return False
        copy = self._copies / str(pick % self._number + 1)
        self.wipe(store=True, files=files)
        ignore = None if files else shutil.ignore_patterns("resources")
        shutil.copytree(copy, self.agent.state_dir, dirs_exist_ok=True, ignore=ignore)
        return True

    def wipe(self, *, store: bool, files: bool) -> None:
        """Delete its store, its resource files, or both."""
        for path in list(self.agent.state_dir.glob("*")):
            if not (files if path == self.agent.tree else store):
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


class Processes:
    """Everything that runs. `options` gives those of a bridge that name its source; `more` are
    further settings of the bridges."""

    def __init__(
        self, root: Path, options: Callable[[str], list[str]], more: Mapping[str, object]
    ) -> None:
        self.root = root
        self.broker = Broker(root / "broker", persistent=True)
        self.stores: list[bytes] = []
        """States of the broker's store, to come back to."""
        self.broker_losses: list[float] = []
        """When it came up with what may be less than it had."""
        self.links: dict[str, Link] = {
            name: Link("127.0.0.1", self.broker.port) for name in (*BRIDGES, *AGENTS)
        }
        for link in self.links.values():
            link.accept()
        self.bridges = [self._bridge(root, name, options(name), more) for name in BRIDGES]
        self.agents = {node: self._agent(root, node) for node in AGENTS}

    def _bridge(
        self, root: Path, name: str, options: list[str], more: Mapping[str, object]
    ) -> Host:
        arguments = ["nodecast-bridge", "run", *options, "--mqtt-url", self._url(name)]
        chosen = {**settings.BRIDGE, **more, "api.socket": root / f"{name}.sock"}
        return Host(name, Process(root / f"{name}.log", arguments, chosen))

    def _agent(self, root: Path, node: NodeName) -> AgentHost:
        agent = Agent(root, node, self._url(node), node)
        agent.settings = dict(settings.AGENT)
        return AgentHost(agent, root / "backups" / node)

    def _url(self, link: str) -> str:
        return f"mqtt://127.0.0.1:{self.links[link].port}"

    @property
    def hosts(self) -> Iterator[Host]:
        yield from self.bridges
        yield from self.agents.values()

    @contextmanager
    def nobody_in(self) -> Iterator[None]:
        """No link lets anybody in meanwhile."""
        for link in self.links.values():
            link.barred = True
        yield
        for link in self.links.values():
            link.barred = False

    def keep_store(self) -> None:
        """Remember the broker's store as it is on disk: it is replaced by rename."""
        if self.broker.store.exists():
            self.stores.append(self.broker.store.read_bytes())

    def end(self) -> None:
        """End everything in any case."""
        for host in self.hosts:
            host.process.end()
        if self.broker.running:
            self.broker.kill()
        for link in self.links.values():
            link.__exit__()
