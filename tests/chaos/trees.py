"""Watches the agents' resource trees: whatever leaves one is judged by the oracle, at once.

A thread of its own looks at every tree each 50 ms; it waits for nothing but the disk. While the run
itself changes a tree (`hands_off`), that tree is not looked at, and what is there afterwards is
taken as it is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from nodecast.names import NodeName, ResourceKey

_EVERY = 0.05

Judge = Callable[[NodeName, ResourceKey, float], str | None]
"""Why a node must not lose a key at that second; None: it may."""


class TreeWatch:
    """A context manager. `wrong` are the removals that must not have been."""

    def __init__(self, trees: Mapping[NodeName, Path], judge: Judge) -> None:
        self._trees = trees
        self._judge = judge
        self._there: dict[NodeName, frozenset[ResourceKey] | None] = dict.fromkeys(trees)
        self._locks = {node: threading.Lock() for node in trees}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._look_on, name="tree watch", daemon=True)
        self.looks = 0
        self.removals = 0
        self.wrong: list[str] = []
        self.failed: BaseException | None = None

    def __enter__(self) -> TreeWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    @contextmanager
    def hands_off(self, node: NodeName) -> Iterator[None]:
        """The run changes this tree; its agent does not run."""
        with self._locks[node]:
            self._look(node)
            yield
            self._there[node] = None

    def _look_on(self) -> None:
        try:
            while not self._ending.wait(_EVERY):
                for node in self._trees:
                    with self._locks[node]:
                        self._look(node)
                self.looks += 1
        except Exception as error:  # noqa: BLE001 - the top of the thread: the run fails with it
            self.failed = error

    def _look(self, node: NodeName) -> None:
        # The time first: what left before it is judged by what was owed then.
        now = time.monotonic()
        tree = self._trees[node]
        before, there = self._there[node] or frozenset(), keys_in(tree)
        # A file that is being replaced may be missed by the walk.
        there |= {key for key in before - there if (tree / f"{key}.json").exists()}
        self._there[node] = there
        for key in sorted(before - there):
            self.removals += 1
            if reason := self._judge(node, key, now):
                self.wrong.append(f"{node} lost {key}, although {reason}")


def keys_in(tree: Path) -> frozenset[ResourceKey]:
    """The keys whose files are in a tree. No name here needs to be shortened."""
    return frozenset(
        ResourceKey(str(path.relative_to(tree)).removesuffix(".json")) for path in files_in(tree)
    )


def files_in(tree: Path) -> list[Path]:
    """The resource files in a tree that an agent may be changing."""
    while True:
        try:
            return [path for path in tree.glob("*/*/*.json") if not path.name.startswith(".")]
        except FileNotFoundError:
            continue  # a directory was taken away while it was walked
