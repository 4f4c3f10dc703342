"""Of any number of candidates for a Lease, whatever happens to them, one at the most has the right.

Assumed: the server takes a write over the newest version alone and gives no version twice, and
clocks differ in speed by less than `duration` and `renew` do. Requests and answers may take any
time, get lost, and be overtaken; processes stand still; the Lease is deleted, edited by people, and
goes back to what it was when another held it (a restored backup). Left out: one that nobody holds
is free at once, also where that is not true any more since it was deleted, or restored as free,
under its holder; then the holder finds out at its next renewal, and until then epochs decide.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.lease import Elector, Lease, Terms, Write

TERMS = Terms(duration=15, renew=10, retry=2)
NAMES = ("a", "b", "c")


@dataclass
class Server:
    """Holds one Lease."""

    lease: Lease | None = None
    versions: int = 0
    history: list[Lease | None] = field(default_factory=list)
    seen: bool = False

    def put(self, lease: Lease | None) -> Lease | None:
        self.history.append(self.lease)
        self.versions += 1
        self.lease = None if lease is None else replace(lease, version=str(self.versions))
        return self.lease

    def write(self, wanted: Write) -> Lease | None:
        """What is there after it; None: 409, or 404."""
        old = None if wanted.old is None else wanted.old.version
        if old != (None if self.lease is None else self.lease.version):
            return None
        return self.put(Lease(wanted.holder, float(wanted.duration), "", "", 0, ""))


@dataclass
class Candidate:
    """A process: an elector, a clock of some speed, and the request that is under way."""

    name: str
    speed: float
    rng: random.Random
    elector: Elector = field(init=False)
    sent: Write | None = None
    waits: bool = False
    arrived: object = None  # what the server said, on its way back

    def __post_init__(self) -> None:
        self.elector = Elector(self.name, TERMS, self.rng)

    def clock(self, now: float) -> float:
        return 1000 + now * self.speed

    def holds(self, now: float) -> bool:
        return self.elector.holds(self.clock(now))


STEPS = ("ask", "serve", "lose", "answer", "release", "restart")
step = st.one_of(
    st.tuples(st.sampled_from(STEPS), st.sampled_from(NAMES)),
    st.tuples(st.just("wait"), st.floats(0.1, 20)),
    st.tuples(st.just("wait"), st.floats(0.1, 3)),
    st.tuples(st.sampled_from(["delete", "edit"]), st.none()),
    st.tuples(st.just("restore"), st.integers(0, 5)),
)


class World:
    """Plays steps and looks at who has the right after each."""

    def __init__(self, seed: int, speeds: dict[str, float]) -> None:
        self.now = 0.0
        self.rng = random.Random(seed)
        self.server = Server()
        self.speeds = speeds
        self.terms = 0
        self.candidates = {name: self._start(name) for name in NAMES}

    def _start(self, name: str) -> Candidate:
        self.terms += 1
        return Candidate(f"{name}{self.terms}", self.speeds[name], self.rng)

    def play(self, what: str, about: object) -> None:
        match what:
            case "wait":
                assert isinstance(about, float)
                self.now += about
            case "delete" | "edit" | "restore":
                self._people(what, about)
            case "restart":
                assert isinstance(about, str)
                if self.server.lease is not None or not self.server.versions:
                    self.candidates[about] = self._start(about)
            case _:
                assert isinstance(about, str)
                self._process(what, self.candidates[about])
        holders = [each.name for each in self.candidates.values() if each.holds(self.now)]
        assert len(holders) <= 1, f"{holders} at {self.now:.1f}"

    def _people(self, what: str, about: object) -> None:
        server = self.server
        held = [each for each in server.history if each is not None and each.holder]
        if what == "restore" and held:
            assert isinstance(about, int)
            server.put(held[-1 - about % len(held)])
        elif server.lease is not None and what == "edit":
            server.put(server.lease)
        elif server.lease is not None and what == "delete" and self._all_have_seen():
            server.put(None)

    def _all_have_seen(self) -> bool:
        """To whom has not, a Lease that was deleted looks like one that never was."""
        return all(each.elector.holder for each in self.candidates.values())

    def _process(self, what: str, one: Candidate) -> None:
        clock = one.clock(self.now)
        match what:
            case "ask" if not one.waits and clock >= one.elector.next_at:
                one.sent, one.waits, one.arrived = one.elector.ask(clock), True, None
            case "serve" if one.waits and one.arrived is None:
                if one.sent is None:
                    one.arrived = (self.server.lease,)
                else:
                    one.arrived = (self.server.write(one.sent),)
            case "lose" if one.waits:
                one.waits = False
                one.elector.failed(clock)
            case "answer" if one.waits and one.arrived is not None:
                self._answered(one, clock)
            case "release" if not one.waits:
                wanted = one.elector.release(clock)
                if wanted is not None:
                    self.server.write(wanted)

    @staticmethod
    def _answered(one: Candidate, clock: float) -> None:
        assert isinstance(one.arrived, tuple)
        (lease,) = one.arrived
        one.waits = False
        if one.sent is None:
            one.elector.found(lease, clock)
        elif lease is None:
            one.elector.refused(clock)
        else:
            one.elector.wrote(lease, one.sent, clock)


speeds = st.fixed_dictionaries(dict.fromkeys(NAMES, st.floats(0.9, 1.2)))


@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.integers(0, 99), speeds, st.lists(step, max_size=120))
def test_two_never_have_the_right_at_once(
    seed: int, speeds: dict[str, float], steps: list[tuple[str, object]]
) -> None:
    world = World(seed, speeds)
    for what, about in steps:
        world.play(what, about)


def busy(rng: random.Random) -> tuple[str, object]:
    """A step, as it goes in a world where much goes well."""
    dice = rng.random()
    if dice < 0.1:
        return "wait", rng.choice([0.1, 0.1, 0.3, 0.5, 1.0, 2.0, 6.0])
    if dice < 0.12:
        return rng.choice([("edit", None), ("delete", None), ("restore", rng.randrange(6))])
    name = rng.choice(NAMES)
    return rng.choices(STEPS, (10, 10, 0.5, 10, 0.05, 0.05))[0], name


def test_two_never_have_the_right_at_once_in_long_runs_and_somebody_often_has() -> None:
    held = looked = handed_over = 0
    for seed in range(60):
        rng = random.Random(seed)
        world, last = World(seed, {name: rng.uniform(0.9, 1.2) for name in NAMES}), ""
        for _ in range(3000):
            world.play(*busy(rng))
            holders = [each.name for each in world.candidates.values() if each.holds(world.now)]
            looked, held = looked + 1, held + len(holders)
            if holders and holders[0] != last:
                last, handed_over = holders[0], handed_over + 1
    assert held > looked / 10
    assert handed_over > 100


@given(st.integers(0, 999))
@settings(max_examples=50, derandomize=True, deadline=None)
def test_a_dead_holder_is_followed_within_the_duration_and_a_pause(seed: int) -> None:
    world = World(seed, dict.fromkeys(NAMES, 1.0))
    dead, *others = world.candidates.values()

    def turn(one: Candidate) -> None:
        for what in ("ask", "serve", "answer"):
            world._process(what, one)

    turn(dead)
    turn(dead)
    assert dead.holds(world.now)
    for one in others:
        turn(one)
    world.candidates[NAMES[0]] = world._start(NAMES[0])
    died, latest = world.now, TERMS.duration + TERMS.retry * 1.2
    while not any(one.holds(world.now) for one in others):
        world.now += 0.05
        for one in others:
            turn(one)
        assert world.now <= died + latest
