"""The command line of the simulation."""

from __future__ import annotations

import pytest

from tests.sim.__main__ import main


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--help"],
        ["many"],
        ["3-"],
        ["3", "no-world"],
        ["--trace"],
        ["--trace", "x", "restored"],
        ["--trace", "3", "no-world"],
        ["--without", "no-rule", "3"],
    ],
)
def test_what_it_does_not_understand_it_answers_with_its_usage(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 64
    err = capsys.readouterr().err
    assert "python -m tests.sim SEEDS" in err
    assert "Worlds:" in err
