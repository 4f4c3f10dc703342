"""What is fuzzed: samples to change, and what reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nodecast.errors import NodecastError

LONGEST = 20_000
"""Characters of a reason: what it quotes of the input is not cut everywhere."""

Reader = Callable[[bytes], None]


@dataclass(frozen=True)
class Target:
    """`open` makes what reads an input, in a directory of its own; that raises nothing for any
    input: the errors that the code under test says it raises are caught in it, and no others."""

    samples: Callable[[], Sequence[bytes]]
    words: Sequence[bytes]
    open: Callable[[Path], Reader]


@contextmanager
def refusing(*errors: type[NodecastError]) -> Iterator[None]:
    """What the code under test may raise: it says something, and not without end."""
    try:
        yield
    except errors as error:
        if not 0 < len(str(error)) < LONGEST:
            raise AssertionError(f"a reason of {len(str(error))} characters") from error


def words(text: str) -> tuple[bytes, ...]:
    """The words of a text, as bytes."""
    return tuple(word.encode() for word in text.split())


JSON_WORDS = words('true false null 0 -0 1e5 "" [] {} [{}] \\u0000 \\ud800 \\n "a" , : [ ] { }')
