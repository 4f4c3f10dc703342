"""Proxy variables in the environment that point nowhere."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bridge.sources.kubernetes.access import Access
from bridge.sources.kubernetes.api import Api
from nodecast.errors import SettingsError
from tests.support.informing import informing, serving
from tests.support.mosquitto import free_port
from tests.support.objects import dataset
from tests.support.tls_front import TlsFront
from tests.support.wait import eventually

VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> str:
    """Where nobody listens; all proxy variables name it, with a password."""
    address = f"127.0.0.1:{free_port()}"
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in VARIABLES[:3]:
        monkeypatch.setenv(name, f"http://someone:hush-hush@{address}")
    return address


@pytest.mark.parametrize("name", ["NO_PROXY", "no_proxy"])
def test_k12_a_server_that_no_proxy_names_is_reached(
    tmp_path: Path, nowhere: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    assert nowhere
    monkeypatch.setenv(name, "10.0.0.0/8,127.0.0.1,.svc")
    with serving(dataset("a", "edge0")) as server, informing(server, tmp_path) as it:
        it.knows("a")
        assert it.log.warnings == []


def test_k12_a_server_with_tls_that_no_proxy_names_is_reached(
    tmp_path: Path, nowhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert nowhere
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(dataset("a", "edge0")) as server, TlsFront(server.port) as front:
        path = front.kubeconfig(server, tmp_path / "kubeconfig")
        with informing(server, tmp_path, access=Access(str(path))) as it:
            it.knows("a")
            assert it.log.warnings == []


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "ALL_PROXY"])
def test_k12_a_proxy_that_cannot_be_reached_is_named_in_the_error(
    tmp_path: Path, nowhere: str, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    for name in VARIABLES[:3]:
        if name != variable:
            monkeypatch.delenv(name)
    with serving(dataset("a", "edge0")) as server, informing(server, tmp_path) as it:
        eventually(lambda: it.log.reasons)
        assert it.log.reasons == [
            f"{server.url}: the proxy {nowhere} cannot be reached: Connection refused"
        ]
        assert "hush" not in it.log.text
        assert server.requests() == []


@pytest.mark.filterwarnings("ignore:SOCKS support")
@pytest.mark.parametrize("scheme", ["socks5://", "gopher://", ""])
def test_k12_a_proxy_that_the_client_cannot_use_is_a_wrong_setting(
    tmp_path: Path, nowhere: str, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.setitem(sys.modules, "socks", None)  # not installed
    monkeypatch.delitem(sys.modules, "urllib3.contrib.socks", raising=False)
    monkeypatch.setenv("HTTP_PROXY", f"{scheme}someone:hush-hush@{nowhere}")
    with serving() as server:
        access = Access(str(server.kubeconfig(tmp_path / "kubeconfig")))
        with pytest.raises(SettingsError) as caught:
            Api(access)
        assert f"the proxy {nowhere} of the environment" in str(caught.value)
        assert "NO_PROXY" in str(caught.value)
        assert "hush" not in str(caught.value)
