"""The nodes' model configs: written in every way that people and tools write files, and broken.

Used by the run's thread alone.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.chaos.acts import Config, How
from tests.chaos.consumer import Specs
from tests.chaos.processes import Processes

_BROKEN = '[{"modelName": "half", "modelSpec": {"storageUri": "s3://'


class ConfigFiles:
    """`models` are those that each node must have: what its file said last that could be read."""

    def __init__(self, processes: Processes) -> None:
        self._paths = {node: host.agent.config for node, host in processes.agents.items()}
        self._texts: dict[str, str] = {}
        self.models: dict[str, Specs] = {}

    def write(self, config: Config) -> None:
        path = self._paths[config.node]
        if config.how is How.MISSING:
            path.unlink(missing_ok=True)
            return
        if config.how is How.BROKEN:
            path.write_text(_BROKEN)
            return
        entries = [{"modelName": name, "modelSpec": spec} for name, spec in config.specs.items()]
        text = json.dumps(entries, ensure_ascii=False)
        self._texts[config.node] = text
        self.models[config.node] = {name: dict(spec) for name, spec in config.specs.items()}
        _put(path, text, config.how)

    def mend(self) -> None:
        """Every file can be read, and says what it said last."""
        for node, text in self._texts.items():
            if not self._paths[node].exists() or self._paths[node].read_text() != text:
                _put(self._paths[node], text, How.RENAMED)


def _put(path: Path, text: str, how: How) -> None:
    if how is How.RENAMED:
        temporary = path.with_name(".new")
        temporary.write_text(text)
        temporary.replace(path)
        return
    with path.open("w") as file:
        half = len(text) // 2 if how is How.PIECES else 0
        file.write(text[:half])
        file.flush()
        file.write(text[half:])
