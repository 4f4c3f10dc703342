"""The steps of `run.py --once`: change something, and see it at the agents.

Each step edits files or ends processes as a person would, says what the agents should have then,
and waits until they have it. No step looks into a process: what counts is on the agents' disks,
in the answers of `nodecast-agent`, and on the broker's topics. The main thread only.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from expected import Expected, short
from stage import AGENTS, NODES, WITHOUT_AGENT, Stage
from waiting import DemoFailed, Difference

LIMIT = 30.0
"""Seconds for a step. A removal settles for 1 s, one that empties a kind waits for 5 s more."""

NORTH = "Dataset/berth-images-north"
SOUTH = "Dataset/berth-images-south"
VIBRATION = "Dataset/crane-vibration"
BERTH = "FederatedLearningJob/berth-occupancy"
CRANE = "IncrementalLearningJob/crane-wear"
CRANE_MODELS = ("Model/crane-wear-base", "Model/crane-wear-live")
QUAY = "JointInferenceService/quay-safety"
QUAY_MODEL = "Model/quay-detector-small"
WITHOUT = {"Dataset/meter-readings", "LifelongLearningJob/cold-store-energy"}
"""What edge-c should have."""


@dataclass(frozen=True, slots=True)
class Step:
    """`title` says what happens, and what comes of it."""

    title: str
    act: Callable[[], None]


class Walk:
    """The steps, in order; each goes on from where the one before has ended."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._expected = Expected(stage)

    def steps(self) -> list[Step]:
        return [
            Step("six kinds are placed on three nodes; both agents have theirs", self._first),
            Step("a Dataset is edited: its file changes, on its node alone", self._edit),
            Step("a Dataset moves from edge-a to edge-b", self._move),
            Step("a Dataset moves, and the job that follows it with both Models", self._follow),
            Step("a training worker is dropped: the job leaves edge-b alone", self._drop_worker),
            Step("a service moves to edge-b, and its Model with it", self._move_service),
            Step("the service is deleted: the Model leaves with it", self._delete_service),
            Step("a Dataset is deleted while the bridge is stopped", self._bridge_stopped),
            Step("models.json gains a model: one load", self._add_model),
            Step("a model's spec changes: unload, load", self._change_model),
            Step(
                "models.json is reordered and respelt, and a model goes: one unload", self._respell
            ),
            Step("an agent restarts: no file is written, no op sent", self._restart_agent),
            Step("all is edited while the broker is down, and comes when it is back", self._broker),
            Step("the broker forgets everything, and is told all of it again", self._wipe),
        ]

    def run(self, step: Step) -> float:
        """Do one step; the seconds that it took. Raises DemoFailed, Interrupted."""
        started = time.monotonic()
        step.act()
        self._until(self._expected.commands)
        self._expected.settle()
        return time.monotonic() - started

    # --- placement

    def _first(self) -> None:
        expected = self._expected
        expected.place("edge-a", NORTH, BERTH, QUAY, QUAY_MODEL)
        expected.place("edge-b", SOUTH, VIBRATION, BERTH, CRANE, *CRANE_MODELS)
        for name, node in self._stage.nodes.items():
            expected.ops[name] = [("load", model) for model in sorted(node.models.read())]
        self._come_true(self._without_agent)

    def _edit(self) -> None:
        url = "/data/berth-images/north-2.txt"
        before = self._stage.nodes["edge-b"].tree.identities()
        self._stage.manifests.edit("Dataset", "berth-images-north", _set_url(url))
        self._come_true(lambda: self._url_differs("edge-a", NORTH, url))
        self._untouched("edge-b", before)

    def _move(self) -> None:
        self._stage.manifests.move("Dataset", "berth-images-north", "edge-b")
        self._expected.take("edge-a", NORTH)
        self._expected.place("edge-b", NORTH)
        self._come_true()

    def _follow(self) -> None:
        self._stage.manifests.move("Dataset", "crane-vibration", "edge-a")
        self._expected.take("edge-b", VIBRATION, CRANE, *CRANE_MODELS)
        self._expected.place("edge-a", VIBRATION, CRANE, *CRANE_MODELS)
        self._come_true()

    def _drop_worker(self) -> None:
        def keep_first(job: dict[str, Any]) -> None:
            del job["spec"]["trainingWorkers"][1:]

        self._stage.manifests.edit("FederatedLearningJob", "berth-occupancy", keep_first)
        self._expected.take("edge-b", BERTH)
        self._come_true()

    def _move_service(self) -> None:
        def to_edge_b(service: dict[str, Any]) -> None:
            service["spec"]["edgeWorker"]["template"]["spec"]["nodeName"] = "edge-b"

        self._stage.manifests.edit("JointInferenceService", "quay-safety", to_edge_b)
        self._expected.take("edge-a", QUAY, QUAY_MODEL)
        self._expected.place("edge-b", QUAY, QUAY_MODEL)
        self._come_true()

    def _delete_service(self) -> None:
        self._stage.manifests.delete("JointInferenceService", "quay-safety")
        self._expected.take("edge-b", QUAY, QUAY_MODEL)
        self._come_true()

    def _bridge_stopped(self) -> None:
        self._stage.bridge.stop()
        self._stage.manifests.delete("Dataset", "berth-images-south")
        self._now()
        self._stage.bridge.start()
        self._expected.take("edge-b", SOUTH)
        self._come_true()

    # --- model config

    def _add_model(self) -> None:
        config = self._stage.nodes["edge-a"].models
        spec = {"storageUri": "s3://models/gate-counter/1.onnx", "framework": "onnx"}
        config.write({**config.read(), "gate-counter": {**spec, "memory": "1Gi"}})
        self._expected.ops["edge-a"] = [("load", "gate-counter")]
        self._come_true()

    def _change_model(self) -> None:
        config = self._stage.nodes["edge-a"].models
        models = config.read()
        models["plate-reader"]["storageUri"] = "s3://models/plate-reader/8.onnx"
        config.write(models)
        self._expected.ops["edge-a"] = [("unload", "plate-reader"), ("load", "plate-reader")]
        self._come_true()

    def _respell(self) -> None:
        config = self._stage.nodes["edge-a"].models
        models = dict(reversed(config.read().items()))
        models["gate-counter"]["memory"] = "1024Mi"
        del models["plate-reader"]
        config.write(models)
        self._expected.ops["edge-a"] = [("unload", "plate-reader")]
        self._come_true()

    # --- what goes away and comes back

    def _restart_agent(self) -> None:
        node = self._stage.nodes["edge-a"]
        files, before = node.tree.identities(), self._instance("edge-a")
        node.agent.stop()
        node.agent.start()
        self._come_true(lambda: self._not_reported_since("edge-a", before))
        self._untouched("edge-a", files)

    def _broker(self) -> None:
        self._stop_broker()
        url = "/data/vibration/index-2.csv"
        self._stage.manifests.move("Dataset", "berth-images-north", "edge-a")
        self._stage.manifests.edit("Dataset", "crane-vibration", _set_url(url))
        config = self._stage.nodes["edge-b"].models
        spec = {"storageUri": "s3://models/hook-finder/2.onnx", "framework": "onnx"}
        config.write({**config.read(), "hook-finder": {**spec, "memory": "64Mi"}})
        self._now()
        self._stage.broker.start()
        self._expected.take("edge-b", NORTH)
        self._expected.place("edge-a", NORTH)
        self._expected.ops["edge-b"] = [("load", "hook-finder")]
        self._come_true(lambda: self._url_differs("edge-a", VIBRATION, url), ops_from_set=True)

    def _wipe(self) -> None:
        files = {name: node.tree.identities() for name, node in self._stage.nodes.items()}
        self._stop_broker()
        self._stage.broker.wipe()
        self._stage.broker.start()
        self._come_true(self._not_told_again)
        for name, before in files.items():
            self._untouched(name, before)

    def _stop_broker(self) -> None:
        """Stop it, and wait until the observer knows: what it knew before counts no longer."""
        self._stage.broker.stop()
        observer = self._stage.observer
        self._until(lambda: "  not noticed" if observer.view().connected else None)

    # --- looking

    def _come_true(
        self, further: Callable[[], Difference] | None = None, *, ops_from_set: bool = False
    ) -> None:
        """Wait until the agents have what is expected, and `further` finds nothing either."""

        def differs() -> Difference:
            found = self._expected.difference(ops_from_set=ops_from_set)
            return found or (further() if further is not None else None)

        self._until(differs)

    def _until(self, check: Callable[[], Difference]) -> None:
        self._stage.waits.until(check, within=LIMIT, watched=self._stage.watched)

    def _now(self) -> None:
        """The agents' disks are as expected at this moment: nothing has moved them."""
        if (difference := self._expected.disks()) is not None:
            raise DemoFailed(f"changed too early:\n{difference}")

    def _untouched(self, node: str, before: dict[str, tuple[int, int]]) -> None:
        after = self._stage.nodes[node].tree.identities()
        if after != before:
            written = sorted({path for path, _ in after.items() ^ before.items()})
            raise DemoFailed(f"{node}: files were written that had not changed: {written}")

    def _without_agent(self) -> Difference:
        view = self._stage.observer.view()
        if WITHOUT_AGENT in view.presences:
            return f"  {WITHOUT_AGENT} has an agent"
        return self._expected.snapshot_differs(WITHOUT_AGENT, WITHOUT)

    def _url_differs(self, node: str, key: str, expected: str) -> Difference:
        there = self._stage.nodes[node].tree.read()
        urls = [value["spec"]["url"] for name, value in there.items() if short(name) == key]
        return None if urls == [expected] else f"  {node}, url of {key}: {urls}, not {expected}"

    def _instance(self, node: str) -> str:
        return self._stage.observer.view().presences[node].instance

    def _not_reported_since(self, node: str, instance: str) -> Difference:
        view = self._stage.observer.view()
        if not view.online(node) or view.presences[node].instance == instance:
            return f"  {node}: the agent has not come back"
        report = view.reports.get(node)
        if report is None or report.instance == instance:
            return f"  {node}: the agent has come back and reported nothing yet"
        return None

    def _not_told_again(self) -> Difference:
        view = self._stage.observer.view()
        lacks = [
            *(f"snapshot of {node}" for node in NODES if node not in view.snapshots),
            *(f"state of {node}" for node in AGENTS if not view.online(node)),
            *(f"report of {node}" for node in AGENTS if node not in view.reports),
        ]
        if view.ledger is None:
            lacks.append("ledger")
        return f"  the broker lacks: {', '.join(lacks)}" if lacks else None


def _set_url(url: str) -> Callable[[dict[str, Any]], None]:
    return lambda found: found["spec"].update(url=url)
