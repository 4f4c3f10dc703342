"""The manifests source: a directory of YAML and JSON files, watched. No cluster needed.

What always holds:
- The directory is watched before it is read, so no change falls between.
- Every reading is of the whole directory. It is told as one `Listed` for each kind that has a rule:
  after the first reading, after one that `relist` asked for, and when anything changed. An
  incomplete reading makes every kind INCOMPLETE, since any file may hold any kind.
- `asked_at` of a list is before its reading began, and a `relist` is answered by a reading that
  began after it.

One thread, `manifests`, does everything, `emit` included; it waits for the watch and the file
system. An error that ends it goes to `fail`, which ends the process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from bridge.placement import Rules
from bridge.record import ObjectRecord
from bridge.sources.events import Emit, Findings, KindStatus, Listed, Problem
from bridge.sources.manifest_files import ManifestDirectory, Reading
from bridge.sources.manifest_tree import directories_below
from nodecast.dirwatch import DirectoryWatch, Reason
from nodecast.log import logger
from nodecast.names import KindName, ResourceKey
from nodecast.threads import Fail, supervised

log = logger(__name__)

_STOP_LIMIT = 0.9
"""Seconds that `stop` waits for a reading that runs."""


class ManifestsSource:
    """Tells what a directory says, and goes on telling.

    `settle`: seconds of quiet after a change before reading. `poll`: seconds between readings when
    nothing was noticed. `fail` takes the error that ended the thread.
    """

    def __init__(
        self,
        directory: Path,
        rules: Rules,
        emit: Emit,
        *,
        fail: Fail,
        clock: Callable[[], float] = time.monotonic,
        settle: float = 0.02,
        poll: float = 30.0,
    ) -> None:
        self._kinds = rules.kinds
        self._emit = emit
        self._clock = clock
        self._poll = poll
        self._path = directory
        self._stopping = threading.Event()
        self._asked = threading.Event()
        self._files = ManifestDirectory(directory, rules, self._stopping.is_set)
        self._watch = DirectoryWatch(directory, settle=settle, subdirectories=directories_below)
        self._thread = supervised("manifests", self._run, fail)
        self._last: Reading | None = None

    def start(self) -> None:
        """Begin to read and tell."""
        self._thread.start()

    def relist(self, kinds: Iterable[KindName] = ()) -> None:  # noqa: ARG002 - of all sources
        """Ask for a reading that is made after now: it is of every kind. Any thread."""
        self._asked.set()
        self._watch.wake()

    def stop(self) -> None:
        """Tell nothing more; returns within a second. Any thread but the source's own."""
        self._stopping.set()
        self._watch.stop()
        if self._thread.ident is None:
            self._watch.close()
            return
        self._thread.join(_STOP_LIMIT)
        if self._thread.is_alive():
            log.warning("manifests still being read, left behind", directory=self._path)

    def _run(self) -> None:
        with self._watch:
            while self._watch.wait(self._poll) is not Reason.STOPPED:
                self._look()

    def _look(self) -> None:
        asked = self._asked.is_set()
        self._asked.clear()
        asked_at = self._clock()
        reading = self._files.read()
        if self._stopping.is_set():
            return
        last, self._last = self._last, reading
        if asked or reading != last:
            self._tell(reading, asked_at)
        if last is None or (reading.problems, reading.skipped) != (last.problems, last.skipped):
            self._say(reading, last)
            self._emit(Findings(reading.problems, reading.skipped))

    def _tell(self, reading: Reading, asked_at: float) -> None:
        by_kind = _by_kind(reading, self._kinds)
        status = KindStatus.OK if reading.complete else KindStatus.INCOMPLETE
        for kind, objects in by_kind.items():
            self._emit(Listed(kind, status, objects, asked_at, reading.reason))

    def _say(self, reading: Reading, last: Reading | None) -> None:
        """Log what is new among the problems, what is over, and kinds not met before."""
        before = set(last.problems) if last else set[Problem]()
        for problem in reading.problems:
            if problem not in before:
                log.warning("manifest refused", place=problem.place, reason=problem.reason)
        for problem in before.difference(reading.problems):
            log.info("manifest problem is over", place=problem.place)
        for kind in reading.skipped:
            if last is None or kind not in last.skipped:
                log.info("kind without a rule skipped", kind=kind, count=reading.skipped[kind])


def _by_kind(
    reading: Reading, kinds: tuple[KindName, ...]
) -> dict[KindName, dict[ResourceKey, ObjectRecord]]:
    by_kind: dict[KindName, dict[ResourceKey, ObjectRecord]] = {kind: {} for kind in kinds}
    for key, record in reading.objects.items():
        by_kind[record.kind][key] = record
    return by_kind
