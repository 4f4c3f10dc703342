"""The files of the demo: manifests and model configs to edit, resources to look at.

Every file is replaced whole, by a rename from outside the directory that is watched, as editors
and ConfigMap mounts do: a file that is half written is never seen. The main thread only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bridge.sources.yaml12 import parse_yaml
from waiting import DemoFailed

Object = dict[str, Any]


class Manifests:
    """The directory that the bridge serves."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def edit(self, kind: str, name: str, how: Callable[[Object], None]) -> None:
        """Change one object in its file. Raises DemoFailed where there is none."""
        path, documents, index = self._find(kind, name)
        how(documents[index])
        self._write(path, documents)

    def move(self, kind: str, name: str, node: str) -> None:
        """Let an object's `spec.nodeName` name `node`."""
        self.edit(kind, name, lambda found: found["spec"].update(nodeName=node))

    def delete(self, kind: str, name: str) -> None:
        """Take one object out of its file; a file that holds no other goes."""
        path, documents, index = self._find(kind, name)
        del documents[index]
        if documents:
            self._write(path, documents)
        else:
            path.unlink()

    def _find(self, kind: str, name: str) -> tuple[Path, list[Object], int]:
        for path in sorted(self.directory.iterdir()):
            documents: list[Any] = parse_yaml(path.read_text())
            for index, found in enumerate(documents):
                if found["kind"] == kind and found["metadata"]["name"] == name:
                    return path, documents, index
        raise DemoFailed(f"no {kind} {name} in {self.directory}")

    def _write(self, path: Path, documents: list[Object]) -> None:
        # JSON is YAML as well, and says of every scalar what it is.
        text = "\n---\n".join(json.dumps(each, indent=2) for each in documents)
        _replace(path, text + "\n", self.directory.parent)


class ModelConfig:
    """The `models.json` of a node."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, Object]:
        """The specs by model name."""
        entries = json.loads(self.path.read_text())
        return {each["modelName"]: each["modelSpec"] for each in entries}

    def write(self, models: dict[str, Object]) -> None:
        """Replace the file."""
        entries = [{"modelName": name, "modelSpec": spec} for name, spec in models.items()]
        # Two levels up: the directory and its parent are watched.
        _replace(self.path, json.dumps(entries, indent=2) + "\n", self.path.parent.parent.parent)


class ResourceTree:
    """What an agent has put on its disk."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def read(self) -> dict[str, Object]:
        """The resources by key; files that go while we look are gone."""
        found = {}
        for path in sorted(self.directory.glob("*/*/*.json")):
            try:
                value = json.loads(path.read_text())
            except FileNotFoundError:
                continue
            key = "/".join(path.relative_to(self.directory).parts).removesuffix(".json")
            found[key] = value
        return found

    def identities(self) -> dict[str, tuple[int, int]]:
        """(inode, time of change) of every resource file: the same if it was not written anew."""
        found = {}
        for path in sorted(self.directory.glob("*/*/*.json")):
            status = path.stat()
            found[str(path.relative_to(self.directory))] = (status.st_ino, status.st_mtime_ns)
        return found


def _replace(path: Path, text: str, aside: Path) -> None:
    """Put `text` in place of `path`, from a file in the directory `aside` on the same disk."""
    temporary = aside / f".{path.name}.new"
    temporary.write_text(text)
    os.replace(temporary, path)
