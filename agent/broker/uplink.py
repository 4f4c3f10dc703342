"""The agent's side of the broker: what it subscribes to, says, and says again.

After each connection, in this order: one SUBSCRIBE of this node's own topics (`state` last), the
birth, report and ModelSet. A message of any other topic is dropped. Model ops wait until the agent
knows what the broker keeps of its own ModelSet: the birth comes back on `state` after everything
that was retained, since a broker sends one client's messages in order; where it never comes back
(an ACL), a time limit ends the wait.

Owned by the loop thread; waits for the disk alone. The session may be any port that has its five
methods.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Protocol, TypeVar

from agent.broker.models import ModelUplink
from agent.broker.presence import ECHO_WAIT, Identity, OwnState, PresenceToken
from agent.broker.report import TimeText
from agent.broker.reporter import Reporter, ReportToken
from agent.models.sync import ModelSync
from agent.pace import NEVER, Repeating, ReportPace, ReportTimes
from agent.resources import NodeResources
from nodecast.backoff import Backoff
from nodecast.errors import MessageError
from nodecast.log import Repeats, logger
from nodecast.messages import ModelSet, Presence, Wire, decode
from nodecast.session import (
    Acknowledged,
    Connected,
    Event,
    Lost,
    Outgoing,
    Received,
    Refused,
    Subscribed,
    Subscription,
    wire_size,
)
from nodecast.topics import Topics

log = logger(__name__)

_RETRY = Backoff(1.0, 120.0)


M = TypeVar("M", Presence, ModelSet)


class SessionPort(Protocol):
    """What is used of `nodecast.session.Session`."""

    @property
    def connected(self) -> bool: ...
    @property
    def free(self) -> int: ...
    @property
    def limit(self) -> int | None: ...
    def publish(self, message: Outgoing, token: object) -> None: ...
    def subscribe(self, filters: list[Subscription], token: object) -> None: ...


class Uplink:
    """See the module."""

    def __init__(
        self,
        session: SessionPort,
        identity: Identity,
        topics: Topics,
        resources: NodeResources,
        models: ModelSync,
        *,
        clock: Callable[[], float],
        text: TimeText,
        times: ReportTimes,
        rng: random.Random,
        new_id: Callable[[], str],
    ) -> None:
        self.connected = False
        self.subscription_error: str | None = None
        self._session = session
        self._me = identity
        self._topics = topics
        self._resources = resources
        self._clock = clock
        self._text = text
        self._models = ModelUplink(
            models,
            ops=topics.model_ops(identity.node),
            whole=topics.models(identity.node),
            publish=session.publish,
            oversize=self.oversize,
            rng=rng,
            new_id=new_id,
            renamed=resources.renamed,
        )
        self._reporter = Reporter(
            resources,
            identity.node,
            identity.instance,
            topics.status(identity.node),
            pace=ReportPace(times, rng),
            text=text,
            publish=session.publish,
            oversize=self.oversize,
        )
        self._pace = self._reporter.pace
        self._own = OwnState(
            identity, topics.state(identity.node), publish=session.publish, rng=rng
        )
        self._subscribes = Repeating(_RETRY, rng)
        self._said = Repeats()
        self._bridge: str | None = None
        self._born = False  # on this connection
        self._limit: int | None = None  # of the broker, as the models know it

    # --- what the loop asks

    @property
    def models_error(self) -> str | None:
        """Why the broker does not have the ModelSet, where it would not take it."""
        return self._models.problem

    @property
    def idle(self) -> bool:
        """Whether the broker has all that this agent has to say now."""
        busy = self._pace.busy(self._clock()) or not self._models.idle
        return not (self.connected and busy)

    def due(self) -> float:
        """When `work` has something to do, if nothing happens before."""
        if not self.connected:
            return NEVER
        return min(
            self._pace.due(),
            self._own.due(),
            self._subscribes.due,
            self._models.due(),
        )

    @property
    def offline_said(self) -> bool:
        """Whether the last word was answered."""
        return self._own.offline_said

    def will(self) -> Outgoing:
        """What the broker says for this process when it is gone."""
        return self._own.presence(online=False)

    # --- events

    def handle(self, event: Event, now: float) -> None:
        """Take an event of the session."""
        match event:
            case Connected():
                self.connected, self._born = True, False
                self._own.connecting()
                self._subscribe()
            case Subscribed():
                self._subscribed(event, now)
            case Received():
                self._received(event, now)
            case Acknowledged():
                self._acknowledged(event.token)
            case Refused():
                self._refused(event, now)
            case Lost():
                self._lost()

    def _subscribe(self) -> None:
        """One SUBSCRIBE, `state` last: what was retained on the others comes before the birth."""
        node = self._me.node
        filters = [
            self._topics.models(node),
            self._topics.resources(node),
            self._topics.bridge_state(self._me.bridge),
            self._topics.state(node),
        ]
        self._session.subscribe([Subscription(each) for each in filters], "subscribe")

    def _subscribed(self, event: Subscribed, now: float) -> None:
        needed = self._topics.resources(self._me.node)
        if needed in event.refused:
            self.subscription_error = (
                f"the broker does not let this node subscribe to {needed}: look at the broker's ACL"
            )
            if self._said.new("subscribe"):
                log.error(
                    "subscription refused, tried again", topic=needed, do="look at the broker's ACL"
                )
            self._subscribes.again(now)
        else:
            self.subscription_error = None
            self._said.over("subscribe")
            self._subscribes.over()
        if not self._born:
            self._be_born(now)

    def _be_born(self, now: float) -> None:
        """What follows the first answer to the subscriptions of a connection, whatever it is."""
        self._born = True
        self._own.born(now)
        self._pace.connected(now)
        self._models.connected(now)

    def _received(self, event: Received, now: float) -> None:
        node = self._me.node
        wire = Wire(event.payload, event.encoding)
        if event.topic == self._topics.resources(node):
            self._resources.receive(wire, retained=event.retained)
        elif event.topic == self._topics.state(node):
            presence = self._decoded(Presence, wire, "state")
            self._own.shown(presence, retained=event.retained, now=now)
        elif event.topic == self._topics.models(node):
            self._own_models(wire, event.retained)
        elif event.topic == self._topics.bridge_state(self._me.bridge):
            self._bridge_state(wire, event.retained, now)
        else:
            log.debug("message of a foreign topic dropped", topic=event.topic)

    def _own_models(self, wire: Wire, retained: bool) -> None:
        found = self._decoded(ModelSet, wire, "models") if retained else None
        if found is not None:
            self._models.kept(found)

    def _bridge_state(self, wire: Wire, retained: bool, now: float) -> None:
        presence = self._decoded(Presence, wire, "bridge")
        if presence is None or not presence.online:
            return
        # A first birth that is live came after our report, which the bridge may not have heard: it
        # subscribes to what is new, and is told again only of nodes that it knows.
        heard = self._bridge is None and retained
        if self._bridge != presence.instance and not heard:
            self._pace.bridge_changed(now)
        self._bridge = presence.instance

    def _decoded(self, kind: type[M], wire: Wire, what: str) -> M | None:
        if not wire.payload:
            return None  # cleared
        try:
            return decode(kind, wire)
        except MessageError as error:
            if self._said.new(what, str(error)):
                log.warning("message left alone", of=what, reason=error)
            return None

    def _acknowledged(self, token: object) -> None:
        if isinstance(token, ReportToken):
            self._reporter.acknowledged(token)
        elif isinstance(token, PresenceToken):
            self._own.acknowledged(token)
        else:
            self._models.acknowledged(token)

    def _refused(self, event: Refused, now: float) -> None:
        if isinstance(event.token, ReportToken):
            self._reporter.refused(event, now)
        elif isinstance(event.token, PresenceToken):
            self._own.refused(event.token, event, now)
        else:
            self._models.refused(event, now)

    def _lost(self) -> None:
        self.connected = False
        self._pace.lost()
        self._models.lost()
        self._own.lost()
        self._subscribes.cancel()

    # --- work

    def work(self, now: float) -> None:
        """Say what is due. Raises StoreBroken."""
        self._reporter.notice(now)
        if not self.connected:
            return
        if self._subscribes.take(now):
            self._subscribe()
        self._own.work(now)
        self._reporter.work(now)
        if self._own.take_echo(now) and not self._models.released:
            self._release()
        if self._limit != self._session.limit:
            self._limit = self._session.limit
            self._models.limit_changed(now)
        self._models.work(now, lambda: self._session.free)

    def _release(self) -> None:
        """What the broker keeps of the own ModelSet is known, or was waited for: ops may go."""
        if not self._own.echoed:
            log.warning(
                "the own birth did not come back; model ops go without knowing the ModelSet that"
                " the broker keeps",
                waited_s=ECHO_WAIT,
            )
        self._models.release()

    def oversize(self, message: Outgoing) -> str | None:
        """Why the broker does not take `message`; None where nothing is known against it."""
        limit, size = self._session.limit, wire_size(message)
        if limit is None or size <= limit:
            return None
        return f"{size} bytes are above the broker's limit of {limit}"

    # --- leaving

    def leave(self, now: float) -> None:
        """The process ends: what was put off goes now."""
        self._own.leave()
        self._pace.hasten(now)

    def say_offline(self) -> None:
        """The last word; raises nothing while `connected` holds."""
        self._own.say_offline()
