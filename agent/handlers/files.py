"""Applies a resource as a file of the tree, and finds files that the store does not know.

Whoever asks `holds` first adopts a file that is as desired unwritten, at the cost of a read.
Runs on the loop thread; waits for the disk.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson

from agent.handlers.outcome import Done, Outcome, Refused, Retry
from agent.handlers.paths import TreePath, path_of
from agent.handlers.tree import Tree
from agent.store.records import content_sum, is_number, key_of
from nodecast.errors import ApplyError
from nodecast.log import logger
from nodecast.names import ResourceKey

log = logger(__name__)


class Stamp(msgspec.Struct, frozen=True, kw_only=True):
    """Says whose files these are: the store, its bridge, and the version they may have reached.

    A store behind it was restored, and must not write before it has accepted a snapshot.
    """

    store: str
    bridge: str
    epoch: int
    revision: int


@dataclass(frozen=True, slots=True)
class OrphanFile:
    """A resource file of ours that no row of the store knows."""

    key: ResourceKey
    digest: str
    uid: str | None
    generation: int | None


class FilesHandler:
    """Puts resources on disk and takes them off. One owner thread."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def holds(self, key: ResourceKey, sum_: str) -> bool:
        """Whether the file of `key` has the content of `sum_` already."""
        try:
            content = self._tree.read(path_of(key))
        except ApplyError as error:
            log.debug("file does not read, replaced", key=key, error=error)
            return False
        return content is not None and content_sum(content) == sum_

    def apply(self, key: ResourceKey, content: bytes) -> Outcome:
        """Make the file of `key` hold `content`; it may be claimed after `settle` alone."""
        try:
            self._tree.write(path_of(key), content)
        except ApplyError as error:
            return failed(error)
        return Done()

    def settle(self, keys: Iterable[ResourceKey]) -> dict[ResourceKey, Outcome]:
        """Make durable what was applied; how that went for each of `keys`."""
        failures = self._tree.settle()
        outcomes: dict[ResourceKey, Outcome] = {}
        for key in keys:
            error = failures.get(path_of(key).directory)
            outcomes[key] = Done() if error is None else failed(error)
        return outcomes

    def remove(self, key: ResourceKey) -> Outcome:
        """Take the file of `key` away."""
        try:
            self._tree.remove(path_of(key))
        except ApplyError as error:
            return failed(error)
        return Done()

    def orphans(self, known: Callable[[TreePath], bool]) -> Iterator[OrphanFile | None]:
        """The resource files at paths that are not `known`; None for each other place looked at,
        so that the caller can stop in between."""
        for path in self._tree.scan():
            yield None if known(path) else self._examine(path)

    def stamp(self) -> Stamp | None:
        """The stamp in the tree; None when there is none. Raises ApplyError when it is unread."""
        content = self._tree.read_stamp()
        if content is None:
            return None
        try:
            return msgspec.json.decode(content, type=Stamp)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ApplyError(
                "BadStamp", f"the stamp of {self._tree.root} is bad: {error}"
            ) from error

    def stamped(self) -> bool:
        """Whether a stamp is in the tree, whatever it says."""
        return self._tree.has_stamp()

    def write_stamp(self, stamp: Stamp) -> None:
        """Raises ApplyError."""
        self._tree.write_stamp(msgspec.json.encode(stamp) + b"\n")

    def _examine(self, path: TreePath) -> OrphanFile | None:
        try:
            content = self._tree.read(path)
            value = None if content is None else orjson.loads(content)
        except (ApplyError, orjson.JSONDecodeError):
            return None
        key = key_of(value)
        if key is None or path_of(key) != path or not isinstance(value, dict):
            return None
        return _orphan(key, value)


def _orphan(key: ResourceKey, value: dict[str, Any]) -> OrphanFile | None:
    digest, uid = value.get("digest"), value["metadata"].get("uid")
    generation = value["metadata"].get("generation")
    if not isinstance(digest, str):
        return None  # a person's file: what the agent writes has a digest
    return OrphanFile(
        key,
        digest,
        uid if isinstance(uid, str) else None,
        generation if is_number(generation) else None,
    )


def failed(error: ApplyError) -> Retry | Refused:
    """What an error of the tree means for the work on a resource."""
    cause = error.__cause__
    if isinstance(cause, OSError) and cause.errno == errno.ENAMETOOLONG:
        return Refused(error.reason, str(error))
    return Retry(error.reason, str(error))
