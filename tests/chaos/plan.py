"""The plan of a run: everything that will happen, and when. A pure function of its settings.

What a fault strikes is out of reach of other faults until the fault has ended, and every fault ends
before the run does. The bridge that a fault strikes is chosen when it happens: which of two runs is
not known before.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nodecast.names import NodeName
from tests.chaos.acts import ACCIDENTS, ACCIDENTS_END, Config, Edit, Fault, Step, What
from tests.chaos.people import People
from tests.chaos.things import KINDS

AGENTS = tuple(NodeName(f"edge-{number}") for number in (1, 2, 3, 4))
BRIDGES = ("bridge-a", "bridge-b")
NODES = (*AGENTS, NodeName("edge-off.example"))
"""The last has no agent: only what the broker keeps for it counts."""
MANIFESTS, KUBERNETES = "manifests", "kubernetes"
SOURCES = (MANIFESTS, KUBERNETES)
LONGEST = 12.0
"""Seconds that any fault lasts at the most."""

_CALM_FIRST = 4.0
"""Seconds before the first fault: what is to be broken must be there."""
_PAUSES = ((0.2, 2.0), (0.5, 4.0), (1.0, 6.0))
W = What


@dataclass(frozen=True, slots=True)
class Plan:
    """One run. `things` and `configs` are there before it begins."""

    seed: int
    seconds: float
    source: str
    lease: bool
    """Both bridges run, and a Lease says which is in charge; else the one that came last is."""
    things: Edit
    configs: tuple[Config, ...]
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault: what begins it, what may end it, how long it lasts, what it strikes, and how
    likely it is beside the others."""

    begins: What
    ends: tuple[What, ...] = ()
    lasts: tuple[float, float] = (0.0, 0.0)
    strikes: str = "agent"
    weight: int = 2


_AGENT_ENDS = (W.AGENT_UP,)
_BROKER_ENDS = (W.BROKER_UP, W.BROKER_UP, W.BROKER_UP_EMPTY, W.BROKER_UP_OLDER, W.BROKER_UP_OLDER)
_BRIDGE_ENDS = (W.BRIDGE_UP, W.BRIDGE_UP, W.BRIDGE_UP_CLOCK)
_EVERYWHERE = (
    Kind(W.BROKER_KILLED, _BROKER_ENDS, (0.1, 8), "broker", 5),
    Kind(W.BROKER_STOPPED, _BROKER_ENDS, (0.1, 8), "broker", 3),
    Kind(W.BROKER_FROZEN, (W.BROKER_THAWED,), (0.5, LONGEST), "broker", 2),
    Kind(W.STORE_KEPT, strikes="broker", weight=6),
    Kind(W.BRIDGE_KILLED, _BRIDGE_ENDS, (0.1, 8), "bridge", 5),
    Kind(W.BRIDGE_STOPPED, _BRIDGE_ENDS, (0.1, 8), "bridge", 3),
    Kind(W.BRIDGE_FROZEN, (W.BRIDGE_THAWED,), (0.5, LONGEST), "bridge", 4),
    Kind(W.BRIDGE_SECOND, strikes="bridge", weight=3),
    Kind(W.AGENT_KILLED, _AGENT_ENDS, (0.1, LONGEST), weight=6),
    Kind(W.AGENT_STOPPED, _AGENT_ENDS, (0.1, LONGEST)),
    Kind(W.AGENT_FROZEN, (W.AGENT_THAWED,), (0.5, LONGEST)),
    Kind(W.AGENT_BACKED_UP, _AGENT_ENDS, (0.1, 2), weight=5),
    Kind(W.AGENT_RESTORED, _AGENT_ENDS, (0.1, 4), weight=3),
    Kind(W.AGENT_STORE_RESTORED, _AGENT_ENDS, (0.1, 4), weight=3),
    Kind(W.AGENT_WIPED, _AGENT_ENDS, (0.1, 4)),
    Kind(W.AGENT_STORE_WIPED, _AGENT_ENDS, (0.1, 4), weight=3),
    Kind(W.AGENT_FILES_WIPED, _AGENT_ENDS, (0.1, 4)),
    Kind(W.LINK_CUT, strikes="link", weight=4),
    Kind(W.LINK_REFUSED, (W.LINK_HEALED,), (0.5, LONGEST), "link", 3),
    Kind(W.LINK_FROZEN, (W.LINK_HEALED,), (0.5, LONGEST), "link", 4),
    Kind(W.LINK_SLOW, (W.LINK_HEALED,), (0.5, LONGEST), "link", 3),
    Kind(W.LINK_DEAF, (W.LINK_HEALED,), (0.5, LONGEST), "link", 2),
    Kind(W.LINK_MUTE, (W.LINK_HEALED,), (0.5, LONGEST), "link", 2),
    Kind(W.OPERATOR, strikes="source", weight=4),
)
_OF_SOURCE = {
    MANIFESTS: (
        Kind(W.DIRECTORY_EMPTIED, (W.DIRECTORY_FILLED,), (2, LONGEST), "source", 7),
        Kind(W.KIND_GONE, (W.KIND_BACK,), (2, LONGEST), "source", 7),
        Kind(W.DIRECTORY_GONE, (W.DIRECTORY_BACK,), (0.2, LONGEST), "source", 4),
        Kind(W.FILE_BROKEN, (W.FILE_MENDED,), (0.5, LONGEST), "source", 4),
    ),
    KUBERNETES: (
        Kind(W.CRD_GONE, (W.CRD_BACK,), (4, LONGEST), "source", 6),
        Kind(W.KIND_GONE, (W.KIND_BACK,), (2, LONGEST), "source", 7),
        Kind(W.API_DOWN, (W.API_UP,), (0.2, LONGEST), "source", 3),
        Kind(W.API_COMPACTED, strikes="source", weight=4),
        Kind(W.API_FROZEN, strikes="source", weight=3),
        Kind(W.FORBIDDEN, (W.GRANTED,), (0.5, LONGEST), "source", 4),
        Kind(W.LINK_CUT, strikes="link:api"),
        Kind(W.LINK_REFUSED, (W.LINK_HEALED,), (0.5, LONGEST), "link:api"),
        Kind(W.LINK_FROZEN, (W.LINK_HEALED,), (0.5, LONGEST), "link:api", 3),
        Kind(W.LINK_SLOW, (W.LINK_HEALED,), (0.5, LONGEST), "link:api"),
        Kind(W.LINK_MUTE, (W.LINK_HEALED,), (0.5, LONGEST), "link:api"),
    ),
}
_OF_ONE_KIND = (W.FORBIDDEN, W.CRD_GONE, W.KIND_GONE)
_SEEN = 20.0
"""Seconds by which whatever a source shows has been seen, a silent watch given up."""
_BESIDES = {
    **dict.fromkeys((*ACCIDENTS, W.OPERATOR), ("link api", "silent watch")),
    W.API_FROZEN: ("silent watch",),
}
"""What must be quiet for a fault: an accident whose end comes in pieces is no accident any more,
and an operator who approves is to see what is there."""
_MARGIN = 0.5
_LAST = 4.0
"""Seconds at the end that are for the last blows."""

_KEPT_FIRST = (
    Step(2.5, Fault(W.STORE_KEPT)),
    Step(3.0, Fault(W.AGENT_BACKED_UP, AGENTS[0])),
    Step(3.5, Fault(W.AGENT_UP, AGENTS[0])),
)
"""So that there is something to come back to."""


def make_plan(seed: int, seconds: float, source: str) -> Plan:
    """The plan of a seed; `source` is one of SOURCES."""
    people = People(_rng(seed, "people"), NODES, AGENTS)
    until = max(0.0, seconds - _LAST)
    faults = list(_faults(_rng(seed, "faults"), until, source))
    things, configs = people.begin(), tuple(people.configs())
    edits = people.work(until, _Gone(faults))
    blows = _last_blows(_rng(seed, "blows"), seconds)
    steps = sorted([*faults, *edits, *blows], key=lambda step: step.at)
    lease = source == KUBERNETES and seed // len(SOURCES) % 2 == 1
    return Plan(seed, seconds, source, lease, things, configs, tuple(steps))


def source_of(seed: int) -> str:
    """The source of a seed, where none is asked for."""
    return SOURCES[seed % len(SOURCES)]


def _rng(seed: int, what: str) -> random.Random:
    return random.Random(f"chaos/{what}/{seed}")


class _Gone:
    """Which kinds nobody can write when: an accident has taken them, or is about to."""

    def __init__(self, faults: Iterable[Step]) -> None:
        self._spans: list[tuple[float, float, str]] = []
        began, target = 0.0, ""
        for step in faults:
            assert isinstance(step.act, Fault)
            if step.act.what in ACCIDENTS:
                began, target = step.at, step.act.target
            elif step.act.what in ACCIDENTS_END:
                self._spans.append((began - _MARGIN, step.at + _MARGIN, target))

    def __call__(self, kind: str, at: float) -> bool:
        return any(
            begin <= at <= end and target in (kind, "") for begin, end, target in self._spans
        )


def _faults(rng: random.Random, seconds: float, source: str) -> Iterator[Step]:
    kinds = (*_EVERYWHERE, *_OF_SOURCE[source])
    weights = [kind.weight for kind in kinds]
    pause = rng.choice(_PAUSES)
    busy: dict[str, float] = {}
    yield from _KEPT_FIRST
    at = _CALM_FIRST
    while (at := at + rng.uniform(*pause)) < seconds:
        [kind] = rng.choices(kinds, weights)
        where, target = _struck(kind, rng)
        end = min(at + rng.uniform(*kind.lasts), seconds)
        also = _BESIDES.get(kind.begins, ())
        if any(busy.get(each, 0.0) > at for each in (where, *also)):
            continue
        busy[where] = end + 0.5
        for each in (*also, *(("silent watch",) if where == "link api" else ())):
            busy[each] = end + _SEEN
        yield Step(at, Fault(kind.begins, target, rng.randrange(1000)))
        if kind.ends:
            yield Step(end, Fault(rng.choice(kind.ends), target, rng.randrange(1000)))


def _last_blows(rng: random.Random, seconds: float) -> Iterator[Step]:
    """Nothing changes any more that would heal by the way what these leave behind."""

    def at() -> float:
        return max(0.0, seconds - _LAST + rng.uniform(0.1, 0.5 * _LAST))

    wiped, restored, whole = rng.sample(AGENTS, 3)
    yield Step(at(), Fault(W.AGENT_STORE_WIPED, wiped))
    yield Step(at(), Fault(W.AGENT_STORE_RESTORED, restored, rng.randrange(1000)))
    yield Step(at(), Fault(W.AGENT_RESTORED, whole, rng.randrange(1000)))
    if rng.random() < 0.5:
        yield Step(at(), Fault(W.BROKER_KILLED))
        back = rng.choice((W.BROKER_UP, W.BROKER_UP_EMPTY, W.BROKER_UP_OLDER))
        yield Step(seconds - rng.uniform(0.1, 1.0), Fault(back, pick=rng.randrange(1000)))
    for node in (wiped, restored, whole):
        yield Step(seconds - rng.uniform(0.1, 1.0), Fault(W.AGENT_UP, node))


def _struck(kind: Kind, rng: random.Random) -> tuple[str, str]:
    """(what is busy meanwhile, the fault's target)."""
    match kind.strikes:
        case "agent":
            node = rng.choice(AGENTS)
            return node, node
        case "link":
            link = rng.choice((*BRIDGES, *AGENTS))
            return f"link {link}", link
        case "link:api":
            return "link api", f"{rng.choice(BRIDGES)} to the API server"
        case "source":
            return "source", rng.choice(KINDS) if kind.begins in _OF_ONE_KIND else ""
        case strikes:
            return strikes, ""
