"""Projections that were put off are worked out once it is quiet."""

from __future__ import annotations

import math

import orjson

from bridge.backlog import QUIET, Backlog
from bridge.glimpse import Glimpse
from bridge.objects import read_object
from bridge.placement import Rules, built_in
from bridge.record import ObjectRecord

RULES = Rules(built_in())


def changed(name: str, url: str) -> ObjectRecord:
    """A record whose projection is put off."""
    rule = next(rule for rule in RULES if rule.kind == "Dataset.sedna.io")
    thing = {
        "apiVersion": "sedna.io/v1alpha1",
        "kind": "Dataset",
        "metadata": {"name": name, "namespace": "default", "resourceVersion": url},
        "spec": {"nodeName": "edge", "url": url},
    }
    glimpse = Glimpse.of(rule, RULES)
    assert glimpse is not None
    line = orjson.dumps({"type": "MODIFIED", "object": thing})
    earlier = thing | {"metadata": {"name": name, "namespace": "default", "resourceVersion": "0"}}
    before = read_object(earlier | {"spec": {}}, RULES, "cluster", None)
    change = glimpse.change(line, {before.key: before}.get)
    assert change is not None
    _, record = change
    assert record.put_off
    return record


def test_what_was_put_off_is_worked_out_once_it_is_quiet() -> None:
    backlog, record = Backlog(), changed("a", "1")
    backlog.add({record.key: record}, 10.0)
    assert backlog.work(10.0) == 10.0 + QUIET
    assert record.put_off
    assert backlog.work(10.0 + QUIET) == math.inf
    assert not record.put_off


def test_only_the_newest_record_of_an_object_is_worked_out() -> None:
    backlog, first, second = Backlog(), changed("a", "1"), changed("a", "2")
    backlog.add({first.key: first}, 0.0)
    backlog.add({second.key: second}, 0.0)
    assert len(backlog) == 1
    backlog.work(1.0)
    assert (first.put_off, second.put_off) == (True, False)


def test_an_object_that_went_is_forgotten() -> None:
    backlog, record = Backlog(), changed("a", "1")
    backlog.add({record.key: record}, 0.0)
    backlog.add({record.key: None}, 0.0)
    assert len(backlog) == 0


def test_many_are_worked_out_in_more_than_one_turn() -> None:
    backlog = Backlog()
    records = [changed(f"a{number}", "1") for number in range(250)]
    backlog.add({record.key: record for record in records}, 0.0)
    turns = 0
    while backlog.work(1.0) == 1.0:
        turns += 1
    assert turns == 2
    assert not any(record.put_off for record in records)
