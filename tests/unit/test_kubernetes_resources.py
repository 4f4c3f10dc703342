"""Where a kind is served: paths and discovery."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.placement import make_rule
from bridge.sources.kubernetes.discovery import NotServed, find
from bridge.sources.kubernetes.failures import Refusal
from bridge.sources.kubernetes.resources import Resource, group_path
from nodecast.names import KindName

Documents = dict[str, Any]

CAMERAS = {"name": "cameras", "kind": "Camera", "namespaced": True}
STATUS = {"name": "cameras/status", "kind": "Camera", "namespaced": True}
OTHER = {"name": "sites", "kind": "Site", "namespaced": True}


class Discovery:
    """Answers with documents by path, 404 for others; an exception is raised."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self.asked: list[str] = []

    def read(self, path: str) -> Any:
        self.asked.append(path)
        answer = self._documents.get(path, Refusal(404, "NotFound", "no such thing"))
        if isinstance(answer, Exception):
            raise answer
        return answer


def group(*versions: str, preferred: str | None = None) -> Any:
    return {
        "versions": [{"groupVersion": f"x.io/{v}", "version": v} for v in versions],
        "preferredVersion": {"version": preferred or versions[0]},
    }


def resources(*each: object) -> Any:
    return {"kind": "APIResourceList", "resources": list(each)}


def found(documents: Documents, kind: str = "Camera.x.io", **rule: Any) -> Resource:
    return find(Discovery(documents), make_rule(kind, **rule))  # type: ignore[arg-type]


# Paths.


@pytest.mark.parametrize(
    ("kind", "namespace", "path"),
    [
        ("Camera.x.io", None, "/apis/x.io/v1/cameras"),
        ("Camera.x.io", "ns", "/apis/x.io/v1/namespaces/ns/cameras"),
        ("Camera", None, "/api/v1/cameras"),
        ("Camera", "ns", "/api/v1/namespaces/ns/cameras"),
    ],
)
def test_a_path_names_group_version_and_plural(kind: str, namespace: str | None, path: str) -> None:
    assert Resource(KindName(kind), "v1", "cameras").path(namespace) == path


def test_a_resource_is_named_as_roles_and_crds_name_it() -> None:
    camera, core = (Resource(KindName(kind), "v1", "cameras") for kind in ("Camera.x.io", "Camera"))
    assert (camera.name, camera.api_version, camera.short, camera.group) == (
        *("cameras.x.io", "x.io/v1"),
        *("Camera", "x.io"),
    )
    assert (core.name, core.api_version, core.short, core.group) == ("cameras", "v1", "Camera", "")
    assert (group_path("x.io"), group_path("")) == ("/apis/x.io", "/api")


# Discovery.


def test_a_rule_that_says_version_and_plural_asks_nobody() -> None:
    api = Discovery({})
    rule = make_rule("Camera.x.io", version="v2", plural="cams")
    assert find(api, rule) == Resource(rule.kind, "v2", "cams")  # type: ignore[arg-type]
    assert api.asked == []


def test_the_preferred_version_comes_first() -> None:
    documents = {
        "/apis/x.io": group("v1", "v2", preferred="v2"),
        "/apis/x.io/v1": resources(CAMERAS),
        "/apis/x.io/v2": resources(CAMERAS),
    }
    assert found(documents).version == "v2"


def test_another_version_will_do_where_the_preferred_one_lacks_the_kind() -> None:
    documents = {
        "/apis/x.io": group("v1", "v2", preferred="v2"),
        "/apis/x.io/v1": resources(CAMERAS),
        "/apis/x.io/v2": resources(OTHER),
    }
    assert found(documents) == Resource(KindName("Camera.x.io"), "v1", "cameras")


def test_a_version_that_the_rule_says_is_the_only_one_tried() -> None:
    documents = {"/apis/x.io": group("v1"), "/apis/x.io/v1": resources(CAMERAS)}
    assert found(documents, version="v1").plural == "cameras"
    with pytest.raises(NotServed):
        found(documents, version="v2")


def test_a_subresource_is_not_taken_for_the_kind() -> None:
    documents = {"/apis/x.io": group("v1"), "/apis/x.io/v1": resources(STATUS, CAMERAS)}
    assert found(documents).plural == "cameras"
    with pytest.raises(NotServed):
        found(documents | {"/apis/x.io/v1": resources(STATUS)})


def test_a_kind_of_the_core_group_is_looked_for_in_v1() -> None:
    config_maps = {"name": "configmaps", "kind": "ConfigMap", "namespaced": True}
    api = Discovery({"/api/v1": resources(config_maps)})
    rule = make_rule("ConfigMap")
    assert find(api, rule) == Resource(rule.kind, "v1", "configmaps")  # type: ignore[arg-type]
    assert api.asked == ["/api/v1"]


@pytest.mark.parametrize(
    "documents",
    [
        {},
        {"/apis/x.io": group("v1")},
        {"/apis/x.io": group("v1"), "/apis/x.io/v1": resources(OTHER)},
        {"/apis/x.io": {"versions": []}},
    ],
    ids=["no group", "no version", "no kind", "no versions"],
)
def test_what_is_nowhere_is_missing_and_its_crd_is_to_be_installed(documents: Documents) -> None:
    with pytest.raises(NotServed, match=r"Camera\.x\.io is not served at .*: install its CRD") as e:
        found(documents)
    assert e.value.status == 404


@pytest.mark.parametrize("path", ["/apis/x.io", "/apis/x.io/v1"])
def test_a_refusal_of_discovery_is_passed_on(path: str) -> None:
    refusal = Refusal(403, "Forbidden", "no")
    documents = {"/apis/x.io": group("v1"), "/apis/x.io/v1": resources(CAMERAS), path: refusal}
    with pytest.raises(Refusal) as caught:
        found(documents)
    assert caught.value is refusal


@pytest.mark.parametrize(
    ("served", "says"),
    [
        (True, "Camera.x.io is namespaced at /apis/x.io/v1: say namespaced = true in its rule"),
        (False, "is cluster-scoped at /apis/x.io/v1: say namespaced = false in its rule"),
    ],
)
def test_a_rule_of_the_other_scope_is_told_what_to_say(served: bool, says: str) -> None:
    documents = {
        "/apis/x.io": group("v1"),
        "/apis/x.io/v1": resources(CAMERAS | {"namespaced": served}),
    }
    assert found(documents, namespaced=served).plural == "cameras"
    with pytest.raises(Refusal, match="OtherScope") as caught:
        found(documents, namespaced=not served)
    assert caught.value.message.endswith(says)
    assert caught.value.status == 404


anything = st.recursive(
    st.none() | st.integers(0, 2) | st.sampled_from(["Camera", "v1", "cameras", "a/b"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["versions", "version", "resources", "name", "kind"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)
entries = st.fixed_dictionaries(
    {"kind": st.just("Camera") | anything, "name": st.just("cameras") | anything}
)


@given(
    st.fixed_dictionaries({"versions": st.just([{"version": "v1"}]) | anything}),
    st.fixed_dictionaries({"resources": st.lists(entries, max_size=3) | anything}),
)
def test_whatever_the_documents_hold_it_is_a_refusal_or_a_resource(one: Any, two: Any) -> None:
    try:
        resource = found({"/apis/x.io": one, "/apis/x.io/v1": two}, namespaced=False)
    except Refusal:
        return
    assert (resource.version, type(resource.plural)) == ("v1", str)
    assert "/" not in resource.plural
