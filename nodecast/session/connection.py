"""A link on paho: one client, one TCP connection, MQTT 5.

Every connection is a new client, since paho sends what it has without acknowledgement again after
a reconnection, the old after the new. paho's loop functions are called by hand, so that it starts
no thread; its callbacks only append. Whatever paho raises inside of them ends this connection and
nothing else. `connect` blocks (name, TCP) and runs in a thread of its own; all other functions are
the owner thread's and never block.
"""

from __future__ import annotations

# Resolving a name needs this codec, and Python remembers for good that it could not be imported: a
# first connection with no file descriptor left would be the last.
import encodings.idna  # noqa: F401
import math
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from paho.mqtt import MQTTException
from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from nodecast.errors import SessionError
from nodecast.log import logger
from nodecast.session.events import Outgoing, Received, Subscription
from nodecast.session.guarded import GuardedClient
from nodecast.session.limits import Sign
from nodecast.session.link import Answered, Ended, Granted, Happening, Opened
from nodecast.session.packets import connect_properties, publish_properties, will_properties
from nodecast.session.reasons import end_reason, end_sign, unfit
from nodecast.session.settings import MqttSettings

log = logger(__name__)

_LARGEST_WINDOW = 65_535
_READS_AT_A_TIME = 64

PAHO_ERRORS = (
    MQTTException,
    OSError,
    ValueError,
    LookupError,
    struct.error,
    TypeError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    RuntimeError,
)
"""What bytes from outside were seen to raise, or may raise, inside of paho's decoding."""


class Connection:
    """See `link.Link`."""

    def __init__(self, client: GuardedClient) -> None:
        self.happened: deque[Happening] = deque()
        self._client = client
        self._fd = -1
        self._last_in = self._last_out = time.monotonic()
        self._receiving_at = -math.inf
        self._pinged = False
        self._left = False
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_publish = self._on_publish
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message
        client.on_socket_open = self._on_socket_open
        client.on_socket_register_write = _queue_only

    @property
    def fd(self) -> int:
        return self._fd

    @property
    def receiving_at(self) -> float:
        return self._receiving_at

    @property
    def wants_write(self) -> bool:
        return self._client.want_write() and self._client.socket() is not None

    def publish(self, message: Outgoing) -> int | None:
        try:
            info = self._client.publish(
                message.topic,
                message.payload,
                1,
                message.retain,
                publish_properties(message.encoding),
            )
        except PAHO_ERRORS as error:
            self._fail("publishing", error)
            return None
        if info.rc != MQTTErrorCode.MQTT_ERR_SUCCESS:
            self._end(f"the client did not take a publish ({info.rc.name})", Sign.UNRELATED)
            return None
        return info.mid

    def subscribe(self, filters: Sequence[Subscription]) -> int | None:
        options = [
            (each.filter, SubscribeOptions(qos=1, retainHandling=0 if each.replay else 2))
            for each in filters
        ]
        try:
            _, mid = self._client.subscribe(options)
        except ValueError as error:
            raise SessionError(f"cannot subscribe to {options[0][0]!r} …: {error}") from error
        return mid

    def read(self) -> None:
        already = len(self.happened)
        try:
            for _ in range(_READS_AT_A_TIME):
                before = len(self.happened)
                self._client.loop_read()
                if len(self.happened) == before or self._client.socket() is None:
                    break
        except PAHO_ERRORS as error:
            self._fail("reading", error)
        self._last_in = time.monotonic()
        if len(self.happened) == already:
            self._received_a_part()
        self._notice_end()

    def _received_a_part(self) -> None:
        """Bytes came that say nothing yet: of a large packet, or the answer to a ping."""
        if self._pinged:
            self._pinged = False
        else:
            self._receiving_at = self._last_in

    def write(self) -> None:
        try:
            self._client.loop_write()
        except PAHO_ERRORS as error:
            self._fail("writing", error)
        self._last_out = time.monotonic()
        self._notice_end()

    def tick_in(self) -> float:
        keep_alive = self._client.keepalive or math.inf
        return min(self._last_in, self._last_out) + keep_alive - time.monotonic()

    def tick(self) -> None:
        if self.tick_in() > 0:
            return
        try:
            self._client.loop_misc()
        except PAHO_ERRORS as error:
            self._fail("testing the link", error)
        self._pinged = True
        self._last_in = self._last_out = time.monotonic()
        self._notice_end()

    def leave(self) -> None:
        self._left = True
        try:
            self._client.disconnect()
        except PAHO_ERRORS as error:
            self._fail("leaving", error)
        self.write()

    def drop(self) -> None:
        open_socket = self._client.socket()
        if open_socket is not None:
            open_socket.close()

    def abort(self) -> None:
        self._client.throw_away()
        self.drop()

    def restrict(self, permit: Callable[[], bool]) -> None:
        self._client.on_denial = lambda: self._end("nothing may be sent now", Sign.UNRELATED)
        self._client.permit = permit

    def open(self, settings: MqttSettings, will: Outgoing | None) -> None:
        """Connect the socket and queue the CONNECT. Blocks; raises what paho raises."""
        endpoint = settings.endpoint
        self._client.connect(
            endpoint.host,
            endpoint.port,
            keepalive=settings.keep_alive,
            clean_start=True,
            properties=connect_properties(will),
        )
        self._last_in = self._last_out = time.monotonic()

    def _fail(self, doing: str, error: BaseException) -> None:
        self._end(f"{doing} failed: {type(error).__name__}: {error}", Sign.UNRELATED)

    def _notice_end(self) -> None:
        if self._client.socket() is None:
            self._end("the connection is closed", Sign.UNRELATED if self._left else Sign.CLOSED)

    def _end(self, reason: str, sign: Sign) -> None:
        """The first reason is appended first, and the session reads no further."""
        self.happened.append(Ended(reason, sign))

    def _on_socket_open(self, _client: Client, _userdata: Any, opened: Any) -> None:
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._fd = opened.fileno()

    def _on_connect(
        self,
        _client: Client,
        _u: Any,
        _flags: ConnectFlags,
        code: ReasonCode,
        said: Properties | None,
    ) -> None:
        limit = getattr(said, "MaximumPacketSize", None)
        window = getattr(said, "ReceiveMaximum", _LARGEST_WINDOW)
        value, reason = code.value, str(code)
        if value < 0x80:
            value, reason = unfit(said) or (value, reason)
        self.happened.append(Opened(value, reason, limit, window))

    def _on_disconnect(
        self,
        _client: Client,
        _u: Any,
        flags: DisconnectFlags,
        code: ReasonCode,
        _said: Properties | None,
    ) -> None:
        by_broker = flags.is_disconnect_packet_from_server
        self._end(end_reason(code, by_broker), end_sign(code.value, by_broker))

    def _on_publish(
        self, _client: Client, _u: Any, mid: int, code: ReasonCode, _said: Properties
    ) -> None:
        value = code.value
        self.happened.append(Answered(mid, value, str(code) if value >= 0x80 else ""))

    def _on_subscribe(
        self, _client: Client, _u: Any, mid: int, codes: list[ReasonCode], _said: Properties
    ) -> None:
        self.happened.append(Granted(mid, tuple(code.value for code in codes)))

    def _on_message(self, _client: Client, _u: Any, message: MQTTMessage) -> None:
        try:
            topic = message.topic
        except UnicodeDecodeError:
            log.warning("message dropped: its topic is not UTF-8")
            return
        encoding = None
        for name, value in getattr(message.properties, "UserProperty", ()):
            if name == "encoding":
                encoding = value
        self.happened.append(Received(topic, bytes(message.payload), message.retain, encoding))


def _queue_only(_client: Client, _userdata: Any, _socket: Any) -> None:
    """With this callback set, paho queues what it is given and leaves the writing to `write`."""


def connect(settings: MqttSettings, client_id: str, will: Outgoing | None) -> Connection:
    """A connection with its CONNECT queued; the CONNACK is still to come.

    Blocks for the name and for TCP (`connect_timeout` for each address). Raises SessionError.
    """
    client = GuardedClient(
        CallbackAPIVersion.VERSION2,
        client_id=client_id,
        protocol=MQTTProtocolVersion.MQTTv5,
        reconnect_on_failure=False,
    )
    client.max_inflight_messages_set(0)
    client.connect_timeout = settings.connect_timeout
    client.username_pw_set(settings.username, _password(settings))
    connection = Connection(client)
    try:
        if will is not None:
            client.will_set(will.topic, will.payload, 1, will.retain, will_properties(will))
        connection.open(settings, will)
    except PAHO_ERRORS as error:
        connection.drop()
        raise SessionError(f"cannot connect to {settings.endpoint}: {_cause(error)}") from error
    return connection


def _cause(error: BaseException) -> str:
    """`Connection refused`, and not `[Errno 111] Connection refused`."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text or type(error).__name__


def _password(settings: MqttSettings) -> str | None:
    if settings.password_file is None:
        return None
    try:
        return Path(settings.password_file).read_text(encoding="utf-8").rstrip("\r\n")
    except OSError as error:
        raise SessionError(
            f"cannot read the password file {settings.password_file}: {_cause(error)}"
        ) from error
    except UnicodeDecodeError:
        # Without the cause: its text holds bytes of the password.
        raise SessionError(f"password file {settings.password_file} is not UTF-8 text") from None
