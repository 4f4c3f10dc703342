"""Manifests mean what kubectl takes them to mean."""

from __future__ import annotations

import pytest
import yaml

from bridge.sources import yaml12
from bridge.sources.documents import MAX_BYTES, parse_documents
from bridge.sources.yaml12 import MAX_DEPTH, parse_yaml
from nodecast.errors import DocumentError


def one(text: str) -> object:
    (value,) = parse_yaml(text)
    return value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True),
        ("No", False),
        ("ON", True),
        ("off", False),
        ("y", True),
        ("n", False),
        ("True", True),
        ("tRUE", "tRUE"),
        ("~", None),
        ("Null", None),
        ("", None),
        ("24:00", "24:00"),
        ("02:00", "02:00"),
        ("1:20:30", "1:20:30"),
        ("2020-01-31", "2020-01-31"),
        ("2020-01-31T10:00:00Z", "2020-01-31T10:00:00Z"),
        ("0x1F", 31),
        ("-0b11", -3),
        ("0o17", 15),
        ("017", 15),
        ("08", 8),
        ("0", 0),
        ("+5", 5),
        ("1_000", 1000),
        ("_1", "_1"),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1.0", 1),
        ("1e3", 1000),
        ("1e999", "1e999"),
        ("1e20", 1e20),
        ("-0.0", 0),
        ("9223372036854775807", 2**63 - 1),
        ("18446744073709551615", 2**64 - 1),
        ("-9223372036854775808", -(2**63)),
        ("1.2.3", "1.2.3"),
        ("+", "+"),
        (".", "."),
        ("-x", "-x"),
        ("+.nan", "+.nan"),
        ("1Gi", "1Gi"),
        ("0x", "0x"),
        ("'1'", "1"),
        ('"yes"', "yes"),
        ("!!str 1", "1"),
        ("!!int 0x10", 16),
        ("!!float 3", 3),
        ("!!timestamp 2020-01-31", "2020-01-31"),
        ("!!binary aGVsbG8=", "hello"),
        ("|\n  12\n", "12\n"),
    ],
)
def test_a_scalar_is_read_as_kubectl_reads_it(text: str, value: object) -> None:
    read = one(f"a: {text}")
    assert read == {"a": value}
    assert type(read["a"]) is type(value)


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("a:\n  b: .inf", "line 2, column 6", "JSON"),
        ("a: -.Inf", "line 1, column 4", "JSON"),
        ("a: .nan", "line 1, column 4", "JSON"),
        ("a: 18446744073709551616", "line 1, column 4", "64 bits"),
        ("a: 0x" + "f" * 100_000, "line 1, column 4", "64 bits"),
        ("a: " + "9" * 100_000, "line 1, column 4", "64 bits"),
        ("a: -9223372036854775809", "line 1, column 4", "64 bits"),
        ("a: 1\nb: 2\na: 3", "line 3, column 1", "key 'a' stands twice"),
        ("1: x\n'1': y", "line 2, column 1", "key '1' stands twice"),
        ("1.10: x", "line 1, column 1", "put it in quotes"),
        ("~: x", "line 1, column 1", "put it in quotes"),
        ("? [a]\n: b", "line 1, column 3", "put it in quotes"),
        ("a: !!python/object/apply:os.system [true]", "line 1, column 4", "tag"),
        ("a: !vault x", "line 1, column 4", "tag"),
        ("a: !!set {x, y}", "line 1, column 4", "tag"),
        ("a: !!int x", "line 1, column 4", "!!int"),
        ("a: !!binary '*'", "line 1, column 4", "base64"),
        ("a: !!binary /w==", "line 1, column 4", "UTF-8"),
        ("a: &a [1, *a]", "line 1, column 11", "contains itself"),
        ("a: *b", "line 1, column 4", "no anchor"),
        ("<<: 1", "line 1, column 5", "merges"),
        ("a: [", "line 2, column 1", "flow"),
        ("a: b: c", "line 1, column 5", "mapping values"),
        ("a:\n  - b\n c: d", "line 3, column 2", "expected"),
        ("a\n\x01", "line 2", "control characters"),
    ],
)
def test_what_is_refused_says_where_and_why(text: str, place: str, reason: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse_yaml(text)
    assert str(caught.value).startswith(f"{place}:")
    assert reason in str(caught.value)
    assert len(str(caught.value)) < 300


def test_keys_become_strings() -> None:
    assert one("{1: a, true: b, x: c, -2: d}") == {"1": "a", "true": "b", "x": "c", "-2": "d"}


def test_a_mapping_own_keys_win_over_merged_ones_wherever_they_stand() -> None:
    text = """
base: &base {a: 1, b: 2}
more: &more {b: 3, c: 4}
one: {<<: *base, a: 9}
two: {b: 9, <<: [*base, *more]}
"""
    value = one(text)
    assert value["one"] == {"a": 9, "b": 2}
    assert value["two"] == {"a": 1, "b": 9, "c": 4}


def test_a_quoted_merge_sign_is_a_key() -> None:
    assert one('{"<<": 1}') == {"<<": 1}


def test_an_anchor_lives_as_long_as_its_document() -> None:
    assert one("a: &a {x: 1}\nb: *a") == {"a": {"x": 1}, "b": {"x": 1}}
    with pytest.raises(DocumentError, match="no anchor"):
        parse_yaml("a: &a 1\n---\nb: *a")


def test_documents_come_in_order_and_an_empty_one_is_none() -> None:
    assert parse_yaml("---\na: 1\n---\n# nothing\n---\n- b\n") == [{"a": 1}, None, ["b"]]


def test_a_few_lines_cannot_stand_for_gigabytes() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    with pytest.raises(DocumentError, match="aliases repeat more"):
        parse_yaml("\n".join(lines))


def test_one_long_text_cannot_be_repeated_without_end() -> None:
    text = f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 100)}]"
    with pytest.raises(DocumentError, match="aliases repeat more"):
        parse_yaml(text)


def test_nesting_ends_at_its_bound() -> None:
    assert one("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    with pytest.raises(DocumentError, match="nested deeper"):
        parse_yaml("[" * (MAX_DEPTH + 2))
    with pytest.raises(DocumentError):
        parse_yaml("[" * 100_000)


def test_without_libyaml_the_meaning_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: &a {1: 24:00, b: 0o17}\nc: [*a, yes]\n---\n<<: {x: .5}\n"
    expected = parse_yaml(text)
    monkeypatch.setattr(yaml12, "_LOADER", yaml.SafeLoader)
    assert parse_yaml(text) == expected
    with pytest.raises(DocumentError, match="line 1, column 4"):
        parse_yaml("a: ]")


@pytest.mark.parametrize("is_json", [True, False])
def test_json_is_read_as_json(is_json: bool) -> None:
    data = b'{"a": "\\ud83d\\ude00 \\/", "b": 1.0, "c": [1e3, 0.5, null, true]}\n{"d":\t2}\n'
    expected = [{"a": "\U0001f600 /", "b": 1, "c": [1000, 0.5, None, True]}, {"d": 2}]
    assert parse_documents(data, is_json) == expected


def test_yaml_in_braces_is_yaml() -> None:
    assert parse_documents(b"{a: 24:00}\n", False) == [{"a": "24:00"}]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1,\n "b": }', "line 2"),
        ('{"a": 1,\n "a": 2}', "'a' stands twice"),
        ('{"a": NaN}', "JSON"),
        ('{"a": 18446744073709551616}', "64 bits"),
        ('{"a": ' + "9" * 100_000 + "}", "64 bits"),
        ("[" * 100_000, "nested too deep"),
        ("a: b", "line 1"),
        ('{"a": "x\ny"}', "line 1"),
    ],
)
def test_json_that_is_refused_says_why(text: str, reason: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse_documents(text.encode(), True)
    assert reason in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("a: b".encode("utf-16"), "UTF-16"),
        ("a: b".encode("utf-16-le"), "NUL"),
        (b"a: b\nc: \xff\xff", "line 2: not UTF-8"),
        (b"a: \0", "NUL"),
        (b"a" * (MAX_BYTES + 1), "larger than"),
    ],
)
def test_bytes_that_are_no_text_are_one_clear_problem(data: bytes, reason: str) -> None:
    with pytest.raises(DocumentError, match=reason):
        parse_documents(data, False)


def test_a_byte_order_mark_and_windows_line_ends_mean_nothing() -> None:
    assert parse_documents(b"\xef\xbb\xbfa: |\r\n  x\r\n  y\r\n", False) == [{"a": "x\ny\n"}]
    assert parse_documents(b'\xef\xbb\xbf{"a":\r\n1}', True) == [{"a": 1}]


@pytest.mark.parametrize("mark", ["\u2028", "\u2029"])
def test_a_separator_of_unicode_ends_no_line(mark: str) -> None:
    """YAML 1.2 §5.4; and JSON has them unescaped."""
    assert parse_yaml(f'{{"{mark}": null, "a": "x{mark}y\ue000"}}') == [
        {mark: None, "a": f"x{mark}y\ue000"}
    ]
    assert parse_yaml(f"a: x{mark}y\nb: |\n  1{mark}2\n") == [
        {"a": f"x{mark}y", "b": f"1{mark}2\n"}
    ]
