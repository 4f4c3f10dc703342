"""When to connect next, and what to say about it.

A connection that had something acknowledged lets the back-off start anew; a mere CONNACK does not.
After the second such connection in a row that did not last (a broker that throws us out as soon as
we say much) the pauses grow all the same. So do they where two clients with one client id end each
other's connections, each of them in good health; there the log names the likely cause. What a
person has to put right (a password) is asked for seldom and said once. One owner thread.
"""

from __future__ import annotations

from nodecast.log import Repeats, logger
from nodecast.session.backoff import Pauses
from nodecast.session.events import QOS_NOT_SUPPORTED, RETAIN_NOT_SUPPORTED
from nodecast.session.limits import Sign

log = logger(__name__)

SHORT_LIFE = 30.0
"""Seconds: what ends before this did not last; closed without a reason, it may have been taken
over."""

_OFTEN = 2
_UNFIT = frozenset({RETAIN_NOT_SUPPORTED, QOS_NOT_SUPPORTED})
_FOR_A_PERSON = _UNFIT | {0x84, 0x85, 0x86, 0x87, 0x8A, 0x8C, 0x9C, 0x9D}
"""CONNACK codes that stay until somebody changes something: protocol version, client id, user or
password, not authorised, banned, authentication method, another server."""


class Reconnect:
    """`due` is the time (of the caller's clock) from which the next attempt may begin."""

    __slots__ = ("_brief", "_pauses", "_repeats", "_takeovers", "_who", "due", "failure")

    def __init__(self, pauses: Pauses, client_id: str) -> None:
        self._pauses = pauses
        self._who = client_id
        self._repeats = Repeats()
        self._takeovers = 0
        self._brief = 0
        self.due = float("-inf")
        self.failure: str | None = None
        """Why there is no connection, as the last attempt or the last connection ended."""

    def succeeded(self) -> int:
        """A CONNACK said yes; how many failures are over with it."""
        self.failure = None
        return self._repeats.over("connect") + self._repeats.over("refused")

    def failed(self, reason: str, now: float) -> None:
        """There was no connection: no name, no route, no listener, no CONNACK."""
        self.failure = reason
        self._takeovers = self._brief = 0
        pause = self._wait(self._pauses.pause(), now)
        if self._repeats.new("connect", reason):
            log.warning("no connection to the broker", reason=reason, pause=pause)
        else:
            log.debug("still no connection to the broker", reason=reason, pause=pause)

    def refused(self, reason: str, code: int, now: float) -> None:
        """The CONNACK said no."""
        self.failure = f"the broker refused the connection: {reason}"
        self._takeovers = 0
        lasting = code in _FOR_A_PERSON
        pause = self._wait(self._pauses.long_pause() if lasting else self._pauses.pause(), now)
        if self._repeats.new("refused", reason):
            log.error(
                "the broker refused the connection",
                reason=reason,
                code=f"0x{code:02x}",
                client=self._who,
                pause=pause,
                do=_remedy(code),
            )

    def lost(self, reason: str, sign: Sign, lived: float, proved: bool, now: float) -> None:
        """A connection ended after `lived` seconds; `proved`: something was acknowledged in it."""
        self.failure = reason
        if sign is Sign.TAKEN_OVER or (sign is Sign.CLOSED and lived < SHORT_LIFE):
            self._takeovers += 1
        else:
            self._takeovers = 0
        if proved:
            self._brief = self._brief + 1 if lived < SHORT_LIFE else 0
            if max(self._takeovers, self._brief) < _OFTEN:
                self._pauses.reset()
        pause = self._wait(self._pauses.pause(), now)
        if sign is Sign.TAKEN_OVER or self._takeovers >= _OFTEN:
            log.warning(
                "is another client connected with the same client id?",
                client=self._who,
                ended="taken over" if sign is Sign.TAKEN_OVER else "closed without a reason",
                in_a_row=self._takeovers,
                pause=pause,
            )

    def _wait(self, pause: float, now: float) -> float:
        self.due = now + pause
        return round(pause, 2)


def _remedy(code: int) -> str:
    if code in _UNFIT:
        return "let the broker offer QoS 1 and retained messages: nothing works without them"
    if code in _FOR_A_PERSON:
        return "check user name, password file and the broker's rules"
    return "wait"
