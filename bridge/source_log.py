"""What the log says of a source, and of what is held because of it: each thing once when it comes
up, and once when it is over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bridge.catalog import Catalog
from bridge.holding import Holding
from bridge.record import ObjectRecord
from bridge.sources.events import Listed
from nodecast.log import Repeats, gist, logger
from nodecast.names import KindName, ResourceKey

log = logger(__name__)


class SourceLog:
    """Kinds with one and the same cause are said together. One owner thread."""

    def __init__(self) -> None:
        self._said = Repeats()
        self._unseen: dict[tuple[str, str], list[KindName]] = {}
        self._seen: list[KindName] = []
        self._held: tuple[KindName, ...] = ()
        self._empty: frozenset[KindName] = frozenset()

    def listed(self, listed: Listed) -> None:
        """A kind was listed, whole or not: said by `flush`."""
        if not listed.reason:
            if self._said.over(listed.kind):
                self._seen.append(listed.kind)
        elif self._said.new(listed.kind, gist(listed.reason)):
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
                    place = {"place": record.place} if record.place else {}
                    log.warning(
                        "object refused, it goes to no node",
                        **{"key": key, **place, "reason": record.problem},
                    )
            elif self._said and self._said.over(key) and record is not None:
                log.info("object is served now", key=key)

    def charge(self, catalog: Catalog, kinds: Iterable[KindName], holding: Holding) -> None:
        """Say what is served as the bridge takes charge, and what seems to be gone."""
        counts = {kind: count for kind in kinds if (count := catalog.count(kind))}
        log.info(
            "serving",
            objects=sum(counts.values()),
            kinds=", ".join(f"{kind} {count}" for kind, count in counts.items()) or "none",
            nodes=len(list(catalog.nodes())),
        )
        guarded = holding.guarded
        gone = {k: n for k, n in holding.vanished.items() if k not in guarded}
        for kind, before in gone.items():
            log.warning(
                "nothing is placed any more of a kind that was: its objects leave their nodes"
                " after the hold, unless it is seen again. Look at namespace, selector, kubeconfig,"
                " kinds, or an emptied directory",
                kind=kind,
                placed=before,
                hold=holding.hold,
            )

    def doubts(self, holding: Holding) -> None:
        """Say which kinds are held, and which are empty, where that changed."""
        if holding.held != self._held:
            self._held = holding.held
            why: dict[str, object] = {"hold": holding.hold} if holding.held else {}
            if unseen := holding.unseen:
                why["unseen"] = ", ".join(sorted(unseen))
            if guarded := holding.guarded:
                why["guarded"] = ", ".join(sorted(guarded))
            log.info("held kinds", held=", ".join(holding.held) or "none", **why)
        if new := holding.empty - self._empty:
            log.info("kinds are empty: a second list decides", kinds=", ".join(sorted(new)))
        self._empty = holding.empty
