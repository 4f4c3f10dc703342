"""Any string is a checked name or InvalidName; a key falls into the parts that it was made of."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.fields import FieldPath, parse_path
from nodecast.errors import InvalidName, ObjectError, SettingsError
from nodecast.messages import MAX_NUMBER, Version
from nodecast.names import (
    bridge_name,
    kind_name,
    kind_of,
    namespace_name,
    node_name,
    object_name,
    parse_key,
    parse_kind,
    resource_key,
    split_api_version,
    split_key,
)
from nodecast.topics import Topics, topic_prefix

CHECKS = [
    node_name,
    bridge_name,
    object_name,
    namespace_name,
    parse_kind,
    parse_key,
    split_api_version,
    topic_prefix,
]
alphabet = st.sampled_from("aZ0-./+#$ _\n\0ä\udc80")
strings = st.text(max_size=20) | st.text(alphabet, max_size=20) | st.from_regex(r"[a-z.-]{0,260}")
subdomains = st.from_regex(
    r"[a-z0-9]([-a-z0-9]{0,9}[a-z0-9])?(\.[a-z0-9]{1,9}){0,3}", fullmatch=True
)
labels = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?", fullmatch=True)
kinds = st.from_regex(r"[A-Za-z][A-Za-z0-9]{0,20}", fullmatch=True)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | strings | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(strings, inner, max_size=3),
    max_leaves=5,
)


def refusal(check: Callable[[str], object], value: object) -> str | None:
    """Why `check` refuses `value`; None: it does not."""
    try:
        check(value)  # type: ignore[arg-type]
    except InvalidName as error:
        return str(error)
    return None


@pytest.mark.parametrize("check", CHECKS)
@given(strings)
def test_any_string_is_a_name_or_invalid(check: Callable[[str], object], value: str) -> None:
    reason = refusal(check, value)
    assert reason is None or (reason.isprintable() and len(reason) < 1500)


@pytest.mark.parametrize("check", [c for c in CHECKS if c is not topic_prefix])
@given(anything)
def test_anything_else_is_invalid_and_nothing_worse(
    check: Callable[[object], object], value: object
) -> None:
    reason = refusal(check, value)
    assert isinstance(value, str) if reason is None else len(reason) < 400


@given(strings)
def test_a_node_name_never_holds_what_means_something_in_a_topic(value: str) -> None:
    try:
        name = node_name(value)
    except InvalidName:
        return
    assert not set(name) & set("/+#$\0 ")
    assert Topics("p").parse_node(Topics("p").status(name)) == (name, "status")


@given(kinds, subdomains | st.just(""), labels | st.just(""), subdomains)
def test_a_key_falls_into_its_parts(kind: str, group: str, namespace: str, name: str) -> None:
    checked = kind_name(kind, group)
    key = parse_key(resource_key(checked, namespace, name))
    assert split_key(key) == (checked, namespace, name)
    assert kind_of(key) == parse_kind(checked) == checked


@given(st.text(max_size=30), st.text(max_size=6))
def test_any_topic_is_read_or_is_of_no_node(topic: str, prefix: str) -> None:
    parsed = Topics(prefix).parse_node(topic)
    if parsed is not None:
        assert topic.removeprefix(f"{prefix}/" if prefix else "") == f"node/{parsed[0]}/{parsed[1]}"


# -- versions

numbers = st.integers(0, MAX_NUMBER) | st.sampled_from([0, 1, MAX_NUMBER - 1, MAX_NUMBER])


@given(numbers, numbers, numbers)
@example(MAX_NUMBER, MAX_NUMBER, MAX_NUMBER)
@example(5, MAX_NUMBER, 5)
def test_the_next_version_is_greater_in_no_lower_epoch_and_within_the_range(
    epoch: int, revision: int, at_least: int
) -> None:
    version = Version(epoch, revision)
    try:
        following = version.next_in(at_least)
    except OverflowError:
        assert version == (MAX_NUMBER, MAX_NUMBER)
        return
    assert following > version
    assert following.epoch >= at_least
    assert all(0 <= part <= MAX_NUMBER for part in following)
    assert following.epoch == epoch or following.revision == 1


# -- field paths

steps = st.one_of(
    st.just("[]"),
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,5}", fullmatch=True).map(".{}".format),
    st.text(st.characters(exclude_characters="'", codec="utf-8"), min_size=1, max_size=5).map(
        "['{}']".format
    ),
)
paths = st.tuples(st.sampled_from(["spec", "a", "metadata"]), st.lists(steps, max_size=4)).map(
    lambda parts: parts[0] + "".join(parts[1])
)


def build(path: FieldPath, value: object) -> object:
    """An object in which `value` stands at `path`, once."""
    for step in reversed(path.steps):
        value = [value] if step is None else {step: value}
    return value


@given(paths, st.integers() | st.text(max_size=3) | st.booleans())
def test_what_stands_at_a_path_is_found_there(text: str, value: object) -> None:
    path = parse_path(text)
    ((where, found),) = path.values(build(path, value))
    assert found == value
    assert list(parse_path(where.replace("[0]", "[]")).steps) == list(path.steps)


@given(strings, anything)
def test_any_text_is_a_path_or_refused_and_any_object_is_walked_or_refused(
    text: str, value: object
) -> None:
    try:
        path = parse_path(text)
        found = list(path.values(value))
    except (SettingsError, ObjectError):
        return
    assert all(where for where, _ in found)
