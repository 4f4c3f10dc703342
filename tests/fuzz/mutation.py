"""Changes good samples into inputs that are nearly good: those reach further than random bytes.

Half of the changes know nothing of the format (bits, slices, lines, another sample's tail), a third
puts words of the format where others stood, and the rest, where the sample is JSON, changes its
tree: values of another type, keys that go or stand twice, lists that grow, nesting.
Pure: all that is random comes from the `random.Random` that is given.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

MOST_BYTES = 200_000
"""Of an input: what grows beyond is cut."""

_ODD = (
    *(None, True, False, 0, -1, 2**31, 2**53 - 1, 2**53, 2**63, 2**64, -(2**63) - 1, 10**400),
    *(0.5, 1e308, float("inf"), float("nan"), -0.0, 1e-400),
    *("", " ", "a/b", "../x", "#", "+", "$SYS", "-", "A", "0", "1", "a" * 254, "\ud800", "\0"),
    *(
        "\n",
        "\u2028",
        "\ufeff",
        "e\u0301",
        "\U0001f600",
        "null",
        "default",
        "Dataset",
        "sedna.io/v1",
    ),
    *([], {}, [[]], [None], {"": None}, {"a": {"a": {}}}, [{}] * 50),
)
_DEPTHS = (60, 200, 260, 1030, 6000)
_DEEP = "deep:"
"""Stands for nesting that Python's own encoder would not take, until the rest is encoded."""
_TOKEN = re.compile(rb"\w+|\"[^\"\n]*\"|[^\s\w]|\s+")
_ALWAYS = (
    *(b"\0", b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80", b"\xe2\x80\xa8"),
    *(b"\r", b"\n", b"\t", b"null", b"-", b"[", b"{", b'"', b"\\", b"\\ud800", b"1e999", b"9" * 30),
    *(b"9" * 5000, b"NaN", b"Infinity", b"[" * 2000, b'{"a":' * 2000, b"," * 100, b":"),
)

Mutation = Callable[[random.Random, bytes, Sequence[bytes], Sequence[bytes]], bytes]


def mutated(rng: random.Random, samples: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    """One of `samples`, changed once to four times; `words`: what the format is made of."""
    data = rng.choice(samples)
    for _ in range(rng.randint(1, 4)):
        data = rng.choice(_MUTATIONS)(rng, data, samples, (*words, *_ALWAYS))[:MOST_BYTES]
    return data


def _span(rng: random.Random, data: bytes) -> tuple[int, int]:
    """A slice, most often a short one."""
    start = rng.randint(0, len(data))
    return start, min(len(data), start + rng.choice((1, 2, 4, 8, 30, 200, 5000)))


def _flip(rng: random.Random, data: bytes, *_: object) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def _drop(rng: random.Random, data: bytes, *_: object) -> bytes:
    start, end = _span(rng, data)
    return data[:start] + data[end:]


def _cut(rng: random.Random, data: bytes, *_: object) -> bytes:
    return data[: rng.randint(0, len(data))]


def _repeat(rng: random.Random, data: bytes, *_: object) -> bytes:
    start, end = _span(rng, data)
    return data[:end] + data[start:end] * rng.choice((1, 2, 50, 1000)) + data[end:]


def _splice(
    rng: random.Random, data: bytes, samples: Sequence[bytes], _words: Sequence[bytes]
) -> bytes:
    other = rng.choice(samples)
    return data[: rng.randint(0, len(data))] + other[rng.randint(0, len(other)) :]


def _insert(
    rng: random.Random, data: bytes, _samples: Sequence[bytes], words: Sequence[bytes]
) -> bytes:
    at = rng.randint(0, len(data))
    return data[:at] + rng.choice(words) + data[at:]


def _replace(
    rng: random.Random, data: bytes, _samples: Sequence[bytes], words: Sequence[bytes]
) -> bytes:
    """Another word in the place of one."""
    tokens = [found.span() for found in _TOKEN.finditer(data[:20_000])]
    if not tokens:
        return data
    start, end = rng.choice(tokens)
    return data[:start] + rng.choice(words) + data[end:]


def _line(rng: random.Random, data: bytes, *_: object) -> bytes:
    """A line moves, stands twice, or is indented otherwise."""
    lines = data.split(b"\n")
    at, to = rng.randrange(len(lines)), rng.randrange(len(lines))
    what = rng.randrange(4)
    if what == 0:
        lines.insert(to, lines[at])
    elif what == 1:
        lines[at], lines[to] = lines[to], lines[at]
    elif what == 2:
        lines[at] = b" " * rng.randrange(1, 6) + lines[at]
    else:
        lines[at] = lines[at].lstrip()
    return b"\n".join(lines)


def _tree(
    rng: random.Random, data: bytes, samples: Sequence[bytes], _words: Sequence[bytes]
) -> bytes:
    """One place in the tree of a JSON text; other texts stay as they are."""
    tree, other = _parsed(data), _parsed(rng.choice(samples))
    if not isinstance(tree, dict | list):
        return data
    holder = rng.choice(_holders(tree))
    keys = list(holder) if isinstance(holder, dict) else range(len(holder))
    if not keys:
        return data
    _change(rng, holder, rng.choice(keys), other)
    text = json.dumps(tree, ensure_ascii=rng.random() < 0.8, indent=rng.choice((None, 1)))
    for depth in _DEPTHS:
        text = text.replace(f'"{_DEEP}{depth}[]"', "[" * depth + "]" * depth)
        text = text.replace(f'"{_DEEP}{depth}{{}}"', '{"a":' * depth + "1" + "}" * depth)
    return text.encode(errors="surrogatepass")


def _change(rng: random.Random, holder: Any, key: Any, other: object) -> None:
    what = rng.randrange(7)
    if what == 0:
        del holder[key]
    elif what == 1:
        holder[key] = [holder[key]]
    elif what == 2 and isinstance(holder, list):
        holder[key:key] = [holder[key]] * rng.choice((1, 3, 300))
    elif what == 3 and isinstance(holder, dict):
        holder[str(rng.choice(_ODD))] = holder.pop(key)
    elif what == 4 and isinstance(other, dict | list):
        holder[key] = rng.choice(_holders(other))
    elif what == 5:
        holder[key] = f"{_DEEP}{rng.choice(_DEPTHS)}{rng.choice(('[]', '{}'))}"
    else:
        holder[key] = rng.choice(_ODD)


def _parsed(data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _holders(tree: dict[str, Any] | list[Any]) -> list[Any]:
    """All objects and lists in a tree, itself included."""
    found: list[Any] = [tree]
    for each in found:  # grows meanwhile
        values = each.values() if isinstance(each, dict) else each
        found += [value for value in values if isinstance(value, dict | list)]
    return found


_MUTATIONS: tuple[Mutation, ...] = (
    *(_flip, _drop, _cut, _repeat, _splice, _line),
    *(_insert, _replace, _replace),
    *(_tree, _tree, _tree, _tree),
)
