"""The records of the store as values, and what is bad about one that is not.

Pure: reads what SQLite gave, touches nothing. One bad record is told apart from the others by its
reason, so that it alone is set aside.
"""

from __future__ import annotations

import hashlib
import reprlib
from dataclasses import dataclass
from typing import Any

import orjson

from nodecast.errors import InvalidName
from nodecast.messages import MAX_NUMBER, NONE, Version
from nodecast.names import KindName, ResourceKey, kind_of, parse_key, parse_kind

# How far a resource is changes more often than what it is: in a row of its own, a large body is not
# written again for it, which a disk that is almost full has no room for.
RECORDS = (
    "SELECT resources.key, body, digest, sum, uid, generation, leaving, applied"
    " FROM resources LEFT JOIN progress ON progress.key = resources.key"
)
"""The query whose records `read_row` reads."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """What was accepted last. `unconfirmed`: the store is behind the disk that it serves (it was
    lost or restored), so nothing is removed before the bridge has spoken live."""

    bridge: str
    version: Version = NONE
    digest: str = ""
    held: frozenset[KindName] = frozenset()
    withheld: frozenset[ResourceKey] = frozenset()
    damaged: bool = False
    unconfirmed: bool = False

    def keeps(self, key: ResourceKey) -> bool:
        """Whether the accepted snapshot lets `key` stay without naming it."""
        return kind_of(key) in self.held or key in self.withheld


@dataclass(frozen=True, slots=True)
class Row:
    """One resource. `sum`: of the file's content as desired; `applied`: of the content that was
    last confirmed on disk; `leaving`: an accepted snapshot took it away."""

    key: ResourceKey
    digest: str
    sum: str
    uid: str | None
    generation: int | None
    leaving: bool = False
    applied: str | None = None


def file_content(body: bytes) -> bytes:
    """What the file of a resource holds: its JSON and a line feed."""
    return body + b"\n"


def content_sum(content: bytes) -> str:
    """SHA-256 of a file's content, in hex."""
    return hashlib.sha256(content).hexdigest()


def read_row(record: tuple[Any, ...]) -> Row | str:
    """The row in a record of the table, or why it is bad."""
    key, body, digest, sum_, uid, generation, leaving, applied = record
    try:
        checked = parse_key(key)
    except InvalidName as error:
        return str(error)
    if leaving not in (0, 1) or not _is_text(digest) or not _is_text(sum_):
        return "fields of a wrong type"
    if not (uid is None or _is_text(uid)) or not (applied is None or _is_text(applied)):
        return "fields of a wrong type"
    if not (generation is None or is_number(generation)):
        return f"generation {reprlib.repr(generation)} is no number that a report can say"
    if body is None:
        if not leaving or sum_:
            return "no content"
    elif not isinstance(body, bytes):
        return "the content is no bytes"
    elif content_sum(file_content(body)) != sum_:
        return "the content does not match its sum"
    elif (reason := _unlike(body, checked, digest)) is not None:
        return reason
    return Row(checked, digest, sum_, uid, generation, bool(leaving), applied)


def is_number(value: object) -> bool:
    """Whether a message can carry `value` as a number."""
    return type(value) is int and 0 <= value <= MAX_NUMBER


def _is_text(value: object) -> bool:
    """Whether a message can carry `value` as text: what is not UTF-8 was read as surrogates."""
    return isinstance(value, str) and not any("\ud800" <= c <= "\udfff" for c in value)


def _unlike(body: bytes, key: ResourceKey, digest: str) -> str | None:
    """Why `body` is not the JSON of `key` with this digest; None when it is."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        return f"broken JSON: {error}"
    if not isinstance(value, dict) or value.get("digest") != digest:
        return "the content has another digest"
    return None if key_of(value) == key else "the content is of another resource"


def key_of(value: object) -> ResourceKey | None:
    """The key of a projected object, None when it has none."""
    if not isinstance(value, dict) or not isinstance(value.get("metadata"), dict):
        return None
    metadata = value["metadata"]
    group = str(value.get("apiVersion")).rpartition("/")[0]
    kind = f"{value.get('kind')}.{group}" if group else str(value.get("kind"))
    namespace = metadata.get("namespace", "")
    try:
        return parse_key(f"{kind}/{namespace}/{metadata.get('name')}")
    except InvalidName:
        return None


def read_accepted(record: tuple[Any, ...] | None, bridge: str) -> tuple[Accepted, str]:
    """The accepted version in its record (none: nothing accepted), and what is bad about it."""
    if record is None:
        return Accepted(bridge), ""
    try:
        _, name, epoch, revision, digest, held, withheld, damaged, unconfirmed = record
        if not (is_number(epoch) and is_number(revision)):
            return Accepted(bridge), f"version {reprlib.repr(epoch)}.{reprlib.repr(revision)}"
        if not (_is_text(name) and _is_text(digest)):
            return Accepted(bridge), "fields of a wrong type"
        accepted = Accepted(
            name,
            Version(epoch, revision),
            digest,
            frozenset(map(parse_kind, orjson.loads(held))),
            frozenset(map(parse_key, orjson.loads(withheld))),
            bool(damaged),
            bool(unconfirmed),
        )
    except (TypeError, ValueError, InvalidName) as error:
        return Accepted(bridge), str(error)
    return accepted, ""
