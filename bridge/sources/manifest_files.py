"""What a directory of manifests says: its objects, and what is wrong with it.

What always holds:
- Content decides, never times. A file whose bytes did not change is not parsed again, and its
  records are the same Python objects as before.
- A file counts whole or not at all. One that cannot be read or parsed keeps its last good content
  and is reported; so does one that was emptied to no bytes at all, which is how half a write and a
  full disk look. One that has no bytes at the first reading is not known either. One that is gone
  takes its objects with it.
- What is not known is not taken for nothing: a directory that cannot be listed, or a bad file
  without a last good content, makes the reading incomplete, with what is known.
- In a file that parses each object stands for itself: a bad one is reported, the others count.
- A key defined twice: the first in order of place (then of document) counts.

The thread that owns the ManifestDirectory runs it; it waits for the file system.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bridge.objects import NoRule, read_object
from bridge.placement import Rules
from bridge.record import ObjectRecord
from bridge.sources.documents import parse_documents
from bridge.sources.events import Problem
from bridge.sources.manifest_tree import Tree, is_gone, read_bytes, walk
from nodecast.errors import DocumentError, ObjectError
from nodecast.names import KindName, ResourceKey

_EMPTIED = "was emptied; remove the file if its objects shall go"
_EMPTY = "has no bytes: was it cut short? Write a comment into it, or remove it"

TOP = "."
"""The place of a problem with the directory itself."""


@dataclass(frozen=True, slots=True)
class Reading:
    """All that a directory says. Not `complete`: what is absent may be there, for `reason`."""

    objects: Mapping[ResourceKey, ObjectRecord]
    problems: tuple[Problem, ...]
    skipped: Mapping[KindName, int]
    complete: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Content:
    """What a file that parsed says; `digest` is of its bytes."""

    digest: bytes
    records: tuple[ObjectRecord, ...] = ()
    problems: tuple[Problem, ...] = ()
    skipped: tuple[KindName, ...] = ()


@dataclass(frozen=True, slots=True)
class _File:
    """`good`: the last content that parsed. `fault`: why the present one does not count.

    `seen`: the digest of what was parsed last, good or not; None when it could not be read.
    """

    good: _Content | None
    seen: bytes | None
    fault: str | None = None


def read_once(directory: Path, rules: Rules) -> Reading:
    """What `directory` says now, for commands that need no source."""
    return ManifestDirectory(directory, rules).read()


class ManifestDirectory:
    """Remembers the last good content of each file. `halted`: give up a reading when True."""

    def __init__(
        self, directory: Path, rules: Rules, halted: Callable[[], bool] = lambda: False
    ) -> None:
        self._directory = directory
        self._rules = rules
        self._halted = halted
        self._files: dict[str, _File] = {}
        self._first = True

    def read(self) -> Reading:
        """Read what changed. Never raises for what the directory holds."""
        try:
            tree = walk(self._directory)
        except OSError as error:
            reason = f"{self._directory} cannot be listed: {error.strerror or error}"
            return self._reading((Problem(TOP, reason),), reason)
        files: dict[str, _File] = {}
        for place, path in tree.files.items():
            if self._halted():
                break
            file = self._read_file(place, path, self._files.get(place))
            if file is not None:
                files[place] = file
        self._files = dict(sorted((files | self._unseen(tree)).items()))
        self._first = False
        return self._reading(
            tuple(
                Problem(place, f"cannot be listed: {why}") for place, why in tree.unlisted.items()
            )
        )

    def _unseen(self, tree: Tree) -> dict[str, _File]:
        """The files known below directories that could not be listed: they stay.

        What vanished during the walk may have been renamed; the next reading, which the change
        itself brings about, knows.
        """
        heads = tuple(f"{place}/" for place in (*tree.unlisted, *tree.vanished))
        return {place: file for place, file in self._files.items() if place.startswith(heads)}

    def _read_file(self, place: str, path: Path, known: _File | None) -> _File | None:
        good = known.good if known else None
        try:
            data = read_bytes(path)
        except DocumentError as error:
            return _File(good, None, str(error))
        except OSError as error:
            if good is None and is_gone(path):
                return None  # it came and went between listing and reading
            return _File(good, None, f"cannot be read: {error.strerror or error}")
        digest = hashlib.blake2b(data, digest_size=16).digest()
        if known is not None and known.seen == digest:
            return known
        if good is not None and good.digest == digest:
            return _File(good, digest)
        if not data and (good.records if good else known is not None or self._first):
            return _File(good, digest, _EMPTIED if good else _EMPTY)
        try:
            return _File(self._parse(place, data, digest), digest)
        except DocumentError as error:
            return _File(good, digest, str(error))

    def _parse(self, place: str, data: bytes, digest: bytes) -> _Content:
        """Raises DocumentError."""
        records: list[ObjectRecord] = []
        problems: list[Problem] = []
        skipped: list[KindName] = []
        for where, raw in _objects(place, data):
            try:
                records.append(read_object(raw, self._rules, where))
            except NoRule as error:
                skipped.append(error.kind)
            except ObjectError as error:
                problems.append(Problem(where, str(error)))
        return _Content(digest, tuple(records), tuple(problems), tuple(skipped))

    def _reading(self, problems: tuple[Problem, ...], reason: str = "") -> Reading:
        """Put together what is known; `problems` are those with directories."""
        objects: dict[ResourceKey, ObjectRecord] = {}
        found = list(problems)
        skipped: Counter[KindName] = Counter()
        for place, file in self._files.items():
            if file.fault is not None:
                found.append(Problem(place, _fault(file)))
            if file.good is None:
                reason = reason or f"{place}: {file.fault}"
                continue
            found += file.good.problems
            skipped.update(file.good.skipped)
            found += _take(file.good.records, objects)
        if problems:
            reason = reason or f"{problems[0].place}: {problems[0].reason}"
        return Reading(objects, tuple(found), dict(sorted(skipped.items())), not reason, reason)


def _fault(file: _File) -> str:
    kept = "; its last good content stays" if file.good else "; nothing is known of its objects"
    return f"{file.fault}{kept}"


def _take(
    records: tuple[ObjectRecord, ...], objects: dict[ResourceKey, ObjectRecord]
) -> Iterator[Problem]:
    """Add to `objects` what is not there yet."""
    for record in records:
        first = objects.setdefault(record.key, record)
        if first is not record:
            reason = f"{record.key} is defined in {first.place} already, which counts; remove one"
            yield Problem(record.place, reason, record.key)


def _objects(place: str, data: bytes) -> Iterator[tuple[str, object]]:
    """(`file.yaml#2[3]`, value) of every object. Raises DocumentError."""
    documents = parse_documents(data, is_json=place.lower().endswith(".json"))
    for number, document in enumerate(documents, 1):
        if document is not None:
            yield from _items(f"{place}#{number}", document)


def _items(place: str, value: object) -> Iterator[tuple[str, object]]:
    """The items of a `List`, `DatasetList` and so on; anything else is one object."""
    if not isinstance(value, dict) or "items" not in value:
        yield place, value
        return
    kind, items = value.get("kind"), value["items"]
    if not isinstance(kind, str) or not kind.endswith("List") or not isinstance(items, list | None):
        yield place, value
        return
    # The items of a typed list may leave out what its kind says already.
    typed = {"apiVersion": value.get("apiVersion"), "kind": kind.removesuffix("List")}
    for index, item in enumerate(items or ()):
        if kind != "List" and isinstance(item, dict) and "kind" not in item:
            item = typed | item
        yield from _items(f"{place}[{index}]", item)
