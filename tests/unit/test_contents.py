"""What a snapshot holds, what is left out of it, and the message that carries it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace as replaced

from bridge.contents import Content, fit
from bridge.record import UNSENDABLE
from bridge.writer import SnapshotWriter
from nodecast.messages import Version, resource_digest, snapshot_digest
from nodecast.names import BridgeName, NodeName
from nodecast.session import wire_size
from nodecast.topics import Topics
from tests.support.core import ALONE, OWNER, key, names, record, snapshot_of

NODE = NodeName("n")


def sized(**sizes: int) -> list:
    return [record(f"Alone/{name}", "n", spec="x" * size) for name, size in sizes.items()]


def within(limit: int):
    return lambda content: sum(len(r.encoded) for r in content.records) <= limit


def total(records: list) -> int:
    return sum(len(r.encoded) for r in records)


def test_the_digest_covers_resources_held_kinds_and_omitted_keys() -> None:
    one = record("Alone/a", "n")
    contents = [
        Content((one,), (), ()),
        Content((), (), ()),
        Content((one,), (OWNER,), ()),
        Content((one,), (), (key("Alone/b"),)),
        Content((record("Alone/a", "n", spec="x"),), (), ()),
    ]
    assert len({content.digest for content in contents}) == len(contents)
    assert contents[0].digest == snapshot_digest([one.digest], [], [])


def test_a_content_takes_away_what_it_neither_has_nor_omits_nor_holds() -> None:
    a, b, c, d = (record(f"{x}", "n") for x in ("Alone/a", "Alone/b", "Alone/c", "Owner/d"))
    old = Content((a, b, c, d), (), (key("Alone/e"), key("Alone/f")))
    new = Content((a,), (OWNER,), (key("Alone/b"), key("Alone/e")))
    assert new.takes_away(old) == {key("Alone/c"), key("Alone/f")}


def test_altering_or_omitting_takes_nothing_away() -> None:
    a, changed = record("Alone/a", "n"), record("Alone/a", "n", spec="x")
    assert Content((changed,), (), ()).takes_away(Content((a,), (), ())) == set()
    assert Content((), (), (a.key,)).takes_away(Content((a,), (), ())) == set()
    assert Content((a,), (), ()).takes_away(Content((), (), (a.key,))) == set()


def test_what_fits_is_whole() -> None:
    records = sized(a=10, b=20)
    content = fit(records, (), within(total(records)))
    assert (content.records, content.omitted) == (tuple(records), ())


def test_the_largest_are_left_out_first() -> None:
    records = sized(a=10, b=3000, c=20, d=1000)
    content = fit(records, (OWNER,), within(total(records) - 1))
    assert content.omitted == (key("Alone/b"),)
    assert [r.key for r in content.records] == [key(f"Alone/{x}") for x in "acd"]
    assert content.held == (OWNER,)


def test_no_more_is_left_out_than_must_be() -> None:
    records = sized(a=100, b=300, c=200, d=400)
    limit = total([records[0], records[2]])
    assert fit(records, (), within(limit)).omitted == (key("Alone/b"), key("Alone/d"))
    assert len(fit(records, (), within(limit - 1)).omitted) == 3


def test_of_equal_size_the_first_by_key_is_left_out() -> None:
    records = sized(a=50, b=50, c=50)
    assert fit(records, (), within(total(records) - 1)).omitted == (key("Alone/a"),)


def test_where_nothing_fits_every_key_is_omitted() -> None:
    records = sized(a=1, b=2)
    content = fit(records, (), lambda _: False)
    assert (content.records, content.omitted) == ((), (key("Alone/a"), key("Alone/b")))
    assert fit([], (), lambda _: False) == Content((), (), ())


# -- the writer


def writer(*, compress: bool = False, limit: int | None = None) -> SnapshotWriter:
    made = SnapshotWriter(BridgeName("b"), "i", Topics("site"), compress=compress)
    made.limit = limit
    return made


def test_a_message_carries_the_content_and_its_version() -> None:
    records = sized(a=3, b=3)
    content = writer().content(NODE, records, (ALONE,))
    message = writer().message(NODE, Version(7, 3), content)
    assert (message.topic, message.retain, message.encoding) == (
        "site/node/n/resources",
        True,
        None,
    )
    seen = snapshot_of(message)
    assert (seen.bridge, seen.instance, seen.node) == ("b", "i", "n")
    assert (seen.version, seen.digest) == ((7, 3), content.digest)
    assert (names(seen), seen.held_kinds) == (["Alone/a", "Alone/b"], {ALONE})
    assert [each.digest for each in seen.resources] == [r.digest for r in records]


def test_an_empty_snapshot_is_a_message_like_any_other() -> None:
    message = writer().message(NODE, Version(1, 1), writer().content(NODE, [], ()))
    assert b'"resources":[]' in message.payload
    assert snapshot_of(message).resources == ()


def test_what_is_above_a_kibibyte_is_compressed_where_that_is_on() -> None:
    small, large = sized(a=10), sized(a=5000)
    for records, encoding in ((small, None), (large, "zlib")):
        content = writer().content(NODE, records, ())
        plain = writer().message(NODE, Version(1, 1), content)
        packed = writer(compress=True).message(NODE, Version(1, 1), content)
        assert (plain.encoding, packed.encoding) == (None, encoding)
        assert snapshot_of(packed) == snapshot_of(plain)


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("limit", [900, 2000, 6000, 20_000])
def test_no_message_is_larger_than_the_limit_on_the_wire(limit: int, compress: bool) -> None:
    made = writer(compress=compress, limit=limit)
    records = sized(**{f"r{i}": 37 * i for i in range(40)})
    content = made.content(NODE, records, ())
    greatest = Version(2**53 - 1, 2**53 - 1)
    size = wire_size(made.message(NODE, greatest, content))
    assert size <= limit or not content.records
    assert {r.key for r in content.records} | set(content.omitted) == {r.key for r in records}


def test_compression_lets_more_through_a_limit() -> None:
    records = sized(a=8000)
    assert writer(limit=4500).content(NODE, records, ()).omitted == (key("Alone/a"),)
    assert writer(limit=4500, compress=True).content(NODE, records, ()).omitted == ()


def test_long_names_and_a_long_prefix_count_against_the_limit() -> None:
    long = ".".join(["n" * 62] * 4)
    prefix = "/".join(["p" * 100] * 10)
    made = SnapshotWriter(BridgeName(long), "i", Topics(prefix), compress=False)
    records = sized(a=100, b=3000)
    plain = made.message(NodeName(long), Version(1, 1), made.content(NodeName(long), records, ()))
    for limit in range(wire_size(plain) - 60, wire_size(plain)):
        made.limit = limit
        assert made.content(NodeName(long), records, ()).omitted == (key("Alone/b"),)


def test_a_digest_is_32_hex_digits_and_does_not_hang_on_the_order_of_fields() -> None:
    assert resource_digest({"a": 1, "b": 2}) == resource_digest({"b": 2, "a": 1})
    assert len(resource_digest({})) == 32


def test_what_cannot_be_encoded_is_always_left_out_and_the_rest_goes() -> None:
    small, large, deep = sized(small=10, large=100, deep=0)
    deep = replaced(deep, _digest="", _encoded=UNSENDABLE)
    assert fit([deep, small], (), within(10_000)) == Content((small,), (), (deep.key,))
    tight = fit([deep, large, small], (), within(total([small])))
    assert tight == Content((small,), (), tuple(sorted((deep.key, large.key))))
    assert fit([deep], (), within(0)) == Content((), (), (deep.key,))
