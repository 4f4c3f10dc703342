"""Versions: newer means a greater (epoch, revision) of the same bridge, and nothing else does."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec

MAX_NUMBER = 2**53 - 1
"""The greatest integer that every JSON reader keeps exact (RFC 8259 §6)."""

Number = Annotated[int, msgspec.Meta(ge=0, le=MAX_NUMBER)]
"""An epoch, a revision, or another counter on the wire."""

Digest = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}$")]
"""The first 32 hex digits of a SHA-256."""


class Version(NamedTuple):
    """(epoch, revision); tuples compare in the order that the contract gives."""

    epoch: int
    revision: int

    def __str__(self) -> str:
        """For people: `1796056168.1` would read as a number."""
        return f"epoch {self.epoch} revision {self.revision}"

    def next_in(self, epoch: int) -> Version:
        """The next version that is greater than this one and not below `epoch`.

        Each epoch starts at revision 1; past the greatest revision comes the next epoch. Raises
        OverflowError past the greatest epoch.
        """
        if epoch > self.epoch:
            return Version(epoch, 1)
        if self.revision < MAX_NUMBER:
            return Version(self.epoch, self.revision + 1)
        if self.epoch >= MAX_NUMBER:
            raise OverflowError(f"no version is greater than {self}")
        return Version(self.epoch + 1, 1)


NONE = Version(0, 0)
"""No snapshot accepted yet."""
