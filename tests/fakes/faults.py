"""Faults to order: what the fake API server does wrong, to which requests, and how often.

Always holds: without a fault the server is a healthy one; a fault is for the requests that its
`Match` fits, for `times` of them or until it is cleared. Tests order faults from their own
thread; connections take them under one lock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.fakes.answers import JSON, Answer, busy
from tests.fakes.requests import Request
from tests.fakes.watching import Watch, Watches

HTML = Answer(200, b"<html><body><h1>Sign in to the network</h1></body></html>", "text/html")
NO_LIST = Answer(200, b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"}}', JSON)


@dataclass(frozen=True, slots=True)
class Match:
    """Which requests are meant: each field that is given must be equal. `resource` is the
    plural, with `/status` for the subresource."""

    verb: str | None = None
    resource: str | None = None
    group: str | None = None
    namespace: str | None = None
    name: str | None = None
    user: str | None = None
    path: str | None = None

    def fits(self, request: Request, user: str) -> bool:
        wish = request.wish
        pairs = (
            (self.verb, wish.verb),
            (self.resource, wish.resource),
            (self.group, wish.group),
            (self.namespace, wish.namespace),
            (self.name, wish.name),
            (self.user, user),
            (self.path, request.path),
        )
        return all(wanted is None or wanted == found for wanted, found in pairs)


ANY = Match()


@dataclass(frozen=True, slots=True)
class Respond:
    """This answer instead of the right one."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class Delay:
    """The right answer, its headers `seconds` late."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Swallow:
    """No answer ever; the connection stays open."""


@dataclass(frozen=True, slots=True)
class Garble:
    """The body as `change` makes it (of a watch: each batch of lines)."""

    change: Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True)
class CloseAtOnce:
    """A watch that ends cleanly before its first event."""


@dataclass(frozen=True, slots=True)
class CutAfter:
    """The body breaks off after `count` bytes, most likely within a line; `reset`: with a RST."""

    count: int
    reset: bool


@dataclass(frozen=True, slots=True)
class Replay:
    """A watch sends all that is there as ADDED first; `old`: the oldest body known of each."""

    old: bool


@dataclass(frozen=True, slots=True)
class NewBodyOnExit:
    """An object that stops matching a watch's selector is DELETED with its new body."""


Action = Respond | Delay | Swallow | Garble | CloseAtOnce | CutAfter | Replay | NewBodyOnExit


@dataclass(slots=True)
class Fault:
    """One ordered fault. `hits` counts the requests that met it."""

    match: Match
    action: Action
    left: int | None
    hits: int = 0
    cleared: bool = field(default=False)

    def clear(self) -> None:
        self.cleared = True


class Faults:
    """The faults that are ordered now."""

    def __init__(self, watches: Watches, wake: Callable[[], None]) -> None:
        self._watches, self._wake = watches, wake
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self.flowing = threading.Event()  # not set: the whole server is frozen
        self.flowing.set()

    def add(self, action: Action, match: Match = ANY, times: int | None = None) -> Fault:
        """Order `action` for `times` requests (None: until cleared)."""
        fault = Fault(match, action, times)
        with self._lock:
            self._faults.append(fault)
        return fault

    def answer(
        self,
        status: int,
        body: bytes = b"",
        match: Match = ANY,
        *,
        content_type: str = JSON,
        headers: Mapping[str, str] | None = None,
        times: int | None = None,
    ) -> Fault:
        """Answer with this."""
        return self.add(Respond(Answer(status, body, content_type, headers or {})), match, times)

    def busy(
        self, match: Match = ANY, *, retry_after: float = 1, times: int | None = None
    ) -> Fault:
        """429 with Retry-After, in plain text."""
        return self.add(Respond(busy(retry_after)), match, times)

    def html(self, match: Match = ANY, *, times: int | None = None) -> Fault:
        """A web page with status 200, as a captive portal gives."""
        return self.add(Respond(HTML), match, times)

    def no_list(self, match: Match = ANY, *, times: int | None = None) -> Fault:
        """JSON with status 200 that is no List."""
        return self.add(Respond(NO_LIST), match, times)

    def delay(self, seconds: float, match: Match = ANY, *, times: int | None = None) -> Fault:
        return self.add(Delay(seconds), match, times)

    def swallow(self, match: Match = ANY, *, times: int | None = None) -> Fault:
        """Accept and never answer (until the fault is cleared: then the connection closes)."""
        return self.add(Swallow(), match, times)

    def garble(
        self, change: Callable[[bytes], bytes], match: Match = ANY, *, times: int | None = None
    ) -> Fault:
        return self.add(Garble(change), match, times)

    def close_watches_at_once(
        self, match: Match = Match(verb="watch"), *, times: int | None = None
    ) -> Fault:
        return self.add(CloseAtOnce(), match, times)

    def cut_after(
        self,
        count: int,
        match: Match = Match(verb="watch"),
        *,
        reset: bool = True,
        times: int | None = None,
    ) -> Fault:
        """Break the body off after `count` bytes of it."""
        return self.add(CutAfter(count, reset), match, times)

    def replay(
        self, match: Match = Match(verb="watch"), *, old: bool = True, times: int | None = None
    ) -> Fault:
        return self.add(Replay(old), match, times)

    def new_body_on_exit(self, match: Match = Match(verb="watch")) -> Fault:
        return self.add(NewBodyOnExit(), match)

    def take(self, request: Request, user: str) -> list[Fault]:
        """The faults that `request` meets; of each kind the first that was ordered."""
        met: dict[type, Fault] = {}
        with self._lock:
            self._faults = [each for each in self._faults if not each.cleared and each.left != 0]
            for fault in self._faults:
                if type(fault.action) not in met and fault.match.fits(request, user):
                    met[type(fault.action)] = fault
            for fault in met.values():
                fault.hits += 1
                fault.left = None if fault.left is None else fault.left - 1
        return list(met.values())

    def clear(self) -> None:
        """A healthy server again (watches that were frozen stay so until they are cut)."""
        with self._lock:
            for fault in self._faults:
                fault.clear()
            self._faults.clear()
        self.thaw()

    def freeze(self) -> None:
        """The whole server: TCP is accepted, nothing is answered, no watch sends anything."""
        self.flowing.clear()

    def thaw(self) -> None:
        self.flowing.set()
        self._wake()

    def freeze_watches(self, match: Match = ANY) -> int:
        """Running watches stay open and send nothing more; says how many. New ones are healthy."""
        return self._each(match, _freeze)

    def cut_watches(self, match: Match = ANY, *, reset: bool = False) -> int:
        """End running watches, cleanly or with a RST; says how many."""
        return self._each(match, _reset if reset else _end)

    def _each(self, match: Match, change: Callable[[Watch], None]) -> int:
        met = [each for each in self._watches.running() if match.fits(each.request, each.user)]
        for watch in met:
            change(watch)
        self._wake()
        return len(met)


def _freeze(watch: Watch) -> None:
    watch.frozen = True


def _end(watch: Watch) -> None:
    watch.ending = "clean"


def _reset(watch: Watch) -> None:
    watch.ending = "reset"
