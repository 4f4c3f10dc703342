"""What the server's answers come to where they are no good: ApiFailure, there was none that can be
read; Refusal, the server said no. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

from nodecast.errors import SourceError


@dataclass(frozen=True, slots=True)
class TooDeep:
    """Stands in a list for an item that cannot be decoded."""

    namespace: str
    name: str


class ApiFailure(SourceError):
    """There was no answer, or none that can be read: the network, TLS, or what stands between."""


class Unreachable(ApiFailure):
    """The server, or the way to it, is what failed: no other question would be answered."""


class Refusal(SourceError):
    """The server said no. `status`: HTTP's; `reason`: Kubernetes' word, such as `Expired`;
    `retry_after`: seconds that it asked to wait."""

    def __init__(
        self, status: int, reason: str, message: str, retry_after: float | None = None
    ) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after


_CODES = frozenset(status.value for status in HTTPStatus)


def refusal_of(status: object, code: int = 500, retry_after: float | None = None) -> Refusal:
    """What a Status object, or a plain text in its place, says: in one line, never long."""
    words = HTTPStatus(code).phrase if code in _CODES else "Unknown"
    if not isinstance(status, dict):
        return Refusal(code, words, _text(status, 200) or "no reason given", retry_after)
    given = status.get("code")
    return Refusal(
        given if type(given) is int else code,
        _text(status.get("reason"), 100) or words,
        _text(status.get("message"), 500) or "no message",
        retry_after,
    )


def _text(value: object, most: int) -> str:
    """In one line; empty for what is no string: what nests deeply cannot even be printed."""
    return " ".join(value.split())[:most] if isinstance(value, str) else ""
