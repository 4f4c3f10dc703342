"""Tokens that are rotated, in every place where the client reads them from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kubernetes.config import incluster_config

from bridge.sources.kubernetes import access as access_module
from bridge.sources.kubernetes.access import Access
from tests.fakes.apiserver import ADMIN, ApiServer
from tests.fakes.identities import MASTERS
from tests.support.informing import (
    QUICK,
    Informing,
    informing,
    quick_time,
    rules_of,
    serving,
)
from tests.support.objects import KINDS, dataset
from tests.support.tls_front import CERTIFICATE, TlsFront
from tests.support.wait import eventually


def rotate(server: ApiServer, old: str) -> str:
    """A new token of the admin; the old one is no good any more."""
    new = server.token(ADMIN, (MASTERS,))
    server.revoke_token(old)
    server.faults.cut_watches()  # a running watch goes on with a token that was good once
    return new


def works_again(it: Informing, *tokens: str, refused: int) -> None:
    """Wait until a change is seen; nothing went meanwhile, and few requests were refused."""
    it.server.create(dataset("b", "edge0"))
    it.knows("a", "b")
    assert it.told.gone == []
    assert len([each for each in it.server.requests() if each.user == ""]) <= refused
    for token in tokens:
        assert token not in it.log.text


def test_k6_a_token_file_is_read_again_when_its_token_is_refused(tmp_path: Path) -> None:
    with serving(dataset("a", "edge0")) as server:
        file = tmp_path / "token"
        file.write_text(f"{server.admin_token}\n")
        access = Access(str(server.kubeconfig(tmp_path / "kubeconfig", token_file=file)))
        with informing(server, tmp_path, access=access, clock=quick_time) as it:
            it.watching()
            new = rotate(server, server.admin_token)
            file.write_text(f"{new}\n")
            works_again(it, new, server.admin_token, refused=4)


def test_k6_a_kubeconfig_is_read_again_when_its_token_is_refused(tmp_path: Path) -> None:
    with serving(dataset("a", "edge0")) as server:
        path = server.kubeconfig(tmp_path / "kubeconfig")
        with informing(server, tmp_path, access=Access(str(path)), clock=quick_time) as it:
            it.watching()
            new = rotate(server, server.admin_token)
            server.kubeconfig(path, token=new)
            works_again(it, new, server.admin_token, refused=4)


def test_k6_the_token_of_a_pod_is_read_again_when_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(CERTIFICATE))
    monkeypatch.setattr(access_module, "_TOKEN", token)
    with serving(dataset("a", "edge0")) as server, TlsFront(server.port) as front:
        token.write_text(f"{server.admin_token}\n")
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(front.port))
        with informing(server, tmp_path, access=Access(), clock=quick_time) as it:
            it.watching()
            assert it.api.host == f"https://127.0.0.1:{front.port}"
            new = rotate(server, server.admin_token)
            token.write_text(f"{new}\n")
            works_again(it, new, server.admin_token, refused=4)


def test_k6_a_token_that_is_rotated_late_is_waited_for_without_a_hot_loop(tmp_path: Path) -> None:
    """The new one is on disk a while after the old one was refused, and six kinds want it."""
    with serving(dataset("a", "edge0"), kinds=KINDS) as server:
        path = server.kubeconfig(tmp_path / "kubeconfig")
        access, rules = Access(str(path)), rules_of(*KINDS)
        with informing(server, tmp_path, access=access, rules=rules, clock=quick_time) as it:
            it.watching()
            new = rotate(server, server.admin_token)
            eventually(lambda: len([e for e in server.requests() if e.user == ""]) >= 4 * 6)
            refused = [each.at for each in server.requests() if each.user == ""]
            # Each kind: at once, and after pauses of at least 0.05, 0.1 and 0.2 seconds.
            assert refused[4 * 6 - 1] - refused[0] >= 0.35 * QUICK.backoff.floor
            assert len(it.log.warnings) == 1, "said once, though six informers meet it"
            (_, fields) = it.log.warnings[0]
            assert "the credentials are not accepted" in fields["reason"]
            assert str(path) in fields["reason"]
            server.kubeconfig(path, token=new)
            works_again(it, new, server.admin_token, refused=10 * 6)


@pytest.mark.parametrize("place", ["token", "tokenFile"])
def test_k6_a_token_with_a_line_break_within_is_said_without_it(tmp_path: Path, place: str) -> None:
    token = "first-half\nsecond-half"
    with serving(dataset("a", "edge0")) as server:
        path = server.kubeconfig(tmp_path / "kubeconfig")
        config = json.loads(path.read_text())
        file = tmp_path / "token"
        file.write_text(token)
        config["users"][0]["user"] = {place: token if place == "token" else str(file)}
        path.write_text(json.dumps(config))
        with informing(server, tmp_path, access=Access(str(path)), clock=quick_time) as it:
            eventually(lambda: it.log.warnings)
            assert "the token holds characters that no header may have" in it.log.reasons[0]
            assert "-half" not in it.log.text
            server.kubeconfig(path)
            it.knows("a")
