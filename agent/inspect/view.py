"""What `status`, `resources` and `models` show: the store and the agent's last word, put together.

Pure but for reading the state directory. The store is the truth about versions and resources; the
status file adds what only a running agent knows, and is what it said last where it has stopped.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from agent.broker.report import OMITTED, ORPHAN
from agent.inspect.disk import DiskState, read_models, read_state, reading
from agent.inspect.live import FILE, LiveStatus, out_of_date, read_live
from agent.lock import agent_runs
from agent.models.modelset import SHOWN_PROBLEMS
from agent.reconciler import State
from agent.store.records import Row
from nodecast.messages import NONE, ModelSet, ResourceReport, Version


@dataclass(frozen=True, slots=True)
class View:
    """A state directory as it is now. `live`: what its agent said last, if it ever did;
    `unread`: why that does not read."""

    running: bool
    disk: DiskState
    live: LiveStatus | None
    models: ModelSet
    unread: str | None = None
    no_writing: str | None = None
    """Why nothing can be written to the directory now, so that `live` may be old."""

    @property
    def resources(self) -> list[ResourceReport]:
        """The resources by key: as the agent said, less what the store no longer has.

        The agent's word may be a moment old, or its last one before it was killed: of what is in
        no row it counts only for what never is in one.
        """
        said = {each.key: each for each in self.live.report.resources} if self.live else {}
        found = {str(row.key): _of_row(row) for row in self.disk.rows.values()}
        for key, entry in said.items():
            row = found.get(key)
            if row.digest == entry.digest if row else entry.reason in (ORPHAN, OMITTED):
                found[key] = entry
        return [found[key] for key in sorted(found)]

    @property
    def problems(self) -> list[str]:
        """What somebody should look at, a line each."""
        return list(_problems(self))


def look(state_dir: Path) -> View:
    """Raises StoreError where no agent ran yet, or the store does not read."""
    running, said = agent_runs(state_dir), read_live(state_dir)
    live, unread = (None, said) if isinstance(said, str) else (said, None)
    with reading(state_dir) as connection:
        disk = read_state(connection)
        models = live.models if live else read_models(connection, "", disk.store)
    return View(running, disk, live, models, unread, no_writing(state_dir))


def no_writing(state_dir: Path) -> str | None:
    """Why the file system of `state_dir` takes nothing; None when it does.

    Asked of the system, since an agent on a full disk cannot write down that it is full.
    """
    try:
        disk = os.statvfs(state_dir)
    except OSError as error:
        return f"{state_dir}: {error.strerror}"
    if disk.f_flag & os.ST_RDONLY:
        return f"the file system of {state_dir} is read-only"
    if disk.f_bavail == 0 or (disk.f_files > 0 and disk.f_favail == 0):
        return f"the file system of {state_dir} is full: nothing new is taken until there is room"
    if out_of_date(state_dir):
        return f"the agent cannot write {state_dir / FILE}: this is how it was; look at its log"
    return None


def _of_row(row: Row) -> ResourceReport:
    if row.leaving:
        state, reason = State.REMOVING, ""
    else:
        state, reason = (State.APPLIED if row.applied == row.sum else State.PENDING), ""
    return ResourceReport(
        key=row.key,
        uid=row.uid,
        generation=row.generation,
        digest=row.digest,
        state=state,
        reason=reason,
    )


def _problems(view: View) -> Iterator[str]:
    live = view.live
    if not view.running:
        yield "the agent is not running"
    if view.no_writing:
        yield view.no_writing
    if view.unread:
        yield view.unread
    if view.disk.bad:
        yield f"{view.disk.bad} records of the store do not read; the next start sets them aside"
    for each in view.resources:
        if each.state == State.FAILED or (each.state == State.REMOVING and each.attempts):
            yield f"{each.key}: {each.reason}: {each.message}"
    for model in view.models.models:
        if model.state == "Failed":
            yield f"model {model.name}: {model.message}"
    config = view.models.config
    if config.state == "invalid":
        yield f"model config {config.path}: {config.message}"
    if live is None:
        return
    yield from _bad_entries(live.config_problems, config.path)
    if live.left_alone:
        yield f"what the broker keeps for this node is left alone: {live.left_alone}"
    if not view.running:
        return
    if live.store_error:
        yield f"the store takes no change: {live.store_error}"
    if live.subscription_error:
        yield live.subscription_error
    if live.models_error:
        yield live.models_error
    if live.behind:
        yield "the store is older than the files: nothing is written before a snapshot is accepted"


def _bad_entries(problems: Sequence[str], path: str) -> Iterator[str]:
    for each in problems[:SHOWN_PROBLEMS]:
        yield f"model config {path}: {each}"
    if (rest := len(problems) - SHOWN_PROBLEMS) > 0:
        yield f"model config {path}: and {rest} more"


def summary(view: View) -> list[tuple[str, str]]:
    """(what, how) lines of `status`."""
    live, accepted = view.live, view.disk.accepted
    lines = [("agent", _agent(view))]
    if live is not None:
        lines += [("node", live.report.node), ("broker", _broker(view, live))]
    lines += [
        ("bridge", accepted.bridge or "-"),
        ("snapshot", _snapshot(view)),
        *_held(sorted(accepted.held)),
        ("resources", _counts(each.state for each in view.resources)),
        ("models", _counts(each.state for each in view.models.models)),
        ("model config", _config(view)),
    ]
    if live is not None and not live.left_alone and (refused := live.report.refused) is not None:
        version = Version(refused.epoch, refused.revision)
        lines.append(("refused", f"snapshot of {version}: {refused.reason}"))
    return lines


def _agent(view: View) -> str:
    live = view.live
    if not view.running:
        return "not running" + (f", last heard of at {live.written}" if live else "")
    return f"running since {live.started}, {live.version}" if live else "running"


def _broker(view: View, live: LiveStatus) -> str:
    if not view.running:
        return f"{live.broker}, not connected"
    if live.connected:
        return f"{live.broker}, connected since {live.since}"
    reason = f": {live.failure}" if live.failure else ""
    return f"{live.broker}, not connected since {live.since}{reason}"


def _snapshot(view: View) -> str:
    accepted = view.disk.accepted
    if accepted.version == NONE:
        live = view.live if view.running else None
        nothing_came = live is not None and live.connected and live.report.refused is None
        unseen = nothing_came and live is not None and not live.left_alone
        return "connected, but no snapshot ever seen" if unseen else "none accepted yet"
    text = f"{accepted.version}, digest {accepted.digest}"
    incomplete = view.live.report.incomplete if view.live else accepted.damaged
    if incomplete:
        text += ", incomplete: the bridge is asked to say it again"
    return text


def _held(kinds: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The kinds that take nothing away now, one a line."""
    for index, kind in enumerate(kinds):
        yield "" if index else "held", kind


def _config(view: View) -> str:
    config = view.models.config
    if view.live is not None and (bad := len(view.live.config_problems)):
        return f"ok but for {bad} {'entry' if bad == 1 else 'entries'} {config.path}"
    message = config.message and f"({config.message})"
    return " ".join(part for part in (config.state, config.path, message) if part)


def _counts(states: Iterable[str]) -> str:
    found = Counter(map(str, states))
    return ", ".join(f"{n} {state}" for state, n in sorted(found.items())) or "none"


def as_json(view: View) -> dict[str, Any]:
    """All of `status`, for programs."""
    live, accepted = view.live, view.disk.accepted
    refused = live.report.refused if live else None
    return {
        "running": view.running,
        "ready": bool(view.running and live and live.ready),
        "node": live.report.node if live else None,
        "bridge": accepted.bridge,
        "store": view.disk.store,
        "broker": live.broker if live else None,
        "connected": bool(view.running and live and live.connected),
        "since": live.since if live else None,
        "failure": live.failure if live and view.running else None,
        "epoch": accepted.version.epoch,
        "revision": accepted.version.revision,
        "digest": accepted.digest,
        "incomplete": live.report.incomplete if live else accepted.damaged,
        "heldKinds": sorted(accepted.held),
        "omitted": sorted(accepted.withheld),
        "refused": msgspec.to_builtins(refused),
        "resources": dict(Counter(str(each.state) for each in view.resources)),
        "models": dict(Counter(each.state for each in view.models.models)),
        "modelConfig": msgspec.to_builtins(view.models.config),
        "problems": view.problems,
    }


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Lines of columns as wide as they must be."""
    lines = [tuple(head), *(tuple(map(str, row)) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    for line in lines:
        yield "  ".join(
            cell.ljust(width) for cell, width in zip(line, widths, strict=True)
        ).rstrip()
