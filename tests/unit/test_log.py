"""Log lines: an event and its fields, in every form, whatever comes from outside."""

from __future__ import annotations

import io
import json
import logging
import os
import sys
from pathlib import Path

import pytest

from nodecast.log import LogFormat, Repeats, logger, set_up

log = logger("nodecast.test")


def written(form: LogFormat = "text", level: str = "info", **fields: object) -> str:
    """What a warning with `fields` writes."""
    stream = io.StringIO()
    set_up(form, level, stream)
    log.warning("it happened", **fields)
    return stream.getvalue()


def test_a_text_line_has_time_level_logger_event_and_fields() -> None:
    line = written(node="edge-a", revision=3)
    time, rest = line.split(" ", 1)
    assert rest == "warning nodecast.test: it happened  node=edge-a revision=3\n"
    assert time.endswith("+00:00")
    assert time[10] == "T"


def test_a_value_with_spaces_quotes_or_nothing_is_quoted() -> None:
    line = written(a="x y", b='say "no"', c="", d="k=v", e=None, f=["p", 1])
    assert line.endswith("""a="x y" b="say \\"no\\"" c="" d="k=v" e=None f="['p', 1]"\n""")


@pytest.mark.parametrize(
    "odd", ["\n", "\r", "\x0b", "\x1b[31m", "\x00", "\u2028", "\x85", "\udc80"]
)
@pytest.mark.parametrize("form", ["text", "json"])
def test_control_characters_never_start_a_line(odd: str, form: LogFormat) -> None:
    stream = io.StringIO()
    set_up(form, "info", stream)
    log.error(f"bad{odd}forged", value=f"x{odd}forged", other=["a", f"{odd}forged"])
    text = stream.getvalue()
    assert odd not in text.removesuffix("\n")
    assert len(text.splitlines()) == 1
    assert text.count("forged") == 3


def test_json_is_one_object_a_line_with_the_fields_as_they_are() -> None:
    entry = json.loads(written("json", node="n", count=3, share=0.5, where=Path("/x"), on=True))
    assert entry.pop("time")
    assert entry == {
        "level": "warning",
        "logger": "nodecast.test",
        "event": "it happened",
        "node": "n",
        "count": 3,
        "share": 0.5,
        "where": "/x",
        "on": True,
    }


@pytest.mark.parametrize("value", ["a\udcffb", 2**70, {"\udcff": 1}, {1: 2}])
def test_json_writes_what_json_has_no_word_for(value: object) -> None:
    assert json.loads(written("json", value=value))["event"] == "it happened"


def test_a_field_does_not_replace_what_every_line_has() -> None:
    stream = io.StringIO()
    set_up("json", "info", stream)
    log.warning("it happened", level="other", logger="other", time="never")
    entry = json.loads(stream.getvalue())
    assert (entry["level"], entry["logger"]) == ("warning", "nodecast.test")


@pytest.mark.parametrize(
    ("level", "said"),
    [("debug", "diwe"), ("info", "iwe"), ("warning", "we"), ("error", "e")],
)
def test_what_is_below_the_level_is_not_written(level: str, said: str) -> None:
    stream = io.StringIO()
    set_up("text", level, stream)
    for name in ("debug", "info", "warning", "error"):
        getattr(log, name)(name)
    assert [line.split()[1][0] for line in stream.getvalue().splitlines()] == list(said)


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_crash_has_its_traceback(form: LogFormat) -> None:
    stream = io.StringIO()
    set_up(form, "info", stream)
    try:
        raise ValueError("first\n2000-01-01 \x1b[31mforged")
    except ValueError:
        log.crash("thread ended", thread="t")
    text = stream.getvalue()
    assert "thread ended" in text
    assert "ValueError: first" in text
    assert "\n2000-01-01" not in text
    assert "\x1b" not in text


def test_the_journal_gets_a_priority_on_every_line_and_no_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "journal").open("w+") as stream:
        stat = os.fstat(stream.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{stat.st_dev}:{stat.st_ino}")
        set_up("text", "debug", stream)
        for name in ("debug", "info", "warning", "error"):
            getattr(log, name)("it happened")
        try:
            raise ValueError("x")
        except ValueError:
            log.crash("thread ended")
        stream.seek(0)
        lines = stream.read().splitlines()
    assert [line[:3] for line in lines[:4]] == ["<7>", "<6>", "<4>", "<3>"]
    assert lines[1] == "<6>info    nodecast.test: it happened"
    assert len(lines) > 6
    assert {line[:3] for line in lines[4:]} == {"<3>"}


def test_another_file_than_the_journals_gets_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOURNAL_STREAM", "1:1")
    with (tmp_path / "log").open("w+") as stream:
        set_up("text", "info", stream)
        log.info("it happened")
        stream.seek(0)
        assert not stream.read().startswith("<")


def test_logs_go_to_standard_error_and_to_one_place_only(
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_up()
    set_up()
    log.info("it happened")
    seen = capsys.readouterr()
    assert (seen.out, seen.err.count("it happened")) == ("", 1)
    assert [h.stream for h in logging.getLogger().handlers] == [sys.stderr]  # type: ignore[attr-defined]


def test_a_condition_is_said_once_and_counted_until_it_is_over() -> None:
    said = Repeats()
    assert [said.new("k", text) for text in ("a", "a", "b", "b")] == [True, False, True, False]
    assert said.new("other", "a")
    assert said.over("k") == 4
    assert said.over("k") == 0
    assert said.new("k", "b")
