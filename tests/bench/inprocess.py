"""The bridge's own parts without a broker: source, queue, loop, catalog as the process has them.

The loop is that of `bridge.app`; what is added is only the condition on which it ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from bridge.app import App
from bridge.catalog import Catalog
from bridge.config import BridgeSettings
from nodecast.names import ResourceKey, parse_key
from nodecast.settings import load
from tests.bench.cluster import GROUP, NAMESPACE

_NO_BROKER = "mqtt://127.0.0.1:9"
_LONGEST_WAIT = 0.05


class InProcess:
    """A bridge that reads a cluster and connects to nothing."""

    def __init__(self, kubeconfig: Path) -> None:
        flags = {"kubeconfig": str(kubeconfig), "mqtt.url": _NO_BROKER, "hold": 0.0}
        self._app = App(load(BridgeSettings, flags=flags))

    def __enter__(self) -> InProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._app._source.stop()
        self._app._session.close(time.monotonic())

    @property
    def catalog(self) -> Catalog:
        return self._app._bridge.catalog

    def list(self) -> None:
        """Start the source, and take what it says until every kind was listed."""
        self._app._source.start()
        identity = self._app._identify()
        assert identity is not None, "nothing stops it"
        self._app._bridge = self._app._core(identity)
        self._app._wait_for_lists()

    def turn_until(self, condition: Callable[[], bool]) -> None:
        """Turn the loop until a condition holds."""
        deadline = 0.0
        while not condition():
            wait = min(max(0.0, deadline - time.monotonic()), _LONGEST_WAIT)
            for event in self._app._session.poll(wait):
                self._app._bridge.session_event(event, time.monotonic())
            self._app._take_all()
            deadline = self._app._bridge.work(time.monotonic())

    def knows(self, key: ResourceKey) -> bool:
        """Whether the catalog has this object."""
        return self.catalog.get(key) is not None


def key_of_service(number: int) -> ResourceKey:
    """The key of this object of `cluster.service`."""
    return parse_key(f"JointInferenceService.{GROUP}/{NAMESPACE}/inspection-{number:06d}")
