"""Virtual time: actions in the order of their moments, and everything random from one seed.

A run of an hour takes as long as its actions take. Every actor draws from a stream of random
numbers of its own, so that one fault more or less changes little of what the others do.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable


class Simulation:
    """The clock (seconds from 0), the actions that wait, and what happened so far."""

    def __init__(self, seed: int, *, tracing: bool = False) -> None:
        self.now = 0.0
        self.lines: list[str] = []
        self._seed = seed
        self._tracing = tracing
        self._actions: list[tuple[float, int, Callable[..., object], tuple[object, ...]]] = []
        self._order = itertools.count()

    def rng(self, name: str) -> random.Random:
        """The stream of random numbers of one actor."""
        return random.Random(f"{self._seed}/{name}")

    def after(self, delay: float, action: Callable[..., object], *arguments: object) -> None:
        """Do something `delay` seconds from now; actions of one moment in the order they came."""
        moment = self.now + max(delay, 0.0)
        heapq.heappush(self._actions, (moment, next(self._order), action, arguments))

    def run(self, until: float) -> None:
        """Let time pass."""
        while self._actions and self._actions[0][0] <= until:
            self.now, _, action, arguments = heapq.heappop(self._actions)
            action(*arguments)
        self.now = until

    def say(self, who: str, what: str, **fields: object) -> None:
        """Note what happened, for a person who looks at one seed."""
        if self._tracing:
            said = " ".join(f"{name}={value}" for name, value in fields.items())
            self.lines.append(f"{self.now:8.2f} {who:12} {what} {said}".rstrip())
