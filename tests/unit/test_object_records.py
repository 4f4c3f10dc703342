"""Reading one object: its key, its nodes, its resource, and what is wrong with it."""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest

from bridge.objects import NoRule, read_object
from bridge.placement import Rules, built_in
from bridge.projection import LAST_APPLIED
from bridge.record import ObjectRecord
from nodecast.errors import ObjectError
from nodecast.messages import resource_digest
from tests.support.objects import dataset, federated

RULES = Rules(built_in())


def read(raw: object) -> ObjectRecord:
    return read_object(raw, RULES, "a.yaml#2")


def with_metadata(**fields: object) -> Any:
    raw = dataset("a", "n1")
    raw["metadata"].update(fields)
    return raw


def resource(raw: object) -> Any:
    return orjson.loads(read(raw).encoded)


def test_a_record_knows_where_it_was_read() -> None:
    assert read(dataset("a", "n1")).place == "a.yaml#2"


@pytest.mark.parametrize(
    "value",
    ["a/b", "+", "#", "$x", "Edge1", "a b", " ", "a..b", "-a", "n" * 300, 7, 1.5, True, ["n1"], {}],
)
def test_a_node_field_that_is_no_node_name_says_so_and_places_nothing(value: object) -> None:
    raw = dataset("a", None)
    raw["spec"]["nodeName"] = value
    record = read(raw)
    assert (record.nodes, record.placeable) == (frozenset(), False)
    assert record.problem is not None
    assert record.problem.startswith("spec.nodeName: node name ")
    assert len(record.problem) < 200


def test_one_bad_worker_of_a_job_says_which_and_the_job_is_placed_nowhere() -> None:
    record = read(federated("wear", "crane-1", "crane/2"))
    assert record.nodes == frozenset()
    assert "spec.trainingWorkers[1].nodeName" in str(record.problem)


def test_a_node_name_of_253_characters_is_one() -> None:
    name = ".".join(["n" * 62] * 4) + "n"
    assert len(name) == 252
    assert read(dataset("a", name + "n")).nodes == {name + "n"}


@pytest.mark.parametrize("value", [5, ["m"], {"x": 1}, "M", "a/b"])
def test_a_reference_that_is_no_name_is_the_objects_problem(value: object) -> None:
    raw = dataset("a", "n1") | {"kind": "JointInferenceService"}
    raw["spec"] = {"edgeWorker": {"nodeName": "n1", "model": {"name": value}}}
    record = read(raw)
    assert str(record.problem).startswith("spec.edgeWorker.model.name: name ")
    assert record.nodes == frozenset()


def test_a_spec_of_another_shape_is_the_objects_problem() -> None:
    assert read(dataset("a", "n1") | {"spec": "x"}).problem == "spec is a string, not an object"


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ([], "is a list, not an object"),
        ("x", "is a string"),
        (None, "is null"),
        ({}, "has no apiVersion and kind"),
        ({"kind": "Dataset"}, "has no apiVersion and kind"),
        (dataset("a", "n") | {"apiVersion": 3}, "apiVersion 3 is not"),
        (dataset("a", "n") | {"apiVersion": "sedna.io/"}, "has no version"),
        (dataset("a", "n") | {"kind": "data set"}, "is not a Kubernetes kind"),
        (dataset("a", "n") | {"metadata": None}, "metadata is null, not an object"),
        (with_metadata(name=None), "metadata: name None is NoneType, not a string"),
        (with_metadata(name="A"), "metadata: name 'A' is not a DNS-1123 subdomain"),
        (with_metadata(namespace="a.b"), "metadata: namespace 'a.b' is not a DNS-1123 label"),
        (with_metadata(namespace=0), "metadata: namespace 0 is int, not a string"),
        (with_metadata(namespace=[]), "not a string"),
    ],
)
def test_what_has_no_key_is_refused_with_the_reason(raw: object, reason: str) -> None:
    with pytest.raises(ObjectError) as refused:
        read(raw)
    assert reason in str(refused.value)


def test_a_kind_without_a_rule_is_told_apart() -> None:
    with pytest.raises(NoRule) as skipped:
        read(dataset("a", "n") | {"kind": "Widget"})
    assert skipped.value.kind == "Widget.sedna.io"


@pytest.mark.parametrize("value", [1, {1}, 2**70, "\ud800"])
def test_what_json_cannot_say_is_refused_with_the_key(value: object) -> None:
    raw = dataset("a", "n")
    raw["spec"]["odd"] = {value: 1} if value == 1 else value
    with pytest.raises(ObjectError, match=r"^Dataset.sedna.io/default/a cannot be encoded"):
        read(raw)


def test_an_object_nested_too_deep_is_refused_alone() -> None:
    deep: Any = []
    for _ in range(2000):
        deep = [deep]
    with pytest.raises(ObjectError, match="cannot be encoded"):
        read(dataset("a", "n") | {"spec": {"nodeName": deep}})


@pytest.mark.parametrize("namespace", [None, ""])
def test_a_missing_namespace_is_default(namespace: str | None) -> None:
    assert read(with_metadata(namespace=namespace)).key == "Dataset.sedna.io/default/a"


def test_an_object_that_is_being_deleted_is_placed_nowhere() -> None:
    record = read(with_metadata(deletionTimestamp="2020-01-01T00:00:00Z"))
    assert (record.deleting, record.placeable, record.problem) == (True, False, None)
    assert read(with_metadata(deletionTimestamp=None)).placeable


def test_a_resource_has_the_six_fields_of_the_metadata_and_no_more() -> None:
    raw = with_metadata(
        uid="u",
        generation=3,
        labels={"l": "1"},
        annotations={"a": "1"},
        resourceVersion="77",
        creationTimestamp="2020-01-01T00:00:00Z",
        managedFields=[{}],
        finalizers=["x"],
        ownerReferences=[],
    )
    assert resource(raw)["metadata"] == {
        "namespace": "default",
        "name": "a",
        "uid": "u",
        "generation": 3,
        "labels": {"l": "1"},
        "annotations": {"a": "1"},
    }


def test_a_resource_has_every_other_field_but_the_status() -> None:
    raw = dataset("a", "n1") | {"status": {"phase": "x"}, "data": {"k": "v"}, "immutable": True}
    seen = resource(raw)
    assert seen.keys() == {"apiVersion", "kind", "metadata", "spec", "data", "immutable", "digest"}


def test_the_last_applied_configuration_goes_and_other_annotations_stay() -> None:
    raw = with_metadata(annotations={LAST_APPLIED: "{}", "keep": "1"})
    assert resource(raw)["metadata"]["annotations"] == {"keep": "1"}
    alone = with_metadata(annotations={LAST_APPLIED: "{}"})
    assert read(alone).encoded == read(dataset("a", "n1")).encoded


@pytest.mark.parametrize("name", ["labels", "annotations"])
def test_an_empty_table_is_as_good_as_none(name: str) -> None:
    assert read(with_metadata(**{name: {}})) == read(dataset("a", "n1"))
    assert read(with_metadata(**{name: None})) == read(dataset("a", "n1"))


def test_the_digest_is_over_the_resource_without_itself() -> None:
    seen = resource(dataset("a", "n1"))
    digest = seen.pop("digest")
    assert digest == resource_digest(seen) == read(dataset("a", "n1")).digest


def test_a_digest_in_the_file_is_not_believed() -> None:
    assert read(dataset("a", "n1") | {"digest": "0" * 32}) == read(dataset("a", "n1"))


def test_a_status_does_not_change_the_digest_and_a_spec_does() -> None:
    plain = read(dataset("a", "n1"))
    assert read(dataset("a", "n1") | {"status": {"x": 1}}).digest == plain.digest
    assert read(dataset("a", "n1", url="/other")).digest != plain.digest


def test_the_order_of_fields_does_not_change_the_bytes() -> None:
    raw = with_metadata(labels={"a": "1", "b": "2"})
    turned = {
        name: dict(reversed(value.items())) if isinstance(value, dict) else value
        for name, value in reversed(copy.deepcopy(raw).items())
    }
    turned["metadata"]["labels"] = {"b": "2", "a": "1"}
    assert read(turned).encoded == read(raw).encoded


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("labels", []),
        ("labels", "x"),
        ("labels", {"a": 1}),
        ("annotations", {"a": None}),
        ("uid", 5),
        ("generation", -1),
        ("generation", True),
        ("generation", 2**53),
        ("generation", "3"),
    ],
)
def test_metadata_that_the_agent_could_not_read_is_the_objects_problem(
    field: str, value: object
) -> None:
    record = read(with_metadata(**{field: value}))
    assert str(record.problem).startswith(f"metadata.{field}")
    assert record.nodes == frozenset()


@pytest.mark.parametrize("namespace", [None, ""])
def test_without_a_default_a_missing_namespace_is_refused(namespace: str | None) -> None:
    raw = with_metadata(namespace=namespace)
    with pytest.raises(ObjectError, match=r"Dataset\.sedna\.io 'a' has no metadata\.namespace"):
        read_object(raw, RULES, "p", None)


def test_without_a_default_an_object_keeps_the_namespace_that_it_has() -> None:
    assert read_object(with_metadata(namespace="team"), RULES, "p", None).key == (
        "Dataset.sedna.io/team/a"
    )


@pytest.mark.parametrize(("value", "version"), [("77", "77"), (None, ""), (77, "")])
def test_a_record_carries_the_version_that_its_source_gave(value: object, version: str) -> None:
    assert read(with_metadata(resourceVersion=value)).version == version


def test_a_version_is_no_part_of_what_an_object_is() -> None:
    old, new = (read(with_metadata(resourceVersion=version)) for version in ("1", "2"))
    assert (old, hash(old), old.encoded) == (new, hash(new), new.encoded)
    assert old != read(dataset("a", "n2"))


def test_a_record_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        read(dataset("a", "n1")).digest = "x"  # type: ignore[misc]


def test_a_record_of_equal_content_shares_the_bytes_and_keeps_its_own_version() -> None:
    old, new = (read(with_metadata(resourceVersion=version)) for version in ("1", "2"))
    shared = new.sharing(old)
    assert shared.encoded is old.encoded
    assert (shared, shared.version) == (new, "2")


def test_a_record_of_other_content_shares_nothing() -> None:
    new = read(dataset("a", "n2"))
    assert new.sharing(read(dataset("a", "n1"))) is new


def test_objects_on_one_node_share_its_set() -> None:
    assert read(dataset("a", "n1")).nodes is read(dataset("b", "n1")).nodes


@pytest.mark.parametrize("field", ["apiVersion", "kind"])
def test_a_kind_that_is_no_text_is_refused(field: str) -> None:
    with pytest.raises(ObjectError, match="apiVersion or kind is not a string"):
        read(dataset("a", "n1") | {field: ["x"]})
