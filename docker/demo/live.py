"""The live table: a picture about once a second, drawn anew; lines of changes for a pipe.

The main thread only. It ends with an interrupt, or when a process of the stage ends by itself.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from picture import Picture, picture
from stage import WITHOUT_AGENT, Stage
from table import clip, draw
from waiting import Interrupted

_EVERY = 1.0
_FRESH_FOR = 6.0
_HOME, _CLEAR_LINE, _CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"  # a screen of its own, no cursor


def notes(stage: Stage) -> list[str]:
    """What to try, in few lines: a terminal of 24 shows the whole table below them."""
    return [
        f"In {stage.directory} (it goes when Ctrl-C ends the demo), edit",
        "  manifests/datasets.yaml    set nodeName of crane-vibration to edge-a",
        "  edge-a/models/models.json  add, change or remove a model: its ops appear",
        f"Broker {stage.broker.url}; logs/bridge.log says why a manifest failed",
    ]


@dataclass
class Changes:
    """What differs from one picture to the next, and when that was seen."""

    _known: dict[tuple[str, str], str] | None = None
    _seen: dict[tuple[str, str], float] = field(default_factory=dict)

    def take(self, now: Picture, time: float) -> list[tuple[str, str, str]]:
        """(node, what, its state now, or `gone`) for all that changed; the first: all."""
        before, after = self._known or {}, dict(_marks(now))
        changed = [
            (*mark, after.get(mark, "gone"))
            for mark in sorted({*before, *after})
            if before.get(mark) != after.get(mark)
        ]
        if self._known is not None:
            self._seen.update({(node, what): time for node, what, _ in changed})
        self._known = after
        return changed

    def fresh(self, time: float) -> set[tuple[str, str]]:
        return {mark for mark, seen in self._seen.items() if time - seen < _FRESH_FOR}


def show(stage: Stage) -> None:
    """Draw until an interrupt. Raises DemoFailed when a part of the stage has failed."""
    terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    changes = Changes()
    if terminal:
        _write(_ENTER)
    else:
        print("\n".join([*notes(stage), f"{WITHOUT_AGENT} has no agent, on purpose."]), flush=True)
    try:
        while True:
            for each in stage.watched:
                each.check()
            now = picture(stage.observer.view(), _disks(stage))
            changed = changes.take(now, time.monotonic())
            if terminal:
                _redraw(now, changes.fresh(time.monotonic()), notes(stage))
            else:
                for node, what, state in changed:
                    print(f"{node:<8} {what}: {state.partition('|')[0]}", flush=True)
            stage.waits.pause(_EVERY)
    except Interrupted:
        return
    finally:
        if terminal:
            _write(_LEAVE)


def _disks(stage: Stage) -> dict[str, dict[str, dict[str, object]]]:
    return {name: node.tree.read() for name, node in stage.nodes.items()}


def _marks(now: Picture) -> Iterator[tuple[tuple[str, str], str]]:
    """Each thing that can change, and what it is now; after `|`: what only tells it apart."""
    yield ("bridge", "state"), now.bridge
    yield ("broker", "state"), now.broker
    for node in now.nodes:
        yield (node.name, "agent"), node.agent
        for line in node.resources:
            yield (node.name, line.key), f"{line.state}|{line.digest}"
        for model in node.models:
            yield (node.name, f"model {model.name}"), model.state
    for op in now.ops:
        yield (op.node, f"#{op.seq}"), op.text


def _redraw(now: Picture, fresh: set[tuple[str, str]], above: list[str]) -> None:
    """Over what is there, line by line, so that nothing flickers."""
    size = shutil.get_terminal_size()
    lines = draw(now, fresh, above, size.lines - 1)
    shown = [clip(line, size.columns) + _CLEAR_LINE for line in lines[: size.lines - 1]]
    _write(_HOME + "\r\n".join(shown) + "\r\n" + _CLEAR_BELOW)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
