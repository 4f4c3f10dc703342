"""What an event changes in what is known, one by one."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.placement import Rules, built_in, make_rule
from bridge.sources.kubernetes.answers import Garbled
from bridge.sources.kubernetes.sight import Contradiction, Sight
from nodecast.names import KindName, ResourceKey
from tests.support.model_api import bookmark, line
from tests.support.objects import dataset

RULES = Rules([*built_in(), make_rule("Site.x.io", namespaced=False)])
KIND = KindName("Dataset.sedna.io")
KEY = ResourceKey("Dataset.sedna.io/default/a")


def thing(version: str, node: Any = "n1", **metadata: Any) -> dict[str, Any]:
    made = dataset("a", node)
    made["metadata"] |= {"resourceVersion": version, **metadata}
    return made


def seeing(*objects: object, version: str = "5") -> Sight:
    sight = Sight(KIND, RULES)
    relist(sight, *objects, version=version)
    return sight


def relist(sight: Sight, *objects: object, version: str = "5") -> None:
    pages = sight.begin_list()
    pages.add(objects)
    pages.finish(version)


def tell(sight: Sight, kind: str, obj: object) -> set[str]:
    """The keys that changed."""
    sight.events([line(kind, obj)])
    return set(sight.take())


def doubt(sight: Sight, obj: object) -> None:
    with pytest.raises(Contradiction):
        sight.events([line("ADDED", obj)])
    assert sight.take() == {}


def test_a_new_object_told_of_as_new_while_another_version_is_known_needs_a_list() -> None:
    sight = seeing(thing("4"))
    with pytest.raises(Contradiction, match=r"what is known: Dataset.sedna.io/default/a"):
        sight.events([line("ADDED", thing("2", "n9")), bookmark(KIND, 8)])
    assert (sight.take(), sight.version) == ({}, "5")
    assert sight.objects[KEY].version == "4"


def test_what_a_list_refuted_is_left_alone_from_then_on() -> None:
    """K4: a server that tells its past anew at every watch costs one list, not one each."""
    sight = seeing(thing("4"))
    doubt(sight, thing("2"))
    relist(sight, thing("4"), version="9")
    assert tell(sight, "ADDED", thing("2")) == set()
    assert sight.version == "9"


def test_what_a_list_refuted_does_not_come_back_once_the_object_is_gone() -> None:
    sight = seeing(thing("4"))
    doubt(sight, thing("2"))
    relist(sight, version="9")
    assert tell(sight, "ADDED", thing("2")) == set()
    assert sight.objects == {}


def named(name: str, version: str) -> dict[str, Any]:
    made = thing(version)
    made["metadata"]["name"] = name
    return made


def test_what_is_new_in_a_watch_that_repeats_what_is_known_needs_a_list() -> None:
    """K4: it may be an object that is long gone."""
    sight = seeing(thing("4"))
    sight.begin_watch()
    assert tell(sight, "ADDED", thing("4")) == set()
    doubt(sight, named("b", "3"))
    relist(sight, thing("4"), version="9")
    sight.begin_watch()
    assert tell(sight, "ADDED", thing("4")) == set()
    assert tell(sight, "ADDED", named("b", "3")) == set()


def test_what_was_new_before_a_watch_turned_out_to_repeat_needs_a_list_too() -> None:
    sight = seeing(thing("4"))
    sight.begin_watch()
    assert len(tell(sight, "ADDED", named("b", "3"))) == 1
    doubt(sight, thing("4"))
    relist(sight, thing("4"), version="9")
    assert set(sight.objects) == {KEY}


def test_the_next_watch_is_believed_again() -> None:
    sight = seeing(thing("4"))
    sight.begin_watch()
    assert tell(sight, "ADDED", thing("4")) == set()
    sight.begin_watch()
    assert len(tell(sight, "ADDED", named("b", "6"))) == 1


def test_an_event_that_comes_twice_is_no_doubt() -> None:
    sight = seeing(thing("4"))
    sight.begin_watch()
    assert len(tell(sight, "ADDED", named("b", "6"))) == 1
    assert tell(sight, "ADDED", named("b", "6")) == set()
    assert len(tell(sight, "ADDED", named("c", "7"))) == 1


def test_what_a_list_confirmed_is_known_in_that_version() -> None:
    sight = seeing(thing("4"))
    doubt(sight, thing("6"))
    relist(sight, thing("6"), version="9")
    assert tell(sight, "ADDED", thing("6")) == set()
    assert sight.objects[KEY].version == "6"


def test_an_object_whose_status_alone_changed_is_known_in_its_new_version() -> None:
    """Or a server that tells of it again would contradict what is known."""
    sight = seeing(thing("4"))
    relist(sight, thing("6") | {"status": {"count": 1}})
    assert tell(sight, "ADDED", thing("6")) == set()


def test_equal_content_is_kept_in_memory_once() -> None:
    sight = seeing(thing("4"))
    encoded = sight.objects[KEY].encoded
    tell(sight, "MODIFIED", thing("6") | {"status": {}})
    assert sight.objects[KEY].encoded is encoded
    relist(sight, thing("7") | {"status": {"count": 2}})
    assert (sight.objects[KEY].encoded is encoded, sight.objects[KEY].version) == (True, "7")


def test_a_list_keeps_the_records_of_what_did_not_change() -> None:
    """So that nothing is told, or placed anew, for them."""
    sight = seeing(thing("4"))
    before = sight.objects[KEY]
    relist(sight, thing("4"), version="9")
    assert sight.objects[KEY] is before


def test_a_bookmark_moves_the_version_and_nothing_else() -> None:
    """K7."""
    sight = seeing(thing("4"))
    sight.events([bookmark(KIND, 12), b""])
    assert (sight.take(), sight.version) == ({}, "12")


def test_what_leaves_the_selector_goes_whatever_its_new_body_says() -> None:
    """K5."""
    sight = seeing(thing("4"))
    assert tell(sight, "DELETED", thing("6", ["no", "node"], labels=5)) == {KEY}
    assert sight.objects == {}
    assert tell(sight, "ADDED", thing("7")) == {KEY}


def test_what_came_before_a_bad_line_counts() -> None:
    sight = seeing()
    with pytest.raises(Garbled):
        sight.events([line("ADDED", thing("6")), b"{", line("DELETED", thing("7"))])
    assert (set(sight.take()), sight.version) == ({KEY}, "6")


@pytest.mark.parametrize("odd", [5, None, True, ["a"], {"a": 1}])
def test_a_name_that_is_no_string_is_the_name_of_nothing(odd: Any) -> None:
    number = thing("3", name="5", namespace="default")
    sight = seeing(number, thing("4"))
    assert tell(sight, "DELETED", thing("6", name=odd)) == set()
    assert tell(sight, "MODIFIED", thing("7", name=odd)) == set()
    assert len(sight.objects) == 2
    assert len(sight.unreadable) == 1


def test_names_that_run_into_each_other_are_kept_apart() -> None:
    sight = seeing(thing("4", name="b", namespace="a"))
    assert tell(sight, "DELETED", thing("6", namespace="", name="a/b")) == set()
    assert len(sight.objects) == 1


def test_an_object_that_can_be_read_no_more_goes_and_is_told_with_the_reason() -> None:
    sight = seeing(thing("4"))
    assert tell(sight, "MODIFIED", thing("6") | {"kind": "Model"}) == {KEY}
    assert sight.unreadable == {"default/a": "is a Model.sedna.io in a list of Dataset.sedna.io"}
    assert tell(sight, "MODIFIED", thing("7")) == {KEY}
    assert sight.unreadable == {}


def test_one_bad_object_in_a_list_does_not_stop_the_others() -> None:
    sight = seeing(5, {"metadata": None}, thing("3", name="UPPER"), thing("4"))
    assert set(sight.objects) == {KEY}
    assert set(sight.unreadable) == {"?", "default/UPPER"}


def test_a_kind_without_namespaces_is_known_without_them() -> None:
    sight = Sight(KindName("Site.x.io"), RULES)
    site = {"apiVersion": "x.io/v1", "kind": "Site"}
    sight.events([line("ADDED", site | {"metadata": {"name": "s", "resourceVersion": "6"}})])
    assert set(sight.take()) == {"Site.x.io//s"}
    odd = {"name": "s", "namespace": "odd", "resourceVersion": "7"}
    assert tell(sight, "DELETED", site | {"metadata": odd}) == {"Site.x.io//s"}
