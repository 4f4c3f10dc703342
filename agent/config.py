"""The agent's settings, each described once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from agent.pace import ReportTimes
from agent.resources import Pacing
from nodecast.backoff import Backoff
from nodecast.errors import InvalidName, SettingsError
from nodecast.log import LogFormat
from nodecast.names import BridgeName, NodeName, bridge_name, node_name
from nodecast.session import MqttSettings
from nodecast.settings import PositiveSeconds, Seconds

_STORE = Backoff(0.5, 60.0)
"""Pauses while the store takes no change."""
_SPREAD = 5.0
"""Seconds over which a fleet's reports are spread when the bridge shows another instance."""


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of `nodecast-agent`. Making one raises SettingsError for what cannot be."""

    node: Annotated[
        str | None,
        Meta(description="The name of this node, as the objects name it; must be given to run."),
    ] = None
    bridge: Annotated[
        str,
        Meta(
            description="The bridge that this node follows. Another bridge's first snapshot takes\n"
            "away what it does not name."
        ),
    ] = "default"
    state_dir: Annotated[
        str, Meta(description="The directory of the agent's store; one agent a directory.")
    ] = "/var/lib/nodecast"
    resources_dir: Annotated[
        str | None,
        Meta(description="Where the resource files go; none: resources in the state directory."),
    ] = None
    model_config_dir: Annotated[
        str, Meta(description="The directory of models.json; it need not exist yet.")
    ] = "/etc/nodecast/models"
    model_config_poll: Annotated[
        PositiveSeconds,
        Meta(description="Seconds between two looks at models.json where no event came."),
    ] = 30.0
    report_coalesce: Annotated[
        Seconds, Meta(description="Seconds between two reports of changes, at the least.")
    ] = 5.0
    heartbeat: Annotated[
        PositiveSeconds, Meta(description="Seconds between reports where nothing changes.")
    ] = 300.0
    round: Annotated[
        PositiveSeconds,
        Meta(description="Seconds between two checks of the files against the store."),
    ] = 600.0
    retry_min: Annotated[
        PositiveSeconds, Meta(description="Seconds: the longest first pause after a failure.")
    ] = 1.0
    retry_max: Annotated[
        PositiveSeconds, Meta(description="Seconds: the longest pause after a failure.")
    ] = 300.0
    log_format: Annotated[LogFormat, Meta(description="Log lines as text or json.")] = "text"
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="The least level logged.")
    ] = "info"
    mqtt: MqttSettings = msgspec.field(default_factory=MqttSettings)

    def __post_init__(self) -> None:
        try:
            bridge_name(self.bridge)
            if self.node is not None:
                node_name(self.node)
        except InvalidName as error:
            raise SettingsError(str(error)) from error
        if self.retry_min > self.retry_max:
            raise SettingsError(f"retry_min ({self.retry_min:g}) is above retry_max: lower it")
        for name in ("state_dir", "resources_dir", "model_config_dir"):
            path = getattr(self, name)
            if path == "":
                raise SettingsError(f"{name} is empty: give a directory")
            if path is not None and not path.isprintable():
                raise SettingsError(f"{name} {path!r} is no printable text: reports must name it")

    @property
    def node_name(self) -> NodeName:
        """Raises SettingsError where no node was given."""
        if self.node is None:
            raise SettingsError(
                "node is not set: give --node NAME, NODECAST_NODE, or node in the settings"
            )
        return node_name(self.node)

    @property
    def bridge_name(self) -> BridgeName:
        return bridge_name(self.bridge)

    @property
    def state(self) -> Path:
        return Path(self.state_dir)

    @property
    def tree(self) -> Path:
        return Path(self.resources_dir) if self.resources_dir else self.state / "resources"

    def pacing(self) -> Pacing:
        """The times of the resources side."""
        return Pacing(self.round, Backoff(self.retry_min, self.retry_max), _STORE)

    def report_times(self) -> ReportTimes:
        return ReportTimes(self.report_coalesce, self.heartbeat, _SPREAD)
