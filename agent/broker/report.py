"""The report: what this node has, and what it thinks of what it was sent.

Pure: made of what the store has accepted and how far the reconciler is; the time of day comes in
and is for people's eyes only. A report above the broker's limit sheds what matters least first;
the version always goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from agent.handlers.files import OrphanFile
from agent.reconciler import Progress, State
from agent.resources import NodeResources
from agent.store.records import Row
from nodecast.messages import Report, ResourceReport, Wire, encode, pack
from nodecast.names import ResourceKey

OMITTED = "Omitted"
ORPHAN = "Orphan"

TimeText = Callable[[float], str]
"""A moment of the monotonic clock as a time of day."""


def build_report(
    resources: NodeResources, node: str, instance: str, seq: int, now: float, text: TimeText
) -> Report:
    """The whole report of this moment."""
    accepted = resources.accepted
    return Report(
        bridge=accepted.bridge,
        node=node,
        instance=instance,
        seq=seq,
        time=text(now),
        epoch=accepted.version.epoch,
        revision=accepted.version.revision,
        digest=accepted.digest,
        incomplete=resources.incomplete,
        refused=resources.refused,
        resources=entries(resources, text),
    )


def entries(resources: NodeResources, text: TimeText) -> list[ResourceReport]:
    """One entry a resource, by key: those of the store, orphans, and omitted ones."""
    rows, progress = resources.store.rows, resources.reconciler.progress
    found = {k: _of_row(row, progress[k], text) for k, row in rows.items() if k in progress}
    for key, orphan in resources.orphans.items():
        found.setdefault(key, _of_orphan(orphan))
    for key in resources.accepted.withheld:
        found.setdefault(key, _of_omitted(key))
    return [found[key] for key in sorted(found)]


def _of_row(row: Row, progress: Progress, text: TimeText) -> ResourceReport:
    return ResourceReport(
        key=row.key,
        uid=row.uid,
        generation=row.generation,
        digest=row.digest,
        state=progress.state,
        reason=progress.reason,
        message=progress.message,
        attempts=progress.attempts,
        since=text(progress.since),
    )


def _of_orphan(orphan: OrphanFile) -> ResourceReport:
    return ResourceReport(
        key=orphan.key,
        uid=orphan.uid,
        generation=orphan.generation,
        digest=orphan.digest,
        state=State.APPLIED,
        reason=ORPHAN,
        message="on disk, and not known to the store: it goes only when the bridge speaks live",
    )


def _of_omitted(key: ResourceKey) -> ResourceReport:
    return ResourceReport(
        key=key,
        state=State.PENDING,
        reason=OMITTED,
        message="it belongs to this node and could not be sent",
    )


def shed(report: Report) -> Iterator[Report]:
    """`report`, then ever smaller forms: without status, messages, Applied entries, any entry."""
    yield report
    slim = [msgspec.structs.replace(each, status=None) for each in report.resources]
    yield msgspec.structs.replace(report, resources=slim)
    slim = [msgspec.structs.replace(each, message="") for each in slim]
    yield msgspec.structs.replace(report, resources=slim)
    slim = [each for each in slim if each.state != State.APPLIED]
    yield msgspec.structs.replace(report, resources=slim)
    yield msgspec.structs.replace(report, resources=[])


def fit(report: Report, fits: Callable[[Wire], bool]) -> Wire:
    """The largest form of `report` that `fits`; the smallest where none does."""
    wire = Wire(b"")
    for form in shed(report):
        wire = pack(encode(form), compress=True)
        if fits(wire):
            break
    return wire
