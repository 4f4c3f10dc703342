"""What must be the same in the end: the oracle, what the broker keeps, the disks, the reports.

One look gives every difference, node by node. Used by the run's thread; it reads files and what an
observer was told, and waits for nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nodecast.messages import Snapshot
from nodecast.names import NodeName, ResourceKey
from tests.chaos.consumer import Consumer, Specs
from tests.chaos.processes import Processes
from tests.chaos.things import Thing, expected
from tests.chaos.trees import files_in
from tests.support.fleet import Look

_ADDED = ("uid", "generation")
"""What a source adds to an object's metadata."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one node must have, by the oracle."""

    things: Mapping[ResourceKey, Thing]
    models: Specs


def node_without_agent(node: NodeName, wanted: Wanted, look: Look) -> list[str]:
    """Differences of a node of which only what the broker keeps can be looked at."""
    snapshot = look.snapshot(node)
    if snapshot is None:
        return [f"{node}: no snapshot"] if wanted.things else []
    return _of_snapshot(node, wanted, snapshot)


def node_with_agent(
    node: NodeName, wanted: Wanted, look: Look, processes: Processes, consumer: Consumer
) -> list[str]:
    """Differences of a node and its agent."""
    snapshot = look.snapshot(node)
    if snapshot is None:
        return [f"{node}: no snapshot"]
    return [
        *_of_snapshot(node, wanted, snapshot),
        *_of_disk(node, snapshot, processes),
        *_of_report(node, snapshot, look, processes),
        *_of_models(node, wanted.models, look, consumer),
    ]


def bridge_in_charge(nodes: Iterable[NodeName], look: Look) -> list[str]:
    """Differences of what the bridge keeps at the broker about itself."""
    ledger, presence = look.ledger(), look.presence("bridge/default/state")
    if ledger is None or presence is None:
        return [f"bridge: its ledger is {ledger}, its state {presence}"]
    lines = _unlike("bridge, online", True, presence.online)
    lines += _unlike("bridge, instance", presence.instance, ledger.instance)
    lines += _unlike("bridge, epoch", presence.epoch, ledger.epoch)
    missing = sorted(set(nodes) - set(ledger.nodes))
    return lines + ([f"bridge, ledger: without {missing}"] if missing else [])


def _of_snapshot(node: NodeName, wanted: Wanted, snapshot: Snapshot) -> list[str]:
    lines = _unlike(f"{node}, held kinds", [], sorted(snapshot.held_kinds))
    lines += _unlike(f"{node}, omitted", [], sorted(snapshot.omitted))
    lines += _unlike(f"{node}, unread", (), snapshot.unread)
    there = {each.key: _plain(json.loads(each.body)) for each in snapshot.resources}
    wrote = {key: expected(thing) for key, thing in wanted.things.items()}
    return lines + _differ(f"{node}, snapshot {snapshot.version}", wrote, there)


def _of_disk(node: NodeName, snapshot: Snapshot, processes: Processes) -> list[str]:
    agent = processes.agents[node].agent
    there: dict[str, Any] = {}
    for path in files_in(agent.tree):
        key = str(path.relative_to(agent.tree)).removesuffix(".json")
        try:
            there[key] = path.read_bytes()
        except FileNotFoundError:
            continue  # taken away since it was listed
    return _differ(
        f"{node}, disk", {each.key: each.body + b"\n" for each in snapshot.resources}, there
    )


def _of_report(node: NodeName, snapshot: Snapshot, look: Look, processes: Processes) -> list[str]:
    report = look.report(node)
    if report is None:
        return [f"{node}: no report"]
    lines = _unlike(f"{node}, instance", processes.agents[node].agent.instance, report.instance)
    lines += _unlike(f"{node}, online", True, look.online(f"node/{node}/state"))
    version = (str(snapshot.version), snapshot.digest)
    lines += _unlike(f"{node}, reported", version, (str(report.version), report.digest))
    lines += _unlike(f"{node}, incomplete", False, report.incomplete)
    lines += _unlike(f"{node}, refused", None, report.refused)
    states = {each.key: each.state for each in report.resources}
    applied = {each.key: "Applied" for each in snapshot.resources}
    return lines + _differ(f"{node}, states", applied, states)


def _of_models(node: NodeName, models: Specs, look: Look, consumer: Consumer) -> list[str]:
    said = look.model_set(node)
    if said is None:
        return [f"{node}: no ModelSet"]
    lines = _unlike(f"{node}, config", "ok", said.config.state)
    states = {each.state for each in said.models} - {"Requested"}
    lines += _unlike(f"{node}, model states", set(), states)
    lines += _differ(f"{node}, ModelSet", models, {each.name: each.spec for each in said.models})
    lines += _unlike(f"{node}, ops up to", (said.store, said.seq), (consumer.store, consumer.seq))
    return lines + _differ(f"{node}, replayed ops", models, consumer.models)


def _plain(body: dict[str, Any]) -> dict[str, Any]:
    """A resource without what its source and the bridge add."""
    metadata = {k: v for k, v in body["metadata"].items() if k not in _ADDED}
    return {k: v for k, v in body.items() if k != "digest"} | {"metadata": metadata}


def _differ(what: str, wanted: Mapping[str, Any], there: Mapping[str, Any]) -> list[str]:
    """Lines on what is missing, extra, or different, key by key."""
    lines = [f"{what}: missing {key}" for key in sorted(wanted.keys() - there.keys())]
    lines += [f"{what}: extra {key}" for key in sorted(there.keys() - wanted.keys())]
    for key in sorted(wanted.keys() & there.keys()):
        if wanted[key] != there[key]:
            lines.append(f"{what}: {key} is {_apart(there[key], wanted[key])}")
    return lines


def _apart(there: object, wanted: object) -> str:
    """Where two values begin to differ."""
    one, other = str(there), str(wanted)
    pairs = enumerate(zip(one, other, strict=False))
    begin = max(0, next((at for at, (a, b) in pairs if a != b), 0) - 20)
    return f"…{one[begin : begin + 80]}…, should be …{other[begin : begin + 80]}…"


def _unlike(what: str, wanted: object, there: object) -> list[str]:
    return [] if wanted == there else [f"{what}: {there}, should be {wanted}"]
