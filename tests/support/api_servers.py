"""API servers for tests that are the same for the fake one and for a real one.

Which real one: the kubeconfig that NODECAST_TEST_KUBECONFIG names when the tests are collected.
What is asked here goes through the official client's transport, so that every way to authenticate
works, and through nothing of the bridge.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import urllib3
import yaml
from kubernetes.client import ApiClient, Configuration
from kubernetes.config import load_kube_config

from tests.fakes.apiserver import ApiServer
from tests.support.api_calls import MERGE, Reply
from tests.support.proxies import Proxy

REAL = os.environ.get("NODECAST_TEST_KUBECONFIG")
"""Read here: before each test the variables of nodecast are taken out of the environment."""
Body = dict[str, Any]


class Caller:
    """Calls a server as the user of a kubeconfig. `token`: instead of that user's, if any."""

    def __init__(self, kubeconfig: Path, token: str | None = None) -> None:
        self._configuration = Configuration()
        load_kube_config(
            str(kubeconfig), client_configuration=self._configuration, persist_config=False
        )
        self._configuration.retries = False
        self._client = ApiClient(self._configuration)
        self._token = token

    def close(self) -> None:
        self._client.close()

    def call(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> Reply:
        response = self._send(method, path, body, content_type, read=30.0)
        text = response.read().decode()
        kind = response.headers.get("Content-Type", "")
        body = json.loads(text) if "json" in kind else text
        return Reply(response.status, dict(response.headers), body)

    def get(self, path: str) -> Reply:
        return self.call("GET", path)

    def merge(self, path: str, patch: object) -> Reply:
        return self.call("PATCH", path, patch, MERGE)

    def must(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> Body:
        """The body of an answer that must be a good one."""
        reply = self.call(method, path, body, content_type)
        assert reply.status < 300, f"{method} {path}: {reply.status} {reply.body}"
        found: Body = reply.body
        return found

    @contextmanager
    def watch(self, path: str) -> Iterator[Stream]:
        """A watch that is let in, read by a thread of its own."""
        response = self._send("GET", path, None, "application/json", read=60.0)
        assert response.status == 200, response.read()
        stream = Stream(response)
        try:
            yield stream
        finally:
            stream.close()

    def _send(
        self, method: str, path: str, body: object, content_type: str, read: float
    ) -> urllib3.BaseHTTPResponse:
        token = self._token or self._configuration.get_api_key_with_prefix("BearerToken")
        headers = {"Accept": "application/json"}
        if token:
            headers["Authorization"] = token
        if body is not None:
            headers["Content-Type"] = content_type
        response: urllib3.BaseHTTPResponse = self._client.rest_client.pool_manager.request(
            method,
            self._configuration.host + path,
            body=None if body is None else json.dumps(body),
            headers=headers,
            timeout=urllib3.Timeout(connect=5, read=read),
            preload_content=False,
        )
        return response


class Stream:
    """A watch: its events so far, and whether it has `ended`."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response
        self.events: list[Body] = []
        self.ended = False
        self._thread = threading.Thread(target=self._read, name="watch stream", daemon=True)
        self._thread.start()

    @property
    def seen(self) -> list[tuple[str, str]]:
        """(type, name) of each event but bookmarks."""
        return [
            (event["type"], event["object"]["metadata"]["name"])
            for event in list(self.events)
            if event["type"] != "BOOKMARK"
        ]

    def close(self) -> None:
        if not self.ended:
            try:
                self._response.shutdown()
            except (OSError, ValueError, RuntimeError):
                pass  # it has just ended
        self._thread.join(10)
        self._response.close()

    def _read(self) -> None:
        rest = b""
        try:
            for piece in self._response.stream(65536, decode_content=False):
                *lines, rest = (rest + piece).split(b"\n")
                self.events.extend(json.loads(line) for line in lines)
        except (urllib3.exceptions.HTTPError, OSError, ValueError):
            pass  # broken off
        self.ended = True


class Server:
    """One API server. `fake`: itself, where it is the fake one. `admin` may do everything."""

    def __init__(self, kubeconfig: Path, fake: ApiServer | None = None) -> None:
        self.fake = fake
        self._cluster, self._user = _chosen(kubeconfig)
        self.admin = Caller(kubeconfig)

    @property
    def url(self) -> str:
        return str(self._cluster["server"])

    def proxy(self) -> Proxy:
        """A way to it that a test can disturb; not open yet."""
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        return Proxy(parts.hostname, parts.port or (443 if parts.scheme == "https" else 80))

    def kubeconfig(
        self,
        path: Path,
        credentials: Mapping[str, str] | None = None,
        via: Proxy | None = None,
        port: int | None = None,
    ) -> Path:
        """Write a kubeconfig to `path`: for the admin, or with other `credentials`; straight, or
        through a proxy, or to another port of this machine."""
        cluster = dict(self._cluster)
        parts = urlsplit(self.url)
        if through := (via.port if via is not None else port):
            cluster["server"] = f"{parts.scheme}://127.0.0.1:{through}"
            if parts.scheme == "https":
                cluster.setdefault("tls-server-name", parts.hostname)
        user = self._user if credentials is None else dict(credentials)
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tested", "cluster": cluster}],
            "users": [{"name": "user", "user": user}],
            "contexts": [{"name": "tested", "context": {"cluster": "tested", "user": "user"}}],
            "current-context": "tested",
        }
        path.write_text(json.dumps(config))
        return path


def _chosen(kubeconfig: Path) -> tuple[Body, Body]:
    """Cluster and user of the current context, the files they name with whole paths."""
    config = yaml.safe_load(kubeconfig.read_text())
    named = {each["name"]: each["context"] for each in config["contexts"]}
    context = named[config["current-context"]]

    def entry(table: str, key: str) -> Body:
        found: Body = next(e[key] for e in config[table] if e["name"] == context[key])
        return {name: _whole(name, value) for name, value in found.items()}

    def _whole(name: str, value: Any) -> Any:
        files = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
        return str(kubeconfig.parent.absolute() / value) if name in files else value

    return entry("clusters", "cluster"), entry("users", "user")


@contextmanager
def fake_server(directory: Path) -> Iterator[Server]:
    """A fake one for the length of a `with`."""
    with ApiServer() as fake:
        server = Server(fake.kubeconfig(directory / "fake.kubeconfig"), fake)
        try:
            yield server
        finally:
            server.admin.close()


@contextmanager
def real_server() -> Iterator[Server]:
    """The real one that the environment names."""
    assert REAL is not None
    server = Server(Path(REAL))
    try:
        yield server
    finally:
        server.admin.close()
