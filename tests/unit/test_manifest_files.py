"""What a directory of manifests says, reading by reading."""

from __future__ import annotations

import io
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from bridge.placement import Rules, built_in
from bridge.sources import manifest_files, manifest_tree
from bridge.sources.documents import MAX_BYTES
from bridge.sources.manifest_files import ManifestDirectory, Reading, read_once
from nodecast import regular
from nodecast.errors import DocumentError

RULES = Rules(built_in())


def dataset(name: str, node: str = "edge1") -> str:
    return f"""
apiVersion: sedna.io/v1alpha1
kind: Dataset
metadata: {{name: {name}}}
spec: {{nodeName: {node}}}
"""


def key(name: str) -> str:
    return f"Dataset.sedna.io/default/{name}"


def names(reading: Reading) -> list[str]:
    return sorted(key.rpartition("/")[2] for key in reading.objects)


def nodes(reading: Reading) -> dict[str, set[str]]:
    return {key.rpartition("/")[2]: set(r.nodes) for key, r in reading.objects.items()}


def places(reading: Reading) -> list[str]:
    return [problem.place for problem in reading.problems]


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    path = tmp_path / "manifests"
    path.mkdir()
    return path


@pytest.fixture
def directory(manifests: Path) -> ManifestDirectory:
    return ManifestDirectory(manifests, RULES)


def test_an_empty_directory_is_a_whole_reading_of_nothing(manifests: Path) -> None:
    assert read_once(manifests, RULES) == Reading({}, (), {}, True)


def test_every_document_of_every_manifest_file_counts(manifests: Path) -> None:
    (manifests / "a.yaml").write_text(dataset("a1") + "---\n# nothing\n---" + dataset("a2"))
    (manifests / "b.yml").write_text(dataset("b"))
    (manifests / "c.JSON").write_text(
        '{"apiVersion": "sedna.io/v1alpha1", "kind": "Dataset", "metadata": {"name": "c"}}'
    )
    (manifests / "d" / "e").mkdir(parents=True)
    (manifests / "d" / "e" / "f.yaml").write_text(dataset("f"))
    reading = read_once(manifests, RULES)
    assert names(reading) == ["a1", "a2", "b", "c", "f"]
    assert reading.problems == ()
    assert [r.place for r in reading.objects.values()] == [
        "a.yaml#1",
        "a.yaml#3",
        "b.yml#1",
        "c.JSON#1",
        "d/e/f.yaml#1",
    ]


@pytest.mark.parametrize(
    "name",
    [".a.yaml", "a.yaml~", ".a.yaml.swp", "#a.yaml#", "#a.yaml", "a.txt", "a", "4913", ".d/a.yaml"],
)
def test_hidden_files_and_leftovers_of_editors_are_nothing(manifests: Path, name: str) -> None:
    (manifests / name).parent.mkdir(exist_ok=True)
    (manifests / name).write_text("{broken")
    assert read_once(manifests, RULES) == Reading({}, (), {}, True)


def test_lists_are_taken_apart(manifests: Path) -> None:
    (manifests / "a.yaml").write_text("""
apiVersion: v1
kind: List
items:
- {apiVersion: sedna.io/v1alpha1, kind: Dataset, metadata: {name: a}}
- apiVersion: sedna.io/v1alpha1
  kind: DatasetList
  items:
  - {metadata: {name: b}}
  - {metadata: {}}
---
{apiVersion: sedna.io/v1alpha1, kind: DatasetList, items: null}
""")
    reading = read_once(manifests, RULES)
    assert names(reading) == ["a", "b"]
    assert places(reading) == ["a.yaml#1[1][1]"]


def test_a_bad_object_is_reported_with_its_place_and_the_others_count(manifests: Path) -> None:
    (manifests / "a.yaml").write_text(
        "---".join([dataset("a"), dataset("B"), "\njust text\n", "\n[1, 2]\n", dataset("c")])
    )
    reading = read_once(manifests, RULES)
    assert names(reading) == ["a", "c"]
    assert places(reading) == ["a.yaml#2", "a.yaml#3", "a.yaml#4"]
    assert reading.complete


def test_an_object_that_cannot_be_placed_is_kept_with_its_problem(manifests: Path) -> None:
    (manifests / "a.yaml").write_text(dataset("a", "'Not/a node'"))
    (record,) = read_once(manifests, RULES).objects.values()
    assert "nodeName" in str(record.problem)


def test_kinds_without_a_rule_are_counted(manifests: Path) -> None:
    other = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n"
    (manifests / "a.yaml").write_text(other + "---\n" + other + "---" + dataset("a"))
    reading = read_once(manifests, RULES)
    assert (names(reading), reading.skipped) == (["a"], {"Deployment.apps": 2})
    assert (reading.problems, reading.complete) == ((), True)


def test_of_a_key_defined_twice_the_first_in_name_order_counts(manifests: Path) -> None:
    (manifests / "b.yaml").write_text(dataset("x", "edge2"))
    (manifests / "a.yaml").write_text(dataset("x", "edge1") + "---" + dataset("x", "edge3"))
    reading = read_once(manifests, RULES)
    assert nodes(reading) == {"x": {"edge1"}}
    assert places(reading) == ["a.yaml#2", "b.yaml#1"]
    assert {problem.key for problem in reading.problems} == {key("x")}
    assert all("a.yaml#1" in problem.reason for problem in reading.problems)


def test_name_order_is_that_of_the_whole_path(manifests: Path) -> None:
    (manifests / "b.yaml").write_text(dataset("x", "edge2"))
    (manifests / "a").mkdir()
    (manifests / "a" / "c.yaml").write_text(dataset("x", "edge1"))
    assert nodes(read_once(manifests, RULES)) == {"x": {"edge1"}}


def test_the_second_definition_counts_once_the_first_is_gone(
    manifests: Path, directory: ManifestDirectory
) -> None:
    (manifests / "a.yaml").write_text(dataset("x", "edge1"))
    (manifests / "b.yaml").write_text(dataset("x", "edge2"))
    assert nodes(directory.read()) == {"x": {"edge1"}}
    (manifests / "a.yaml").unlink()
    reading = directory.read()
    assert (nodes(reading), reading.problems) == ({"x": {"edge2"}}, ())


BROKEN = {
    "no YAML": lambda path: path.write_text("a: ["),
    "a bad document after good ones": lambda path: path.write_text(dataset("x") + "---\na: ["),
    "no text": lambda path: path.write_bytes(b"\xff\xfe\x00"),
    "no bytes at all": lambda path: path.write_text(""),
    "too large": lambda path: os.truncate(path, MAX_BYTES + 1),
    "a link to nowhere": lambda path: (path.unlink(), path.symlink_to("nowhere")),
    "a link to itself": lambda path: (path.unlink(), path.symlink_to(path.name)),
    "a FIFO": lambda path: (path.unlink(), os.mkfifo(path)),
}


@pytest.mark.parametrize("breaking", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_keeps_its_last_good_content_and_is_reported(
    manifests: Path, directory: ManifestDirectory, breaking: object
) -> None:
    (manifests / "a.yaml").write_text(dataset("a"))
    (manifests / "b.yaml").write_text(dataset("b"))
    before = directory.read()
    breaking(manifests / "a.yaml")
    (manifests / "b.yaml").write_text(dataset("b", "edge2"))
    for _ in range(2):
        reading = directory.read()
        assert nodes(reading) == {"a": {"edge1"}, "b": {"edge2"}}
        assert reading.objects[key("a")] is before.objects[key("a")]
        assert places(reading) == ["a.yaml"]
        assert "last good content stays" in reading.problems[0].reason
        assert reading.complete


def test_a_broken_file_that_is_whole_again_speaks_again(
    manifests: Path, directory: ManifestDirectory
) -> None:
    file = manifests / "a.yaml"
    file.write_text(dataset("a"))
    before = directory.read()
    file.write_text("a: [")
    directory.read()
    file.write_text(dataset("a"))
    reading = directory.read()
    assert reading == before
    assert reading.objects[key("a")] is before.objects[key("a")]
    file.write_text(dataset("c"))
    assert names(directory.read()) == ["c"]


def test_a_file_that_is_gone_takes_its_objects_with_it(
    manifests: Path, directory: ManifestDirectory
) -> None:
    (manifests / "a.yaml").write_text(dataset("a"))
    (manifests / "b.yaml").write_text("a: [")
    (manifests / "c").mkdir()
    (manifests / "c" / "c.yaml").write_text(dataset("c"))
    directory.read()
    (manifests / "a.yaml").unlink()
    (manifests / "b.yaml").unlink()
    shutil.rmtree(manifests / "c")
    assert directory.read() == Reading({}, (), {}, True)


def test_a_file_with_nothing_but_comments_says_nothing(
    manifests: Path, directory: ManifestDirectory
) -> None:
    (manifests / "a.yaml").write_text(dataset("a"))
    directory.read()
    (manifests / "a.yaml").write_text("# moved\n")
    assert directory.read() == Reading({}, (), {}, True)


def test_a_broken_file_without_good_content_makes_the_reading_incomplete(
    manifests: Path, directory: ManifestDirectory
) -> None:
    (manifests / "a.yaml").write_text("a: [")
    (manifests / "b.yaml").write_text(dataset("b"))
    reading = directory.read()
    assert (names(reading), reading.complete) == (["b"], False)
    assert reading.reason.startswith("a.yaml: line 2")
    assert "nothing is known" in reading.problems[0].reason
    (manifests / "a.yaml").write_text(dataset("a"))
    reading = directory.read()
    assert (names(reading), reading.complete, reading.reason) == (["a", "b"], True, "")


def test_a_file_that_said_nothing_may_be_emptied(
    manifests: Path, directory: ManifestDirectory
) -> None:
    (manifests / "a.yaml").write_text("# later\n")
    directory.read()
    (manifests / "a.yaml").write_text("")
    assert directory.read() == Reading({}, (), {}, True)


def test_a_new_empty_file_is_nothing(manifests: Path, directory: ManifestDirectory) -> None:
    directory.read()
    (manifests / "a.yaml").touch()
    assert directory.read() == Reading({}, (), {}, True)


def test_a_file_without_bytes_at_the_first_reading_may_have_held_anything(
    manifests: Path, directory: ManifestDirectory
) -> None:
    (manifests / "a.yaml").touch()
    reading = directory.read()
    assert not reading.complete
    assert "a.yaml: has no bytes" in reading.reason
    assert not directory.read().complete, "and so it stays"
    (manifests / "a.yaml").write_text("# nothing here\n")
    assert directory.read().complete


def test_a_bad_file_that_is_emptied_is_still_not_known(
    manifests: Path, directory: ManifestDirectory
) -> None:
    directory.read()
    (manifests / "a.yaml").write_text("{")
    assert not directory.read().complete
    (manifests / "a.yaml").write_text("")
    assert not directory.read().complete


def test_a_file_that_gives_nothing_without_waiting_is_a_problem_and_no_more(
    manifests: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (manifests / "a.yaml").write_text("# nothing\n")

    class Waiting(io.BufferedReader):
        def read(self, *_: object) -> Any:
            return None

    def opened(descriptor: int, _mode: str, *, closefd: bool) -> Waiting:
        return Waiting(io.FileIO(descriptor, closefd=closefd))

    monkeypatch.setattr(regular, "open", opened, raising=False)
    reading = read_once(manifests, RULES)
    assert "without waiting" in reading.reason


def test_a_directory_where_a_file_was_listed_costs_no_descriptor(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(DocumentError, match="no regular file"):
            manifest_tree.read_bytes(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_missing_directory_is_incomplete_and_keeps_what_was_known(
    manifests: Path, directory: ManifestDirectory
) -> None:
    (manifests / "a.yaml").write_text(dataset("a"))
    before = directory.read()
    away = manifests.rename(manifests.with_name("away"))
    reading = directory.read()
    assert (dict(reading.objects), reading.complete) == (dict(before.objects), False)
    assert str(manifests) in reading.reason
    assert places(reading) == ["."]
    away.rename(manifests)
    assert directory.read() == before


def test_a_directory_that_does_not_exist_yet_is_incomplete(tmp_path: Path) -> None:
    reading = read_once(tmp_path / "later", RULES)
    assert (dict(reading.objects), reading.complete) == ({}, False)


def test_a_file_in_place_of_the_directory_is_incomplete(tmp_path: Path) -> None:
    (tmp_path / "file").write_text(dataset("a"))
    assert not read_once(tmp_path / "file", RULES).complete


def test_a_directory_below_that_becomes_a_link_to_nowhere_is_gone(
    manifests: Path, directory: ManifestDirectory
) -> None:
    below = manifests / "below"
    below.mkdir()
    (below / "a.yaml").write_text(dataset("a"))
    before = directory.read()
    shutil.rmtree(below)
    below.symlink_to("nowhere")
    assert names(directory.read()) == []
    below.unlink()
    below.mkdir()
    (below / "a.yaml").write_text(dataset("a"))
    assert directory.read() == before


def denied(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an ordinary user meets a directory of mode 700; the superuser would pass."""
    scandir = os.scandir

    def refusing(where: Path) -> object:
        if where == path:
            raise PermissionError(13, "Permission denied", str(where))
        return scandir(where)

    monkeypatch.setattr(os, "scandir", refusing)


def test_a_directory_below_that_is_closed_makes_the_reading_incomplete(
    manifests: Path, directory: ManifestDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    (manifests / "below").mkdir()
    (manifests / "below" / "a.yaml").write_text(dataset("a"))
    (manifests / "b.yaml").write_text(dataset("b"))
    directory.read()
    with monkeypatch.context() as patch:
        denied(manifests / "below", patch)
        reading = directory.read()
    assert (names(reading), reading.complete) == (["a", "b"], False)
    assert reading.reason == "below: cannot be listed: Permission denied"
    assert places(reading) == ["below"]
    assert directory.read().complete


def test_a_file_that_cannot_be_read_is_reported_by_name(
    manifests: Path, directory: ManifestDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    (manifests / "a.yaml").write_text(dataset("a"))
    directory.read()

    def failing(_path: Path) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(manifest_files, "read_bytes", failing)
    reading = directory.read()
    assert names(reading) == ["a"]
    assert reading.problems[0].reason.startswith("cannot be read: Input/output error")


def test_a_file_that_comes_and_goes_during_the_reading_is_nothing(
    manifests: Path, directory: ManifestDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    (manifests / "a.yaml").write_text("a: [")

    def too_late(path: Path) -> bytes:
        path.unlink()
        return path.read_bytes()

    monkeypatch.setattr(manifest_files, "read_bytes", too_late)
    assert directory.read() == Reading({}, (), {}, True)


def test_unchanged_files_are_not_parsed_again_and_keep_their_records(
    manifests: Path, directory: ManifestDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        (manifests / f"{name}.yaml").write_text(dataset(name))
    (manifests / "d.yaml").write_text("a: [")
    before = directory.read()
    parsed: list[str] = []
    objects = manifest_files._objects

    def noted(place: str, data: bytes) -> object:
        parsed.append(place)
        return objects(place, data)

    monkeypatch.setattr(manifest_files, "_objects", noted)
    os.utime(manifests / "a.yaml", (0, 0))
    (manifests / "b.yaml").write_text(dataset("b"))
    (manifests / "c.yaml").write_text(dataset("c", "edge2"))
    after = directory.read()
    assert parsed == ["c.yaml"]
    assert after.objects[key("a")] is before.objects[key("a")]
    assert after.objects[key("b")] is before.objects[key("b")]


def test_a_change_with_the_same_size_and_times_is_seen(
    manifests: Path, directory: ManifestDirectory
) -> None:
    file = manifests / "a.yaml"
    file.write_text(dataset("a", "edge1"))
    directory.read()
    status = file.stat()
    file.write_text(dataset("a", "edge2"))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert nodes(directory.read()) == {"a": {"edge2"}}


def test_a_configmap_mount_is_read_through_its_links(
    manifests: Path, directory: ManifestDirectory
) -> None:
    for version, node in (("..1", "edge1"), ("..2", "edge2")):
        (manifests / version / "sub").mkdir(parents=True)
        (manifests / version / "a.yaml").write_text(dataset("a", node))
        (manifests / version / "sub" / "b.yaml").write_text(dataset("b", node))
    (manifests / "..data").symlink_to("..1")
    (manifests / "a.yaml").symlink_to("..data/a.yaml")
    (manifests / "sub").symlink_to("..data/sub")
    assert nodes(directory.read()) == {"a": {"edge1"}, "b": {"edge1"}}
    (manifests / "..new").symlink_to("..2")
    (manifests / "..new").rename(manifests / "..data")
    reading = directory.read()
    assert nodes(reading) == {"a": {"edge2"}, "b": {"edge2"}}
    assert reading.problems == ()


def test_links_that_loop_or_lead_up_end(manifests: Path) -> None:
    (manifests.parent / "beside.yaml").write_text(dataset("beside"))
    (manifests / "one").mkdir()
    (manifests / "two").mkdir()
    (manifests / "one" / "a.yaml").write_text(dataset("a"))
    (manifests / "one" / "x").symlink_to("../two")
    (manifests / "two" / "y").symlink_to("../one")
    (manifests / "here").symlink_to(".")
    (manifests / "up").symlink_to("..")
    (manifests / "self").symlink_to("self")
    reading = read_once(manifests, RULES)
    assert (names(reading), reading.problems, reading.complete) == (["a"], (), True)


def test_a_name_that_is_no_text_is_shown_escaped(manifests: Path) -> None:
    Path(os.fsdecode(os.fsencode(manifests) + b"/\xff.yaml")).write_text(dataset("a"))
    (record,) = read_once(manifests, RULES).objects.values()
    assert record.place == "\\xff.yaml#1"
