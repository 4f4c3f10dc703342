"""A consumer of model ops, as the contract describes one: it follows the ops of a store in order,
and reads the ModelSet where it sees a new store or a gap.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nodecast.messages import ModelOp, ModelSet

Specs = dict[str, dict[str, Any]]


@dataclass(slots=True)
class Consumer:
    """One node's models as someone has them who only listens. `gaps`: how often the ModelSet was
    needed; `lost`: it is needed now."""

    store: str = ""
    seq: int = 0
    models: Specs = field(default_factory=dict)
    gaps: int = 0
    lost: bool = False

    def op(self, op: ModelOp) -> None:
        if op.store != self.store:
            self.store, self.seq, self.models = op.store, 0, {}
            self.lost = False
        if op.seq <= self.seq:
            return  # said again
        if op.seq > self.seq + 1 and not self.lost:
            self.lost = True
            self.gaps += 1
        self.seq = op.seq
        if op.op == "load":
            self.models[op.model] = op.spec
        else:
            self.models.pop(op.model, None)

    def model_set(self, said: ModelSet) -> None:
        """What the node says it has; it counts where the ops do not tell, or tell less."""
        if said.store == self.store and said.seq < self.seq:
            return  # the broker, or the message, is behind
        if said.store == self.store and said.seq == self.seq and not self.lost:
            return
        self.gaps += not self.lost
        self.store, self.seq, self.lost = said.store, said.seq, False
        self.models = {each.name: dict(each.spec) for each in said.models}
