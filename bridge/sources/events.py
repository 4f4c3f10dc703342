"""What a source says, from threads of its own, to the bridge's loop.

A source is level-triggered: a `Listed` is everything there is of a kind. `asked_at` is the
monotonic second before the reading began: whatever was true then or later is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from bridge.record import ObjectRecord
from nodecast.names import KindName, ResourceKey


class KindStatus(Enum):
    """What a source can say of a kind."""

    OK = "ok"
    MISSING = "missing"  # the server does not know it (404)
    FORBIDDEN = "forbidden"  # no right to list or watch it (403)
    INCOMPLETE = "incomplete"  # read in part: what is absent may well be there


@dataclass(frozen=True, slots=True)
class Listed:
    """All objects of a kind. With a status other than OK, what is known (None: nothing new)."""

    kind: KindName
    status: KindStatus
    objects: Mapping[ResourceKey, ObjectRecord] | None
    asked_at: float
    reason: str = ""


class Changed:
    """Objects that changed, or (None) went.

    A source may leave it open until it is looked at: what changes meanwhile is then in it too, so
    that a burst costs memory for its objects, not for its events. One reader.
    """

    __match_args__ = ("objects",)
    __slots__ = ("_collect", "_objects")

    def __init__(self, objects: Mapping[ResourceKey, ObjectRecord | None]) -> None:
        self._objects: Mapping[ResourceKey, ObjectRecord | None] | None = objects
        self._collect: Callable[[], Mapping[ResourceKey, ObjectRecord | None]] | None = None

    @classmethod
    def open(cls, collect: Callable[[], Mapping[ResourceKey, ObjectRecord | None]]) -> Changed:
        """What `collect` gives once it is looked at; after that it does not change."""
        changed = cls({})
        changed._objects, changed._collect = None, collect
        return changed

    @property
    def objects(self) -> Mapping[ResourceKey, ObjectRecord | None]:
        """By key."""
        if self._objects is None:
            assert self._collect is not None
            self._objects = self._collect()
        return self._objects


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Whether news of a kind may be missing: a watch ended in an error, and neither a watch nor a
    list was answered since."""

    kind: KindName
    now: bool


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that the source cannot serve; `place` is file and document, or namespace."""

    place: str
    reason: str
    key: ResourceKey | None = None


@dataclass(frozen=True, slots=True)
class Findings:
    """All problems, and the objects skipped for want of a rule; replaces the last Findings."""

    problems: tuple[Problem, ...]
    skipped: Mapping[KindName, int]


SourceEvent = Listed | Changed | Interrupted | Findings
Emit = Callable[[SourceEvent], None]
"""Takes what a source says, from the source's own threads."""


@dataclass(frozen=True, slots=True)
class Survey:
    """One look at a whole source, for commands. `unseen`: kinds that were not seen in full, and
    why; they would be held. `seen`: those that were asked for one by one, and seen in full."""

    objects: Mapping[ResourceKey, ObjectRecord]
    problems: tuple[Problem, ...]
    skipped: Mapping[KindName, int]
    unseen: Mapping[KindName, str]
    seen: tuple[KindName, ...] = ()


class Source(Protocol):
    """What the bridge needs of a source; it calls `emit` and `fail` from threads of its own."""

    def start(self) -> None:
        """Begin to tell."""

    def relist(self, kinds: Iterable[KindName]) -> None:
        """Make lists of these kinds that begin after now. Any thread."""

    def stop(self) -> None:
        """Tell nothing more; returns within a second."""
