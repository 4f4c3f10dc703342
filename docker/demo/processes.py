"""The processes of the demo: started here, ended here, by their own id.

What always holds: nothing but what was started here is signalled, and `stop` ends in every case,
with SIGKILL where SIGTERM is not enough. Each process has a session of its own, so that Ctrl-C at
the terminal reaches the demo alone and the demo ends the others in order. The main thread only.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from waiting import DemoFailed, Waits

STOP_WITHIN = 15.0
"""Seconds after SIGTERM until SIGKILL; bridge and agents drain for 10 at the most."""
_LISTEN_WITHIN = 10.0
_LOG_TAIL = 15
_SBIN = "/usr/sbin:/usr/local/sbin"  # where Debian puts the broker, outside a user's PATH


class Process:
    """One command, with its output in a log file; it may be stopped and started again."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = log
        self._command = list(command)
        self._variables = dict(variables or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it. Raises DemoFailed where the command cannot be run."""
        with self.log.open("ab") as output:
            try:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=_environment() | self._variables,
                    start_new_session=True,
                )
            except OSError as error:
                raise DemoFailed(f"{self.name} cannot be started: {error}") from error

    def check(self) -> None:
        """Raise DemoFailed when it ended by itself."""
        if self._process is not None and (code := self._process.poll()) is not None:
            raise DemoFailed(f"{self.name} ended by itself with {code}")

    def ask_to_stop(self) -> None:
        """SIGTERM, without waiting."""
        if self._process is not None and self.running:
            self._process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        """End it, and wait until it has ended."""
        self.ask_to_stop()
        process, self._process = self._process, None
        if process is None:
            return
        try:
            process.wait(STOP_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def log_tail(self) -> str:
        """The last lines that it wrote."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return ""
        return "\n".join(lines[-_LOG_TAIL:])


class Broker(Process):
    """A private Mosquitto on a free loopback port, with a store in `directory`."""

    def __init__(self, directory: Path, log: Path, waits: Waits) -> None:
        """Raises DemoFailed where no Mosquitto is installed."""
        self.port = _free_port()
        self._waits = waits
        self._store = directory / "store"
        self._store.mkdir(parents=True)
        config = directory / "mosquitto.conf"
        config.write_text(self._configuration())
        super().__init__("broker", [_find_mosquitto(), "-c", str(config)], log)

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start, and wait until it listens. Raises DemoFailed, Interrupted."""
        super().start()
        self._waits.until(self._silent, within=_LISTEN_WITHIN, watched=[self])

    def wipe(self) -> None:
        """Forget every retained message; only while it is stopped."""
        for path in self._store.iterdir():
            path.unlink()

    def _configuration(self) -> str:
        return "\n".join(
            [
                f"listener {self.port} 127.0.0.1",
                "allow_anonymous true",
                "set_tcp_nodelay true",
                "persistence true",
                f"persistence_location {self._store}/",
                "log_dest stdout",
                f"user {pwd.getpwuid(os.getuid()).pw_name}",
                "",
            ]
        )

    def _silent(self) -> str | None:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError as error:
            return f"the broker does not listen on port {self.port}: {error}"
        return None


def stop_all(processes: Sequence[Process]) -> None:
    """End all of them together, and wait until the last has ended."""
    for process in processes:
        process.ask_to_stop()
    for process in processes:
        process.stop()


def command(name: str) -> str:
    """The path of a command that was installed beside this Python. Raises DemoFailed."""
    path = Path(sys.executable).parent / name
    if not path.exists():
        raise DemoFailed(f"{path} is not there: install nodecast first (make setup)")
    return str(path)


def run_to_end(arguments: Sequence[str], within: float) -> subprocess.CompletedProcess[str]:
    """Run a command that ends by itself. Raises DemoFailed when it takes too long."""
    started = time.monotonic()
    try:
        return subprocess.run(
            list(arguments),
            capture_output=True,
            check=False,
            encoding="utf-8",
            env=_environment(),
            start_new_session=True,  # a Ctrl-C is the demo's alone: this ends by itself
            stdin=subprocess.DEVNULL,
            timeout=within,
        )
    except subprocess.TimeoutExpired as error:
        took = time.monotonic() - started
        raise DemoFailed(f"no end after {took:.0f} s: {' '.join(arguments)}") from error


def _environment() -> dict[str, str]:
    """The demo's own settings alone count, not those of the shell that it is started from."""
    return {name: value for name, value in os.environ.items() if not name.startswith("NODECAST_")}


def _find_mosquitto() -> str:
    found = shutil.which("mosquitto", path=f"{os.environ.get('PATH', os.defpath)}:{_SBIN}")
    if found is None:
        raise DemoFailed("mosquitto is not installed: apt-get install mosquitto")
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
