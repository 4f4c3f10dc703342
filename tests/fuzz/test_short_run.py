"""Whatever bytes come, nothing but the documented errors comes out: some hundred inputs a target.
`make fuzz` tries as many as there is time for."""

from __future__ import annotations

import logging
import random
from pathlib import Path

import pytest

from tests.fuzz import search
from tests.fuzz.mutation import MOST_BYTES, mutated
from tests.fuzz.search import TARGETS, Finding, Search
from tests.fuzz.target import Reader, Target

CASES = 300
SLOW = {"kubeconfig": 50, "agent": 50, "agent-disk": 50, "agent-store": 50, "bridge": 100}


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """What is refused is warned of."""
    caplog.set_level(logging.CRITICAL)


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_brings_out_anything_but_the_documented_errors(name: str, tmp_path: Path) -> None:
    cases = Search(name, 1, tmp_path)
    for number in range(SLOW.get(name, CASES)):
        cases.attempt(number)


def test_a_case_is_the_same_whenever_it_is_tried_and_never_too_large() -> None:
    samples = [b'{"a": [1, {"b": "c"}]}', b"x: [y]\n" * 40_000]
    for number in range(200):
        inputs = {mutated(random.Random(number), samples, [b"word"]) for _ in range(2)}
        assert len(inputs) == 1
        assert len(inputs.pop()) <= MOST_BYTES


def test_a_finding_says_how_to_repeat_it_with_an_input_made_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(_: Path) -> Reader:
        def read(data: bytes) -> None:
            if b"bad" in data:
                raise KeyError("not foreseen")

        return read

    target = Target(lambda: [b"{" * 500 + b"bad" + b"}" * 500], [], opened)
    monkeypatch.setitem(search.TARGETS, "tried", target)
    cases = Search("tried", 5, tmp_path)
    with pytest.raises(Finding) as found:
        any(map(cases.attempt, range(100)))
    assert "target tried, seed 5, case " in str(found.value)
    assert str(found.value).endswith(f"python -m tests.fuzz tried --input {b'bad'.hex()}")
    assert isinstance(found.value.__cause__, KeyError)
