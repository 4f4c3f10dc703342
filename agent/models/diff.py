"""The difference of two model sets as ops.

What always holds: applied in order to `base`, the ops give `want`; `diff(a, a)` is empty; the same
two sets give the same ops. Models that are gone are unloaded first, by name, since what is to be
loaded may need their memory. Then, by name, what is new is loaded and what changed is unloaded and
loaded, the two side by side, so that each model is away for as short as can be. Whatever part of
the ops was applied, the difference of the rest is the rest. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from agent.models.spec import Spec

OpWord = Literal["load", "unload"]


@dataclass(frozen=True, slots=True)
class Op:
    """One step. `spec`: of what is loaded, or of what was loaded and goes."""

    word: OpWord
    model: str
    spec: Spec


def diff(base: Mapping[str, Spec], want: Mapping[str, Spec]) -> list[Op]:
    """The ops that lead from `base` to `want`."""
    ops = [Op("unload", name, base[name]) for name in sorted(base.keys() - want.keys())]
    for name in sorted(want):
        have = base.get(name)
        if have == want[name]:
            continue
        if have is not None:
            ops.append(Op("unload", name, have))
        ops.append(Op("load", name, want[name]))
    return ops


def apply(base: Mapping[str, Spec], ops: Iterable[Op]) -> dict[str, Spec]:
    """What `base` becomes when `ops` are carried out, as an idempotent consumer would."""
    models = dict(base)
    for op in ops:
        if op.word == "load":
            models[op.model] = op.spec
        else:
            models.pop(op.model, None)
    return models
