"""One try to reach the broker, for commands that only want to know whether they could."""

from __future__ import annotations

import secrets
import select
import time

from nodecast.errors import SessionError
from nodecast.session.connection import Connection, connect
from nodecast.session.link import Ended, Opened
from nodecast.session.settings import MqttSettings


def reach(settings: MqttSettings) -> None:
    """Connect, hear the broker's yes, and leave again. Blocks; raises SessionError."""
    link = connect(settings, f"nodecast-cli-{secrets.token_hex(6)}", None)
    try:
        answer = _answer(link, time.monotonic() + settings.connect_timeout)
        if answer.code >= 0x80:
            raise SessionError(f"{settings.endpoint} refused the connection: {answer.reason}")
        link.leave()
    finally:
        link.drop()


def _answer(link: Connection, deadline: float) -> Opened:
    while (rest := deadline - time.monotonic()) > 0:
        writers = [link.fd] if link.wants_write else []
        readable, writable, _ = select.select([link.fd], writers, [], rest)
        if writable:
            link.write()
        if readable:
            link.read()
        for happening in link.happened:
            if isinstance(happening, Opened):
                return happening
            if isinstance(happening, Ended):
                raise SessionError(f"the broker ended the connection: {happening.reason}")
    raise SessionError("the broker was reached and did not answer in time: is it an MQTT broker?")
