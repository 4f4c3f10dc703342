"""Where a rule looks in an object, and what it says when it cannot."""

from __future__ import annotations

import pytest

from bridge.fields import parse_path
from nodecast.errors import ObjectError, SettingsError


def found(path: str, value: object) -> list[tuple[str, object]]:
    return list(parse_path(path).values(value))


def test_a_path_of_words_gives_the_value_and_where_it_stands() -> None:
    assert found("spec.nodeName", {"spec": {"nodeName": "a"}}) == [("spec.nodeName", "a")]


def test_a_leading_dot_as_kubectl_writes_it_means_nothing() -> None:
    assert found(".spec.n", {"spec": {"n": "a"}}) == [("spec.n", "a")]


def test_brackets_give_each_item_with_its_index() -> None:
    value = {"spec": {"workers": [{"node": "a"}, {}, {"node": "b"}]}}
    expected = [("spec.workers[0].node", "a"), ("spec.workers[2].node", "b")]
    assert found("spec.workers[].node", value) == expected


def test_lists_in_lists_are_walked() -> None:
    assert [v for _, v in found("a[][]", {"a": [["x", "y"], [], ["z"]]})] == ["x", "y", "z"]


def test_a_quoted_key_may_hold_dots_and_slashes() -> None:
    value = {"metadata": {"annotations": {"sedna.io/Train": "a"}}}
    path = "metadata.annotations['sedna.io/Train']"
    assert found(path, value) == [(path, "a")]


@pytest.mark.parametrize("key", [".a", "a.b", "[]", "0", "a b", "ä"])
def test_a_key_that_is_no_word_is_shown_in_quotes(key: str) -> None:
    assert found(f"spec['{key}']", {"spec": {key: 1}}) == [(f"spec['{key}']", 1)]


@pytest.mark.parametrize("value", [{}, {"spec": None}, {"spec": {}}, {"spec": {"n": None}}, None])
def test_what_is_missing_or_null_gives_nothing(value: object) -> None:
    assert found("spec.n", value) == []


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"spec": "x"}, "spec is a string, not an object"),
        ({"spec": []}, "spec is a list, not an object"),
        ({"spec": {"w": {"a": 1}}}, "spec.w is an object, not a list"),
        ({"spec": {"w": 3}}, "spec.w is a number, not a list"),
        ({"spec": {"w": [True]}}, r"spec.w\[0\] is a boolean, not an object"),
        ([], "the object is a list, not an object"),
    ],
)
def test_another_shape_than_the_path_says_is_the_objects_fault(value: object, reason: str) -> None:
    with pytest.raises(ObjectError, match=reason):
        found("spec.w[].n", value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "a.",
        "a..b",
        "a[",
        "a[0]",
        "a[]b",
        "[]",
        "['x']",
        "a['']",
        "a['x'",
        "a b",
        "1a",
    ],
)
def test_what_is_no_path_is_refused_with_the_text(text: str) -> None:
    with pytest.raises(SettingsError, match="field path") as refused:
        parse_path(text)
    assert text == "" or repr(text) in str(refused.value)
