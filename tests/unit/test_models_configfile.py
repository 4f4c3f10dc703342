from __future__ import annotations

import json
from typing import Any

import pytest

from agent.models.configfile import MAX_BYTES, MAX_PROBLEMS, MAX_VALUES, read_config
from agent.models.spec import Spec
from nodecast.errors import ConfigFileError
from tests.support.models import entry, spec


def read(*entries: Any) -> Any:
    return read_config(json.dumps(entries).encode())


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"\0" * 100, "not JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b'[{"modelName": "a", "mod', "not JSON"),
        (b"{}", "not an array"),
        (b"null", "not an array"),
        (b'"a"', "not an array"),
        (b"[] []", "not JSON"),
        (b"[NaN]", "not JSON"),
        (b"[" * 100_000, "nested"),
        (b"[" + b" " * MAX_BYTES + b"]", "larger"),
        (b"[0" + b",0" * MAX_VALUES + b"]", "more than 1000000 values"),
        (b"[" + b"{}," * (MAX_VALUES // 2) + b"0]", "more than 1000000 values"),
    ],
)
def test_what_is_no_readable_array_says_nothing(raw: bytes, reason: str) -> None:
    with pytest.raises(ConfigFileError, match=reason):
        read_config(raw)


def test_an_empty_array_says_no_models() -> None:
    assert read_config(b"[]\n").entries == {}


def test_a_byte_order_mark_is_read_over() -> None:
    assert read_config(b"\xef\xbb\xbf[]").problems == ()


def test_a_spec_is_passed_on_whole_and_as_written() -> None:
    said = {"z": [1, 2.5, None, {"ü": True}], "storageUri": "s3://b/m", "memory": "1024Mi"}
    found = read({"modelName": "a", "modelSpec": said}).entries["a"]
    assert found.value() == said
    assert list(found.value()) == list(said)


def test_o1_key_order_and_quantity_spelling_mean_nothing() -> None:
    one = Spec.of({"storageUri": "u", "memory": "1Gi", "framework": "f"})
    for memory in ("1024Mi", 1073741824, "1073741824", "1048576Ki"):
        assert Spec.of({"framework": "f", "memory": memory, "storageUri": "u"}) == one


@pytest.mark.parametrize("more", [{"memory": "2Gi"}, {"framework": "x"}, {"extra": 1}])
def test_any_other_difference_counts(more: dict[str, Any]) -> None:
    assert Spec.of(spec("u", **more)) != Spec.of(spec("u"))


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"modelName": "b"}, "modelSpec is missing"),
        ({"modelName": "b", "modelSpec": None}, "not an object"),
        ({"modelName": "b", "modelSpec": []}, "not an object"),
        ({"modelName": "b", "modelSpec": {}}, "storageUri is missing"),
        (entry("b", ""), "storageUri"),
        ({"modelName": "b", "modelSpec": {"storageUri": 5}}, "storageUri is 5"),
        (entry("b", "u", framework=3), "framework is 3"),
        (entry("b", "u", memory="lots"), "memory"),
        (entry("b", "u", memory="-1Gi"), "below zero"),
        (entry("b", "u", x=2**64), "64 bits"),
        (entry("b", "u", x="\ud800"), "surrogate"),
        (entry("b", "u", **{"\ud800": 1}), "surrogate"),
    ],
)
def test_o4_a_bad_spec_is_reported_and_its_model_kept(bad: Any, reason: str) -> None:
    found = read(entry("a", "u"), bad, entry("c", "u"))
    assert set(found.entries) == {"a", "c"}
    assert found.keep == {"b"}
    assert [(p.index, p.name) for p in found.problems] == [(1, "b")]
    assert reason in found.problems[0].reason


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (5, "not an object"),
        (None, "not an object"),
        ({"modelSpec": spec("u")}, "modelName is missing"),
        (entry("", "u"), "empty"),
        ({"modelName": 5, "modelSpec": spec("u")}, "not a string"),
        (entry("a\0b", "u"), "control"),
        (entry("a\nb", "u"), "control"),
        (entry("\ud800", "u"), "surrogate"),
        (entry("x" * 70_000, "u"), "70000 bytes"),
        (entry("ü" * 127, "u"), "254 bytes"),
    ],
)
def test_o6_a_bad_name_is_refused_alone(bad: Any, reason: str) -> None:
    found = read(entry("a", "u"), bad)
    assert set(found.entries) == {"a"}
    assert found.keep == frozenset()
    assert reason in found.problems[0].reason
    assert found.problems[0].name is None
    assert len(str(found.problems[0])) < 200


@pytest.mark.parametrize("name", ["a/b", "a+b", "#", "../../etc/x", "ü", " ", "$x", "x" * 253])
def test_o6_an_odd_name_is_carried(name: str) -> None:
    found = read(entry(name, "u"))
    assert list(found.entries) == [name]
    assert found.problems == ()


def test_null_memory_and_framework_are_as_good_as_absent() -> None:
    assert read(entry("a", "u", memory=None, framework=None)).problems == ()


def test_an_endless_number_spoils_its_own_entry_only() -> None:
    raw = json.dumps([entry("a", "u"), entry("b", "u", x=0)]).replace(": 0", ": " + "9" * 5000)
    found = read_config(raw.encode())
    assert (set(found.entries), found.keep) == ({"a"}, {"b"})


def test_an_infinite_number_spoils_its_own_entry_only() -> None:
    raw = json.dumps([entry("a", "u"), entry("b", "u", x=0)]).replace(": 0", ": 1e999")
    found = read_config(raw.encode())
    assert (set(found.entries), found.keep) == ({"a"}, {"b"})


def test_a_deep_spec_spoils_its_own_entry_only() -> None:
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    found = read(entry("a", "u"), entry("b", "u", deep=deep))
    assert (set(found.entries), found.keep) == ({"a"}, {"b"})
    assert "deeper" in found.problems[0].reason


def test_o5_of_a_name_twice_the_last_counts_with_a_warning() -> None:
    found = read(entry("a", "one"), entry("a", "two"))
    assert found.entries == {"a": Spec.of(spec("two"))}
    assert "the last entry counts" in found.problems[0].reason
    assert found.keep == frozenset()


def test_o5_a_bad_last_entry_of_a_name_counts_too_and_keeps() -> None:
    found = read(entry("a", "one"), {"modelName": "a"})
    assert (found.entries, found.keep) == ({}, {"a"})


def test_o5_a_good_last_entry_of_a_name_counts_after_a_bad_one() -> None:
    found = read({"modelName": "a"}, entry("a", "two"))
    assert (set(found.entries), found.keep) == ({"a"}, frozenset())


@pytest.mark.parametrize(
    "bad",
    [
        '{"modelName": "b", "modelSpec": {"storageUri": "x"}, "modelSpec": {"storageUri": "y"}}',
        '{"modelName": "b", "modelSpec": {"storageUri": "x", "storageUri": "y"}}',
        '{"modelName": "b", "modelSpec": {"storageUri": "x", "more": [{"k": 1, "k": 1}]}}',
        '{"modelName": "b", "modelName": "b", "modelSpec": {"storageUri": "x"}}',
    ],
)
def test_a_key_twice_in_an_entry_is_a_problem_and_its_model_stays_as_it_is(bad: str) -> None:
    found = read_config(f"[{json.dumps(entry('a', 's3://a'))}, {bad}]".encode())
    assert (set(found.entries), found.keep) == ({"a"}, {"b"})
    (problem,) = found.problems
    assert (problem.index, problem.name) == (1, "b")
    assert "is twice in one object" in problem.reason


def test_an_entry_with_two_names_keeps_both_models_that_it_may_mean() -> None:
    bad = '{"modelName": "b", "modelName": "c", "modelName": "a", "modelSpec": {"storageUri": "x"}}'
    for entries in (
        f"{json.dumps(entry('a', 's3://a'))}, {bad}",
        f"{bad}, {json.dumps(entry('a', 's3://a'))}",
    ):
        found = read_config(f"[{entries}]".encode())
        assert (set(found.entries), found.keep) == ({"a"}, {"b", "c"})
        (problem,) = found.problems
        assert "modelName is there twice, with two values" in problem.reason


def test_a_file_of_nothing_but_problems_is_told_in_a_bounded_number_of_them() -> None:
    entries = [0] * 50_000 + [entry("a", "u"), entry("b", 5)]
    found = read(*entries)
    assert len(found.problems) == MAX_PROBLEMS
    assert len(found.problems) + found.untold == 50_001
    assert found.texts()[-1] == f"and {found.untold} more"
    assert (set(found.entries), found.keep) == ({"a"}, {"b"})
