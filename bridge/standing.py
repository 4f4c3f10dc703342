"""How this process stands, and what an operator may ask of it: what the API is about.

The loop's thread owns it and calls everything here; before the source is known there is no core.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from bridge.bridge import Bridge
from bridge.charge import Phase as ChargePhase
from bridge.kind_views import KindView
from bridge.status import BrokerStatus, Phase, Status, nodes_status
from nodecast import __version__
from nodecast.errors import ApiError
from nodecast.names import KindName
from nodecast.session import Connected, Event, Lost, Session


class Standing:
    """`stage` and `bridge` are kept by the loop: how far it is, and the core once there is one."""

    def __init__(
        self,
        name: str,
        instance: str,
        origin: str,
        broker: str,
        session: Session,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._instance = instance
        self._origin = origin
        self._broker = broker
        self._session = session
        self._clock = clock
        self._started = _now()
        self._since: str | None = None
        self._ended: str | None = None
        self.stage: Phase = "starting"
        self.bridge: Bridge | None = None

    def session_event(self, event: Event) -> None:
        """Something that the session says."""
        if isinstance(event, Connected):
            self._since = _now()
        elif isinstance(event, Lost):
            self._since, self._ended = None, event.reason

    def status(self) -> Status:
        """How the bridge is."""
        known = Status(
            bridge=self._name,
            instance=self._instance,
            version=__version__,
            started=self._started,
            origin=self._origin,
            phase=self._phase(),
            broker=self._broker_status(),
        )
        if self.bridge is None:
            return known
        return _with_core(known, self.bridge, self._clock())

    def approve(self, kind: KindName) -> KindView:
        """As `Bridge.approve`; the kind as it is then. Raises ApiError before there is a core,
        and while another instance is in charge."""
        if self.bridge is None:
            raise ApiError("the bridge does not know yet what its source is: ask again later")
        if self.stage == "standing by":
            raise ApiError("this instance stands by: ask the one that holds the lease")
        now = self._clock()
        self.bridge.approve(kind, now)
        self.bridge.holding.update(now)
        return next(view for view in self.bridge.kind_views(now) if view.kind == kind)

    def _phase(self) -> Phase:
        if self.stage != "connecting" or self.bridge is None:
            return self.stage
        match self.bridge.charge.phase:
            case ChargePhase.OFFLINE:
                return "connecting"
            case ChargePhase.IN_CHARGE:
                return "in charge"
            case _:
                return "taking charge"

    def _broker_status(self) -> BrokerStatus:
        """A connection that ended for a reason of its own is told until the next one is good."""
        bridge = self.bridge
        if bridge is not None and bridge.charge.phase is ChargePhase.IN_CHARGE:
            self._ended = None
        return BrokerStatus(
            url=self._broker,
            connected=self._since is not None,
            since=self._since,
            failure=self._session.failure or self._ended,
            refused=dict(bridge.own.refusals) if bridge is not None else {},
        )


def _with_core(known: Status, bridge: Bridge, now: float) -> Status:
    publisher = bridge.publisher
    return msgspec.structs.replace(
        known,
        source=bridge.source,
        epoch=bridge.charge.epoch,
        paused=bridge.own.book.paused,
        kinds=bridge.kind_views(now),
        nodes=nodes_status(publisher.nodes, publisher.waiting, publisher.foreign, now),
    )


def _now() -> str:
    """The time of day, for people."""
    return datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="seconds")
