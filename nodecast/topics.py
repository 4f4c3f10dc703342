"""The topics of the contract (README, Topics and messages), in one place.

A topic names who it is about; who may write it is said beside each method. Names were checked
before they come here, so a topic never holds a wildcard that came from outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

from nodecast.errors import InvalidName
from nodecast.names import BridgeName, NodeName, node_name

Topic = NewType("Topic", str)
"""A topic name without wildcards."""

TopicFilter = NewType("TopicFilter", str)
"""A topic name or a filter with `+`."""


def topic_prefix(value: str) -> str:
    """Check a prefix such as `site/a`: levels without wildcards, not starting with `$`.

    Raises InvalidName.
    """
    if value and (
        any(c in value for c in "+#")
        or not value.isprintable()  # control characters and what has no UTF-8: MQTT 5 §1.5.4
        or value.startswith("$")
        or "" in value.split("/")
        or len(value.encode()) > 1024
    ):
        raise InvalidName(
            f"topic prefix {value!r} is not levels such as 'site/a' without wildcards"
        )
    return value


@dataclass(frozen=True, slots=True)
class Topics:
    """Builds and reads the topics below an optional prefix."""

    prefix: str = ""

    def _topic(self, *levels: str) -> Topic:
        return Topic("/".join((self.prefix, *levels) if self.prefix else levels))

    def resources(self, node: NodeName) -> Topic:
        """Snapshot; the bridge, retained."""
        return self._topic("node", node, "resources")

    def state(self, node: NodeName) -> Topic:
        """Presence; the agent and its will, retained."""
        return self._topic("node", node, "state")

    def status(self, node: NodeName) -> Topic:
        """Report; the agent, retained."""
        return self._topic("node", node, "status")

    def models(self, node: NodeName) -> Topic:
        """ModelSet; the agent, retained."""
        return self._topic("node", node, "models")

    def model_ops(self, node: NodeName) -> Topic:
        """ModelOp, in order; the agent, not retained."""
        return self._topic("node", node, "models", "ops")

    def bridge_state(self, bridge: BridgeName) -> Topic:
        """Presence; the bridge and its will, retained."""
        return self._topic("bridge", bridge, "state")

    def ledger(self, bridge: BridgeName) -> Topic:
        """Ledger; the bridge, retained."""
        return self._topic("bridge", bridge, "nodes")

    def probe(self, bridge: BridgeName) -> Topic:
        """The bridge's echo to itself, not retained."""
        return self._topic("bridge", bridge, "probe")

    def every_status(self) -> TopicFilter:
        """The reports of all nodes."""
        return TopicFilter(self._topic("node", "+", "status"))

    def parse_node(self, topic: str) -> tuple[NodeName, str] | None:
        """(node, `status`) of `node/<node>/status`, and so on; None for any other topic."""
        head = f"{self.prefix}/node/" if self.prefix else "node/"
        if not topic.startswith(head):
            return None
        node, _, leaf = topic[len(head) :].partition("/")
        try:
            return (node_name(node), leaf) if leaf else None
        except InvalidName:
            return None


def bridge_client_id(bridge: BridgeName) -> str:
    return f"nodecast-bridge-{bridge}"


def agent_client_id(node: NodeName) -> str:
    return f"nodecast-agent-{node}"
