"""The operator: looks at what the bridge that is in charge holds, and approves it by its command.

Used by the run's thread alone; each look and each command waits for its answer.
"""

from __future__ import annotations

from pathlib import Path

from bridge.api.client import Client
from nodecast.errors import NoBridge
from tests.chaos.processes import Host
from tests.support.process import run_to_end

_WITHIN = 3.0


def approve_all(bridges: list[Host]) -> list[str]:
    """Approve all that can be; the kinds. A bridge that does not answer is left alone."""
    return [
        kind
        for host in bridges
        if host.process.running and not host.frozen
        for kind in _approvable(Path(str(host.process.settings["api.socket"])))
        if _approve(host, kind)
    ]


def _approvable(socket: Path) -> list[str]:
    try:
        status = Client([socket], _WITHIN).status()
    except NoBridge:
        return []
    return [view.kind for view in status.kinds if view.guarded and view.approvable]


def _approve(host: Host, kind: str) -> bool:
    settings = {"api.socket": host.process.settings["api.socket"]}
    return run_to_end("nodecast-bridge", "approve", kind, settings=settings).returncode == 0
