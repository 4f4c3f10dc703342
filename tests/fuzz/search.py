"""Looks for an input that a target does not take, and makes it small."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from tests.fuzz.cluster import CLUSTER
from tests.fuzz.consumers import CONSUMERS
from tests.fuzz.mutation import mutated
from tests.fuzz.packets import PACKETS
from tests.fuzz.readers import READERS
from tests.fuzz.target import Reader, Target

TARGETS = READERS | CONSUMERS | CLUSTER | PACKETS
_TRIES = 500
"""Of making an input smaller."""


class Finding(Exception):
    """An input that a target does not take; the cause is what came out of it."""

    def __init__(self, name: str, seed: int, number: int, data: bytes) -> None:
        super().__init__(
            f"target {name}, seed {seed}, case {number}: it may raise nothing for this input."
            f" Repeat it with\n  python -m tests.fuzz {name} --input {data.hex()}"
        )


class Search:
    """The cases of a target and a seed. Each is the same whenever it is tried.

    What is being read stands in `directory`/input, for one that hangs or ends the process.
    """

    def __init__(self, name: str, seed: int, directory: Path) -> None:
        self._name = name
        self._seed = seed
        self._target: Target = TARGETS[name]
        self._samples = self._target.samples()
        self._file = directory / "input"
        self._read: Reader = self._target.open(directory)

    def attempt(self, number: int) -> None:
        """Try one case. Raises Finding."""
        rng = random.Random(f"{self._name}/{self._seed}/{number}")
        data = mutated(rng, self._samples, self._target.words)
        error = self._error(data)
        if error is not None:
            data, error = self._smaller(data, error)
            raise Finding(self._name, self._seed, number, data) from error

    def _error(self, data: bytes) -> Exception | None:
        self._file.write_bytes(data)
        try:
            self._read(data)
        except Exception as error:  # noqa: BLE001 - whatever comes out is what is looked for
            return error
        return None

    def _smaller(self, data: bytes, error: Exception) -> tuple[bytes, Exception]:
        """An input of which nothing can be left out, as far as that was tried."""
        for part in islice(_parts(data), _TRIES):
            less = data.replace(part, b"", 1)
            found = self._error(less) if less != data else None
            if found is not None and type(found) is type(error):
                data, error = less, found
        return data, error


def _parts(data: bytes) -> Iterator[bytes]:
    """Slices of `data`, the long ones first."""
    size = len(data) // 2
    while size:
        yield from (data[at : at + size] for at in range(0, len(data), size))
        size //= 2
