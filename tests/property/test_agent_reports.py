"""Whatever is in the records of the store, the agent's report is one that the bridge reads."""

from __future__ import annotations

import random
import sqlite3
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from hypothesis import example, given
from hypothesis import strategies as st

from agent.broker.report import build_report
from agent.handlers.files import FilesHandler
from agent.handlers.tree import Tree
from agent.resources import NodeResources, Pacing
from agent.store.database import as_text
from agent.store.records import content_sum, file_content
from agent.store.resources import SCHEMA, ResourceStore
from nodecast.backoff import Backoff
from nodecast.messages import MAX_NUMBER, Report, Wire, decode, encode
from tests.support.device import BRIDGE, NODE, Clock, resource

KEYS = [f"Dataset.sedna.io/default/{name}" for name in "abc"]
COLUMNS = ("key", "body", "digest", "sum", "uid", "generation", "leaving", "applied")
PROGRESS = ("key", "leaving", "applied")
ACCEPTED = ("bridge", "epoch", "revision", "digest", "held", "withheld", "damaged", "unconfirmed")


class Text(NamedTuple):
    """Text in the store that need not be UTF-8."""

    raw: bytes


STRANGE = (
    st.none()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=5)
    | st.binary(max_size=5).map(Text)
)
CHANGES = st.dictionaries(st.sampled_from(COLUMNS), STRANGE, max_size=2)


def _insert(db: sqlite3.Connection, table: str, record: dict[str, Any]) -> bool:
    """Whether the tables let such a record in at all."""
    marks = ["CAST(? AS TEXT)" if isinstance(v, Text) else "?" for v in record.values()]
    values = [v.raw if isinstance(v, Text) else v for v in record.values()]
    statement = f"INSERT INTO {table} ({', '.join(record)}) VALUES ({', '.join(marks)})"
    try:
        db.execute(statement, values)
    except sqlite3.IntegrityError:
        return False
    return True


def _good(key: str) -> dict[str, Any]:
    body = resource(key)
    digest, sum_ = orjson.loads(body)["digest"], content_sum(file_content(body))
    return dict(zip(COLUMNS, (key, body, digest, sum_, "u", 1, 0, sum_), strict=True))


def _report(db: sqlite3.Connection) -> Report:
    """What an agent with this store reports, as a bridge reads it."""
    with tempfile.TemporaryDirectory() as root:
        agent = NodeResources(
            ResourceStore(db, "store", BRIDGE),
            FilesHandler(Tree(Path(root))),
            NODE,
            clock=Clock(),
            rng=random.Random(1),
            pacing=Pacing(600, Backoff(1, 60), Backoff(1, 60)),
        )
        agent.start()
        report = build_report(agent, NODE, "i", 1, 0.0, lambda _: "")
    return decode(Report, Wire(encode(report)))


def _store() -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.text_factory = as_text
    db.executescript(SCHEMA)
    return db


@given(st.lists(CHANGES, min_size=3, max_size=3))
@example([{"generation": "x"}, {"generation": MAX_NUMBER + 1}, {"uid": Text(b"\xff")}])
@example([{"uid": b"\xff"}, {"generation": -4}, {"key": Text(b"\xff")}])
@example([{"leaving": 1, "digest": Text(b"\xff")}, {"key": b"\xff"}, {"applied": b""}])
def test_e4_a_report_of_any_records_reads_and_says_every_good_one(
    changes: list[dict[str, Any]],
) -> None:
    db = _store()
    there = 0
    for key, change in zip(KEYS, changes, strict=True):
        record = _good(key) | change
        there += _insert(db, "resources", {k: record[k] for k in COLUMNS if k not in PROGRESS[1:]})
        _insert(db, "progress", {k: record[k] for k in PROGRESS})
    report = _report(db)
    (aside,) = db.execute("SELECT count(*) FROM set_aside").fetchone()
    (left,) = db.execute("SELECT count(*) FROM resources").fetchone()
    assert len(report.resources) == left == there - aside
    said = {each.key for each in report.resources}
    assert said >= {key for key, change in zip(KEYS, changes, strict=True) if not change}
    db.close()


@given(st.dictionaries(st.sampled_from(ACCEPTED), STRANGE, max_size=2))
@example({"epoch": 1.5})
@example({"digest": Text(b"\xff")})
@example({"bridge": Text(b"\xff")})
@example({})
def test_e4_a_report_of_any_accepted_version_reads(change: dict[str, Any]) -> None:
    db = _store()
    good = dict(zip(ACCEPTED, (BRIDGE, 5, 1, "d", "[]", "[]", 0, 0), strict=True))
    _insert(db, "accepted", good | change)
    report = _report(db)
    assert report.bridge == BRIDGE
    if not change:
        assert (report.version, report.incomplete) == ((5, 1), False)
    db.close()
