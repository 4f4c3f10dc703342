"""From a node's content and version to the message on the wire, within every limit."""

from __future__ import annotations

from collections.abc import Sequence

from bridge.contents import Content, fit
from bridge.record import ObjectRecord
from nodecast.messages import MAX_BODY, Version, encode_snapshot, pack
from nodecast.messages.version import MAX_NUMBER
from nodecast.names import BridgeName, KindName, NodeName
from nodecast.session import Outgoing, wire_size
from nodecast.topics import Topics

_GREATEST = Version(MAX_NUMBER, MAX_NUMBER)
_ENVELOPE = 4096
"""Bytes that are enough for a snapshot's fields, its topic and its MQTT properties, however long
the names and the prefix are."""


_SLACK = 256
"""Bytes by which another version may make the same content larger once it is compressed."""


class SnapshotWriter:
    """Builds contents that fit and messages of them. One owner thread."""

    def __init__(
        self, bridge: BridgeName, instance: str, topics: Topics, *, compress: bool
    ) -> None:
        self._bridge = bridge
        self._instance = instance
        self._topics = topics
        self._compress = compress
        self.limit: int | None = None
        """Bytes of the largest PUBLISH that the broker is known to take."""

    def content(
        self, node: NodeName, records: Sequence[ObjectRecord], held: tuple[KindName, ...]
    ) -> Content:
        """The content of a node, without what is too large for the limits."""
        return fit(records, held, lambda content: self._fits(node, content))

    def message(self, node: NodeName, version: Version, content: Content) -> Outgoing:
        """The retained message that carries a content."""
        body = encode_snapshot(
            bridge=self._bridge,
            instance=self._instance,
            node=node,
            version=version,
            digest=content.digest,
            resources=[record.encoded for record in content.records],
            held=content.held,
            omitted=content.omitted,
        )
        payload, encoding = pack(body, compress=self._compress)
        return Outgoing(self._topics.resources(node), payload, retain=True, encoding=encoding)

    def _fits(self, node: NodeName, content: Content) -> bool:
        size = _ENVELOPE + sum([len(record.encoded) + 1 for record in content.records])
        if content.held or content.omitted:
            size += sum([len(text) + 3 for text in (*content.held, *content.omitted)])
        if size > MAX_BODY:
            return False
        if self.limit is None or size <= self.limit:
            return True
        message = self.message(node, _GREATEST, content)
        slack = _SLACK if message.encoding else 0
        return wire_size(message) + slack <= self.limit
