"""What there is to say of each kind: whether it is seen, held, guarded, and why.

Pure. For people and for the bridge's API; nothing decides by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bridge.catalog import Catalog
from bridge.guard import Guarded
from bridge.holding import Holding
from bridge.kind_state import KindState
from nodecast.names import BridgeName, KindName


@dataclass(frozen=True, slots=True)
class KindView:
    """One kind. `status`: ok, missing, forbidden, incomplete, or unlisted; `reasons`: why it is
    held, a text each; `approvable`: whether an approval would change anything; `objects`: how many
    there are, `placed`: how many of them are on a node."""

    kind: KindName
    status: str
    held: bool
    reasons: tuple[str, ...]
    guarded: Guarded | None
    approvable: bool
    objects: int
    placed: int


def approval(bridge: BridgeName, kind: KindName) -> str:
    """The command that approves a kind at a bridge."""
    option = "" if bridge == "default" else f" --bridge {bridge}"
    return f"nodecast-bridge approve {kind}{option}"


def kind_views(
    bridge: BridgeName, catalog: Catalog, holding: Holding, now: float
) -> list[KindView]:
    """Every kind that has a rule, and those without one that the ledger counts; by name."""
    guarded = holding.guarded  # once: it looks at every kind
    views = []
    for kind in holding.kinds:
        state, missing = holding.view(kind), guarded.get(kind)
        reasons: tuple[str, ...] = ()
        if state.held:
            of_itself = _of_itself(state, missing, approval(bridge, kind), holding.hold, now)
            reasons = (*of_itself, *_with_others(kind, holding))
        views.append(
            KindView(
                kind,
                state.status.value if state.status else "unlisted",
                state.held,
                reasons,
                missing,
                holding.approvable(kind),
                catalog.count(kind),
                catalog.placed(kind),
            )
        )
    return views


def _of_itself(
    state: KindState, guarded: Guarded | None, command: str, hold: float, now: float
) -> Iterator[str]:
    """Why a kind is held because of what happened to it."""
    if not state.seen:
        yield state.reason or "it was not listed yet"
    if guarded:
        why = "" if state.ruled else "it has no rule any more, and "
        yield (
            f"{why}{guarded.missing} of its {guarded.placed} placed objects would be on no node"
            f" any more: `{command}` lets them go"
        )
    elif state.held_itself and state.seen:
        left = max(0.0, state.cause_at + hold - now)
        yield (
            "it was not seen in full, seemed to be gone, or the broker knew no such bridge:"
            f" held for {left:.0f} s more, then what is missing leaves its nodes"
        )


def _with_others(kind: KindName, holding: Holding) -> Iterator[str]:
    """Why a kind is held because others are."""
    if kind in holding.along:
        yield (
            "objects of it went as too much of other kinds did: it is held along, and let go, with"
            " them"
        )
    if through := holding.through(kind):
        yield f"it is placed through {', '.join(through)}"
