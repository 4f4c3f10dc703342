"""What the agents should have by now, and how what they have differs from it.

Resources are looked at on the agents' disks, model ops as the observer heard them on their topics.
Everything is compared whole: what should have stayed as it was is compared as well, and an op too
many shows at the latest in the next step. The main thread only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from nodecast.messages import ModelSet
from observer import View
from processes import command, run_to_end
from stage import Node, Stage
from waiting import DemoFailed, Difference

Op = tuple[str, str]
"""(`load` or `unload`, name of the model)"""

_COMMAND_WITHIN = 30.0


def short(key: str) -> str:
    """`Dataset/north` of `Dataset.sedna.io/port/north`: the demo has one group and namespace."""
    kind, _, name = key.split("/")
    return f"{kind.partition('.')[0]}/{name}"


class Expected:
    """`resources`: the short keys of each node. `ops`: those since the last `settle`, by node."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.resources: dict[str, set[str]] = {name: set() for name in stage.nodes}
        self.ops: dict[str, list[Op]] = {name: [] for name in stage.nodes}
        self._counted = dict.fromkeys(stage.nodes, 0)

    def place(self, node: str, *keys: str) -> None:
        """`node` should have these from now on."""
        self.resources[node].update(keys)

    def take(self, node: str, *keys: str) -> None:
        """`node` should have these no longer."""
        self.resources[node].difference_update(keys)

    def difference(self, *, ops_from_set: bool = False) -> Difference:
        """What differs on the disks and in the ops; with `ops_from_set` they are read from the
        ModelSets, where the observer may have been away itself when they went.
        """
        view = self._stage.observer.view()
        return _joined(
            difference
            for node in self._stage.nodes.values()
            for difference in (self._disk(node), self._ops(node.name, view, ops_from_set))
        )

    def disks(self) -> Difference:
        """What differs on the disks alone."""
        return _joined(map(self._disk, self._stage.nodes.values()))

    def snapshot_differs(self, node: str, expected: set[str]) -> Difference:
        """What differs in the snapshot that the broker keeps for `node`."""
        snapshot = self._stage.observer.view().snapshots.get(node)
        there = None if snapshot is None else sorted(short(r.key) for r in snapshot.resources)
        return _differ(f"{node}, snapshot at the broker", sorted(expected), there)

    def settle(self) -> None:
        """Everything is as expected: later ops count from here on."""
        view = self._stage.observer.view()
        for node, models in view.models.items():
            self._counted[node] = models.seq
            self.ops[node] = []

    def commands(self) -> Difference:
        """What differs in the words of the agents' own command."""
        return _joined(self._command(node) for node in self._stage.nodes.values())

    def _disk(self, node: Node) -> Difference:
        there = {short(key) for key in node.tree.read()}
        return _differ(f"{node.name}, files", sorted(self.resources[node.name]), sorted(there))

    def _command(self, node: Node) -> Difference:
        arguments = [
            *(command("nodecast-agent"), "resources", "--json"),
            *("--node", node.name, "--state-dir", str(node.state_dir)),
        ]
        done = run_to_end(arguments, _COMMAND_WITHIN)
        if done.returncode != 0:
            raise DemoFailed(f"nodecast-agent resources: exit {done.returncode}: {done.stderr}")
        there = {short(each["key"]): each["state"] for each in json.loads(done.stdout)}
        expected = dict.fromkeys(sorted(self.resources[node.name]), "Applied")
        return _differ(f"{node.name}, nodecast-agent resources", expected, there)

    def _ops(self, node: str, view: View, from_set: bool) -> Difference:
        models = view.models.get(node)
        if models is None:
            return f"{node}: no ModelSet at the broker"
        counted, expected = self._counted[node], self.ops[node]
        heard = _recent(models, counted) if from_set else _heard(node, view, counted)
        return _differ(f"{node}, model ops", expected, heard) or _differ(
            f"{node}, number of the last op in the ModelSet", counted + len(expected), models.seq
        )


def _heard(node: str, view: View, counted: int) -> list[Op]:
    return [(op.op, op.model) for op in view.ops if op.node == node and op.seq > counted]


def _recent(models: ModelSet, counted: int) -> list[Op]:
    later = [each for each in models.recent_ops if each.seq > counted]
    return [(each.op, each.model) for each in sorted(later, key=lambda each: each.seq)]


def _differ(what: str, expected: object, there: object) -> Difference:
    if expected == there:
        return None
    return f"  {what}\n    expected: {expected}\n    there:    {there}"


def _joined(differences: Iterable[Difference]) -> Difference:
    return "\n".join(_present(differences)) or None


def _present(differences: Iterable[Difference]) -> Iterator[str]:
    return (each for each in differences if each is not None)
