"""Rules of one's own: what they may say, and what is refused when they cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.catalog import Catalog
from bridge.config import BridgeSettings, ReferenceSettings, RuleSettings
from bridge.objects import read_object
from bridge.placement import Rules, built_in, make_rule, suggestion
from bridge.record import ObjectRecord
from nodecast.errors import SettingsError


def thing(kind: str, name: str, *, namespace: str | None = None, **fields: object) -> Any:
    metadata = {"name": name} | ({} if namespace is None else {"namespace": namespace})
    return {"apiVersion": "example.com/v1", "kind": kind, "metadata": metadata, **fields}


def catalog(rules: Rules, *things: Any) -> tuple[Catalog, list[ObjectRecord]]:
    records = [read_object(each, rules, "a.yaml") for each in things]
    made = Catalog(rules)
    made.apply({record.key: record for record in records})
    return made, records


def test_settings_add_a_rule_for_any_kind() -> None:
    settings = BridgeSettings(
        rules=[
            RuleSettings(
                kind="Camera.example.com",
                nodes=["spec.at"],
                carries=[ReferenceSettings(kind="Lens", path="spec.lenses[].name")],
            ),
            RuleSettings(kind="Lens.example.com"),
        ]
    )
    camera = thing("Camera", "c", spec={"at": "pole-1", "lenses": [{"name": "wide"}]})
    made, records = catalog(settings.placement(), camera, thing("Lens", "wide"))
    assert [set(made.nodes_of(record.key)) for record in records] == [{"pole-1"}, {"pole-1"}]


def test_settings_replace_a_built_in_rule() -> None:
    rule = RuleSettings(kind="Dataset.sedna.io", nodes=["metadata.labels['at']"])
    rules = BridgeSettings(rules=[rule]).placement()
    raw = {
        "apiVersion": "sedna.io/v1alpha1",
        "kind": "Dataset",
        "metadata": {"name": "a", "labels": {"at": "pole-1"}},
        "spec": {"nodeName": "pole-2"},
    }
    assert read_object(raw, rules, "p").nodes == {"pole-1"}


def test_a_kind_of_the_core_group_has_a_rule_without_a_group() -> None:
    rules = Rules([make_rule("ConfigMap", ["data.node"])])
    raw = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a"},
        "data": {"node": "n"},
    }
    record = read_object(raw, rules, "p")
    assert (record.key, record.nodes) == ("ConfigMap/default/a", {"n"})


def test_a_cluster_scoped_object_has_an_empty_namespace() -> None:
    rules = Rules([make_rule("Site.example.com", ["spec.at"], namespaced=False)])
    raw = thing("Site", "port", namespace="ignored", spec={"at": "n"})
    record = read_object(raw, rules, "p")
    assert record.key == "Site.example.com//port"
    assert b"namespace" not in record.encoded


def test_a_namespaced_object_follows_one_without_a_namespace() -> None:
    rules = Rules(
        [
            make_rule("Site.example.com", ["spec.at"], namespaced=False),
            make_rule("Job.example.com", follows=[("Site", "spec.site")]),
        ]
    )
    job = thing("Job", "j", namespace="team", spec={"site": "port"})
    made, records = catalog(rules, thing("Site", "port", spec={"at": "n"}), job)
    assert [made.nodes_of(record.key) for record in records] == [{"n"}, {"n"}]


def test_a_rule_without_namespace_cannot_refer_into_one() -> None:
    site = make_rule("Site.example.com", carries=[("Job", "spec.job")], namespaced=False)
    with pytest.raises(SettingsError, match="has no namespace"):
        Rules([site, make_rule("Job.example.com")])


def test_a_reference_to_a_kind_without_a_rule_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"refers to Lens\.example\.com, which has no rule"):
        Rules([make_rule("Camera.example.com", carries=[("Lens", "spec.lens")])])


@pytest.mark.parametrize(
    "kind", ["", "dataset/x", "Camera.", "Camera.Example.com", "9Camera.x", "+"]
)
def test_a_rule_for_what_is_no_kind_is_refused(kind: str) -> None:
    with pytest.raises(SettingsError, match=r"^rules: rule for "):
        BridgeSettings(rules=[RuleSettings(kind=kind)])


def test_a_path_that_cannot_be_read_names_its_rule() -> None:
    rule = RuleSettings(kind="Camera.example.com", nodes=["spec..at"])
    with pytest.raises(
        SettingsError, match=r"rule for 'Camera.example.com': field path 'spec..at'"
    ):
        BridgeSettings(rules=[rule])


def test_a_cycle_of_references_ends_and_spreads_the_nodes_of_all() -> None:
    rules = Rules(
        [
            make_rule("A.example.com", ["spec.at"], carries=[("B", "spec.b")]),
            make_rule("B.example.com", ["spec.at"], carries=[("A", "spec.a")]),
        ]
    )
    first = thing("A", "one", spec={"at": "n1", "b": "two"})
    second = thing("B", "two", spec={"at": "n2", "a": "one"})
    made, records = catalog(rules, first, second)
    assert [made.nodes_of(record.key) for record in records] == [{"n1", "n2"}, {"n1", "n2"}]


def test_a_cycle_that_nothing_leads_into_is_nowhere() -> None:
    rules = Rules([make_rule("A.example.com", ["spec.at"], follows=[("A", "spec.a")])])
    first, second = thing("A", "one", spec={"a": "two"}), thing("A", "two", spec={"a": "one"})
    made, records = catalog(rules, first, second)
    assert not any(made.nodes_of(record.key) for record in records)
    itself = thing("A", "one", spec={"a": "one", "at": "n"})
    made, records = catalog(rules, itself)
    assert made.nodes_of(records[0].key) == {"n"}


@pytest.mark.parametrize(
    ("kind", "meant"),
    [
        ("jointinferenceservices", "JointInferenceService.sedna.io"),
        ("Dataset.sedna.oi", "Dataset.sedna.io"),
        ("Camera.exmple.com", "Camera.example.com"),
        ("Camera.sedna.io", "Camera.other.io"),
    ],
)
def test_a_kind_is_suggested_by_its_name_and_then_by_its_group(kind: str, meant: str) -> None:
    kinds = [*Rules(built_in()).kinds, "Camera.example.com", "Camera.other.io"]
    assert suggestion(kind, kinds) == f"; did you mean {meant}?"


@pytest.mark.parametrize("kind", ["Camera.sedna.io", "Site.sedna.io", "", "."])
def test_no_kind_is_suggested_for_its_group_alone(kind: str) -> None:
    assert suggestion(kind, Rules(built_in()).kinds) == ""
