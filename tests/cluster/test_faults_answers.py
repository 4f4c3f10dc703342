"""Answers that are no answers: nothing is taken away, it is said once, and healed after."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bridge.record import UNSENDABLE
from bridge.sources.events import KindStatus, Listed
from bridge.sources.kubernetes.access import Access
from bridge.sources.kubernetes.scope import Scope
from tests.fakes.faults import HTML, NO_LIST
from tests.support.informing import LISTS, LONG, WATCHES, informing, serving
from tests.support.objects import dataset
from tests.support.rawhttp import STREAM, RawServer, whole
from tests.support.wait import eventually

DATASETS = "Dataset.sedna.io"
THREE = [dataset(name, "edge0") for name in "abc"]


def emptied(change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    """What makes of a List one without items, changed by `change`."""

    def made(body: bytes) -> bytes:
        answer = json.loads(body) | {"items": []}
        change(answer)
        return json.dumps(answer).encode()

    return made


BODIES: dict[str, Callable[[bytes], bytes]] = {
    "a web page": lambda _: HTML.body,
    "an object that is no list": lambda _: NO_LIST.body,
    "a list of another kind": emptied(lambda answer: answer.update(kind="ModelList")),
    "a list of another group": emptied(lambda answer: answer.update(apiVersion="x.io/v1alpha1")),
    "a plain List": emptied(lambda answer: answer.update(kind="List", apiVersion="v1")),
    "a list without metadata": emptied(lambda answer: answer.pop("metadata")),
    "a list without a version": emptied(lambda answer: answer["metadata"].pop("resourceVersion")),
    "a list without items": emptied(lambda answer: answer.pop("items")),
    "a list whose items are an object": emptied(lambda answer: answer.update(items={})),
    "a Status": lambda _: b'{"kind":"Status","apiVersion":"v1","metadata":{},"code":200}',
    "half of the JSON": lambda body: body[: len(body) // 2],
    "an array": lambda body: b"[" + body + b"]",
    "null": lambda _: b"null",
    "nothing": lambda _: b"",
    "what was compressed unasked": gzip.compress,
}


@pytest.mark.parametrize("what", BODIES)
def test_a_list_that_is_none_takes_nothing_away(tmp_path: Path, what: str) -> None:
    with serving(*THREE) as server, informing(server, tmp_path, tuning=LONG) as it:
        it.watching()
        fault = server.faults.garble(BODIES[what], LISTS, times=3)
        it.source.relist([DATASETS])
        eventually(lambda: fault.hits == 3)
        it.listed(times=2)
        assert it.told.gone == []
        assert [len(each.objects or ()) for each in it.told.lists] == [3, 3]
        assert len(it.log.warnings) == 1, "said once"
        eventually(lambda: "API server can be used again" in it.log.text)


EVENT = {"type": "ADDED", "object": dataset("x", "edge0")}
LINES = {
    "no JSON": b"<html>Sign in</html>\n",
    "half an object": b'{"type":"ADDED","object":{"metadata":\n',
    "no object": b'"ADDED"\n',
    "an array": b'["ADDED", {}]\n',
    "null": b"null\n",
    "an event without an object": b'{"type":"DELETED"}\n',
    "an object that is a word": b'{"type":"DELETED","object":"a"}\n',
    "metadata that are a list": b'{"type":"DELETED","object":{"metadata":[]}}\n',
    "an unknown type": json.dumps(EVENT | {"type": "REMOVED"}).encode() + b"\n",
    "a type that is an object": json.dumps(EVENT | {"type": {}}).encode() + b"\n",
    "an event without a version": json.dumps(EVENT).encode() + b"\n",
    "a version that is a number": json.dumps(
        {"type": "DELETED", "object": {"metadata": {"name": "a", "resourceVersion": 7}}}
    ).encode()
    + b"\n",
    "bytes that are no text": b"\xff\xfe\x00\n",
}


@pytest.mark.parametrize("what", LINES)
def test_a_line_that_is_no_event_takes_nothing_away(tmp_path: Path, what: str) -> None:
    with serving(*THREE) as server:
        fault = server.faults.answer(200, LINES[what], WATCHES, times=3)
        with informing(server, tmp_path, tuning=LONG) as it:
            eventually(lambda: fault.hits == 3)
            it.watching()
            assert it.told.gone == []
            assert it.told.names == {"a", "b", "c"}
            assert len(it.asked("list")) == 4, "a list decides, each time"
            assert len(it.log.warnings) == 1, "said once"
            server.delete(DATASETS, "default", "a")
            it.knows("b", "c")


def test_an_error_that_says_nothing_is_a_failure_of_the_server(tmp_path: Path) -> None:
    line = b'{"type":"ERROR","object":null}\n'
    with serving(*THREE) as server:
        fault = server.faults.answer(200, line, WATCHES, times=3)
        with informing(server, tmp_path, tuning=LONG) as it:
            eventually(lambda: fault.hits == 3)
            it.watching()
            assert it.told.names == {"a", "b", "c"}
            assert it.told.gone == []
            assert [each.split(":")[0] for each in it.log.reasons] == ["500 Internal Server Error"]


def test_a_selector_that_the_server_does_not_take_holds_the_kind_and_is_said(
    tmp_path: Path,
) -> None:
    with (
        serving(*THREE) as server,
        informing(server, tmp_path, tuning=LONG, scope=Scope(selector="tier==,,")) as it,
    ):
        eventually(lambda: it.told.statuses.get(DATASETS) is KindStatus.INCOMPLETE)
        listed = next(event for event in it.told.events if isinstance(event, Listed))
        assert "mend the label selector (kubernetes.selector" in listed.reason
        assert it.told.objects == {}


def test_what_came_before_a_bad_line_counts(tmp_path: Path) -> None:
    with serving(*THREE) as server, informing(server, tmp_path, tuning=LONG) as it:
        it.watching()
        server.faults.garble(lambda batch: batch + b"nonsense\n", WATCHES, times=1)
        server.faults.cut_watches()
        it.watching()
        server.create(dataset("d", "edge0"))
        it.knows("a", "b", "c", "d")
        eventually(lambda: len(it.asked("list")) == 2)


def deep(levels: int) -> str:
    """A Dataset named `deep` that is so many levels deep."""
    made = json.dumps(dataset("deep", "edge0"))
    made = made.replace(
        '"spec": {', '"spec": {"at": ' + '{"a":' * levels + "1" + "}" * levels + ", "
    )
    return made.replace('"name"', '"resourceVersion": "900", "name"', 1)


def with_first(item: str) -> Callable[[bytes], bytes]:
    return lambda body: body.replace(b'"items":[', b'"items":[' + item.encode() + b",")


def test_an_object_that_cannot_be_encoded_is_known_and_cannot_be_sent(tmp_path: Path) -> None:
    """300 levels: nodes keep what they have of it."""
    with serving(*THREE) as server:
        server.faults.garble(with_first(deep(300)), LISTS, times=1)
        with informing(server, tmp_path, tuning=LONG) as it:
            it.knows("a", "b", "c", "deep")
            record = it.told.objects["Dataset.sedna.io/default/deep"]
            assert (record.nodes, record.encoded) == ({"edge0"}, UNSENDABLE)
            assert it.log.warnings == []


def test_an_object_that_cannot_be_read_hides_no_other_and_keeps_what_is_known(
    tmp_path: Path,
) -> None:
    """5,000 levels: more than any decoder takes at once."""

    def deepened(body: bytes) -> bytes:
        answer = json.loads(body)
        kept = [each for each in answer["items"] if each["metadata"]["name"] != "deep"]
        made = json.dumps(answer | {"items": kept}, separators=(",", ":")).encode()
        return with_first(deep(5000))(made)

    with (
        serving(*THREE, dataset("deep", "edge0")) as server,
        informing(server, tmp_path, tuning=LONG) as it,
    ):
        it.knows("a", "b", "c", "deep")
        server.faults.garble(deepened, LISTS)
        line = b'{"type":"MODIFIED","object":' + deep(5000).encode() + b"}\n"
        server.faults.garble(lambda batch: line + batch, WATCHES, times=1)
        server.faults.cut_watches()
        server.create(dataset("d", "edge0"))
        it.knows("a", "b", "c", "d", "deep")
        said = eventually(
            lambda: [fields["object"] for _, fields in it.log.warnings if "object" in fields]
        )
        assert said == ["default/deep"]
        assert it.told.gone == []


def test_a_stream_without_chunks_or_length_is_read_as_it_comes(tmp_path: Path) -> None:
    """HTTP/1.0 fashion: the end of the connection is the end of the body."""
    listed = {
        "apiVersion": "sedna.io/v1alpha1",
        "kind": "DatasetList",
        "metadata": {"resourceVersion": "10"},
        "items": [],
    }
    added = [dataset(name, "edge0") for name in "ab"]
    for number, each in enumerate(added):
        each["metadata"]["resourceVersion"] = str(11 + number)
    lines = [json.dumps({"type": "ADDED", "object": each}).encode() + b"\n" for each in added]
    asked: list[str] = []

    def answer(target: str) -> list[bytes | None]:
        if "watch=true" not in target:
            return [whole(listed)]
        asked.append(target)
        if len(asked) == 1:
            return [STREAM, lines[0], lines[1][:20]]  # and the connection ends
        return [STREAM, lines[1][:7], lines[1][7:], None]

    with RawServer(answer) as raw, serving() as server:
        access = Access(str(raw.kubeconfig(tmp_path / "raw")))
        with informing(server, tmp_path, tuning=LONG, access=access) as it:
            it.knows("a", "b")
            assert "resourceVersion=11&" in asked[1]
