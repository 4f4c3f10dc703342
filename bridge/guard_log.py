"""What the log says of the removal guard: loudly when it holds a kind, once more when more is
missing by then, every hour while it lasts, and once when it is over and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bridge.catalog import Catalog
from bridge.guard import Guarded
from bridge.holding import Holding
from bridge.kind_views import approval
from bridge.nodes import NodeState
from nodecast.log import logger
from nodecast.names import BridgeName, KindName, NodeName

log = logger(__name__)

GROWN = 10.0
"""Seconds after which it is said that more is missing: till then a burst may be under way."""
AGAIN = 3600.0
"""Seconds after which it is said again."""


@dataclass(slots=True)
class _Said:
    guarded: Guarded
    at: float
    nodes: int | None


class GuardLog:
    """Knows what it said. One owner thread."""

    def __init__(self, bridge: BridgeName) -> None:
        self._bridge = bridge
        self._said: dict[KindName, _Said] = {}

    def say(
        self,
        holding: Holding,
        catalog: Catalog,
        nodes: Mapping[NodeName, NodeState],
        now: float,
    ) -> None:
        """Say what is due. `nodes`: what each was sent last."""
        if not holding.in_charge:  # what is held is another's to say; nothing is back
            self._said.clear()
            return
        guarded = holding.guarded
        for kind, each in guarded.items():
            said = self._said.get(kind)
            if said is None:
                self._warn(kind, each, _nodes_with_missing(kind, catalog, nodes) or None, now)
            elif now >= said.at + (GROWN if each.missing > said.guarded.missing else AGAIN):
                self._warn(kind, each, said.nodes, now)
        for kind in self._said.keys() - guarded.keys():
            del self._said[kind]
            missing = holding.view(kind).guard.missing(catalog.placed(kind))
            (log.warning if missing else log.info)(
                "removal guard: so much is back that the rest may go once the hold is over",
                kind=kind,
                missing=missing,
                placed=catalog.placed(kind),
                hold=holding.hold,
            )

    def approved(self, kind: KindName, catalog: Catalog, guarded: Guarded | None) -> None:
        """An operator let go what is missing: `guarded` till then, if it was."""
        self._said.pop(kind, None)
        log.info(
            "approved: what the source shows of the kind now is what is meant",
            kind=kind,
            placed=catalog.placed(kind),
            missing=guarded.missing if guarded else 0,
        )

    def _warn(self, kind: KindName, guarded: Guarded, nodes: int | None, now: float) -> None:
        self._said[kind] = _Said(guarded, now, nodes)
        log.warning(
            "removal guard: too much of a kind would leave the nodes, they keep what they have of"
            " it until it is back; if that is meant, approve it",
            kind=kind,
            missing=guarded.missing,
            placed=guarded.placed,
            **({} if nodes is None else {"nodes": nodes}),
            approve=approval(self._bridge, kind),
        )


def _nodes_with_missing(
    kind: KindName, catalog: Catalog, nodes: Mapping[NodeName, NodeState]
) -> int:
    """How many nodes were sent objects of the kind that are on no node any more."""
    return sum(
        any(r.kind == kind and not catalog.is_placed(r.key) for r in state.content.records)
        for state in nodes.values()
        if state.content is not None
    )
