"""Report: what an agent has, and what it thinks of what it was sent."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from nodecast.messages.version import Number, Version

Instance = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """The newest snapshot that the agent did not take, and why."""

    epoch: Number
    revision: Number
    reason: str


class ResourceReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One resource. `state`: Pending, Applied, Failed or Removing; `since` is for people."""

    key: str
    uid: str | None = None
    generation: Number | None = None
    digest: str = ""
    state: str
    reason: str = ""
    message: str = ""
    attempts: Number = 0
    since: str = ""
    status: Any = None


class Report(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`seq` orders the reports of one instance; an older one is ignored."""

    schema: int = 1
    bridge: str
    node: str
    instance: Instance
    seq: Number
    time: str = ""
    epoch: Number
    revision: Number
    digest: str = ""
    incomplete: bool = False
    refused: Refusal | None = None
    resources: list[ResourceReport] = []

    @property
    def version(self) -> Version:
        return Version(self.epoch, self.revision)
