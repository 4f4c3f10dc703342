"""Names of nodes, kinds and keys, and the topics made of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nodecast.errors import InvalidName
from nodecast.names import (
    BridgeName,
    NodeName,
    bridge_name,
    kind_name,
    kind_of,
    namespace_name,
    node_name,
    object_name,
    parse_key,
    parse_kind,
    split_api_version,
    split_key,
)
from nodecast.topics import Topics, agent_client_id, bridge_client_id, topic_prefix

LONG = "a" * 253


@pytest.mark.parametrize("check", [node_name, bridge_name, object_name])
@pytest.mark.parametrize("name", ["a", "0", "a-b", "a.b", "edge-1.site.example.com", LONG])
def test_a_dns_1123_subdomain_is_a_name(check: Callable[[object], str], name: str) -> None:
    assert check(name) == name


BAD = ["", "A", "a/b", "+", "#", "$x", "a b", "-a", "a-", ".a", "a.", "a..b", "ä", "a\n", "a_b"]


@pytest.mark.parametrize("check", [node_name, bridge_name, object_name, namespace_name])
@pytest.mark.parametrize("name", [*BAD, LONG + "a", None, 5, True, ["a"], {"a": 1}, b"a"])
def test_anything_else_is_none(check: Callable[[object], str], name: object) -> None:
    with pytest.raises(InvalidName) as refused:
        check(name)
    assert len(str(refused.value)) < 250
    assert str(refused.value).isprintable()


def test_a_namespace_is_a_label_of_at_most_63() -> None:
    assert namespace_name("a" * 63) == "a" * 63
    for name in ("a" * 64, "a.b"):
        with pytest.raises(InvalidName, match="63"):
            namespace_name(name)


def test_a_kind_has_its_group_but_for_the_core() -> None:
    assert kind_name("Dataset", "sedna.io") == parse_kind("Dataset.sedna.io") == "Dataset.sedna.io"
    assert kind_name("ConfigMap", "") == parse_kind("ConfigMap") == "ConfigMap"


@pytest.mark.parametrize("kind", ["", "Dataset.", ".sedna.io", "A/B.x", "A b.x", "A.X", "1A.x", 5])
def test_what_is_no_kind_is_refused(kind: object) -> None:
    with pytest.raises(InvalidName):
        parse_kind(kind)


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        ("Dataset.sedna.io/default/a", ("Dataset.sedna.io", "default", "a")),
        ("ConfigMap/x/a.b", ("ConfigMap", "x", "a.b")),
        ("Site.example.com//port", ("Site.example.com", "", "port")),
    ],
)
def test_a_key_is_kind_namespace_and_name(key: str, parts: tuple[str, str, str]) -> None:
    assert split_key(parse_key(key)) == parts
    assert kind_of(parse_key(key)) == parts[0]


@pytest.mark.parametrize(
    "key", ["", "a", "A/b", "A/b/c/d", "A/B/c", "A/b/", "/b/c", "A//", "A/b/C", 5, None]
)
def test_what_is_no_key_is_refused(key: object) -> None:
    with pytest.raises(InvalidName):
        parse_key(key)


def test_names_that_collide_when_joined_have_keys_of_their_own() -> None:
    """E10."""
    keys = [
        parse_key(key)
        for key in ("A.x/a-b/c", "A.x/a/b-c", "A.x/a/x.y", "A.y/a/x.y", "B.x/a/x.y", "A.x/a/x-y")
    ]
    assert len({split_key(key) for key in keys}) == len(keys)


@pytest.mark.parametrize(
    ("value", "parts"),
    [("sedna.io/v1alpha1", ("sedna.io", "v1alpha1")), ("v1", ("", "v1"))],
)
def test_an_api_version_is_group_and_version(value: str, parts: tuple[str, str]) -> None:
    assert split_api_version(value) == parts


@pytest.mark.parametrize("value", ["", "/v1", "a/", "a/b/c", "A/v1", "a/V1", 1, None, "+/v1"])
def test_what_is_no_api_version_is_refused(value: object) -> None:
    with pytest.raises(InvalidName):
        split_api_version(value)


# -- topics

NODE, BRIDGE = NodeName("edge.one"), BridgeName("b")


@pytest.mark.parametrize(("prefix", "head"), [("", ""), ("site/a", "site/a/")])
def test_the_topics_are_those_of_the_contract(prefix: str, head: str) -> None:
    topics = Topics(prefix)
    assert [
        topics.resources(NODE),
        topics.state(NODE),
        topics.status(NODE),
        topics.models(NODE),
        topics.model_ops(NODE),
        topics.bridge_state(BRIDGE),
        topics.ledger(BRIDGE),
        topics.probe(BRIDGE),
        topics.every_status(),
    ] == [
        head + rest
        for rest in (
            "node/edge.one/resources",
            "node/edge.one/state",
            "node/edge.one/status",
            "node/edge.one/models",
            "node/edge.one/models/ops",
            "bridge/b/state",
            "bridge/b/nodes",
            "bridge/b/probe",
            "node/+/status",
        )
    ]


def test_client_ids_are_stable() -> None:
    assert agent_client_id(NODE) == "nodecast-agent-edge.one"
    assert bridge_client_id(BRIDGE) == "nodecast-bridge-b"


@pytest.mark.parametrize("prefix", ["", "a", "site/a", "Ä/b c"])
def test_a_prefix_is_levels(prefix: str) -> None:
    assert topic_prefix(prefix) == prefix


@pytest.mark.parametrize(
    "prefix", ["/", "a/", "/a", "a//b", "+", "a/#", "$SYS", "a\0", "a\n", "\udc80", "ä" * 600]
)
def test_what_is_no_prefix_is_refused(prefix: str) -> None:
    with pytest.raises(InvalidName, match="topic prefix"):
        topic_prefix(prefix)


def test_the_node_is_read_back_from_its_topics() -> None:
    for topics in (Topics(), Topics("site/a")):
        assert topics.parse_node(topics.status(NODE)) == (NODE, "status")
        assert topics.parse_node(topics.model_ops(NODE)) == (NODE, "models/ops")


@pytest.mark.parametrize(
    "topic",
    ["", "node", "node/", "node/a", "node/a/", "node/A/status", "bridge/b/nodes", "x/node/a/s"],
)
def test_any_other_topic_is_of_no_node(topic: str) -> None:
    assert Topics().parse_node(topic) is None
    assert Topics("site").parse_node(topic) is None
