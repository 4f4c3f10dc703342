"""Plans written by hand: each brings out what one rule is for.

The faults of a script are the same in every run; what people do amid them comes from the seed. So
not every seed shows the rule, but a few are enough.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.sim.plan import WORLDS, Fault, Plan, What

_BRIDGE_LINK = 3
"""The `pick` of the bridge's link, while three agents are connected."""

_SCRIPTS: Mapping[str, tuple[Fault, ...]] = {
    # The broker forgets snapshots of nodes that never said anything, and nothing changes any more.
    "mark": (
        *(Fault(1, What.AGENT_GONE, node, 0) for node in range(3)),
        Fault(236, What.BROKER_OLDER, 0, 0),
    ),
    # A kind's watch says nothing while objects move from one owner to another.
    "lists": tuple(Fault(10 + 12 * n, What.SILENCE, 2 * (n % 3), 0.6) for n in range(19)),
    # A node whose agent is off loses all that it had while no bridge runs.
    "ledger names": (
        Fault(150, What.AGENT_GONE, 0, 0),
        Fault(215, What.BRIDGE, 0, 1),
        Fault(220, What.CLEARED, 0, 0),
    ),
    # A broker that lost everything, and a bridge whose clock is wrong: its epoch is too small.
    "answers": (
        Fault(200, What.BROKER_EMPTY, 0, 0.5),
        Fault(201, What.BRIDGE_CLOCK, 1, 1),
    ),
    # A broker that went back, agents that lost their stores, and no bridge for a while.
    "live only": tuple(
        fault
        for at in (50, 90, 130, 170, 210)
        for fault in (
            Fault(at, What.BRIDGE, 0, 1),
            Fault(at + 0.1, What.BROKER_OLDER, 0, 0),
            *(Fault(at + 1, What.WIPE_STORE, node, 0) for node in range(3)),
        )
    ),
    # All objects go while a bridge without a ledger still holds everything, and the next bridge
    # hears of no node before its own hold is over.
    "at least": (
        *(Fault(5.9, What.AGENT_AWAY, node, 0) for node in range(3)),
        Fault(6, What.EMPTIED, 28, 0),
    ),
    # A CRD is removed and there again before anybody saw that it was missing.
    "returns": (Fault(237.5, What.CRD, 0, 0),),
    # The bridge's link dies again and again with snapshots on it.
    "lost in flight": tuple(Fault(20 + 20 * n, What.CUT, _BRIDGE_LINK, 1) for n in range(11)),
}
SCRIPTED = tuple(_SCRIPTS)


def script(rule: str, seed: int) -> Plan:
    """The plan that brings out a rule, with the people of a seed."""
    return Plan(seed, WORLDS["kubernetes"], _SCRIPTS[rule])
