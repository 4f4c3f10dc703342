"""How one piece of work on a resource ended: done, again later, or never as it is.

The three of controller-runtime: what a handler returns, and all that the reconciler needs to know.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Done:
    """The node is as desired. `changed`: something had to be done for it."""

    changed: bool = True


@dataclass(frozen=True, slots=True)
class Retry:
    """It did not work, and may later. `after`: seconds, None for the reconciler's back-off."""

    reason: str
    message: str
    after: float | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """It can never work as it is: only another version of the resource is tried."""

    reason: str
    message: str


Outcome = Done | Retry | Refused
"""What a handler answers."""
