"""inotify at its limits for one process alone, and lifted under it.

Real limits where a user namespace may be made: the kernel counts instances and watches for each.
Elsewhere the process itself has the two calls fail as the kernel does, as long as a file is there.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_INJECTED = """
import errno, os, sys
from inotify_simple import INotify
held, call = sys.argv.pop(1), sys.argv.pop(1)
def limited(method, number):
    def inner(self, *arguments, **more):
        if os.path.exists(held):
            raise OSError(number, os.strerror(number))
        return method(self, *arguments, **more)
    return inner
if call == "max_inotify_instances":
    INotify.__init__ = limited(INotify.__init__, errno.EMFILE)
else:
    INotify.add_watch = limited(INotify.add_watch, errno.ENOSPC)
from agent.cli import main
main()
"""
_SET = 'echo "$0" >/proc/sys/user/"$1"'


class InotifyLimit:
    """`name`: `max_inotify_instances` or `max_inotify_watches`. It holds until `lift`."""

    def __init__(self, name: str, root: Path) -> None:
        self._name = name
        self._held = root / "limited"
        self._held.touch()
        tried = subprocess.run(
            ["unshare", "-Ur", "sh", "-c", _SET, "0", name], capture_output=True, check=False
        )
        self.real = tried.returncode == 0

    def command(self, plain: list[str]) -> list[str]:
        """`plain`, which is the agent's command, so that it runs under the limit."""
        if self.real:
            script = f'{_SET}; shift; exec "$@"'
            return ["unshare", "-Ur", "sh", "-c", script, "0", self._name, *plain]
        return [sys.executable, "-c", _INJECTED, str(self._held), self._name]

    def lift(self, pid: int) -> None:
        """From now on the process `pid` has as many as it likes."""
        self._held.unlink()
        if self.real:
            enter = ["nsenter", "--user", "--preserve-credentials", "--target", str(pid)]
            subprocess.run([*enter, "sh", "-c", _SET, "128", self._name], check=True)
