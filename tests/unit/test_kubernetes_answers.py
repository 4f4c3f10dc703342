"""List pages and watch lines: what counts, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from bridge.sources.kubernetes import answers
from bridge.sources.kubernetes.answers import (
    Garbled,
    Lines,
    Page,
    event_of,
    page_of,
    pages_of,
    selection,
)
from bridge.sources.kubernetes.failures import Refusal, refusal_of
from bridge.sources.kubernetes.resources import Resource
from nodecast.names import KindName

DATASETS = Resource(KindName("Dataset.sedna.io"), "v1alpha1", "datasets")
DEEP = orjson.loads(b"[" * 1000 + b"]" * 1000)
"""Deeper than Python prints."""


NAMED: dict[str, Any] = {"metadata": {"name": "a"}}


def listed(*items: object, version: object = "7", **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "sedna.io/v1alpha1",
        "kind": "DatasetList",
        "metadata": {"resourceVersion": version, **more},
        "items": list(items),
    }


def event(kind: object, version: object = "7", **more: object) -> bytes:
    return orjson.dumps(
        {"type": kind, "object": {"metadata": {"resourceVersion": version}, **more}}
    )


# Pages.


def test_a_page_is_its_items_the_lists_version_and_the_next_token() -> None:
    item = {"kind": "Dataset", "apiVersion": "sedna.io/v1alpha1", "metadata": {"name": "a"}}
    page = page_of(listed(item, **{"continue": "t"}), DATASETS)
    assert page == Page([item], "7", "t")


def test_items_that_do_not_say_what_they_are_get_it_from_the_list() -> None:
    """Those of the core group."""
    (item,) = page_of(listed(dict(NAMED)), DATASETS).items
    assert (item["apiVersion"], item["kind"]) == ("sedna.io/v1alpha1", "Dataset")


@pytest.mark.parametrize(
    "item",
    [
        None,
        {},
        5,
        {"metadata": None},
        {"metadata": {"name": ""}},
        {"metadata": {"name": 5}},
        NAMED | {"kind": "Model"},
        NAMED | {"apiVersion": "x.io/v1"},
    ],
)
def test_a_list_with_an_item_that_nobody_can_name_is_not_whole(item: object) -> None:
    with pytest.raises(Garbled, match="has an item"):
        page_of(listed(dict(NAMED), item), DATASETS)


def test_a_list_that_goes_round_in_circles_is_given_up() -> None:
    tokens = iter(["t1", "t2", "t1"])
    with pytest.raises(Garbled, match="round in circles"):
        list(pages_of(lambda _: listed(**{"continue": next(tokens)}), DATASETS, {}, 2))


def test_null_in_place_of_items_is_no_list() -> None:
    with pytest.raises(Garbled, match="no items"):
        page_of(listed() | {"items": None}, DATASETS)


def test_a_list_that_does_not_speak_of_items_is_garbled() -> None:
    body = listed()
    del body["items"]
    with pytest.raises(Garbled, match="no items"):
        page_of(body, DATASETS)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"kind": "Status", "apiVersion": "v1"}, "is a Status of v1, not a DatasetList of sedna"),
        ({"kind": "ModelList"}, "is a ModelList of"),
        ({"apiVersion": "sedna.io/v1"}, "not a DatasetList of sedna.io/v1alpha1"),
        ({"kind": None}, r"is a \? of"),
        ({"kind": DEEP}, r"is a \? of"),
        ({"metadata": None}, "no metadata or no items"),
        ({"items": {}}, "no metadata or no items"),
        ({"metadata": {}}, "no resourceVersion"),
        ({"metadata": {"resourceVersion": ""}}, "no resourceVersion"),
        ({"metadata": {"resourceVersion": 7}}, "no resourceVersion"),
        ({"metadata": {"resourceVersion": "7", "continue": 5}}, "no resourceVersion"),
    ],
)
def test_what_is_no_whole_list_of_the_kind_is_garbled(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(Garbled, match=why):
        page_of(listed() | wrong, DATASETS)


def test_pages_are_asked_for_one_after_another_with_the_same_selection() -> None:
    asked: list[dict[str, str]] = []

    def ask(query: Mapping[str, str]) -> dict[str, Any]:
        asked.append(dict(query))
        token = {"": "t1", "t1": "t2", "t2": ""}[query.get("continue", "")]
        return listed({"metadata": {"name": f"n{len(asked)}"}}, **{"continue": token})

    pages = list(pages_of(ask, DATASETS, selection("a=b"), 2))
    names = [item["metadata"]["name"] for page in pages for item in page.items]
    assert names == ["n1", "n2", "n3"]
    first = {"labelSelector": "a=b", "limit": "2"}
    assert asked == [first, first | {"continue": "t1"}, first | {"continue": "t2"}]


def test_no_selector_is_no_part_of_a_query() -> None:
    assert selection("") == {}


# Lines.


def test_a_half_line_waits_for_its_end_and_never_counts_without_it() -> None:
    lines = Lines()
    assert lines.feed(b"one\ntw") == [b"one"]
    assert lines.feed(b"o") == []
    assert lines.feed(b"\n") == [b"two"]
    assert lines.feed(b"half") == []


def test_a_line_that_never_ends_is_garbled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "LONGEST_LINE", 10)
    lines = Lines()
    assert lines.feed(b"x" * 10) == []
    with pytest.raises(Garbled, match="longer than 10 bytes"):
        lines.feed(b"x")


# Events.


def test_an_event_is_its_type_its_object_and_its_version() -> None:
    kind, obj, metadata, version = event_of(event("ADDED", spec=1))
    assert (kind, obj["spec"], metadata, version) == ("ADDED", 1, {"resourceVersion": "7"}, "7")


def test_an_event_of_type_error_is_the_servers_refusal() -> None:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    with pytest.raises(Refusal, match="410 Expired: too old") as caught:
        event_of(orjson.dumps({"type": "ERROR", "object": status}))
    assert caught.value.status == 410


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"null",
        b"5",
        b"[]",
        b'"ADDED"',
        b'{"type":"ADDED"}',
        b'{"object":{}}',
        b'{"type":"ADDED","object":null}',
        b'{"type":"ADDED","object":{"metadata":[]}}',
        b'{"type":"ADDED","object":{"metadata":"resourceVersion"}}',
        b'{"type":["ADDED"],"object":{}}',
        b"\xff\xfe",
        event("ADDED")[:-1],
        event("ADDED", ""),
        event("ADDED", 7),
        event("ADDED", None),
        event("OTHER"),
        event(None),
    ],
)
def test_what_is_no_event_with_a_version_is_garbled(line: bytes) -> None:
    with pytest.raises(Garbled):
        event_of(line)


@pytest.mark.parametrize("part", [b"%s", b'{"reason":%s}', b'{"message":%s}', b'{"code":%s}'])
def test_an_error_that_nests_too_deep_to_be_printed_is_a_refusal_all_the_same(part: bytes) -> None:
    deep = part.replace(b"%s", b"[" * 1000 + b"]" * 1000)
    with pytest.raises(Refusal, match="500 Internal Server Error: no "):
        event_of(b'{"type":"ERROR","object":' + deep + b"}")


# Refusals.


def test_a_text_in_place_of_a_status_is_said_in_one_short_line() -> None:
    refusal = refusal_of("too many\n requests " + "x" * 1000, 429, 3.0)
    assert (refusal.status, refusal.reason, refusal.retry_after) == (429, "Too Many Requests", 3.0)
    assert refusal.message.startswith("too many requests xxx")
    assert len(refusal.message) == 200


def test_a_status_says_its_own_code_and_reason_and_only_in_their_absence_http_does() -> None:
    assert str(refusal_of({"code": 403, "reason": "Forbidden", "message": "no"}, 400)) == (
        "403 Forbidden: no"
    )
    assert str(refusal_of({"code": "403"}, 404)) == "404 Not Found: no message"
    assert str(refusal_of(None, 799)) == "799 Unknown: no reason given"
