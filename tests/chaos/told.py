"""How a run is told: a short table when all went well, and everything one needs when not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.chaos.run import Outcome

_MOST = 60
"""Differences that are printed."""
_WIDE = 400
"""Characters of one of them."""


def success(outcome: Outcome) -> Iterator[str]:
    """Lines on a run that went well."""
    yield from _table("acts", outcome.acts)
    yield from _table("messages", outcome.messages)
    yield from _table("starts", outcome.starts)
    yield from _table("", outcome.counts)
    yield f"all as the oracle says, {outcome.converged:.1f} s after the last fault"


def failure(outcome: Outcome, root: Path, command: str) -> Iterator[str]:
    """Lines on a run that did not."""
    yield ""
    yield f"FAILED: {len(outcome.wrong)} things are wrong"
    for line in outcome.wrong[:_MOST]:
        yield f"  {line[:_WIDE]}"
    if len(outcome.wrong) > _MOST:
        yield f"  and {len(outcome.wrong) - _MOST} more"
    yield "the last acts:"
    yield from (f"  {line}" for line in outcome.last)
    yield f"logs, stores and trees: {root}"
    yield f"again: {command}"
    yield f"its plan: {command} --plan"


def _table(what: str, counts: Mapping[str, int]) -> Iterator[str]:
    for name, count in sorted(counts.items()):
        yield f"{count:6}  {what and what + ': '}{name}"
