"""A corner of an API server for each test: of the fake one, and of a real one where the variable
NODECAST_TEST_KUBECONFIG names a kubeconfig."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.api_groups import Group
from tests.support.api_servers import REAL, Server, fake_server, real_server
from tests.support.clusters import Cluster, corner, served_group

SERVERS = ("fake", "real") if REAL else ("fake",)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The kubeconfig of a real server may say that its certificate is not to be checked."""
    mark = pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")
    for item in items:
        if "cluster" in getattr(item, "fixturenames", ()):
            item.add_marker(mark)


@pytest.fixture(scope="session", params=SERVERS)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Server, Group]]:
    """A server, and a group that all tests share, with its kinds."""
    with ExitStack() as stack:
        if request.param == "fake":
            server = stack.enter_context(fake_server(tmp_path_factory.mktemp("fake")))
        else:
            server = stack.enter_context(real_server())
        yield server, stack.enter_context(served_group(server))


@pytest.fixture
def cluster(served: tuple[Server, Group], tmp_path: Path) -> Iterator[Cluster]:
    """The test's own corner."""
    with corner(*served, tmp_path) as cluster:
        yield cluster
