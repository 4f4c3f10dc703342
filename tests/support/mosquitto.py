"""A Mosquitto of the test's own: a free loopback port, a configuration and a directory of its own.

Only the process that was started here is ever signalled. The port stays the same over restarts.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support.wait import eventually

_STOP_WITHIN = 10.0


def find_mosquitto() -> str:
    """The path of the broker; Debian puts it where a user's PATH does not look."""
    found = shutil.which(
        "mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
    )
    if found is None:
        raise FileNotFoundError("mosquitto is not installed: apt-get install mosquitto")
    return found


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class BrokerEnded(AssertionError):
    """It ended instead of listening."""


class Broker:
    """A Mosquitto that starts, stops, dies, freezes and loses its store as a test wants it.

    `config` are further configuration lines; `persistent` keeps a store in `directory`, written at
    once on every change, or only at a stop where `autosave` is off. It listens on each of `hosts`,
    of which 127.0.0.1 must be one.
    """

    def __init__(
        self,
        directory: Path,
        *,
        config: str = "",
        persistent: bool = False,
        autosave: bool = True,
        anonymous: bool = True,
        port: int | None = None,
        hosts: Sequence[str] = ("127.0.0.1",),
    ) -> None:
        self.directory = directory
        self.port = port or free_port()
        self.config = config
        self.persistent = persistent
        self.autosave = autosave
        self.anonymous = anonymous
        self.hosts = hosts
        self._process: subprocess.Popen[bytes] | None = None
        self._frozen = False
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    @property
    def store(self) -> Path:
        """The persistence file."""
        return self.directory / "store" / "mosquitto.db"

    @property
    def log(self) -> str:
        """What the broker has logged so far."""
        path = self.directory / "mosquitto.log"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Broker:
        """Start, and wait until it listens."""
        assert not self.running
        path = self.directory / "mosquitto.conf"
        path.write_text(self._configuration())
        with (self.directory / "mosquitto.log").open("ab") as output:
            self._process = subprocess.Popen(
                [find_mosquitto(), "-c", str(path)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        eventually(self._listens, within=10, what="the broker listens")
        return self

    def starts(self) -> bool:
        """Start, and whether it came up: it may not, on the store that it has."""
        try:
            self.start()
        except BrokerEnded:
            self._process = None
            return False
        return True

    def __enter__(self) -> Broker:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End it with SIGTERM: it writes its store and says goodbye."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def reload(self) -> None:
        """Have it read its configuration and its ACL again; connections stay."""
        self._signal(signal.SIGHUP)

    def freeze(self) -> None:
        """Stop the process; its connections stay open and the kernel goes on accepting new ones."""
        self._signal(signal.SIGSTOP)
        self._frozen = True

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)
        self._frozen = False

    def wipe(self) -> None:
        """Stop, and delete the store."""
        if self.running:
            self.stop()
        shutil.rmtree(self.store.parent, ignore_errors=True)

    def save(self) -> bytes:
        """The store as it is on disk after a stop or a restart: for `restore`."""
        was_running = self.running
        if was_running:
            self.stop()
        saved = self.store.read_bytes()
        if was_running:
            self.start()
        return saved

    def restore(self, saved: bytes) -> None:
        """Come back with an older store; running afterwards if it was running before."""
        was_running = self.running
        if was_running:
            self.stop()
        self.store.write_bytes(saved)
        if was_running:
            self.start()

    def _configuration(self) -> str:
        lines = [
            *(f"listener {self.port} {host}" for host in self.hosts),
            f"allow_anonymous {str(self.anonymous).lower()}",
            "set_tcp_nodelay true",
            "log_dest stderr",
            f"user {pwd.getpwuid(os.getuid()).pw_name}",
        ]
        if self.persistent:
            self.store.parent.mkdir(exist_ok=True)
            lines += [
                "persistence true",
                f"persistence_location {self.store.parent}/",
                f"autosave_on_changes {str(self.autosave).lower()}",
                f"autosave_interval {1 if self.autosave else 0}",
            ]
        return "\n".join(lines) + f"\n{self.config}\n"

    def _listens(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise BrokerEnded(f"mosquitto ended with {self._process.returncode}:\n{self.log}")
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def _signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def _end(self, number: int) -> None:
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(number)
            if self._frozen:
                self.thaw()
            try:
                process.wait(_STOP_WITHIN)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._process = None
        self._frozen = False
