"""What is shipped for a cluster: docker/kubernetes/base, as `kubectl kustomize` builds it."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bridge.api.place import socket_path
from bridge.cli import bridge
from bridge.config import BridgeSettings
from bridge.fields import FieldPath, parse_path
from bridge.placement import Rule, built_in
from nodecast import __version__
from nodecast.session import MqttSettings
from nodecast.settings import load
from tests.support.crd_schema import PRESERVE, declared, findings, schema_of
from tests.support.manifests_base import BASE, Document, built, granted, of_kind, rendered, the
from tests.support.objects import Object, dataset, federated, inference, made, model

DOCKER = Path(__file__).parents[2] / "docker"
RULES = built_in()
IMAGE = DOCKER / "bridge.Dockerfile"
KINDS = sorted(rule.kind for rule in RULES)


def crds() -> dict[str, Document]:
    """The CRDs, by the bridge's name of their kind."""
    return {
        f"{crd['spec']['names']['kind']}.{crd['spec']['group']}": crd
        for crd in of_kind("CustomResourceDefinition")
    }


def schema_for(thing: Object) -> dict[str, Any]:
    group = thing["apiVersion"].partition("/")[0]
    return schema_of(crds()[f"{thing['kind']}.{group}"])


def demo() -> Iterator[Object]:
    for path in sorted((DOCKER / "demo" / "manifests").iterdir()):
        yield from yaml.safe_load_all(path.read_text())


def pod() -> Document:
    spec: Document = the("Deployment")["spec"]["template"]["spec"]
    return spec


def container() -> Document:
    (only,) = pod()["containers"]
    document: Document = only
    return document


def environment() -> dict[str, str]:
    return {each["name"]: each["value"] for each in container()["env"]}


def settings(tmp_path: Path) -> BridgeSettings:
    """The settings of the pod: the ConfigMap's file, and the container's variables."""
    ((_, text),) = the("ConfigMap")["data"].items()
    path = tmp_path / "bridge.toml"
    path.write_text(text)
    return load(BridgeSettings, path, environment())


# What there is


def test_the_base_holds_one_bridge_its_rights_its_settings_and_the_kinds_and_nothing_else() -> None:
    kinds = [document["kind"] for document in rendered()]

    assert sorted(kinds) == [
        "ClusterRole",
        "ClusterRoleBinding",
        "ConfigMap",
        *["CustomResourceDefinition"] * 6,
        "Deployment",
        "Namespace",
        "Role",
        "RoleBinding",
        "ServiceAccount",
    ]


def test_everything_that_has_a_namespace_is_in_the_one_that_is_made() -> None:
    namespace = the("Namespace")["metadata"]["name"]

    kinds = ("ServiceAccount", "ConfigMap", "Deployment", "Role", "RoleBinding")
    inside = [the(kind) for kind in kinds]
    assert {document["metadata"]["namespace"] for document in inside} == {namespace}


def test_the_label_that_leaves_the_kinds_out_is_on_each_of_them_and_on_nothing_else() -> None:
    label = "app.kubernetes.io/component"

    with_it = [d["kind"] for d in rendered() if d["metadata"].get("labels", {}).get(label) == "crd"]
    assert with_it == ["CustomResourceDefinition"] * 6


# Rights


def test_the_bridge_may_read_its_kinds_and_one_namespace_hold_its_lease_and_do_nothing_else() -> (
    None
):
    plurals = {crd["spec"]["names"]["plural"] for crd in crds().values()}
    settings = tomllib.loads(the("ConfigMap")["data"]["bridge.toml"])
    leases = ("coordination.k8s.io", "leases")
    lease = f"nodecast-bridge-{settings['bridge']}"

    assert granted() == {
        *((verb, "sedna.io", plural, None) for plural in plurals for verb in ("list", "watch")),
        ("get", "", "namespaces", "kube-system"),
        ("create", *leases, None),
        ("get", *leases, lease),
        ("update", *leases, lease),
    }


def test_the_bridge_may_write_in_its_own_namespace_alone() -> None:
    everywhere = {verb for rule in the("ClusterRole")["rules"] for verb in rule["verbs"]}

    assert everywhere == {"get", "list", "watch"}


def test_the_pod_has_the_account_that_the_rights_are_bound_to_and_asks_for_its_token() -> None:
    for binding in ("ClusterRoleBinding", "RoleBinding"):
        (subject,) = the(binding)["subjects"]
        assert pod()["serviceAccountName"] == subject["name"]
    assert pod()["automountServiceAccountToken"] is True
    assert the("ServiceAccount")["automountServiceAccountToken"] is False


# Kinds


def test_every_kind_with_a_built_in_rule_has_a_crd_and_no_other_kind_has() -> None:
    assert sorted(crds()) == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_the_names_of_a_kind_agree(kind: str) -> None:
    crd = crds()[kind]
    names, (version,) = crd["spec"]["names"], crd["spec"]["versions"]

    word = names["kind"]
    assert names == {
        "kind": word,
        "listKind": f"{word}List",
        "singular": word.lower(),
        "plural": f"{word.lower()}s",
    }
    assert crd["metadata"]["name"] == f"{names['plural']}.{crd['spec']['group']}"
    assert crd["spec"]["scope"] == "Namespaced"
    assert (version["name"], version["served"], version["storage"]) == ("v1alpha1", True, True)
    assert version["subresources"] == {"status": {}}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.kind)
def test_every_field_that_placement_reads_is_declared_as_text(rule: Rule) -> None:
    schema = schema_of(crds()[rule.kind])
    paths = [*rule.nodes, *(each.path for each in (*rule.carries, *rule.follows))]

    # An annotation is declared by being one.
    read = [path for path in paths if path.steps[0] != "metadata"]
    assert {path.text: declared(schema, path) for path in read} == {
        path.text: "string" for path in read
    }


@pytest.mark.parametrize("kind", KINDS)
def test_every_column_shows_a_field_that_is_declared(kind: str) -> None:
    (version,) = crds()[kind]["spec"]["versions"]
    paths = [column["jsonPath"] for column in version["additionalPrinterColumns"]]

    assert paths.pop() == ".metadata.creationTimestamp"
    assert paths
    schema = schema_of(crds()[kind])
    assert [declared(schema, column_path(path)) for path in paths] == ["string"] * len(paths)


def column_path(text: str) -> FieldPath:
    return parse_path(text.removeprefix("."))


@pytest.mark.parametrize("thing", list(demo()), ids=lambda thing: thing["metadata"]["name"])
def test_a_demo_object_is_accepted_and_keeps_all_its_fields(thing: Object) -> None:
    assert list(findings(schema_for(thing), thing)) == []


@pytest.mark.parametrize(
    "thing",
    [
        dataset("shelf", None),
        dataset("shelf", "hall-1"),
        model("small"),
        inference("plates", "gate-2", "small"),
        federated("wear", "hall-1", "crane-1"),
        made("IncrementalLearningJob", "bare", {}),
        made("LifelongLearningJob", "odd", {"nodeName": "hall-1", "mine": [1, {"a": None}]})
        | {"status": {"conditions": [{"type": "Running", "status": "True"}]}},
    ],
    ids=lambda thing: thing["kind"],
)
def test_an_object_of_other_fields_than_the_demo_keeps_them_too(thing: Object) -> None:
    assert list(findings(schema_for(thing), thing)) == []


@pytest.mark.parametrize(
    ("thing", "said"),
    [
        (made("Dataset", "a", {"nodeName": 5}), ".spec.nodeName is no string"),
        (made("Dataset", "a", ["edge-a"]), ".spec is no object"),
        (
            made("FederatedLearningJob", "a", {"trainingWorkers": [{"nodeName": ["edge-a"]}]}),
            ".spec.trainingWorkers[0].nodeName is no string",
        ),
        (
            {"apiVersion": "sedna.io/v1alpha1", "kind": "Model", "metadata": {}},
            ".spec is required",
        ),
        (made("Model", "a", {}) | {"specs": {}}, ".specs is pruned"),
    ],
)
def test_what_placement_could_not_read_is_refused_at_the_server(thing: Object, said: str) -> None:
    assert list(findings(schema_for(thing), thing)) == [said]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_but_a_spec_is_required_and_no_field_of_it_or_of_the_status_is_lost(
    kind: str,
) -> None:
    """So that whatever Sedna's own, stricter kinds accept is accepted here."""
    schema = schema_of(crds()[kind])

    assert schema["required"] == ["spec"]
    inner = list(objects_in(schema["properties"]["spec"]))
    inner.append(schema["properties"]["status"])
    assert all(each[PRESERVE] is True and "required" not in each for each in inner)


def objects_in(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if schema["type"] == "object":
        yield schema
    for each in (*schema.get("properties", {}).values(), *filter(None, [schema.get("items")])):
        yield from objects_in(each)


# The pod


def test_the_command_reads_the_settings_where_the_config_map_is_mounted() -> None:
    config_map = the("ConfigMap")
    (volume,) = (each for each in pod()["volumes"] if "configMap" in each)
    (mount,) = (each for each in container()["volumeMounts"] if each["name"] == volume["name"])

    assert volume["configMap"]["name"] == config_map["metadata"]["name"]
    (file,) = config_map["data"]
    assert container()["command"][-2:] == ["--config", f"{mount['mountPath']}/{file}"]


def test_the_socket_of_the_api_has_a_place_that_can_be_written_to() -> None:
    variables = re.search(r"(?m)^ENV .* RUNTIME_DIRECTORY=(\S+)", IMAGE.read_text())
    assert variables is not None
    path = socket_path(None, "default", {"RUNTIME_DIRECTORY": variables[1]}, uid=10001)

    assert path is not None
    (mount,) = (m for m in container()["volumeMounts"] if m["mountPath"] == str(path.parent))
    (volume,) = (each for each in pod()["volumes"] if each["name"] == mount["name"])
    assert "emptyDir" in volume
    assert "readOnly" not in mount


def test_the_command_is_one_that_the_bridge_understands() -> None:
    program, name, *arguments = container()["command"]

    assert program == bridge.name
    # With its parent: a command keeps for good what -h is called where it is first asked.
    parent = bridge.make_context("nodecast-bridge", [name])
    context = bridge.commands[name].make_context(name, arguments.copy(), parent)
    assert str(context.params["config"]) == arguments[-1]


def test_the_settings_are_accepted_and_name_no_directory_so_that_the_cluster_is_the_source(
    tmp_path: Path,
) -> None:
    loaded = settings(tmp_path)

    assert loaded.manifests is None
    assert loaded.mqtt.url == environment()["NODECAST_MQTT_URL"]
    assert sorted(loaded.placement().kinds) == KINDS


def test_the_settings_get_a_new_name_with_new_content_so_that_the_pod_is_made_anew() -> None:
    assert re.fullmatch(r"nodecast-bridge-[a-z0-9]{10}", the("ConfigMap")["metadata"]["name"])


def test_a_new_pod_stands_by_before_the_old_one_goes() -> None:
    spec = the("Deployment")["spec"]

    update = {"maxSurge": 1, "maxUnavailable": 0}
    assert (spec["replicas"], spec["strategy"]["rollingUpdate"]) == (1, update)


def test_the_selector_finds_the_pod() -> None:
    spec = the("Deployment")["spec"]

    labels = spec["template"]["metadata"]["labels"].items()
    assert spec["selector"]["matchLabels"].items() <= labels


def test_the_stop_leaves_time_for_the_drain() -> None:
    assert pod()["terminationGracePeriodSeconds"] >= MqttSettings().drain + 10


def test_the_pod_keeps_to_the_restricted_standard_that_its_namespace_enforces() -> None:
    """Pod Security Standards, restricted."""
    labels = the("Namespace")["metadata"]["labels"]

    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    assert pod()["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 10001,
        "runAsGroup": 10001,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod())


def test_memory_is_asked_for_and_limited_and_the_cpu_is_not_throttled() -> None:
    resources = container()["resources"]

    assert set(resources["requests"]) == {"cpu", "memory"}
    assert set(resources["limits"]) == {"memory"}


def test_a_service_of_the_same_name_puts_no_variables_among_the_settings() -> None:
    assert pod()["enableServiceLinks"] is False


def test_the_image_is_this_release_and_runs_as_the_user_that_it_has() -> None:
    dockerfile = IMAGE.read_text()

    assert container()["image"] == f"nodecast-bridge:{__version__}"
    assert f"USER {pod()['securityContext']['runAsUser']}\n" in dockerfile
    assert "install --no-cache-dir '.[bridge]'" in dockerfile


def test_the_image_alone_serves_what_the_settings_say_and_no_directory_of_its_own() -> None:
    dockerfile = IMAGE.read_text()

    assert dockerfile.endswith('ENTRYPOINT ["nodecast-bridge"]\nCMD ["run"]\n')


# The README's overlay


def test_the_overlay_in_the_readme_sets_image_broker_settings_and_password(tmp_path: Path) -> None:
    readme = (DOCKER.parent / "README.md").read_text().partition("## On a cluster")[2]
    shutil.copytree(BASE, tmp_path / "nodecast" / BASE.relative_to(DOCKER.parent))
    mine = tmp_path / "mine"
    mine.mkdir()
    overlay = readme.partition("```yaml\n")[2].partition("```")[0]
    (mine / "kustomization.yaml").write_text(overlay)
    (mine / "bridge.toml").write_text('namespace = "edge"\n')

    documents = {document["kind"]: document for document in built(mine)}
    assert documents["ConfigMap"]["data"] == {"bridge.toml": 'namespace = "edge"\n'}
    spec = documents["Deployment"]["spec"]["template"]["spec"]
    (bridge,) = spec["containers"]
    # The lines that build and push it say the same.
    assert bridge["image"].endswith(f"/nodecast-bridge:{__version__}")
    assert f"-t {bridge['image']} .\n" in readme
    assert f"docker push {bridge['image']}\n" in readme
    variables = {each["name"]: each["value"] for each in bridge["env"]}
    password = Path(load(BridgeSettings, None, variables).mqtt.password_file or "")
    mounts = {mount["mountPath"]: mount["name"] for mount in bridge["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    secret = volumes[mounts[str(password.parent)]]["secret"]["secretName"]
    assert f"create secret generic {secret} --from-file={password.name} " in readme
    assert volumes["settings"]["configMap"]["name"] == documents["ConfigMap"]["metadata"]["name"]
