"""Files of the tree that the store does not know, found a look at a time.

The store was lost, or restored from a backup, or somebody put them there. They stay until a live
snapshot neither names nor keeps them. Owned by the loop thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from agent.handlers.files import FilesHandler, OrphanFile
from agent.handlers.paths import TreePath, path_of
from nodecast.log import logger
from nodecast.names import ResourceKey

log = logger(__name__)


class Orphans:
    """The orphans of the last whole scan, less what the store has taken in since."""

    def __init__(self, handler: FilesHandler) -> None:
        self.files: dict[ResourceKey, OrphanFile] = {}
        self._handler = handler
        self._known: set[TreePath] = set()
        self._found: dict[ResourceKey, OrphanFile] = {}
        self._scan: Iterator[OrphanFile | None] | None = None

    @property
    def scanning(self) -> bool:
        return self._scan is not None

    def begin(self, rows: Iterable[ResourceKey]) -> None:
        """Start to look at the tree anew; the files of `rows` are known."""
        self._known = {path_of(key) for key in rows}
        self._found = {}
        self._scan = self._handler.orphans(lambda path: path in self._known)

    def look(self) -> bool:
        """Look at one file. True when this ended a scan that found other orphans than before."""
        if self._scan is None:
            return False
        try:
            found = next(self._scan)
        except StopIteration:
            return self._end()
        if found is not None:
            self._found[found.key] = found
        return False

    def adopt(self, rows: Mapping[ResourceKey, object]) -> None:
        """The store has these rows now: what they name is no orphan, nor becomes one meanwhile."""
        self._known.update(map(path_of, rows))
        for key in self.files.keys() & rows.keys():
            del self.files[key]
        for key in self._found.keys() & rows.keys():
            del self._found[key]

    def _end(self) -> bool:
        self._scan = None
        changed = self._found.keys() != self.files.keys()
        if changed and self._found:
            log.warning(
                "files that the store does not know stay until the bridge speaks live",
                number=len(self._found),
            )
        self.files, self._found, self._known = self._found, {}, set()
        return changed
