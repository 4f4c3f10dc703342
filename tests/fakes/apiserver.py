"""A fake Kubernetes API server: real HTTP, a real one's answers, and faults to order.

`ApiServer` runs it in the test's process (threads, loopback only) and is what tests use;
everything can also be done over HTTP, so that one test drives it and a real server alike.
`python -m tests.fakes.apiserver --port N` runs it as a process of its own: it prints its URL and
its admin token, one a line, and serves until it is ended. tests/cluster/test_recorded.py holds
it to what a real server answered."""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.fakes import grants, kubeconfigs
from tests.fakes.api import Api
from tests.fakes.crds import all_crds
from tests.fakes.definitions import DEFAULT_DELAYS, Delays
from tests.fakes.faults import Faults
from tests.fakes.grants import Rule
from tests.fakes.identities import MASTERS
from tests.fakes.requests import Record
from tests.fakes.resources import CRDS, NAMESPACES, Body, Resource
from tests.fakes.server import Server
from tests.fakes.storage import Backup, Clock, key_of
from tests.fakes.watching import Watch

ADMIN = "admin"


class ApiServer:
    """A running fake API server; a context manager.

    `bookmark_every`: seconds between bookmarks of a watch. `port` 0: a free one. `clock` is
    monotonic, `now` is the wall clock (for time stamps only).
    """

    def __init__(
        self,
        *,
        port: int = 0,
        delays: Delays = DEFAULT_DELAYS,
        bookmark_every: float = 60.0,
        clock: Clock = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        admin_token: str | None = None,
    ) -> None:
        self._api = Api(delays, bookmark_every, clock, now)
        self.faults = Faults(self._api.watches, self._api.store.wake)
        self._server = Server(self._api, self.faults, clock, port)
        self._tokens: dict[str, str] = {}
        if admin_token is None:
            self.admin_token = self._api.identities.issue(ADMIN, (MASTERS,))
        else:
            self.admin_token = admin_token
            self._api.identities.accept(admin_token, ADMIN, (MASTERS,))

    def __enter__(self) -> ApiServer:
        self.up()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The server itself.

    def up(self) -> None:
        """Listen (again, on the same port)."""
        self._server.up()

    def down(self) -> None:
        """Refuse connections, break those that are there; the store stays."""
        self._server.down()

    def close(self) -> None:
        self._api.definitions.close()
        self.faults.clear()
        self._server.down()

    @property
    def port(self) -> int:
        return self._server.port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def compact(self) -> None:
        """Forget history: older versions and continue tokens are 410 from now on."""
        self._api.store.compact()

    def skip_to(self, version: int) -> None:
        """Raise the version counter, as writes of others would."""
        with self._api.store.lock:
            self._api.store.version = max(self._api.store.version, version)

    def look_around(self) -> None:
        """Let running watches look at the clock now (for a clock that a test moves)."""
        self._api.store.wake()

    def backup(self) -> Backup:
        return self._api.store.backup()

    def restore(self, backup: Backup) -> None:
        """Hold what `backup` held, its version counter too (a restored etcd). Running watches
        stay, and are silent until the counter has passed where they stood."""
        self._api.store.restore(backup)
        self._api.definitions.reload()

    @property
    def version(self) -> int:
        """The version of the latest write."""
        return self._api.store.version

    # Who asks, and what they asked.

    def token(
        self, user: str, groups: tuple[str, ...] = (), *, lifetime: float | None = None
    ) -> str:
        """A new token of `user`; good for `lifetime` seconds (None: until revoked)."""
        return self._api.identities.issue(user, groups, lifetime=lifetime)

    def revoke_token(self, token: str) -> None:
        self._api.identities.revoke(token)

    def kubeconfig(
        self,
        path: Path,
        *,
        user: str = ADMIN,
        token: str | None = None,
        token_file: Path | None = None,
        namespace: str | None = None,
    ) -> Path:
        """Write a kubeconfig for `user` to `path`: with a token in it, or the name of
        `token_file`, to which a token is written if it is not there yet."""
        if token is None:
            token = self.admin_token if user == ADMIN else self.token(user)
        text = kubeconfigs.text(self.url, user, token, token_file=token_file, namespace=namespace)
        path.write_text(text)
        return path

    def requests(self, **wanted: str) -> list[Record]:
        """What came in so far, in order; `wanted` keeps those with these values (`verb`,
        `group`, `resource`, `namespace`, `name` as RBAC has them, `user`, `method`, `path`)."""
        with self._server.lock:
            records = list(self._server.records)
        return [each for each in records if all(_value(each, k) == v for k, v in wanted.items())]

    def verbs_used(self, user: str) -> set[tuple[str, str, str]]:
        """(API group, resource with its subresource, verb) of every request of `user` that names
        a resource."""
        return {
            (each.wish.group, each.wish.resource, each.wish.verb)
            for each in self.requests(user=user)
            if each.wish.resource
        }

    def watches(self, resource: str | None = None) -> list[Watch]:
        """The watches that run now, of the plural `resource` or all."""
        running = self._api.watches.running()
        return [each for each in running if resource in (None, each.resource.plural)]

    # Objects, by the same ways as HTTP's.

    def create(self, body: Mapping[str, Any]) -> Body:
        """Create an object; its kind's CRD must be installed. Raises `answers.Refused`."""
        resource = self._resource(body)
        namespace = self._namespace(resource, body)
        return self._api.create(resource, namespace, dict(body)).entry.body()

    def load(self, bodies: Iterable[Mapping[str, Any]]) -> None:
        """Create many."""
        for body in bodies:
            resource = self._resource(body)
            self._api.create(resource, self._namespace(resource, body), dict(body))

    def replace(self, body: Mapping[str, Any], *, sub: str = "") -> Body:
        """PUT; without a version in `body` the current one is taken."""
        resource = self._resource(body)
        namespace = self._namespace(resource, body)
        metadata = dict(body["metadata"])
        with self._api.store.lock:
            if not metadata.get("resourceVersion"):
                entry = self._api.writer.current(resource, namespace, metadata["name"])
                metadata["resourceVersion"] = str(entry.version)
            whole = {**body, "metadata": metadata}
            written = self._api.replace(resource, namespace, metadata["name"], sub, whole)
        return written.entry.body()

    def merge(
        self, kind: str, namespace: str, name: str, patch: Mapping[str, Any], *, sub: str = ""
    ) -> Body:
        """Merge patch; `sub` "status" for the subresource."""
        resource = self._api.definitions.of_kind(kind)
        written = self._api.merge(resource, namespace, name, sub, dict(patch))
        return written.entry.body()

    def delete(self, kind: str, namespace: str, name: str) -> None:
        """Delete (a namespace "" for what has none)."""
        self._api.delete(self._api.definitions.of_kind(kind), namespace, name, {})

    def get(self, kind: str, namespace: str, name: str) -> Body | None:
        """The object, or None."""
        table = self._api.store.table(self._api.definitions.of_kind(kind))
        with self._api.store.lock:
            entry = table.entries.get(key_of(namespace, name))
        return None if entry is None else entry.body()

    def install(self, crd: Mapping[str, Any]) -> None:
        """Create a CRD, and return once its kind is served."""
        self.create(crd)
        spec, served = crd["spec"], threading.Event()
        version = next(each["name"] for each in spec["versions"] if each["served"])
        wanted = (spec["group"], version, spec["names"]["plural"])
        while not served.wait(0.005):
            found = self._api.definitions.resources()
            if wanted in [(each.group, each.version, each.plural) for each in found]:
                served.set()

    def install_all(self, group: str = "sedna.io") -> None:
        """The six built-in kinds."""
        for crd in all_crds(group):
            self.install(crd)

    def uninstall(self, name: str) -> None:
        """Delete the CRD `datasets.sedna.io`; its kind is gone a moment later."""
        self._api.delete(CRDS, "", name, {})

    def namespace(self, name: str) -> None:
        self._api.create(NAMESPACES, "", {"metadata": {"name": name}})

    # Rights.

    def grant(self, user: str, rules: Sequence[Rule], *, namespace: str = "") -> None:
        """Give `user` (a name, or `system:serviceaccount:…`) exactly `rules` everywhere, or in
        one namespace; they take the place of what was granted there before."""
        grants.grant(self._api, user, rules, namespace)

    def revoke(self, user: str, *, namespace: str = "") -> None:
        """Take back what `grant` gave there."""
        grants.revoke(self._api, user, namespace)

    def _resource(self, body: Mapping[str, Any]) -> Resource:
        group = body.get("apiVersion", "v1").rpartition("/")[0]
        return self._api.definitions.of_kind(f"{body['kind']}.{group}" if group else body["kind"])

    @staticmethod
    def _namespace(resource: Resource, body: Mapping[str, Any]) -> str:
        if not resource.namespaced:
            return ""
        return str(body["metadata"].get("namespace") or "default")


def _value(record: Record, field: str) -> str:
    holder = record if field in ("user", "method", "path") else record.wish
    return str(getattr(holder, field))


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description="a fake Kubernetes API server on loopback")
    parser.add_argument("--port", type=int, default=0, help="0 (default): a free one")
    parser.add_argument("--token", help="the admin token; made up and printed where not given")
    parser.add_argument("--crds", action="store_true", help="install the six kinds of sedna.io")
    parser.add_argument("--load", type=Path, help="a file of objects to create, one JSON a line")
    parser.add_argument("--kubeconfig", type=Path, help="write a kubeconfig for the admin here")
    parser.add_argument("--bookmark-every", type=float, default=60.0, help="seconds")
    chosen = parser.parse_args()
    server = ApiServer(
        port=chosen.port, admin_token=chosen.token, bookmark_every=chosen.bookmark_every
    )
    if chosen.crds:
        server.install_all()
    if chosen.load:
        with chosen.load.open("rb") as lines:
            server.load(json.loads(line) for line in lines)
    with server:
        if chosen.kubeconfig:
            server.kubeconfig(chosen.kubeconfig)
        print(server.url, server.admin_token, sep="\n", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
