"""Any bytes are documents or one DocumentError, and JSON means the same read either way."""

from __future__ import annotations

import json

import yaml
from hypothesis import given
from hypothesis import strategies as st

from bridge.sources.documents import parse_documents
from bridge.sources.yaml12 import parse_yaml
from nodecast.errors import DocumentError

SCRAPS = st.sampled_from(list("a1_.~'[]{},|>#?%-&*: \"\t\n\0\ufeff")) | st.sampled_from(
    [": ", "- ", "  ", "&a ", "*a", "<<", "---\n", "!!int ", "!x ", "0x", "e5", "yes"]
)
TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc", "Co", "Cn")), max_size=8)
LEAVES = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | TEXT
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4)
)


def check_reads_or_refuses(data: bytes, is_json: bool) -> None:
    try:
        documents = parse_documents(data, is_json)
    except DocumentError:
        return
    # A lone surrogate is left to the object that holds it; everything else is JSON.
    json.dumps(documents, allow_nan=False)


@given(st.lists(SCRAPS, max_size=40).map("".join), st.booleans())
def test_any_text_is_documents_or_one_error(text: str, is_json: bool) -> None:
    check_reads_or_refuses(text.encode(), is_json)


@given(st.binary(max_size=64), st.booleans())
def test_any_bytes_are_documents_or_one_error(data: bytes, is_json: bool) -> None:
    check_reads_or_refuses(data, is_json)


@given(st.lists(VALUES, max_size=3))
def test_what_is_written_as_yaml_is_read_back(values: list[object]) -> None:
    text = yaml.safe_dump_all(values, allow_unicode=True, default_style='"')
    assert parse_yaml(text) == values


@given(st.dictionaries(TEXT, VALUES, max_size=4))
def test_json_means_the_same_as_json_and_as_yaml(value: dict[str, object]) -> None:
    text = json.dumps(value, ensure_ascii=False)
    assert parse_documents(text.encode(), True) == [value]
    assert parse_yaml(text) == [value]
