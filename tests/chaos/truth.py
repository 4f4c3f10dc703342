"""The oracle: what every node must have, and which removals are therefore wrong.

Pure: time comes in as monotonic seconds. `wanted` is what people want. Where a thing belongs is
found by the definition of placement (the one that the simulation uses), not by the bridge's way.

A change is announced before it is made and noted after it: in between, a node is owed only what
belongs to it both before and after.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from nodecast.names import NodeName, ResourceKey
from tests.chaos.things import Thing, Things
from tests.sim.things import pairs_placed

LONG = 60.0
"""Seconds for which something that belonged to a node all the time must not leave it: far above the
longest fault."""

Pair = tuple[NodeName, ResourceKey]


def placed(things: Things) -> frozenset[Pair]:
    """(node, key) of everything that belongs somewhere."""
    return frozenset(pairs_placed({k: t for k, t in things.items() if not t.bad}))


@dataclass(slots=True)
class Truth:
    """What is wanted, and since when what belongs where."""

    wanted: dict[ResourceKey, Thing] = field(default_factory=dict)
    _since: dict[Pair, float] = field(default_factory=dict)
    _always: dict[Pair, bool] = field(default_factory=dict)

    def announce(self, put: Iterable[Thing], drop: Iterable[ResourceKey], now: float) -> None:
        """A change is about to be made."""
        before = placed(self.wanted)
        for key in drop:
            self.wanted.pop(key, None)
        self.wanted |= {thing.key: thing for thing in put}
        self._note(before & placed(self.wanted), now)

    def made(self, now: float) -> None:
        """The change was made."""
        self._note(placed(self.wanted), now)

    def on(self, node: NodeName) -> dict[ResourceKey, Thing]:
        """What belongs to a node."""
        return {key: self.wanted[key] for where, key in placed(self.wanted) if where == node}

    def why_wrong(self, node: NodeName, key: ResourceKey, now: float) -> str | None:
        """Why a node must not lose `key` now; None: it may."""
        if self._always.get((node, key)):
            return "it has belonged there ever since it was made"
        since = self._since.get((node, key), math.inf)
        if since < now - LONG:
            return f"it has belonged there for {now - since:.0f} s"
        return None

    def _note(self, pairs: frozenset[Pair], now: float) -> None:
        self._since = {pair: self._since.get(pair, now) for pair in pairs}
        for pair in pairs - self._always.keys():
            self._always[pair] = True
        for pair in self._always.keys() - pairs:
            self._always[pair] = False
