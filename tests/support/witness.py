"""A witness of what bridges say: it sees messages in the order in which the broker took them, so
what it says does not depend on the speed of anything."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from nodecast.messages import Ledger, Presence, Report, Wire, decode, decode_snapshot
from tests.support.mqtt import Observer, Seen


@dataclass(frozen=True)
class Word:
    """What a bridge said: a snapshot (of a node, as a version), its ledger, or its birth."""

    at: float
    instance: str
    epoch: int
    node: str = ""
    revision: int = 0


class Witness(Observer):
    """Takes down when each message came, in monotonic seconds."""

    def __init__(self, port: int) -> None:
        self.times: list[float] = []
        super().__init__(port)

    def _on_message(self, *args: Any) -> None:
        self.times.append(time.monotonic())
        super()._on_message(*args)

    def words(self) -> list[Word]:
        """All that bridges said, in order; nothing of wills and goodbyes."""
        said = (_word(at, seen) for at, seen in zip(self.times, list(self.messages), strict=False))
        return [word for word in said if word is not None]

    def reports(self) -> list[Report]:
        return [
            decode(Report, _wire(seen))
            for seen in list(self.messages)
            if seen.topic.endswith("/status") and seen.payload
        ]

    def online(self) -> str | None:
        """The instance that says it is there, once it has said something to a node too."""
        seen = self.latest("bridge/default/state")
        presence = decode(Presence, _wire(seen)) if seen is not None else None
        if presence is None or not presence.online:
            return None
        served = any(word.node and word.epoch == presence.epoch for word in self.words())
        return presence.instance if served else None


def _wire(seen: Seen) -> Wire:
    return Wire(seen.payload, seen.properties.get("encoding"))


def _word(at: float, seen: Seen) -> Word | None:
    if not seen.payload or seen.retained:
        return None
    match seen.topic.split("/"):
        case ["node", node, "resources"]:
            snapshot = decode_snapshot(_wire(seen))
            version = snapshot.version
            return Word(at, snapshot.instance, version.epoch, node, version.revision)
        case ["bridge", "default", "nodes"]:
            ledger = decode(Ledger, _wire(seen))
            return Word(at, ledger.instance, ledger.epoch)
        case ["bridge", "default", "state"]:
            presence = decode(Presence, _wire(seen))
            if presence.online:
                assert isinstance(presence.epoch, int)
                return Word(at, presence.instance, presence.epoch)
    return None


def check_order(words: list[Word]) -> None:
    """Epochs come one after the other, each of one instance; no node is told anything older."""
    instances: dict[int, str] = {}
    versions: dict[str, tuple[int, int]] = {}
    greatest = 0
    for word in words:
        assert word.epoch >= greatest, f"{word} after epoch {greatest}"
        greatest = word.epoch
        assert instances.setdefault(word.epoch, word.instance) == word.instance, word
        if word.node:
            version = word.epoch, word.revision
            assert version >= versions.get(word.node, (0, 0)), f"{word} after {versions[word.node]}"
            versions[word.node] = version


def check_reports(reports: list[Report]) -> None:
    """No agent goes back."""
    versions: dict[str, tuple[int, int]] = {}
    for report in reports:
        version = report.version.epoch, report.version.revision
        assert version >= versions.get(report.node, (0, 0)), report
        versions[report.node] = version
