"""The thread that reads the model config file.

What always holds: the directory is watched, not the file; any event, the start or the slow poll
means "read it again", and only other content is told. The file is read whole, and every look that
differs from the one before, a missing file too, goes to the callback, in order. The thread
`models-watch` runs it; it waits for the directory watch and the disk.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path

from agent.models.configfile import MAX_BYTES, ConfigSeen
from nodecast.dirwatch import DirectoryWatch, Reason
from nodecast.log import logger
from nodecast.regular import regular_file
from nodecast.threads import Fail, supervised

log = logger(__name__)

FILE = "models.json"
POLL_S = 30.0
_MOUNTS = Path("/proc/self/mountinfo")


def look(path: Path) -> ConfigSeen:
    """The bytes of the file at `path`, or why there are none. Raises nothing."""
    try:
        with regular_file(path) as file:
            if file is None:
                return ConfigSeen(error="it is no regular file")
            raw = _read(file)
        if raw is None:
            return ConfigSeen(error="it gives nothing without being waited for")
        return ConfigSeen(raw)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return ConfigSeen()
        return ConfigSeen(error=error.strerror or str(error))


def _read(file: BufferedReader) -> bytes | None:
    """What is in the file; None where that has to be waited for, as in some files of /proc."""
    return file.read(MAX_BYTES + 1)


def is_mount_point(path: Path, mounts: Path = _MOUNTS) -> bool:
    """Whether something is mounted on `path` itself, as mountinfo (proc(5)) says."""
    try:
        lines = mounts.read_text(errors="surrogateescape").splitlines()
        real = os.path.realpath(path)
    except OSError as error:
        log.debug("mounts not known", reason=error)
        return False
    return any(_unescaped(line.split(" ")[4]) == real for line in lines if line.count(" ") > 4)


def _unescaped(text: str) -> str:
    """mountinfo writes space, tab, line feed and backslash in octal."""
    for octal, plain in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(octal, plain)
    return text


class ModelsWatch:
    """Watches `<directory>/models.json`, which need not exist.

    `seen` is called on the watch's own thread with every look that differs from the one before;
    `fail` takes the error that ended the thread. `poll`: seconds of the slow poll.
    """

    def __init__(
        self,
        directory: Path,
        seen: Callable[[ConfigSeen], None],
        fail: Fail,
        poll: float = POLL_S,
    ) -> None:
        self.path = directory / FILE
        self._seen = seen
        self._poll = poll
        self._watch = DirectoryWatch(directory)
        self._thread = supervised("models-watch", self._run, fail)

    def start(self) -> None:
        """Read the file now and from now on; a path that can only be seen late is warned of."""
        if is_mount_point(self.path):
            log.warning(
                "the model config file is itself a mount point (a subPath volume?): a new version"
                " of it may never be seen; mount its directory",
                path=self.path,
            )
        self._thread.start()

    def stop(self, timeout: float) -> bool:
        """End the thread; whether it ended within `timeout` seconds."""
        self._watch.stop()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        ended = not self._thread.is_alive()
        if ended:
            self._watch.close()
        return ended

    def _run(self) -> None:
        last: ConfigSeen | None = None
        while self._watch.wait(self._poll) is not Reason.STOPPED:
            now = look(self.path)
            if now != last:
                last = now
                self._seen(now)
