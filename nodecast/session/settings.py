"""The settings of the connection to the broker, each described once.

The descriptions drive validation, the sample file and the reference. A value of this type always
holds: the URL is one that we can connect to, the prefix is a topic, the pauses are in order.
"""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from nodecast.errors import InvalidName, SettingsError
from nodecast.settings import PositiveSeconds, Seconds
from nodecast.topics import topic_prefix

DEFAULT_PORT = 1883
_EXAMPLE = "write mqtt://host:1883"


class Endpoint(msgspec.Struct, frozen=True):
    """Where the broker listens: a host name or an address (IPv6 without brackets), and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class MqttSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to reach the broker. Making one raises SettingsError where a value cannot be."""

    url: Annotated[
        str, Meta(description="The broker, as mqtt://host:port; IPv6 addresses in brackets.")
    ] = "mqtt://127.0.0.1:1883"
    username: Annotated[
        str | None, Meta(description="The user name to log in with; none: anonymous.")
    ] = None
    password_file: Annotated[
        str | None,
        Meta(description="A file with the password; it is read at each connection."),
    ] = None
    keep_alive: Annotated[
        int,
        Meta(
            description="Seconds of silence until the link is tested; after twice that it is dead.",
            ge=1,
            le=65535,
        ),
    ] = 60
    reconnect_min: Annotated[
        PositiveSeconds, Meta(description="Seconds: the longest first pause before a connection.")
    ] = 1.0
    reconnect_max: Annotated[
        PositiveSeconds, Meta(description="Seconds: the longest pause before a new connection.")
    ] = 120.0
    window: Annotated[
        int,
        Meta(description="The most publishes without acknowledgement at a time.", ge=1, le=65535),
    ] = 100
    connect_timeout: Annotated[
        PositiveSeconds,
        Meta(description="Seconds until a connection attempt without an answer is given up."),
    ] = 10.0
    answer_timeout: Annotated[
        PositiveSeconds,
        Meta(
            description="Seconds without the answer to a publish or subscribe until the link ends."
        ),
    ] = 120.0
    drain: Annotated[
        Seconds,
        Meta(description="Seconds a stop may wait for acknowledgements that are due."),
    ] = 10.0
    max_packet: Annotated[
        int,
        Meta(description="The largest packet to send, in bytes; 0: as the broker takes.", ge=0),
    ] = 0
    prefix: Annotated[
        str, Meta(description="Topic levels in front of every topic, such as site/a; none: empty.")
    ] = ""

    def __post_init__(self) -> None:
        parse_url(self.url)
        if self.password_file is not None and self.username is None:
            raise SettingsError("mqtt.password_file is set without mqtt.username: set both")
        if self.reconnect_min > self.reconnect_max:
            raise SettingsError(
                f"mqtt.reconnect_min ({self.reconnect_min:g}) is above mqtt.reconnect_max"
                f" ({self.reconnect_max:g}): lower the first"
            )
        try:
            topic_prefix(self.prefix)
        except InvalidName as error:
            raise SettingsError(f"mqtt.prefix: {error}") from error

    @property
    def endpoint(self) -> Endpoint:
        """Host and port of `url`."""
        return parse_url(self.url)


def parse_url(url: str) -> Endpoint:
    """Read `mqtt://host[:port]`. Raises SettingsError, which never repeats a user or password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise SettingsError(f"mqtt.url is not a URL ({error}): {_EXAMPLE}") from error
    if parts.username is not None or parts.password is not None:
        raise SettingsError(
            "mqtt.url holds a user or password: set mqtt.username and mqtt.password_file instead"
        )
    if parts.scheme == "mqtts":
        raise SettingsError("mqtt.url: mqtts:// (TLS) comes in a later release: use mqtt:// now")
    if parts.scheme != "mqtt" or not parts.hostname or any(c.isspace() for c in url):
        raise SettingsError(f"mqtt.url {url!r} is not mqtt:// and a host: {_EXAMPLE}")
    if parts.path not in ("", "/") or parts.query or parts.fragment or port == 0:
        raise SettingsError(f"mqtt.url {url!r} is more than a host and a port: {_EXAMPLE}")
    return Endpoint(parts.hostname, DEFAULT_PORT if port is None else port)
