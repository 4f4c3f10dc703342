"""Whose files are in the tree, and how new: the stamp beside them.

It is written before a file changes, so the files are never newer than it says. A store behind its
stamp was restored from a backup; a store of another id took the place of a lost one. Either writes
nothing until it has accepted a snapshot. Owned by the loop thread; a write waits for the disk.
"""

from __future__ import annotations

from agent.handlers.files import FilesHandler, Stamp
from agent.store.resources import ResourceStore
from nodecast.errors import ApplyError
from nodecast.log import Repeats, logger

log = logger(__name__)


class TreeStamp:
    """The stamp of a tree beside the store that serves it."""

    def __init__(self, handler: FilesHandler, store: ResourceStore) -> None:
        self._handler = handler
        self._store = store
        self._on_disk: Stamp | None = None
        self._owed = False
        self._said = Repeats()

    def store_is_behind(self) -> bool:
        """Read the stamp: whether the store is older than the files. An unread one says so too."""
        try:
            self._on_disk = self._handler.stamp()
        except ApplyError as error:
            log.error("the stamp does not read; nothing is written before a snapshot", error=error)
            return True
        behind = self._on_disk is not None and self._is_newer(self._on_disk)
        if behind:
            log.warning(
                "the store is older than the files it serves (lost or restored); they stay as they"
                " are until a snapshot is accepted",
                stamp=self._on_disk,
            )
        return behind

    def _is_newer(self, stamp: Stamp) -> bool:
        if stamp.store != self._store.store:
            return True
        # The versions of another bridge say nothing about this one's.
        accepted = self._store.accepted
        same_bridge = stamp.bridge == accepted.bridge
        return same_bridge and (stamp.epoch, stamp.revision) > accepted.version

    def ensure(self) -> None:
        """Make the stamp say what the store has accepted. Raises ApplyError."""
        accepted = self._store.accepted
        stamp = Stamp(
            store=self._store.store,
            bridge=accepted.bridge,
            epoch=accepted.version.epoch,
            revision=accepted.version.revision,
        )
        # It goes with the tree when somebody removes that: the next file would be without it.
        if stamp != self._on_disk or not self._handler.stamped():
            self._handler.write_stamp(stamp)
            self._on_disk = stamp
        self._owed = False
        self._said.over("owed")

    def renamed(self) -> None:
        """The store has another id and goes on with the same files."""
        if self._on_disk is not None:
            self.claim()

    def claim(self) -> None:
        """Make the stamp say that the files are this store's, though none of them is written.

        Where that fails it is owed: a start meanwhile waits for a snapshot, and that is all.
        """
        try:
            self.ensure()
        except ApplyError as error:
            self._owed = True
            if self._said.new("owed", str(error)):
                log.warning("the stamp says an older store for now", error=error)

    def look_after(self) -> None:
        """In each round: write the stamp that could not be written, or is not there any more."""
        if self._owed or self._is_lost():
            self.claim()

    def _is_lost(self) -> bool:
        """Whether what was read or written last is not on disk now."""
        if self._on_disk is None:
            return False
        try:
            found = self._handler.stamp()
        except ApplyError as error:
            log.debug("the stamp does not read, written anew", error=error)
            found = None
        lost = found != self._on_disk
        if lost:
            self._on_disk = found
        return lost
