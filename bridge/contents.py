"""What a node's snapshot holds, and what has to be left out of it.

Pure. A content is made of records that all nodes share, so that keeping the last one published
costs references, not bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from bridge.record import ObjectRecord
from nodecast.messages import snapshot_digest
from nodecast.names import KindName, ResourceKey, kind_of


@dataclass(frozen=True, slots=True)
class Content:
    """A snapshot without its version: records by key, held kinds and omitted keys, sorted."""

    records: tuple[ObjectRecord, ...]
    held: tuple[KindName, ...]
    omitted: tuple[ResourceKey, ...]
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        digests = [record.digest for record in self.records]
        object.__setattr__(self, "digest", snapshot_digest(digests, self.held, self.omitted))

    def takes_away(self, old: Content) -> set[ResourceKey]:
        """The keys that a node with `old` would lose by this content."""
        if old.omitted == self.omitted and [r.key for r in old.records] == [
            r.key for r in self.records
        ]:
            return set()  # by far the most changes
        kept = {record.key for record in self.records}
        kept.update(self.omitted)
        before = {record.key for record in old.records}
        before.update(old.omitted)
        return {key for key in before - kept if kind_of(key) not in self.held}


def fit(
    records: Sequence[ObjectRecord],
    held: tuple[KindName, ...],
    fits: Callable[[Content], bool],
) -> Content:
    """The content of all records or, where that does not fit, without the largest ones, and always
    without those that cannot be encoded.

    `fits` decides on the bytes on the wire; a content without any record is returned whether it
    fits or not.
    """
    never = [record for record in records if not record.encoded]
    whole = _without(records, held, never) if never else Content(tuple(records), held, ())
    if fits(whole):
        return whole
    order = sorted(whole.records, key=lambda record: (-len(record.encoded), record.key))
    least, most = 1, len(order)
    while least < most:
        half = (least + most) // 2
        if fits(_without(records, held, [*never, *order[:half]])):
            most = half
        else:
            least = half + 1
    return _without(records, held, [*never, *order[:least]])


def _without(
    records: Sequence[ObjectRecord], held: tuple[KindName, ...], left_out: Iterable[ObjectRecord]
) -> Content:
    omitted = {record.key for record in left_out}
    return Content(
        tuple(record for record in records if record.key not in omitted),
        held,
        tuple(sorted(omitted)),
    )
