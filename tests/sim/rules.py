"""Single rules of the contract, to be taken out: a simulation that cannot fail proves nothing.

`without(NAME)` puts something in the place of a rule for as long as it lasts. Each entry says what
the fleet does instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import agent.receiver
import bridge.bridge
import bridge.feedback
import bridge.holding
from agent.intake import Accept, decide
from agent.store.resources import ResourceStore
from bridge.charge import Charge
from bridge.guard import Counts
from bridge.guards import Guards
from bridge.holding import Holding
from bridge.kind_state import KindState
from bridge.placement import Rules
from bridge.publisher import Publisher
from bridge.reports import Judgement, Reports, judge
from bridge.settle import Settle
from bridge.tokens import SnapshotToken

_accept = ResourceStore.accept
_take_charge = Holding.take_charge


def _never(*_: object, **__: object) -> bool:
    return False


def _nothing(*_: object, **__: object) -> frozenset[Any]:
    return frozenset()


def _judge_no_ahead(report: Any, state: Any) -> Judgement:
    judgement = judge(report, state)
    return Judgement.CURRENT if judgement is Judgement.AHEAD else judgement


def _accept_as_live(store: Any, snapshot: Any, **rest: Any) -> None:
    _accept(store, snapshot, **{**rest, "live": True})


def _take_charge_sure(holding: Holding, counts: object, now: float) -> None:
    del counts
    _take_charge(holding, Counts({"Dataset.sim": 0}), now)


def _take_charge_guessing(holding: Holding, counts: Counts | None, now: float) -> None:
    _take_charge(holding, counts if counts and counts.sure else None, now)


def _forget_lost(publisher: Any, tokens: Iterable[object]) -> None:
    for token in tokens:
        if isinstance(token, SnapshotToken):
            publisher._landed(token.node, publisher.nodes[token.node])


def _orders_by_arrival(held: Any, snapshot: Any, *, retained: bool) -> Any:
    if snapshot.digest != held.digest:
        return Accept(live=not retained)
    return decide(held, snapshot, retained=retained)


_PATCHES: dict[str, list[tuple[Any, str, Callable[[], Any]]]] = {
    # a removal goes out at once
    "settle": [
        (Settle, "_due", lambda: lambda *_: -math.inf),
        (Settle, "_settling", lambda: lambda *_: -math.inf),
    ],
    # what leaves through another kind leaves without a list
    "lists": [(Settle, "_lists_needed", lambda: _nothing)],
    # a kind that has become empty is believed
    "empty wait": [(bridge.holding, "EMPTY_WAIT", lambda: -math.inf)],
    # a kind that cannot be seen is taken for empty, or for what it was
    "held kinds": [(Holding, "_cause", lambda: _nothing)],
    # a kind is held without those that depend on it
    "held dependents": [(Rules, "with_dependents", lambda: lambda _, kinds: frozenset(kinds))],
    # a lost ledger and its counts are no reason to hold anything
    "ledger counts": [(Holding, "take_charge", lambda: _take_charge_sure)],
    # however much goes, it goes
    "guard": [(Guards, "judge", lambda: _nothing)],
    # no more is guarded than what is too much of one kind
    "guard together": [(Guards, "_too_many_together", lambda: lambda *_: None)],
    # objects that come back do not show that others may follow
    "returns": [(KindState, "came_back", lambda: _nothing)],
    # counts that may be too small count for nothing
    "at least": [(Holding, "take_charge", lambda: _take_charge_guessing)],
    # after a reconnection, nothing is published again
    "mark": [(Charge, "mark", lambda: math.inf)],
    # the nodes of the ledger are not served unless they have something
    "ledger names": [(bridge.bridge, "nodes_of", lambda: lambda _: [])],
    # a node that is ahead is left alone
    "ahead": [(bridge.feedback, "judge", lambda: _judge_no_ahead)],
    # no report is answered
    "answers": [(Reports, "answers", lambda: _never)],
    # what the broker kept counts as the bridge's word of now
    "live only": [(ResourceStore, "accept", lambda: _accept_as_live)],
    # an agent takes what comes, new or old
    "versions": [(agent.receiver, "decide", lambda: _orders_by_arrival)],
    # what was in flight when the link died is forgotten
    "lost in flight": [(Publisher, "lost", lambda: _forget_lost)],
}
RULES = tuple(_PATCHES)


@contextmanager
def without(rule: str | None) -> Iterator[None]:
    """Without one rule; None: with all of them."""
    patches = [
        patch.object(where, name, new()) for where, name, new in _PATCHES.get(rule or "", ())
    ]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()
