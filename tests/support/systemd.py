"""systemd's end of a service's notify socket: what the service said, in order."""

from __future__ import annotations

import socket
from pathlib import Path

from tests.support.wait import eventually


class Systemd:
    """A context manager. `variables` go into the environment of the service."""

    def __init__(self, path: Path, watchdog: float | None = None) -> None:
        self.variables = {"NOTIFY_SOCKET": str(path)}
        if watchdog is not None:
            self.variables["WATCHDOG_USEC"] = str(int(watchdog * 1_000_000))
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.setblocking(False)
        self._lines: list[str] = []

    def __enter__(self) -> Systemd:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    @property
    def heard(self) -> list[str]:
        """All lines so far."""
        while True:
            try:
                self._lines += self._socket.recv(65536).decode().splitlines()
            except BlockingIOError:
                return self._lines

    @property
    def status(self) -> str:
        """The newest STATUS line."""
        said = [line for line in self.heard if line.startswith("STATUS=")]
        return said[-1].removeprefix("STATUS=") if said else ""

    def hears(self, word: str, times: int = 1) -> None:
        """Wait until a line was said that often."""
        eventually(lambda: self.heard.count(word) >= times, 30, what=f"{word}: {self.heard[-5:]}")

    def shows(self, text: str) -> None:
        """Wait until the newest STATUS line holds `text`."""
        eventually(lambda: text in self.status, 30, what=f"{text!r} in the status line")

    def comes_to(self, line: str) -> None:
        """Wait until the newest STATUS line is this one."""
        eventually(lambda: self.status == line, 30, what=f"{line!r} as the status line")
