"""What the log says of a source: each thing once when it comes up, and once when it is over."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.record import ObjectRecord
from bridge.sources.events import Listed
from nodecast.log import Repeats, logger
from nodecast.names import KindName, ResourceKey

log = logger(__name__)


class SourceLog:
    """Kinds with one and the same cause are said together. One owner thread."""

    def __init__(self) -> None:
        self._said = Repeats()
        self._unseen: dict[tuple[str, str], list[KindName]] = {}
        self._seen: list[KindName] = []

    def listed(self, listed: Listed) -> None:
        """A kind was listed, whole or not: said by `flush`."""
        if not listed.reason:
            if self._said.over(listed.kind):
                self._seen.append(listed.kind)
        elif self._said.new(listed.kind, listed.reason):
            cause = (listed.status.value, listed.reason)
            self._unseen.setdefault(cause, []).append(listed.kind)

    def flush(self) -> None:
        """Say what came up since the last time."""
        for (status, reason), kinds in self._unseen.items():
            log.error(
                "kinds cannot be seen in full: they are held, nodes keep what they have of them",
                kinds=", ".join(sorted(kinds)),
                status=status,
                reason=reason,
            )
        if self._seen:
            log.info("kinds are seen in full again", kinds=", ".join(sorted(self._seen)))
        self._unseen.clear()
        self._seen.clear()

    def objects(self, records: Mapping[ResourceKey, ObjectRecord | None]) -> None:
        """Say which of these cannot be placed, and which can again; None: it is gone."""
        for key, record in records.items():
            if record is not None and record.problem:
                if self._said.new(key, record.problem):
                    log.warning(
                        "object refused, it goes to no node",
                        key=key,
                        place=record.place,
                        reason=record.problem,
                    )
            elif self._said and self._said.over(key) and record is not None:
                log.info("object is served now", key=key)
