"""Where the objects come from: a directory of manifests, or an API server. Both can be disturbed.

The API server is the fake one, in this process: real HTTP on loopback, a store that outlives its
restarts. Used by the run's thread alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from nodecast.names import ResourceKey
from tests.chaos.acts import Fault, What
from tests.chaos.links import Link
from tests.chaos.plan import BRIDGES, MANIFESTS
from tests.chaos.things import GROUP, KINDS, PLURALS, Thing, Things, kind_of, manifest, name_of
from tests.fakes.apiserver import ApiServer
from tests.fakes.crds import crd


class Source(Protocol):
    """What the run does with either."""

    def put(self, things: Iterable[Thing]) -> None: ...

    def drop(self, keys: Iterable[ResourceKey]) -> None: ...

    def options(self, bridge: str) -> list[str]:
        """Those of `nodecast-bridge run` for one of the bridges."""

    def disturb(self, fault: Fault) -> str | None:
        """Let a fault of the source happen, or end; a word on what was different than planned."""

    def calm(self) -> None:
        """End all that disturbs it, but the links."""

    def close(self) -> None: ...

    links: dict[str, Link]
    """Those of its own, by name."""


def make_source(kind: str, root: Path) -> Source:
    return Directory(root) if kind == MANIFESTS else Cluster(root)


class Directory:
    """A directory of manifests, one object a file. While it is gone people go on working on it
    elsewhere."""

    def __init__(self, root: Path) -> None:
        self.links: dict[str, Link] = {}
        self._things: dict[ResourceKey, Thing] = {}
        self._gone: list[ResourceKey] = []  # what was deleted by mistake
        self._full = root / "manifests.full"
        self._served = root / "manifests"
        self._away = root / "manifests.away"
        self._served.mkdir()
        self._broken: dict[Path, bytes] = {}

    def options(self, _bridge: str) -> list[str]:
        return ["--manifests", str(self._served)]

    def put(self, things: Iterable[Thing]) -> None:
        for thing in things:
            self._things[thing.key] = thing
            path = self._path(thing.key)
            self._broken.pop(path, None)
            temporary = path.with_name(".new")
            temporary.write_text(json.dumps(manifest(thing)))
            temporary.replace(path)

    def drop(self, keys: Iterable[ResourceKey]) -> None:
        for key in keys:
            self._things.pop(key, None)
            path = self._path(key)
            self._broken.pop(path, None)
            path.unlink(missing_ok=True)

    def close(self) -> None: ...

    def disturb(self, fault: Fault) -> str | None:
        match fault.what:
            case What.DIRECTORY_GONE:
                self._served.rename(self._away)
            case What.DIRECTORY_BACK:
                self._come_back()
            case What.FILE_BROKEN:
                return self._break_one(fault.pick)
            case What.FILE_MENDED:
                self._mend()
            case What.DIRECTORY_EMPTIED:
                self._served.rename(self._full)
                self._served.mkdir()
            case What.DIRECTORY_FILLED:
                self._fill()
            case What.KIND_GONE:
                self._gone = _nearly_all(self._things, fault)
                for key in self._gone:
                    self._path(key).unlink(missing_ok=True)
            case What.KIND_BACK:
                self._make_again()
        return None

    def _come_back(self) -> None:
        if self._away.exists():
            self._away.rename(self._served)

    def _break_one(self, pick: int) -> str:
        """A file that does not parse, as an editor or a template leaves it."""
        paths = sorted(self._here.glob("*.json"))
        path = paths[pick % len(paths)]
        self._broken[path] = path.read_bytes()
        path.write_bytes(self._broken[path][: 40 + pick % 60] + b"\n\t- {{ broken")
        return path.name

    def _mend(self) -> None:
        for path, content in self._broken.items():
            path.write_bytes(content)
        self._broken.clear()

    def calm(self) -> None:
        self._fill()
        self._come_back()
        self._make_again()
        self._mend()

    def _fill(self) -> None:
        if self._full.exists():
            self._served.rmdir()
            self._full.rename(self._served)

    def _make_again(self) -> None:
        gone, self._gone = self._gone, []
        self.put([self._things[key] for key in gone])

    @property
    def _here(self) -> Path:
        return self._away if self._away.exists() else self._served

    def _path(self, key: ResourceKey) -> Path:
        return self._here / (key.replace("/", "__") + ".json")


_USER = "bridge"


class Cluster:
    """A fake API server, reached over a link of its own as a user with just the rights it needs."""

    def __init__(self, root: Path) -> None:
        self._server = ApiServer(bookmark_every=1.0)
        self._things: dict[ResourceKey, Thing] = {}
        self._gone: list[ResourceKey] = []  # what was deleted by mistake
        self._uninstalled = ""
        self._up = False
        self._come_up()
        self._server.install_all()
        self._server.namespace("plant-2")
        self._grant(KINDS)
        self.links = {
            f"{bridge} to the API server": Link("127.0.0.1", self._server.port)
            for bridge in BRIDGES
        }
        for link in self.links.values():
            link.accept()
        self._root = root

    def options(self, bridge: str) -> list[str]:
        path = self._server.kubeconfig(self._root / f"{bridge}.kubeconfig", user=_USER)
        link = self.links[f"{bridge} to the API server"]
        through = f"http://127.0.0.1:{link.port}"
        path.write_text(path.read_text().replace(self._server.url, through))
        return ["--kubeconfig", str(path)]

    def put(self, things: Iterable[Thing]) -> None:
        for thing in things:
            self._things[thing.key] = thing
            body = manifest(thing)
            if self._there(thing.key):
                self._server.replace(body)
            else:
                self._server.create(body)

    def drop(self, keys: Iterable[ResourceKey]) -> None:
        for key in keys:
            self._things.pop(key, None)
            if self._there(key):
                self._server.delete(*_parts(key))

    def disturb(self, fault: Fault) -> str | None:
        match fault.what:
            case What.API_DOWN:
                self._server.down()
                self._up = False
            case What.API_UP:
                self._come_up()
            case What.API_COMPACTED:
                self._server.compact()
                return f"{self._server.faults.cut_watches(reset=bool(fault.pick % 2))} watches"
            case What.API_FROZEN:
                return f"{self._server.faults.freeze_watches()} watches"
            case What.FORBIDDEN:
                self._grant([kind for kind in KINDS if kind != fault.target])
            case What.GRANTED:
                self._grant(KINDS)
            case What.CRD_GONE:
                self._uninstalled = fault.target
                self._server.uninstall(f"{PLURALS[fault.target]}.{GROUP}")
            case What.CRD_BACK:
                self._install()
            case What.KIND_GONE:
                self._gone = _nearly_all(self._things, fault)
                for key in self._gone:
                    self._server.delete(*_parts(key))
            case What.KIND_BACK:
                self._make_again()
        return None

    def calm(self) -> None:
        self._come_up()
        self._grant(KINDS)
        self._install()
        self._make_again()

    def _install(self) -> None:
        kind, self._uninstalled = self._uninstalled, ""
        if kind:
            self._server.install(crd(kind))
            self.put([self._things[key] for key in _of_kind(self._things, kind)])

    def _make_again(self) -> None:
        gone, self._gone = self._gone, []
        self.put([self._things[key] for key in gone])

    def close(self) -> None:
        for link in self.links.values():
            link.__exit__()
        self._server.close()

    def _come_up(self) -> None:
        if not self._up:
            self._server.up()
            self._up = True

    def _grant(self, kinds: Iterable[str]) -> None:
        """Exactly what the shipped role gives, of these kinds."""
        resources = [PLURALS[kind] for kind in kinds]
        self._server.grant(
            _USER,
            [
                {"apiGroups": [GROUP], "resources": resources, "verbs": ["list", "watch"]},
                {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
                {
                    "apiGroups": ["coordination.k8s.io"],
                    "resources": ["leases"],
                    "verbs": ["get", "create", "update"],
                },
            ],
        )

    def _there(self, key: ResourceKey) -> bool:
        return self._server.get(*_parts(key)) is not None


def _of_kind(things: Things, kind: str) -> list[ResourceKey]:
    """The keys of one kind."""
    return [key for key in things if kind_of(key) == kind]


def _nearly_all(things: Things, fault: Fault) -> list[ResourceKey]:
    """The keys of the fault's kind, but for two at the most."""
    keys = sorted(_of_kind(things, fault.target))
    return keys[: len(keys) - fault.pick % 3]


def _parts(key: ResourceKey) -> tuple[str, str, str]:
    """Kind with group, namespace, name."""
    kind, namespace, _ = key.split("/")
    return kind, namespace, name_of(key)
