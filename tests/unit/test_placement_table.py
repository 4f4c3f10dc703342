"""The built-in rules, on objects as people write them."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.catalog import Catalog
from bridge.objects import read_object
from bridge.placement import Rules, built_in
from bridge.record import ObjectRecord
from tests.support.objects import dataset, federated, inference, made, model

RULES = Rules(built_in())
Object = dict[str, Any]


def read(thing: Object, rules: Rules = RULES) -> ObjectRecord:
    return read_object(thing, rules, "a.yaml")


def nodes(thing: Object) -> set[str]:
    record = read(thing)
    assert record.problem is None
    return set(record.nodes)


def placed(*things: Object, rules: Rules = RULES) -> dict[str, list[str]]:
    """Names by node."""
    catalog = Catalog(rules)
    catalog.apply({r.key: r for r in (read(thing, rules) for thing in things)})
    return {
        node: [record.key.rpartition("/")[2] for record in catalog.on_node(node)]
        for node in sorted(catalog.nodes())
    }


def learning(name: str, *, kind: str = "IncrementalLearningJob", **spec: object) -> Object:
    return made(kind, name, spec)


def template(node: str) -> Object:
    return {"template": {"spec": {"nodeName": node, "containers": [{"image": "trainer:1"}]}}}


def test_a_dataset_is_on_the_node_that_it_names() -> None:
    assert nodes(dataset("quay-video", "crane-1")) == {"crane-1"}


def test_a_dataset_without_a_node_is_nowhere() -> None:
    assert nodes(dataset("quay-video", None)) == set()
    assert nodes(dataset("quay-video", "")) == set()


@pytest.mark.parametrize(
    "worker",
    [{"nodeName": "gate-2"}, template("gate-2"), {"nodeName": "gate-2"} | template("gate-2")],
)
def test_joint_inference_is_on_the_node_of_its_edge_worker(worker: Object) -> None:
    spec = {"edgeWorker": worker, "cloudWorker": template("cloud-1") | {"nodeName": "cloud-1"}}
    assert nodes(made("JointInferenceService", "plates", spec)) == {"gate-2"}


def test_joint_inference_whose_two_fields_differ_is_on_both_nodes() -> None:
    worker = {"nodeName": "gate-1"} | template("gate-2")
    assert nodes(made("JointInferenceService", "p", {"edgeWorker": worker})) == {"gate-1", "gate-2"}


def test_joint_inference_carries_the_model_of_its_edge_worker() -> None:
    service = inference("plates", "gate-2", "plates-small")
    assert placed(service, model("plates-small"), model("plates-big")) == {
        "gate-2": ["plates", "plates-small"]
    }


def test_joint_inference_does_not_carry_its_big_model() -> None:
    spec = {"edgeWorker": {"nodeName": "a"}, "cloudWorker": {"model": {"name": "big"}}}
    assert placed(made("JointInferenceService", "p", spec), model("big")) == {"a": ["p"]}


def test_federated_learning_is_on_the_node_of_each_training_worker() -> None:
    assert nodes(federated("wear", "crane-1", "crane-2")) == {"crane-1", "crane-2"}
    spec = {"trainingWorkers": [template("crane-1"), {"nodeName": "crane-3"}]}
    spec["aggregationWorker"] = template("cloud-1")
    assert nodes(made("FederatedLearningJob", "wear", spec)) == {"crane-1", "crane-3"}


def test_federated_learning_takes_no_dataset_along() -> None:
    job = federated("wear", "crane-1")
    job["spec"]["trainingWorkers"][0]["dataset"] = {"name": "vibration"}
    assert placed(job, dataset("vibration", None)) == {"crane-1": ["wear"]}


@pytest.mark.parametrize("kind", ["IncrementalLearningJob", "LifelongLearningJob"])
@pytest.mark.parametrize("part", ["trainSpec", "evalSpec", "deploySpec"])
def test_a_learning_job_is_on_the_nodes_of_its_templates(kind: str, part: str) -> None:
    assert nodes(learning("night", kind=kind, **{part: template("hall-1")})) == {"hall-1"}


@pytest.mark.parametrize("kind", ["IncrementalLearningJob", "LifelongLearningJob"])
def test_a_learning_job_is_on_the_node_of_its_spec(kind: str) -> None:
    assert nodes(learning("night", kind=kind, nodeName="hall-1")) == {"hall-1"}


@pytest.mark.parametrize("kind", ["IncrementalLearningJob", "LifelongLearningJob"])
@pytest.mark.parametrize("stage", ["Train", "Eval", "Deploy"])
def test_a_learning_job_is_on_the_nodes_of_its_annotations(kind: str, stage: str) -> None:
    job = learning("night", kind=kind)
    job["metadata"]["annotations"] = {f"sedna.io/{stage}": "hall-2", "other": "hall-9"}
    assert nodes(job) == {"hall-2"}


@pytest.mark.parametrize("kind", ["IncrementalLearningJob", "LifelongLearningJob"])
def test_a_learning_job_follows_its_dataset(kind: str) -> None:
    job = learning("night", kind=kind, dataset={"name": "shelf", "trainProb": 0.8})
    assert placed(job, dataset("shelf", "hall-3"), dataset("other", "hall-4")) == {
        "hall-3": ["shelf", "night"],
        "hall-4": ["other"],
    }


def test_incremental_learning_carries_both_its_models() -> None:
    job = learning(
        "night",
        nodeName="hall-1",
        initialModel={"name": "first"},
        deploySpec={"model": {"name": "served"}},
    )
    assert placed(job, model("first"), model("served"), model("spare")) == {
        "hall-1": ["night", "first", "served"]
    }


def test_a_model_goes_where_a_job_goes_that_follows_a_dataset() -> None:
    job = learning("night", dataset={"name": "shelf"}, initialModel={"name": "first"})
    things = job, dataset("shelf", "hall-3"), model("first")
    assert placed(*things) == {"hall-3": ["shelf", "night", "first"]}


def test_lifelong_learning_carries_no_model() -> None:
    job = learning("n", kind="LifelongLearningJob", nodeName="a", initialModel={"name": "m"})
    assert placed(job, model("m")) == {"a": ["n"]}


def test_a_model_names_no_node_of_its_own() -> None:
    thing = model("first")
    thing["spec"]["nodeName"] = "hall-1"
    thing["metadata"]["annotations"] = {"sedna.io/Deploy": "hall-1"}
    assert placed(thing) == {}


def test_a_reference_stays_in_the_namespace_of_its_owner() -> None:
    service = inference("plates", "gate-2", "small")
    elsewhere = model("small")
    elsewhere["metadata"]["namespace"] = "other"
    catalog = Catalog(RULES)
    catalog.apply({r.key: r for r in (read(service), read(elsewhere))})
    assert not catalog.nodes_of(read(elsewhere).key)
    assert [each.target for each in catalog.dangling()] == ["Model.sedna.io/default/small"]


def test_a_reference_is_found_in_whatever_namespace_its_owner_is() -> None:
    service, own, foreign = inference("plates", "gate-2", "small"), model("small"), model("small")
    for thing in (service, own):
        thing["metadata"]["namespace"] = "team"
    catalog = Catalog(RULES)
    catalog.apply({r.key: r for r in map(read, (service, own, foreign))})
    assert catalog.nodes_of(read(own).key) == {"gate-2"}
    assert not catalog.nodes_of(read(foreign).key)
    assert catalog.dangling() == []


def test_a_job_that_follows_what_is_missing_dangles_and_goes_there_when_it_comes() -> None:
    catalog = Catalog(RULES)
    job = read(learning("night", dataset={"name": "shelf"}))
    catalog.apply({job.key: job})
    assert [each.target for each in catalog.dangling()] == ["Dataset.sedna.io/default/shelf"]
    shelf = read(dataset("shelf", "hall-1"))
    catalog.apply({shelf.key: shelf})
    assert (catalog.dangling(), catalog.nodes_of(job.key)) == ([], {"hall-1"})


def test_the_other_group_has_the_same_rules_for_itself_only() -> None:
    rules = Rules(built_in("neptune.io"))
    service = inference("plates", "gate-2", "small") | {"apiVersion": "neptune.io/v1alpha1"}
    own, foreign = model("small"), model("small")
    own["apiVersion"] = "neptune.io/v1alpha1"
    assert placed(service, own, rules=rules) == {"gate-2": ["plates", "small"]}
    assert all(kind.endswith(".neptune.io") for kind in rules.kinds)
    assert rules.get(read(foreign).kind) is None


def test_what_a_kind_depends_on_is_what_can_place_it() -> None:
    kinds = {kind.partition(".")[0]: set(RULES.depends_on(kind)) for kind in RULES.kinds}
    dataset_kind, learner = "Dataset.sedna.io", "IncrementalLearningJob.sedna.io"
    assert kinds == {
        "Dataset": set(),
        "FederatedLearningJob": set(),
        "IncrementalLearningJob": {dataset_kind},
        "JointInferenceService": set(),
        "LifelongLearningJob": {dataset_kind},
        "Model": {dataset_kind, learner, "JointInferenceService.sedna.io"},
    }
