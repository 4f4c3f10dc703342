"""The bridge's settings, each described once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from bridge.placement import Rule, Rules, built_in, make_rule
from bridge.policy import Policy
from bridge.publisher import PublishPolicy
from nodecast.errors import InvalidName, SettingsError
from nodecast.log import LogFormat
from nodecast.names import bridge_name
from nodecast.session import MqttSettings
from nodecast.settings import PositiveSeconds, Seconds

_DEFAULT = Policy()


class ReferenceSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A reference in a rule: a kind of the owner's group, and where its name stands."""

    kind: str
    path: str


class RuleSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A placement rule for a kind, such as `Camera.example.com`."""

    kind: str
    nodes: list[str] = []
    carries: list[ReferenceSettings] = []
    follows: list[ReferenceSettings] = []
    namespaced: bool = True


class BridgeSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of `nodecast-bridge`. Making one raises SettingsError for what cannot be."""

    bridge: Annotated[
        str, Meta(description="The name of this bridge; agents follow the bridge of their setting.")
    ] = "default"
    manifests: Annotated[
        str | None, Meta(description="Serve the objects in this directory of YAML and JSON files.")
    ] = None
    manifests_poll: Annotated[
        PositiveSeconds,
        Meta(description="Seconds between two looks at the directory where no event came."),
    ] = 30.0
    source: Annotated[
        str,
        Meta(
            description="What tells this source from another: a broker that holds the nodes of"
            " another source is refused."
        ),
    ] = "manifests"
    group: Annotated[
        Literal["sedna.io", "neptune.io"], Meta(description="The API group of the built-in kinds.")
    ] = "sedna.io"
    hold: Annotated[
        Seconds,
        Meta(
            description="Seconds for which a kind that could not be seen in full takes nothing away"
            "\nonce it is seen again, and all kinds at a start without a ledger."
        ),
    ] = _DEFAULT.hold
    settle: Annotated[
        Seconds,
        Meta(description="Seconds for which a kind must lose nothing before a removal goes out."),
    ] = _DEFAULT.settle
    settle_max: Annotated[
        Seconds, Meta(description="Seconds for which a removal settles at the most.")
    ] = _DEFAULT.settle_max
    interval: Annotated[
        Seconds, Meta(description="Seconds between two snapshots of one node, at the least.")
    ] = _DEFAULT.publish.interval
    lag: Annotated[
        Seconds,
        Meta(description="Seconds a node may be behind before it is sent its snapshot again."),
    ] = _DEFAULT.lag
    repair_rate: Annotated[
        float, Meta(description="Nodes a second that are sent their snapshot again.", gt=0, le=1e6)
    ] = _DEFAULT.publish.repair_rate
    compress: Annotated[bool, Meta(description="Compress what is larger than 1 KiB (zlib).")] = (
        _DEFAULT.compress
    )
    log_format: Annotated[LogFormat, Meta(description="Log lines as text or json.")] = "text"
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="The least level logged.")
    ] = "info"
    rules: Annotated[
        list[RuleSettings],
        Meta(
            description="Placement rules for further kinds, or instead of built-in ones:\n"
            "[[rules]]\n"
            'kind = "Camera.example.com"\n'
            'nodes = ["spec.nodeName", "metadata.annotations[\'example.com/node\']"]\n'
            'carries = [{kind = "Lens", path = "spec.lenses[].name"}]\n'
            'follows = [{kind = "Site", path = "spec.site"}]'
        ),
    ] = []
    mqtt: MqttSettings = msgspec.field(default_factory=MqttSettings)

    def __post_init__(self) -> None:
        try:
            bridge_name(self.bridge)
        except InvalidName as error:
            raise SettingsError(f"bridge: {error}") from error
        if not self.source or len(self.source) > 253:
            raise SettingsError("source: must be 1 to 253 characters")
        if self.manifests == "":
            raise SettingsError("manifests is empty: give a directory")
        kinds = [rule.kind for rule in self.rules]
        if twice := {kind for kind in kinds if kinds.count(kind) > 1}:
            raise SettingsError(f"rules: {min(twice)} has two rules: make them one")
        self.placement()

    @property
    def directory(self) -> Path:
        """The directory of manifests. Raises SettingsError where none was given."""
        if self.manifests is None:
            raise SettingsError("no source: give --manifests DIR, or manifests in the settings")
        return Path(self.manifests)

    def placement(self) -> Rules:
        """The table of placement rules. Raises SettingsError."""
        try:
            return Rules([*built_in(self.group), *map(_rule, self.rules)])
        except SettingsError as error:
            raise SettingsError(f"rules: {error}") from error

    def policy(self) -> Policy:
        """The times of the core."""
        return Policy(
            hold=self.hold,
            settle=self.settle,
            settle_max=self.settle_max,
            lag=self.lag,
            compress=self.compress,
            publish=PublishPolicy(interval=self.interval, repair_rate=self.repair_rate),
        )


def _rule(rule: RuleSettings) -> Rule:
    return make_rule(
        rule.kind,
        rule.nodes,
        [(each.kind, each.path) for each in rule.carries],
        [(each.kind, each.path) for each in rule.follows],
        rule.namespaced,
    )
