"""One connection to a broker, as the session sees it.

The session is written against `Link`; `connection` is the one on paho, tests have their own. A link
is made by `connect` in a thread of its own and belongs to the session's owner thread from then on.
Nothing here blocks; what happened is appended to `happened`, for the session to read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from nodecast.session.events import Outgoing, Received, Subscription
from nodecast.session.limits import Sign
from nodecast.session.settings import MqttSettings


class Opened(NamedTuple):
    """The CONNACK: a code below 0x80 is a yes. `limit` and `window` as the broker said them."""

    code: int
    reason: str
    limit: int | None
    window: int


class Answered(NamedTuple):
    """The PUBACK of packet `mid`; `reason` is filled in from 0x80 on."""

    mid: int
    code: int
    reason: str


class Granted(NamedTuple):
    """The SUBACK of packet `mid`: a code for each filter, from 0x80 on a no."""

    mid: int
    codes: tuple[int, ...]


class Ended(NamedTuple):
    """The connection is over, and why."""

    reason: str
    sign: Sign


Happening = Opened | Answered | Granted | Received | Ended


class Link(Protocol):
    """A connection whose CONNECT is queued; closed after `drop` or an `Ended`."""

    happened: deque[Happening]

    @property
    def fd(self) -> int:
        """The socket, open or not any more."""

    @property
    def receiving_at(self) -> float:
        """When a part of a packet came last (monotonic seconds); -inf: never."""

    @property
    def wants_write(self) -> bool:
        """Whether bytes wait for the socket to take them."""

    def publish(self, message: Outgoing) -> int | None:
        """Queue a PUBLISH; its packet id, None where the connection is over."""

    def subscribe(self, filters: Sequence[Subscription]) -> int | None:
        """Queue a SUBSCRIBE; its packet id, None where the connection is over.

        Raises SessionError for a filter that is none.
        """

    def read(self) -> None:
        """Read what has come."""

    def write(self) -> None:
        """Write what the socket takes."""

    def tick_in(self) -> float:
        """Seconds until `tick` has something to do."""

    def tick(self) -> None:
        """Test a silent link, or give it up."""

    def leave(self) -> None:
        """Queue a DISCONNECT, which stops the will, and write what the socket takes."""

    def drop(self) -> None:
        """Close the socket now."""

    def abort(self) -> None:
        """Close it now, and throw away what the kernel has not sent yet."""

    def restrict(self, permit: Callable[[], bool]) -> None:
        """Ask `permit` before every write from now on: a no ends the connection, as `abort`."""


Connect = Callable[[MqttSettings, str, Outgoing | None], Link]
"""Settings, client id and will to a link. May block; raises SessionError with the reason."""
