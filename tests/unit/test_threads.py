from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from nodecast.errors import NodecastError, SessionError, ThreadDied
from nodecast.threads import supervised


def ended_by(error: BaseException | None) -> list[NodecastError]:
    """What `fail` got from a thread that ended so."""
    got: list[NodecastError] = []
    thread = supervised("worker", raising(error), got.append)
    thread.start()
    thread.join()
    return got


def raising(error: BaseException | None) -> Callable[[], None]:
    def run() -> None:
        if error is not None:
            raise error

    return run


def test_an_error_that_nobody_foresaw_is_logged_with_its_traceback_and_handed_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bug = ZeroDivisionError("a bug")
    (died,) = ended_by(bug)
    assert isinstance(died, ThreadDied)
    assert "'worker' died" in str(died)
    assert died.__cause__ is bug
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert record.exc_info[1] is bug


def test_an_error_of_our_own_is_handed_over_as_it_is_and_says_all_itself(
    caplog: pytest.LogCaptureFixture,
) -> None:
    error = SessionError("no such broker")
    assert ended_by(error) == [error]
    assert caplog.records == []


def test_an_exit_inside_of_a_thread_is_no_way_out_of_it() -> None:
    (died,) = ended_by(SystemExit(0))
    assert isinstance(died, ThreadDied)


def test_a_thread_that_ends_by_itself_is_no_failure() -> None:
    assert ended_by(None) == []


def test_a_thread_keeps_no_process_alive() -> None:
    assert supervised("worker", raising(None), print).daemon
