"""Logs: an event and its fields, one line each.

`text` is for people and journald (`<6>` priorities where the journal reads standard error), `json`
for collectors. A payload never stands above DEBUG, a secret never. A warning that repeats is said
once and counted: see `Repeats`.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Hashable
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

import orjson

LogFormat = Literal["text", "json"]
_PRIORITY = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3}
_FIELDS = "nodecast_fields"
_IDS = re.compile(r"\b[0-9a-f]*[0-9][0-9a-f-]*\b")


class Logger:
    """Writes events with fields: `log.info("snapshot accepted", epoch=7, revision=3)`."""

    __slots__ = ("_log",)

    def __init__(self, log: logging.Logger) -> None:
        self._log = log

    def debug(self, event: str, **fields: object) -> None:
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: object) -> None:
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, **fields: object) -> None:
        self._write(logging.ERROR, event, fields)

    def crash(self, event: str, **fields: object) -> None:
        """An unexpected error, with its traceback: only at the top of a thread."""
        self._log.error(event, exc_info=True, extra={_FIELDS: fields})

    def _write(self, level: int, event: str, fields: dict[str, object]) -> None:
        if self._log.isEnabledFor(level):
            self._log.log(level, event, extra={_FIELDS: fields})


def logger(name: str) -> Logger:
    """The logger of a module, by its `__name__`."""
    return Logger(logging.getLogger(name))


def gist(text: str) -> str:
    """The text without its numbers and ids: what tells one occurrence from the next."""
    return _IDS.sub("#", text)


class Repeats:
    """Says a condition once, and counts it until it is over.

    `new(key, text)` is True when `text` is not what `key` said last; `over(key)` gives how often
    it was said in all, 0 when there was nothing to be over. One owner thread.
    """

    __slots__ = ("_said",)

    def __init__(self) -> None:
        self._said: dict[Hashable, tuple[str, int]] = {}

    def __len__(self) -> int:
        """How many conditions are not over."""
        return len(self._said)

    def new(self, key: Hashable, text: str = "") -> bool:
        said, count = self._said.get(key, (None, 0))
        self._said[key] = (text, count + 1)
        return said != text

    def over(self, key: Hashable) -> int:
        return self._said.pop(key, ("", 0))[1]


class _Text(logging.Formatter):
    def __init__(self, journal: bool) -> None:
        super().__init__()
        self._journal = journal

    def format(self, record: logging.LogRecord) -> str:
        event = one_line(record.getMessage())
        fields = " ".join(f"{k}={_value(v)}" for k, v in _fields(record).items())
        line = f"{record.levelname.lower():7} {record.name}: {event}" + (
            f"  {fields}" * bool(fields)
        )
        if record.exc_info:
            trace = self.formatException(record.exc_info).splitlines()
            line += "".join(f"\n    {one_line(part)}" for part in trace)
        if self._journal:
            priority = f"<{_PRIORITY.get(record.levelno, 5)}>"
            return "\n".join(priority + part for part in line.splitlines())
        return f"{_time(record)} {line}"


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        entry |= {k: v for k, v in _fields(record).items() if k not in entry}
        try:
            line = orjson.dumps(entry, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
        except TypeError:  # what orjson has no JSON for: a file name that is no UTF-8
            line = ""
        return line if line and line.isprintable() else json.dumps(entry, default=str)


def _fields(record: logging.LogRecord) -> dict[str, object]:
    fields: dict[str, object] = getattr(record, _FIELDS, {})
    return fields


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


def one_line(text: str) -> str:
    """Control characters escaped: what came from outside must not start a line of its own."""
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def _value(value: object) -> str:
    text = str(value)
    if text and text.isprintable() and not any(c in ' "=' for c in text):
        return text
    return orjson.dumps(one_line(text)).decode()


def set_up(form: LogFormat = "text", level: str = "info", stream: TextIO | None = None) -> None:
    """Send all logs to `stream` (standard error), in `form`, from `level` on."""
    stream = stream or sys.stderr
    journal = _is_journal(stream)
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_Json() if form == "json" else _Text(journal))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def _is_journal(stream: TextIO) -> bool:
    """Whether `stream` is the one that systemd names in JOURNAL_STREAM (systemd.exec(5))."""
    try:
        stat = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{stat.st_dev}:{stat.st_ino}"
