"""Presence: who is there. Said at birth, at leaving, and by the will."""

from __future__ import annotations

import msgspec

from nodecast.messages.version import Number


class Presence(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=False):
    """`instance` is new at every start of a process; `since` is the time of that start, for
    people's eyes only."""

    schema: int = 1
    online: bool
    instance: str
    since: str = ""
    version: str = ""
    epoch: Number | msgspec.UnsetType = msgspec.UNSET
    """The bridge's; absent until it is known."""

    def is_birth_of(self, instance: str) -> bool:
        """Whether this says that `instance` is there."""
        return self.online and self.instance == instance
