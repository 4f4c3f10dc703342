"""One of our commands as a process: started, asked to stop, killed, and its log read.

Only what was started here is ever signalled. Settings go in as `NODECAST_…` variables; those of
the shell that the tests run in do not count.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.wait import eventually

STOP_WITHIN = 20.0
COMMAND_WITHIN = 30.0


def command(name: str) -> str:
    """The command that was installed beside this Python."""
    return str(Path(sys.executable).parent / name)


def environment(settings: Mapping[str, object]) -> dict[str, str]:
    """`settings` (`mqtt.keep_alive`: 1) as the variables of a process, and nothing else of ours."""
    plain = {key: value for key, value in os.environ.items() if not key.startswith("NODECAST_")}
    return plain | {
        "NODECAST_" + key.upper().replace(".", "_"): str(value) for key, value in settings.items()
    }


def run_to_end(
    *arguments: str, settings: Mapping[str, object] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command that ends by itself; the first argument is its name."""
    return subprocess.run(
        [command(arguments[0]), *arguments[1:]],
        capture_output=True,
        check=False,
        encoding="utf-8",
        env=environment(settings or {}),
        stdin=subprocess.DEVNULL,
        timeout=COMMAND_WITHIN,
    )


class Process:
    """A command that goes on until it is stopped; it may be started again. `settings`, and the
    further `variables` of its environment, may change between two starts."""

    def __init__(
        self, log: Path, arguments: Sequence[str], settings: Mapping[str, object] | None = None
    ) -> None:
        self.settings = dict(settings or {})
        self.variables: dict[str, str] = {}
        self.started_at = 0
        """Where in the log the last start begins."""
        self._log = log
        self._command = [command(arguments[0]), *arguments[1:]]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        """All that it has written, over all its starts."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def logged(self, text: str, since: int = 0) -> int:
        """How many lines hold `text`, from the `since`-th character of the log on."""
        return sum(text in line for line in self.log[since:].splitlines())

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def resident(self) -> int:
        """Bytes of memory that it has now."""
        assert self._process is not None
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024

    def start(self, *extra: str) -> None:
        """Start it, with `extra` arguments for this once."""
        assert not self.running
        self.started_at = len(self.log)
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [*self._command, *extra],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment(self.settings) | self.variables,
            )

    def ask_to_stop(self, number: int = signal.SIGTERM) -> None:
        self._signal(number)

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self.ask_to_stop()
        return self.wait(STOP_WITHIN)

    def freeze(self) -> None:
        """It stands still until `thaw`."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """It stands still meanwhile, if it runs: what happens bit by bit, it sees as one."""
        still = self.running
        if still:
            self.freeze()
        try:
            yield
        finally:
            if still:
                self.thaw()

    def kill(self) -> None:
        """SIGKILL, and wait until it has ended."""
        self._signal(signal.SIGKILL)
        self.wait(STOP_WITHIN)

    def wait(self, within: float) -> int:
        """The exit code, once it has ended. Raises AssertionError after `within` seconds."""
        assert self._process is not None
        try:
            return self._process.wait(within)
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"not ended within {within:g} s:\n{self.log[-4000:]}") from error

    def end(self) -> None:
        """End it in any case."""
        if self._process is not None and self.running:
            self._process.kill()
            self._process.wait()

    def says(self, text: str, within: float = 20.0, since: int = 0) -> None:
        """Wait until a line of its log, from the `since`-th character on, holds `text`."""
        eventually(
            lambda: self.logged(text, since), within, every=0.03, what=f"{self._log.stem}: {text}"
        )

    def _signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)
