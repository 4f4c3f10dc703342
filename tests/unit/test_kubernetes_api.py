"""Which API server, as whom, and what becomes of every failure of a request."""

from __future__ import annotations

import base64
import json
import os
import socket
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes.config import kube_config

from bridge.sources.kubernetes.access import Access
from bridge.sources.kubernetes.api import Api
from bridge.sources.kubernetes.failures import ApiFailure, Refusal, Unreachable
from nodecast.errors import SettingsError
from tests.fakes.apiserver import ADMIN, ApiServer
from tests.fakes.identities import MASTERS
from tests.support.informing import Lines, logging_to
from tests.support.mosquitto import free_port
from tests.support.rawhttp import HEAD, RawServer, whole
from tests.support.tls_front import CERTIFICATE, TlsFront

NAMESPACE = "/api/v1/namespaces/kube-system"
SECRET = "hush-hush"


class Clock:
    """Seconds that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as running:
        yield running


@pytest.fixture
def log() -> Iterator[Lines]:
    with logging_to(Lines()) as lines:
        yield lines


# -- kubeconfigs


def config(**changes: object) -> dict[str, Any]:
    """A good kubeconfig whose parts can be replaced; None leaves one out."""
    whole = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
        "users": [{"name": "u", "user": {"token": SECRET}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    } | changes
    return {name: value for name, value in whole.items() if value is not None}


def user(**what: object) -> dict[str, Any]:
    return config(users=[{"name": "u", "user": what}])


def cluster(**what: object) -> dict[str, Any]:
    return config(clusters=[{"name": "c", "cluster": what}])


def plugin(command: str, *arguments: str) -> dict[str, Any]:
    version = "client.authentication.k8s.io/v1"
    return {"apiVersion": version, "command": command, "args": list(arguments)} | {
        "interactiveMode": "Never"
    }


def access_to(path: Path, content: object, context: str | None = None) -> Access:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return Access(str(path), context)


BAD: dict[str, tuple[object, str]] = {
    "no YAML": (f"token: {SECRET}\na: [{{", "is no YAML (line 2)"),
    "a tab": (f"a:\n\tb: {SECRET}", "is no YAML (line 2)"),
    "empty": ("", "file is empty"),
    "a list": ([SECRET], "is no kubeconfig"),
    "a word": (SECRET, "is no kubeconfig"),
    "a number": ("5", "is no kubeconfig"),
    "no contexts": (config(contexts=None), "Expected object with name x in"),
    "empty contexts": (config(contexts=[]), "Expected object with name x in"),
    "contexts that are a word": (config(contexts="x"), "to have 'name' key"),
    "no current context": (config(**{"current-context": None}), "Expected key current-context"),
    "no clusters": (config(clusters=[]), "Expected object with name c in"),
    "no server": (cluster(), "names no server"),
    "a server that is a number": (cluster(server=5), "is no kubeconfig"),
    "a server with a port beyond all": (cluster(server="http://a.test:99999"), "names no server"),
    "a server with an empty part": (cluster(server="http://a..b"), "names no server"),
    "nothing but brackets": ("a: " + "[" * 3000 + "]" * 3000, "recursion"),
    "several documents": ("a: 1\n---\nb: 2\n", "is no kubeconfig"),
    "an empty token": (user(token=""), "credentials of the user 'u' are empty"),
    "a server without a scheme": (cluster(server="127.0.0.1:6443"), "names no server"),
    "a CA file that is not there": (
        cluster(**{"server": "https://127.0.0.1:9", "certificate-authority": "/nowhere/ca.crt"}),
        "File does not exist: /nowhere/ca.crt",
    ),
    "no such user": (config(users=[]), "has no user 'u'"),
    "a user without content": (config(users=[{"name": "u", "user": None}]), "Expected key user"),
    "a token file that is not there": (
        user(tokenFile="/nowhere/token"),
        "No such file or directory: /nowhere/token",
    ),
    "a plug-in that is not there": (user(exec=plugin("/nowhere/plugin")), "gave no credentials"),
    "a plug-in that fails": (user(exec=plugin("false")), "gave no credentials"),
    "a plug-in that talks": (user(exec=plugin("echo", "hello")), "gave no credentials"),
    "a provider without a token": (
        user(**{"auth-provider": {"name": "oidc", "config": {"client-secret": SECRET}}}),
        "Expected key id-token",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_a_kubeconfig_that_cannot_be_used_is_a_wrong_setting(tmp_path: Path, what: str) -> None:
    content, words = BAD[what]
    access = access_to(tmp_path / "kubeconfig", content)
    with pytest.raises(SettingsError) as caught:
        access.configuration()
    text = str(caught.value)
    assert text.startswith(f"kubeconfig {tmp_path / 'kubeconfig'}: ")
    assert words in text
    assert "\n" not in text
    assert SECRET not in text


def test_a_kubeconfig_that_is_not_there_or_no_file_is_a_wrong_setting(tmp_path: Path) -> None:
    for path, words in ((tmp_path / "none", "there is no such file"), (tmp_path, "a directory")):
        with pytest.raises(SettingsError, match=words):
            Access(str(path)).configuration()


def test_a_context_that_is_not_in_the_kubeconfig_is_named(tmp_path: Path) -> None:
    access = access_to(tmp_path / "kubeconfig", config(), context="other")
    with pytest.raises(SettingsError, match=r"context other: .* name other"):
        access.configuration()


def test_a_proxy_that_is_a_number_is_a_wrong_setting(tmp_path: Path) -> None:
    content = cluster(**{"server": "http://a.test", "proxy-url": 5})
    with pytest.raises(SettingsError, match=r"the proxy 5 of the environment or the kubeconfig"):
        Api(access_to(tmp_path / "kubeconfig", content))


def test_where_a_context_is_none_of_them_the_others_are_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"its contexts are x$"):
        access_to(tmp_path / "kubeconfig", config(), "nosuch").configuration()


def test_a_token_file_that_is_empty_is_not_taken_for_nobody(tmp_path: Path) -> None:
    """A token is rotated by writing its file: for a moment it may be empty."""
    (tmp_path / "token").write_text("\n")
    with pytest.raises(SettingsError, match="credentials of the user 'u' are empty"):
        access_to(tmp_path / "kubeconfig", user(tokenFile=str(tmp_path / "token"))).configuration()


def test_the_password_in_a_servers_url_is_in_no_text(tmp_path: Path) -> None:
    access = access_to(tmp_path / "kubeconfig", cluster(server=f"http://me:{SECRET}@127.0.0.1:9"))
    api = Api(access)
    with pytest.raises(Unreachable) as caught:
        api.read("/version")
    assert api.host == "http://127.0.0.1:9"
    assert SECRET not in str(caught.value)


def test_credentials_that_stay_unreadable_are_said_once(
    tmp_path: Path, server: ApiServer, log: Lines
) -> None:
    clock, path = Clock(), tmp_path / "kubeconfig"
    api = Api(Access(str(server.kubeconfig(path, user="nobody"))), clock)
    good = path.read_text()
    path.write_text("{")
    for _ in range(4):
        clock.now += 60
        assert status_of(api) == 403
    assert sum("cannot be read" in event for event, _ in log.warnings) == 1
    path.write_text(good)
    clock.now += 60
    assert status_of(api) == 403
    path.write_text("{")
    clock.now += 60
    assert status_of(api) == 403
    assert sum("cannot be read" in event for event, _ in log.warnings) == 2


def test_the_context_of_the_setting_counts_not_the_current_one(tmp_path: Path) -> None:
    content = config(
        clusters=[
            {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}},
            {"name": "d", "cluster": {"server": "http://127.0.0.1:2"}},
        ],
        contexts=[
            {"name": "x", "context": {"cluster": "c", "user": "gone"}},
            {"name": "y", "context": {"cluster": "d", "user": "u"}},
        ],
    )
    access = access_to(tmp_path / "kubeconfig", content, context="y")
    assert access.configuration().host == "http://127.0.0.1:2"


def test_a_context_without_a_user_is_nobody(tmp_path: Path) -> None:
    content = config(users=None, contexts=[{"name": "x", "context": {"cluster": "c"}}])
    assert access_to(tmp_path / "kubeconfig", content).configuration().api_key == {}


def test_a_plug_in_gives_the_token(tmp_path: Path, server: ApiServer) -> None:
    said = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": server.admin_token},
    }
    content = user(exec=plugin("echo", json.dumps(said)))
    content["clusters"][0]["cluster"]["server"] = server.url
    api = Api(access_to(tmp_path / "kubeconfig", content))
    assert api.read(NAMESPACE)["metadata"]["name"] == "kube-system"


# -- credentials that change


def test_credentials_are_read_anew_at_most_every_ten_seconds(
    tmp_path: Path, server: ApiServer
) -> None:
    clock, path = Clock(), tmp_path / "kubeconfig"
    api = Api(Access(str(server.kubeconfig(path))), clock)
    server.revoke_token(server.admin_token)
    server.kubeconfig(path, token=server.token(ADMIN, (MASTERS,)))
    for now, status in ((1009.0, 401), (1009.9, 401), (1010.0, 401), (1010.1, 200)):
        clock.now = now
        assert status_of(api) == status, now


@pytest.mark.parametrize("status", [401, 403])
def test_credentials_are_not_read_anew_without_need(
    tmp_path: Path, server: ApiServer, status: int
) -> None:
    clock, path = Clock(), tmp_path / "kubeconfig"
    api = Api(Access(str(server.kubeconfig(path))), clock)
    path.write_text("")
    for _ in range(3):
        clock.now += 100
        assert status_of(api) == 200
    server.faults.answer(500, b"", times=1)
    assert status_of(api) == 500
    server.kubeconfig(path, token=server.token("other"))
    assert status_of(api) == 200
    server.faults.answer(status, b"", times=1)
    assert status_of(api) == status
    assert status_of(api) == 403, "now it is somebody else"


def test_old_credentials_stay_where_new_ones_cannot_be_read(
    tmp_path: Path, server: ApiServer, log: Lines
) -> None:
    clock, path = Clock(), tmp_path / "kubeconfig"
    api = Api(Access(str(server.kubeconfig(path))), clock)
    path.write_text("{")
    server.faults.answer(401, b"", times=1)
    clock.now += 100
    assert [status_of(api), status_of(api)] == [401, 200]
    assert log.warnings == [
        (
            "credentials cannot be read, the old ones stay",
            {"reason": f"kubeconfig {path}: is no YAML (line 1)"},
        )
    ]


def test_a_certificate_that_is_not_accepted_is_read_anew(
    tmp_path: Path, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a renewal of the cluster's authority."""
    monkeypatch.setattr(kube_config, "_temp_files", {})
    clock = Clock()
    with TlsFront(server.port) as front:
        path = front.kubeconfig(server, tmp_path / "kubeconfig")
        good = path.read_text()
        path.write_text(good.replace(f'"certificate-authority": "{CERTIFICATE}"', '"a": "b"'))
        api = Api(Access(str(path)), clock)
        path.write_text(good)
        with pytest.raises(ApiFailure) as caught:
            api.read(NAMESPACE)
        assert str(caught.value) == (
            f"https://127.0.0.1:{front.port}: its certificate is not accepted:"
            " self-signed certificate"
        )
        clock.now += 100
        with pytest.raises(ApiFailure):
            api.read(NAMESPACE)
        assert status_of(api) == 200


def test_files_that_the_client_made_and_somebody_swept_away_are_made_anew(
    tmp_path: Path, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data in a kubeconfig become files in /tmp, which is cleaned after some days."""
    files: dict[str, str] = {}
    monkeypatch.setattr(kube_config, "_temp_files", files)
    clock = Clock()
    with TlsFront(server.port) as front:
        path = front.kubeconfig(server, tmp_path / "kubeconfig")
        data = base64.b64encode(CERTIFICATE.read_bytes()).decode()
        path.write_text(
            path.read_text().replace(
                f'"certificate-authority": "{CERTIFICATE}"',
                f'"certificate-authority-data": "{data}"',
            )
        )
        api = Api(Access(str(path)), clock)
        for name in files.values():
            os.unlink(name)
        clock.now += 100
        with pytest.raises(ApiFailure):
            api.read(NAMESPACE)
        assert status_of(api) == 200
        for name in files.values():
            os.unlink(name)


def status_of(api: Api) -> int:
    try:
        api.read(NAMESPACE)
    except Refusal as refusal:
        return refusal.status
    return 200


# -- failures in words


def api_of(raw: RawServer, tmp_path: Path, **more: Any) -> Api:
    return Api(Access(str(raw.kubeconfig(tmp_path / "kubeconfig"))), **more)


ANSWERS: dict[str, tuple[bytes, str]] = {
    "no JSON": (HEAD + b"\r\n<html>", "an answer is not JSON"),
    "an array": (whole([]), "an answer is no JSON object"),
    "half of it": (HEAD + b"Content-Length: 100\r\n\r\n{}", "the connection broke off"),
    "half a chunk": (
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n10\r\n{}",
        "the connection broke off",
    ),
    "a bad chunk": (
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}",
        "the connection broke off",
    ),
    "nothing at all": (b"", "the connection broke off"),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.2\r\n", "the connection broke off"),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_an_answer_that_cannot_be_read_is_said_in_words(tmp_path: Path, what: str) -> None:
    answer, words = ANSWERS[what]
    with RawServer(lambda _: [answer]) as raw:
        with pytest.raises(ApiFailure) as caught:
            api_of(raw, tmp_path).read("/x")
        assert str(caught.value) == f"{raw.url}: {words}"


@pytest.mark.parametrize("begun", [b"", HEAD + b"Content-Length: 9\r\n\r\n{"])
def test_a_silent_server_is_said_to_be_silent(tmp_path: Path, begun: bytes) -> None:
    with RawServer(lambda _: [begun, None]) as raw:
        api = api_of(raw, tmp_path)
        with (
            pytest.raises(ApiFailure, match="silent for too long"),
            api.open("/x", {}, read=0.1) as response,
        ):
            api.json_of(response)


def test_an_answer_that_comes_too_slowly_is_given_up(tmp_path: Path) -> None:
    clock = Clock()

    def drip(_: str) -> Iterator[bytes]:
        yield HEAD + b"Content-Length: 1000000\r\n\r\n{"
        while True:
            clock.now += 1.0
            yield b" "

    with (
        RawServer(drip) as raw,
        pytest.raises(ApiFailure, match="an answer comes too slowly"),
    ):
        api_of(raw, tmp_path, clock=clock).read("/x")


def test_a_server_that_is_not_there_is_said_in_words(tmp_path: Path) -> None:
    port = free_port()
    content = cluster(server=f"http://127.0.0.1:{port}")
    api = Api(access_to(tmp_path / "kubeconfig", content))
    with pytest.raises(ApiFailure) as caught:
        api.read("/x")
    assert str(caught.value) == f"http://127.0.0.1:{port}: Connection refused"


def test_a_name_that_does_not_resolve_is_said_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object, **__: object) -> object:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    content = cluster(server="http://cluster.test:6443")
    api = Api(access_to(tmp_path / "kubeconfig", content))
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(ApiFailure) as caught:
        api.read("/x")
    assert str(caught.value) == "http://cluster.test:6443: its name does not resolve"


def test_plain_http_from_a_server_that_should_speak_tls_is_said_in_words(
    tmp_path: Path, server: ApiServer
) -> None:
    content = cluster(server=server.url.replace("http:", "https:"))
    api = Api(access_to(tmp_path / "kubeconfig", content))
    with pytest.raises(ApiFailure, match="TLS failed: "):
        api.read("/x")


REFUSALS: dict[str, tuple[bytes, tuple[int, str, str, float | None]]] = {
    "a Status": (
        b'HTTP/1.1 403 Forbidden\r\n\r\n{"kind":"Status","reason":"Forbidden","message":"m",'
        b'"code":403}',
        (403, "Forbidden", "m", None),
    ),
    "plain text": (
        b"HTTP/1.1 404 Not Found\r\n\r\n404 page\nnot found\n",
        (404, "Not Found", "404 page not found", None),
    ),
    "seconds to wait": (
        b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\n\r\nbusy",
        (429, "Too Many Requests", "busy", 7.0),
    ),
    "a date to wait for": (
        b"HTTP/1.1 503 X\r\nRetry-After: Wed, 21 Oct 2015 07:28:00 GMT\r\n\r\nbusy",
        (503, "Service Unavailable", "busy", None),
    ),
    "a redirect": (
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/login\r\n\r\n",
        (302, "Found", "no reason given", None),
    ),
    "an empty answer": (b"HTTP/1.1 204 No Content\r\n\r\n", (204, "No Content", "", None)),
    "no status of HTTP": (b"HTTP/1.1 799 Odd\r\n\r\nodd", (799, "Unknown", "odd", None)),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_an_answer_other_than_200_is_a_refusal(tmp_path: Path, what: str) -> None:
    answer, (status, reason, message, retry_after) = REFUSALS[what]
    with RawServer(lambda _: [answer]) as raw, pytest.raises(Refusal) as caught:
        api_of(raw, tmp_path).read("/x")
    refusal = caught.value
    assert (refusal.status, refusal.reason) == (status, reason)
    assert message in refusal.message
    assert refusal.retry_after == retry_after


def test_a_long_refusal_is_cut(tmp_path: Path) -> None:
    with (
        RawServer(lambda _: [b"HTTP/1.1 500 X\r\n\r\n" + b"word " * 100_000]) as raw,
        pytest.raises(Refusal) as caught,
    ):
        api_of(raw, tmp_path).read("/x")
    assert len(str(caught.value)) < 300


# -- secrets


@pytest.mark.parametrize("token", [f"{SECRET}\nmore", f"{SECRET}€", f"a\r{SECRET}"])
def test_a_token_that_cannot_be_sent_is_in_no_text(tmp_path: Path, log: Lines, token: str) -> None:
    api = Api(access_to(tmp_path / "kubeconfig", user(token=token)))
    with pytest.raises(ApiFailure) as caught:
        api.read("/x")
    text = "".join(traceback.format_exception(caught.value))
    assert "no header may have" in text
    assert SECRET not in text
    assert SECRET not in log.text


def test_a_token_that_is_refused_is_in_no_text(
    tmp_path: Path, server: ApiServer, log: Lines
) -> None:
    content = user(token=SECRET)
    content["clusters"][0]["cluster"]["server"] = server.url
    api = Api(access_to(tmp_path / "kubeconfig", content))
    with pytest.raises(Refusal) as caught:
        api.read(NAMESPACE)
    assert caught.value.status == 401
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert SECRET not in log.text


def test_a_token_is_sent_without_the_line_break_of_its_file(
    tmp_path: Path, server: ApiServer
) -> None:
    file = tmp_path / "token"
    file.write_text(f"{server.admin_token}\n\n")
    api = Api(Access(str(server.kubeconfig(tmp_path / "kubeconfig", token_file=file))))
    assert status_of(api) == 200
    assert [each.user for each in server.requests()] == [ADMIN]
