"""One look at a cluster, for commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.placement import Rules, built_in, make_rule
from bridge.sources.events import Survey
from bridge.sources.kubernetes.access import Access
from bridge.sources.kubernetes.api import Api
from bridge.sources.kubernetes.scope import Scope
from bridge.sources.kubernetes.survey import survey
from tests.fakes.apiserver import ApiServer
from tests.support.objects import dataset, key, model
from tests.support.wait import eventually

RULES = Rules([rule for rule in built_in() if rule.kind.startswith(("Dataset", "Model"))])
USER = "bridge"
EVERYTHING = Scope()


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """A server of the built-in kinds, with a namespace `other`; `bridge` may list and watch."""
    with ApiServer() as running:
        running.install_all()
        running.namespace("other")
        allow(running, "list", "watch")
        yield running


@pytest.fixture
def api(server: ApiServer, tmp_path: Path) -> Api:
    return Api(Access(str(server.kubeconfig(tmp_path / "kubeconfig", user=USER))))


def allow(server: ApiServer, *verbs: str, namespace: str = "") -> None:
    rule = {"apiGroups": ["sedna.io"], "resources": ["*"], "verbs": list(verbs)}
    server.grant(USER, [rule], namespace=namespace)


def looked(api: Api, scope: Scope = EVERYTHING, rules: Rules = RULES) -> Survey:
    return survey(api, scope, rules, page=2)


def test_all_objects_of_all_pages_are_seen(server: ApiServer, api: Api) -> None:
    things = [dataset(name, "edge-1") for name in "abcde"] + [model("m")]
    server.load(things)
    seen = looked(api)
    assert set(seen.objects) == set(map(key, things))
    assert (seen.unseen, seen.problems, dict(seen.skipped)) == ({}, (), {})


def test_only_what_the_scope_selects_is_seen(server: ApiServer, api: Api) -> None:
    gold = dataset("gold", "edge-1", namespace="other")
    gold["metadata"]["labels"] = {"tier": "gold"}
    server.load([dataset("a", "n"), dataset("b", "n", namespace="other"), gold, model("m")])
    scope = Scope(("other",), "", {RULES.kinds[0]: "tier=gold"})
    assert set(looked(api, scope).objects) == {key(gold)}


def test_a_missing_crd_is_said_and_the_other_kinds_are_seen(server: ApiServer, api: Api) -> None:
    """K8."""
    server.create(dataset("a", "edge-1"))
    server.uninstall("models.sedna.io")
    eventually(lambda: looked(api).unseen, what="the CRD is gone")
    seen = looked(api)
    assert dict(seen.unseen) == {
        "Model.sedna.io": "the server does not serve sedna.io/v1alpha1 models:"
        " install the CRD models.sedna.io"
    }
    assert len(seen.objects) == 1


def test_a_kind_that_has_to_be_discovered_and_is_nowhere_is_said_so(api: Api) -> None:
    rules = Rules([make_rule("Camera.x.io", namespaced=False)])
    assert dict(looked(api, rules=rules).unseen) == {
        "Camera.x.io": "Camera.x.io is not served at /apis/x.io: install its CRD"
    }


@pytest.mark.parametrize(("verb", "other"), [("list", "watch"), ("watch", "list")])
def test_a_missing_right_is_said_with_its_verb(
    server: ApiServer, api: Api, verb: str, other: str
) -> None:
    """K9."""
    allow(server, other)
    reasons = looked(api).unseen
    assert set(reasons) == set(RULES.kinds)
    assert f"cannot {verb} resource" in reasons[RULES.kinds[0]]
    assert reasons[RULES.kinds[0]].endswith("grant the verbs list and watch")


def test_a_server_that_cannot_be_reached_shows_nothing(server: ApiServer, api: Api) -> None:
    server.down()
    seen = looked(api)
    assert set(seen.unseen) == set(RULES.kinds)
    assert seen.unseen[RULES.kinds[0]] == f"{server.url}: Connection refused"


def test_a_token_that_is_not_accepted_is_said_with_where_it_is_from(
    server: ApiServer, tmp_path: Path
) -> None:
    path = server.kubeconfig(tmp_path / "other", token="unheard-of")
    reason = looked(Api(Access(str(path)))).unseen[RULES.kinds[0]]
    assert "401 Unauthorized" in reason
    assert reason.endswith(f"(kubeconfig {path})")
    assert "unheard-of" not in reason


def test_a_server_that_answers_nobody_is_asked_once(server: ApiServer, api: Api) -> None:
    server.down()
    seen = looked(api)
    assert seen.unseen.keys() == set(RULES.kinds)
    (reason,) = set(seen.unseen.values())
    assert reason.endswith("Connection refused")
    assert seen.seen == ()


def test_kinds_that_are_empty_are_seen_all_the_same(api: Api) -> None:
    assert looked(api).seen == RULES.kinds


def test_a_selector_that_is_none_is_a_matter_of_the_setting(api: Api) -> None:
    seen = looked(api, Scope(selector="tier==,,"))
    for reason in seen.unseen.values():
        assert "mend the label selector (kubernetes.selector" in reason
    assert seen.unseen.keys() == set(RULES.kinds)


def test_a_plural_of_the_rule_is_the_one_that_is_looked_for(api: Api) -> None:
    rules = Rules([make_rule("Dataset.sedna.io", plural="nosuch")])
    assert looked(api, rules=rules).unseen.keys() == {"Dataset.sedna.io"}
