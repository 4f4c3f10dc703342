"""The removal guard against its definition, in any order of arrivals and departures."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bridge.guard import GuardPolicy, KindGuard
from nodecast.names import ResourceKey

POLICY = GuardPolicy(share=0.5, number=3, window=10.0)
KEYS = [ResourceKey(f"Alone.x/d/{n}") for n in range(9)]
some = st.sets(st.sampled_from(KEYS), min_size=1)


class GuardMachine(RuleBasedStateMachine):
    """Objects come and go. The model: since when each missing one is gone, and what was placed
    when the guard tripped."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.guard = KindGuard(POLICY)
        self.placed: set[ResourceKey] = set()
        self.gone: dict[ResourceKey, float] = {}
        self.before: int | None = None

    @initialize(keys=some)
    def begin(self, keys: set[ResourceKey]) -> None:
        self.come(keys)

    @rule(keys=some)
    def come(self, keys: set[ResourceKey]) -> None:
        for key in keys - self.placed:
            assert self.guard.arrived(key) == (key in self.gone)
            self.gone.pop(key, None)
        self.placed |= keys
        self.look()

    @rule(keys=some)
    def go(self, keys: set[ResourceKey]) -> None:
        for key in sorted(keys & self.placed):
            self.guard.departed(key, self.now)
            self.gone[key] = self.now
        self.placed -= keys
        self.look()

    @rule(seconds=st.floats(0.1, 15))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.look()

    @rule()
    def approve(self) -> None:
        self.guard.approve()
        self.gone.clear()
        self.before = None
        self.look()

    def look(self) -> None:
        """What the bridge does in each turn, and what the model says of it."""
        self.guard.judge(len(self.placed), self.now)
        held = self.guard.alone
        if not held:
            self.guard.forget(self.now)
        lately = [key for key, at in self.gone.items() if at > self.now - POLICY.window]
        if self.before is None:
            before = len(self.placed) + len(lately)
            if len(lately) >= 3 and 2 * len(lately) > before:
                self.before = before
        elif len(self.gone) < 3 or 2 * len(self.gone) <= self.before:
            self.before = None
        if self.before is None:
            self.gone = {key: self.gone[key] for key in lately}
        assert held == (self.before is not None)

    @invariant()
    def says_what_is_missing(self) -> None:
        guarded = self.guard.guarded(len(self.placed))
        assert (guarded is None) == (self.before is None)
        if guarded:
            assert guarded.placed == self.before
            assert guarded.missing == min(guarded.placed, len(self.gone))

    @invariant()
    def counts_the_most_that_was_placed(self) -> None:
        assert self.guard.count(len(self.placed)) == len(self.placed) + len(self.gone)


GuardMachine.TestCase.settings = settings(
    max_examples=150, stateful_step_count=30, derandomize=True, deadline=None
)
TestGuard = GuardMachine.TestCase
