"""The broker configuration that the compose file mounts, given to a real Mosquitto."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.mosquitto import Broker
from tests.support.mqtt import observing
from tests.support.wait import eventually

SHIPPED = Path(__file__).parents[2] / "docker" / "mosquitto.conf"


class ShippedBroker(Broker):
    """Runs the shipped file, with only the port, the store's place and the user of this test."""

    def _configuration(self) -> str:
        text = SHIPPED.read_text()
        self.store.parent.mkdir(exist_ok=True)
        for pattern, line in (
            (r"(?m)^listener 1883$", f"listener {self.port} 127.0.0.1"),
            (r"(?m)^persistence_location .*$", f"persistence_location {self.store.parent}/"),
        ):
            text, count = re.subn(pattern, line, text)
            assert count == 1, pattern
        return f"{text}\nuser {pwd.getpwuid(os.getuid()).pw_name}\n"


@pytest.fixture
def shipped(tmp_path: Path) -> Iterator[Broker]:
    running = ShippedBroker(tmp_path / "broker").start()
    yield running
    running.stop()


def test_the_shipped_configuration_keeps_retained_messages_over_a_restart(shipped: Broker) -> None:
    with observing(shipped.port) as client:
        client.publish("node/edge-a/resources", b"kept")
    shipped.restart()

    with observing(shipped.port) as client:
        eventually(
            lambda: client.retained == {"node/edge-a/resources": b"kept"},
            what="the retained message is back",
        )
