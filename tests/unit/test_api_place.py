"""Where the API's socket is, who may use it, and what is in its way."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest

from bridge.api.place import MAX_PATH, client_paths, open_socket, socket_path
from nodecast.errors import ApiError

ROOT, USER = 0, 1000


@pytest.mark.parametrize(
    ("environ", "uid", "path"),
    [
        ({"RUNTIME_DIRECTORY": "/run/x"}, ROOT, "/run/x/b.sock"),
        ({"RUNTIME_DIRECTORY": "/run/x:/run/y"}, USER, "/run/x/b.sock"),
        ({"XDG_RUNTIME_DIR": "/run/user/0"}, ROOT, "/run/nodecast-bridge/b.sock"),
        ({"XDG_RUNTIME_DIR": "/run/user/7"}, USER, "/run/user/7/nodecast-bridge/b.sock"),
        ({"RUNTIME_DIRECTORY": "", "XDG_RUNTIME_DIR": ""}, USER, None),
    ],
)
def test_the_place_depends_on_who_runs_the_bridge(
    environ: dict[str, str], uid: int, path: str | None
) -> None:
    assert socket_path(None, "b", environ, uid) == (Path(path) if path else None)
    assert socket_path("/set", "b", environ, uid) == Path("/set")


def test_a_command_looks_at_its_users_place_and_then_at_the_systems() -> None:
    system = Path("/run/nodecast-bridge/b.sock")
    own = Path("/u/nodecast-bridge/b.sock")
    assert client_paths(None, "b", {"XDG_RUNTIME_DIR": "/u"}, USER) == (own, system)
    assert client_paths(None, "b", {}, ROOT) == (system,)
    assert client_paths(None, "b", {}, USER) == (system,)
    assert client_paths(None, "b", {"RUNTIME_DIRECTORY": "/r"}, ROOT) == (Path("/r/b.sock"),)
    assert client_paths("/set", "b", {"XDG_RUNTIME_DIR": "/u"}, USER) == (Path("/set"),)


def test_the_socket_is_for_its_user_alone_and_its_directory_too(tmp_path: Path) -> None:
    path = tmp_path / "bridges" / "b.sock"
    opened = open_socket(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700

    opened.remove()
    assert not path.exists()


def test_a_socket_that_a_killed_process_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "b.sock"
    open_socket(path).socket.close()
    assert path.is_socket()

    opened = open_socket(path)
    assert opened.in_place
    opened.remove()


def test_a_socket_that_somebody_listens_on_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "b.sock"
    first = open_socket(path)
    with pytest.raises(ApiError, match="another process listens on the API's socket"):
        open_socket(path)
    assert first.in_place
    first.remove()


def test_one_whose_queue_is_full_is_listened_on(tmp_path: Path) -> None:
    path = tmp_path / "b.sock"
    waiting = []
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(str(path))
        busy.listen(0)
        while True:
            each = socket.socket(socket.AF_UNIX)
            each.setblocking(False)
            waiting.append(each)
            try:
                each.connect(str(path))
            except BlockingIOError:
                break
        with pytest.raises(ApiError, match="another process listens"):
            open_socket(path)
    for each in waiting:
        each.close()


@pytest.mark.parametrize("there", ["file", "directory", "link"])
def test_what_is_no_socket_is_left_alone(there: str, tmp_path: Path) -> None:
    path = tmp_path / "b.sock"
    if there == "file":
        path.write_text("precious")
    elif there == "directory":
        path.mkdir()
    else:
        path.symlink_to("elsewhere")
    before = path.lstat()
    with pytest.raises(ApiError, match="is there and no socket"):
        open_socket(path)
    assert path.lstat() == before


def test_the_longest_path_can_be_opened_and_a_longer_one_says_how_long_it_may_be(
    tmp_path: Path,
) -> None:
    room = MAX_PATH - len(str(tmp_path)) - 1
    open_socket(tmp_path / ("x" * room)).remove()
    with pytest.raises(ApiError, match=rf"has {MAX_PATH + 1} bytes: .* at most {MAX_PATH}"):
        open_socket(tmp_path / ("x" * (room + 1)))
    with pytest.raises(ApiError, match=r"has 1[0-9][0-9] bytes"):
        open_socket(tmp_path / ("ü" * (room // 2 + 1)))


def test_a_directory_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ApiError, match=r"cannot be opened: No such file .* set api\.socket"):
        open_socket(tmp_path / "not" / "there" / "b.sock")


def test_a_socket_that_was_replaced_is_not_ours_and_not_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "b.sock"
    first = open_socket(path)
    path.unlink()
    second = open_socket(path)
    assert (first.in_place, second.in_place) == (False, True)

    first.remove()
    assert second.in_place
    second.remove()
