"""Ledger: what a bridge must find again about itself after a restart or a reconnection.

And Probe: what it says to itself, so that the echo ends a wait.
"""

from __future__ import annotations

import msgspec

from nodecast.messages.version import Number


class Ledger(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`nodes`: every name that may hold a snapshot. `kinds`: how many objects are placed.

    `mark` counts the snapshot acknowledgements of `instance` that this ledger covers. Empty
    `kinds` say that the counts are not known, which is as good as no ledger; `at_least` is there
    instead and says what is known of them.
    """

    schema: int = 1
    bridge: str
    source: str
    instance: str
    epoch: Number
    mark: Number = 0
    paused: bool = False
    nodes: list[str] = []
    kinds: dict[str, Number] = {}
    at_least: dict[str, Number] | msgspec.UnsetType = msgspec.UNSET


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """An echo to itself: everything that the broker had for it before has come."""

    schema: int = 1
    instance: str
    connection: Number = 0
    replay: Number = 0
