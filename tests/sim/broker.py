"""A broker with a retained store, and the links to it.

A link carries packets in order each way, each with a delay of its own. A cut link carries nothing:
what was sent waits in it, and goes on when it heals, unless one end has given it up meanwhile. So
an acknowledgement may be lost after the broker has stored the message. A will waits for its delay,
and is not published if its client comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from nodecast.session import Outgoing, Received, Subscription
from tests.sim.clock import Simulation

DELAY = (0.005, 0.1)
WILDCARD_LOSS = 0.3
"""Share of the retained messages that the replay of a wildcard subscription drops."""
TWICE = 0.03
"""Share of the messages that are delivered twice (QoS 1)."""


@dataclass(frozen=True, slots=True)
class Publish:
    message: Outgoing
    number: int


@dataclass(frozen=True, slots=True)
class Subscribe:
    filters: tuple[Subscription, ...]
    token: object


@dataclass(frozen=True, slots=True)
class Goodbye:
    """The client leaves without its will."""


@dataclass(frozen=True, slots=True)
class Answer:
    """PUBACK of a publish, or SUBACK of a subscribe; the CONNACK answers None."""

    of: Publish | Subscribe | None


@dataclass(frozen=True, slots=True)
class Closed:
    """The broker's end is closed."""


class Client(Protocol):
    """The other end of a link."""

    client_id: str

    def arrived(self, link: Link, packet: object) -> None: ...

    def timed_out(self, link: Link) -> None: ...


class Link:
    """One connection. `open_here`: the broker's end; `open_there`: the client's."""

    def __init__(
        self, sim: Simulation, broker: Broker, client: Client, will: Outgoing | None
    ) -> None:
        self.client = client
        self.will = will
        self.filters: list[str] = []
        self.open_here = self.open_there = True
        self._sim = sim
        self._broker = broker
        self._rng = sim.rng(f"link/{client.client_id}/{sim.now}")
        self._cut = False
        self._stuck: list[tuple[Callable[[object], None], object]] = []
        self._free_at = {True: 0.0, False: 0.0}

    def up(self, packet: object) -> None:
        """From the client to the broker."""
        if self.open_there:
            self._send(self._at_broker, packet, up=True)

    def down(self, packet: object) -> None:
        """From the broker to the client."""
        if self.open_here or isinstance(packet, Closed):
            self._send(self._at_client, packet, up=False)

    def cut(self, lasts: float) -> None:
        """Carry nothing for a while; either end gives the link up after some seconds of it."""
        self._cut = True
        self._sim.after(lasts, self._heal)
        self._sim.after(5 + self._rng.random(), self._give_up, True)
        self._sim.after(7 + self._rng.random(), self._give_up, False)

    def _send(self, deliver: Callable[[object], None], packet: object, *, up: bool) -> None:
        at = max(self._free_at[up], self._sim.now + self._rng.uniform(*DELAY))
        self._free_at[up] = at
        self._sim.after(at - self._sim.now, self._deliver, deliver, packet)

    def _deliver(self, deliver: Callable[[object], None], packet: object) -> None:
        if self._cut:
            self._stuck.append((deliver, packet))
        else:
            deliver(packet)

    def _at_broker(self, packet: object) -> None:
        if self.open_here:
            self._broker.received(self, packet)

    def _at_client(self, packet: object) -> None:
        if self.open_there:
            self.client.arrived(self, packet)

    def _heal(self) -> None:
        self._cut = False
        stuck, self._stuck = self._stuck, []
        for deliver, packet in stuck:
            deliver(packet)

    def _give_up(self, client_side: bool) -> None:
        if not self._cut:
            return
        if client_side and self.open_there:
            self.open_there = False
            self.client.timed_out(self)
        elif not client_side and self.open_here:
            self._broker.drop(self)


class Broker:
    """The store and the links. `published` counts what it took."""

    def __init__(self, sim: Simulation) -> None:
        self.retained: dict[str, Outgoing] = {}
        self.links: dict[str, Link] = {}
        self.alive = True
        self.published = 0
        self._sim = sim
        self._rng = sim.rng("broker")
        self._saved: dict[str, Outgoing] = {}
        self._wills: dict[str, Outgoing] = {}
        sim.after(self._rng.uniform(10, 40), self._save)

    def connect(self, client: Client, will: Outgoing | None) -> Link | None:
        """A new connection; it takes over from an older one of the same client id."""
        if not self.alive:
            return None
        self._wills.pop(client.client_id, None)
        old = self.links.get(client.client_id)
        if old is not None:
            self._sim.say("broker", "takeover", client=client.client_id)
            self.drop(old)
            self._wills.pop(client.client_id, None)
        link = self.links[client.client_id] = Link(self._sim, self, client, will)
        link.down(Answer(None))
        return link

    def received(self, link: Link, packet: object) -> None:
        """A packet of a client."""
        if not self.alive:
            return
        match packet:
            case Publish(message):
                self.publish(message)
                link.down(Answer(packet))
            case Subscribe(filters):
                link.down(Answer(packet))
                self._subscribe(link, filters)
            case Goodbye():
                link.will = None
                self.drop(link)

    def drop(self, link: Link) -> None:
        """Close the broker's end; the will follows after its delay."""
        if not link.open_here:
            return
        link.open_here = False
        link.down(Closed())
        name = link.client.client_id
        if self.links.get(name) is link:
            del self.links[name]
        if link.will is not None:
            self._wills[name] = link.will
            self._sim.after(link.will.will_delay, self._say_will, name, link.will)

    def kill(self, store: str, lasts: float) -> None:
        """Killed; back after `lasts` seconds with its store kept, `older` or `empty`."""
        self._sim.say("broker", "killed", store=store, lasts=round(lasts, 1))
        self.alive = False
        self._wills.clear()
        for link in list(self.links.values()):
            link.will = None
            self.drop(link)
        if store == "empty":
            self.retained, self._saved = {}, {}
        elif store == "older":
            self.retained = dict(self._saved)
        self._sim.after(lasts, self.start)

    def start(self) -> None:
        self.alive = True

    def publish(self, message: Outgoing) -> None:
        """Store it, and pass it to who subscribed."""
        self.published += 1
        if message.retain:
            self.retained[message.topic] = message
        for link in list(self.links.values()):
            for _ in [each for each in link.filters if matches(each, message.topic)]:
                self._pass_on(link, message, retained=False)
                if self._rng.random() < TWICE:
                    self._pass_on(link, message, retained=False)

    def _subscribe(self, link: Link, filters: Sequence[Subscription]) -> None:
        for each in filters:
            if each.filter not in link.filters:
                link.filters.append(each.filter)
            if not each.replay:
                continue
            for topic, message in self.retained.items():
                lost = "+" in each.filter and self._rng.random() < WILDCARD_LOSS
                if matches(each.filter, topic) and not lost:
                    self._pass_on(link, message, retained=True)

    @staticmethod
    def _pass_on(link: Link, message: Outgoing, *, retained: bool) -> None:
        link.down(Received(message.topic, message.payload, retained, message.encoding))

    def _say_will(self, name: str, will: Outgoing) -> None:
        if self.alive and self._wills.get(name) is will:
            del self._wills[name]
            self.publish(will)

    def _save(self) -> None:
        if self.alive:
            self._saved = dict(self.retained)
        self._sim.after(self._rng.uniform(10, 40), self._save)


def matches(topic_filter: str, topic: str) -> bool:
    """Whether a filter with at most `+` matches."""
    levels, parts = topic_filter.split("/"), topic.split("/")
    return len(levels) == len(parts) and all(
        level in ("+", part) for level, part in zip(levels, parts, strict=True)
    )
