"""The times of the contract that the bridge's core keeps, and its pauses."""

from __future__ import annotations

from dataclasses import dataclass, field

from bridge.guard import GuardPolicy
from bridge.publisher import PublishPolicy
from nodecast.backoff import Backoff


@dataclass(frozen=True, slots=True)
class Policy:
    """The times of the contract, in seconds, and whether bodies are compressed."""

    hold: float = 60.0
    settle: float = 1.0
    settle_max: float = 10.0
    lag: float = 60.0
    compress: bool = True
    guard: GuardPolicy = field(default_factory=GuardPolicy)
    publish: PublishPolicy = field(default_factory=PublishPolicy)
    again: Backoff = field(default_factory=lambda: Backoff(first=2.0, most=300.0))
    """Pauses between answers to one node, and after what the broker refused."""
