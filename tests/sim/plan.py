"""Which faults a run meets, as values: a list can be drawn, shrunk, and played again."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum

FAULTS_END = 240.0
"""Seconds from which on nothing goes wrong any more."""


class What(StrEnum):
    """Kinds of faults."""

    BROKER_KEEPS = "broker killed, store kept"
    BROKER_OLDER = "broker killed, store older"
    BROKER_EMPTY = "broker killed, store empty"
    POWER = "broker and bridge killed"
    CUT = "a link carries nothing"
    BRIDGE = "bridge killed"
    BRIDGE_CLOCK = "bridge killed, wrong clock"
    FREEZE = "bridge frozen"
    SECOND = "another bridge is started"
    GAP = "watches tell nothing, and that is noticed"
    SILENCE = "watches tell nothing, silently"
    CRD = "a CRD is removed and comes back"
    FORBIDDEN = "kinds are forbidden"
    DIRECTORY = "the directory vanishes"
    EMPTIED = "all objects are deleted by mistake"
    THINNED = "most objects are deleted by mistake"
    NARROWED = "the bridge is given a selector that matches little"
    REWIND = "the cluster is restored from a backup"
    AGENT = "agent killed"
    AGENT_AWAY = "agent off for long"
    BACK_UP = "agent backed up"
    RESTORE = "agent's store and files restored"
    RESTORE_STORE = "agent's store restored"
    WIPE = "agent's store and files lost"
    WIPE_STORE = "agent's store lost"
    WIPE_FILES = "agent's files lost"
    AGENT_GONE = "agent off to the end"
    CLEARED = "people take everything off a node"


@dataclass(frozen=True, slots=True)
class World:
    """`directory`: one directory instead of an API server. `bridges`: how many with one name;
    `leased`: they share a Lease."""

    directory: bool = False
    bridges: int = 1
    rewinds: bool = False
    leased: bool = False

    @property
    def faults(self) -> tuple[What, ...]:
        """What can go wrong here; what is more likely is there more than once."""
        here = [what for what in What if what not in _ELSEWHERE]
        here += [What.BROKER_KEEPS, What.BRIDGE, What.GAP, What.AGENT, What.CUT, What.RESTORE_STORE]
        here += [What.EMPTIED] * 2 + [What.THINNED] * 2
        # Another bridge, with the settings of before, would go on to see everything.
        here += [What.NARROWED] if self.bridges == 1 else []
        here += [What.DIRECTORY] * 3 if self.directory else [What.CRD] * 3 + [What.FORBIDDEN] * 2
        here += [What.SECOND] * 2 if self.bridges > 1 else []
        here += [What.REWIND] if self.rewinds else []
        return tuple(here)


_IN_SCRIPTS = {What.AGENT_GONE, What.CLEARED}
_ELSEWHERE = {What.DIRECTORY, What.CRD, What.FORBIDDEN, What.SECOND, What.REWIND, *_IN_SCRIPTS}
_ELSEWHERE |= {What.EMPTIED, What.THINNED, What.NARROWED}

WORLDS = {
    "kubernetes": World(),
    "restored": World(rewinds=True),
    "twins": World(bridges=2, rewinds=True),
    "leased": World(bridges=2, rewinds=True, leased=True),
    "directory": World(directory=True),
    "twin-directories": World(directory=True, bridges=2),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """`at`: the second. `pick` chooses among nodes, kinds and ways; `extent`, from 0 to 1, how
    long it lasts in the range of its kind."""

    at: float
    what: What
    pick: int
    extent: float

    def between(self, least: float, most: float) -> float:
        return least + self.extent * (most - least)


@dataclass(frozen=True, slots=True)
class Plan:
    """One run."""

    seed: int
    world: World
    faults: tuple[Fault, ...]


def random_plan(seed: int, world: World) -> Plan:
    """The plan of a seed."""
    rng = random.Random(f"plan/{seed}")
    faults, at = [], 0.0
    while (at := at + rng.uniform(1, 10)) < FAULTS_END:
        faults.append(Fault(at, rng.choice(world.faults), rng.randrange(1000), rng.random()))
    return Plan(seed, world, tuple(faults))
