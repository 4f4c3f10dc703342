"""The bridge's own process without a broker: its source, its loop and its catalog.

It is `bridge.app` as it is; what is added is only the condition on which its loop ends.
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


class _App(App):
    """Its loop ends when `done` holds after events of the source were taken."""

    done: Callable[[], bool] = staticmethod(lambda: False)

    def _take_all(self) -> None:
        super()._take_all()
        self._stopping = self.done()


class InProcess:
    """A bridge that reads a cluster and connects to nothing."""

    def __init__(self, kubeconfig: Path) -> None:
        flags = {"kubeconfig": str(kubeconfig), "mqtt.url": _NO_BROKER, "hold": 0.0}
        self._app = _App(load(BridgeSettings, flags=flags))

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

    def serve_until(self, key: ResourceKey) -> None:
        """Let the loop run until the catalog has this object."""
        self._app._stopping = False
        self._app.done = lambda: self.catalog.get(key) is not None
        self._app._serve()


def key_of_service(number: int) -> ResourceKey:
    """The key of this object of `cluster.service`."""
    return parse_key(f"JointInferenceService.{GROUP}/{NAMESPACE}/inspection-{number:06d}")
