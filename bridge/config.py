"""The bridge's settings, each described once."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from bridge.api.place import check_path
from bridge.guard import GuardPolicy
from bridge.lease_settings import LeaseSettings
from bridge.placement import Rule, Rules, built_in, make_rule, suggestion
from bridge.policy import Policy
from bridge.publisher import PublishPolicy
from bridge.sources.kubernetes.scope import Tuning
from nodecast.errors import ApiError, InvalidName, SettingsError
from nodecast.log import LogFormat
from nodecast.names import bridge_name, namespace_name, parse_kind
from nodecast.session import MqttSettings
from nodecast.settings import PositiveSeconds, Seconds

_DEFAULT = Policy()
_TUNING = Tuning()


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
    version: str | None = None
    plural: str | None = None


class KubernetesSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is served of a cluster, and how it is watched."""

    selector: Annotated[
        str, Meta(description="Serve only objects with these labels, such as 'tier=edge,!test'.")
    ] = ""
    selectors: Annotated[
        dict[str, str],
        Meta(
            description="Label selectors of single kinds, instead of that one, such as\n"
            '{"Model.sedna.io"="tier=edge"}.'
        ),
    ] = {}
    page: Annotated[int, Meta(description="Objects a page of a list.", ge=1, le=10_000)] = (
        _TUNING.page
    )
    watch: Annotated[
        PositiveSeconds,
        Meta(
            description="Seconds after which a watch is made anew. A server that has been silent"
            "\nfor 15 seconds more is given up."
        ),
    ] = _TUNING.watch
    resync: Annotated[
        PositiveSeconds,
        Meta(description="Seconds after which everything is listed anew, whatever the watch says."),
    ] = _TUNING.resync


class GuardSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When so much of a kind is missing that an operator must approve it."""

    enabled: Annotated[
        bool,
        Meta(
            description="Hold a kind of which too much would leave its nodes, whatever the cause,"
            "\nuntil that is back or `nodecast-bridge approve KIND` lets it go."
            "\nAll kinds together are counted in the same way."
        ),
    ] = _DEFAULT.guard.enabled
    share: Annotated[
        float,
        Meta(
            description="More than this share of a kind's placed objects is too much.", ge=0, lt=1
        ),
    ] = _DEFAULT.guard.share
    number: Annotated[
        int, Meta(description="Fewer objects than this are never too much.", ge=1)
    ] = _DEFAULT.guard.number
    window: Annotated[
        PositiveSeconds, Meta(description="Seconds within which what goes is counted together.")
    ] = _DEFAULT.guard.window


class ApiSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where commands find the running bridge. Making one raises SettingsError."""

    socket: Annotated[
        str | None,
        Meta(
            description="The Unix socket on which commands such as `approve` ask the running"
            " bridge; an absolute path.\nNot set: <bridge>.sock in systemd's RUNTIME_DIRECTORY; in"
            " /run/nodecast-bridge for root; in\n$XDG_RUNTIME_DIR/nodecast-bridge for others."
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.socket is not None:
            try:
                check_path(self.socket)
            except ApiError as error:
                raise SettingsError(f"api.socket {error}") from error


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
    kubeconfig: Annotated[
        str | None,
        Meta(
            description="Serve the objects of the cluster that this file names. With neither this"
            " nor a context\nnor manifests, in a pod: those of the pod's own cluster."
        ),
    ] = None
    context: Annotated[
        str | None, Meta(description="The context of the kubeconfig, instead of its current one.")
    ] = None
    namespace: Annotated[
        str,
        Meta(description="Only objects in this namespace, or in these, with commas. Empty: all."),
    ] = ""
    source: Annotated[
        str | None,
        Meta(
            description="What tells this source from another: a broker that holds the nodes of"
            " another source is refused.\nNot set: the UID of the cluster's namespace kube-system;"
            " 'manifests' for a directory."
        ),
    ] = None
    group: Annotated[
        Literal["sedna.io", "neptune.io"], Meta(description="The API group of the built-in kinds.")
    ] = "sedna.io"
    kinds: Annotated[
        list[str] | None,
        Meta(
            description='Serve only these kinds, such as ["Dataset.sedna.io"], with those that they'
            " refer to.\nNot set: every kind that has a rule, built in or below."
        ),
    ] = None
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
            'follows = [{kind = "Site", path = "spec.site"}]\n'
            "In a cluster, version and plural of the kind are discovered where a rule has none."
        ),
    ] = []
    guard: GuardSettings = msgspec.field(default_factory=GuardSettings)
    kubernetes: KubernetesSettings = msgspec.field(default_factory=KubernetesSettings)
    api: ApiSettings = msgspec.field(default_factory=ApiSettings)
    lease: LeaseSettings = msgspec.field(default_factory=LeaseSettings)
    mqtt: MqttSettings = msgspec.field(default_factory=MqttSettings)

    def __post_init__(self) -> None:
        try:
            bridge_name(self.bridge)
        except InvalidName as error:
            raise SettingsError(f"bridge: {error}") from error
        if self.source is not None and not 1 <= len(self.source) <= 253:
            raise SettingsError("source: must be 1 to 253 characters")
        for name, what in (
            ("manifests", "a directory"),
            ("kubeconfig", "a file"),
            ("context", "a name"),
        ):
            if getattr(self, name) == "":
                raise SettingsError(f"{name} is empty: give {what}")
        for name in ("kubeconfig", "context", "namespace"):
            if self.manifests is not None and getattr(self, name):
                raise SettingsError(f"{name}: there are manifests too: give one source")
        kinds = [rule.kind for rule in self.rules]
        if twice := {kind for kind in kinds if kinds.count(kind) > 1}:
            raise SettingsError(f"rules: {min(twice)} has two rules: make them one")
        self.lease.check()
        if self.manifests is not None and self.lease.mode == "on":
            raise SettingsError("lease.mode: a directory of manifests has no Lease: leave it out")
        rules = self.placement()
        self.namespaces  # noqa: B018 - raises
        for kind in self.kubernetes.selectors:
            if kind not in rules.kinds:
                hint = suggestion(kind, rules.kinds)
                raise SettingsError(f"kubernetes.selectors: {kind} has no rule{hint}")

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Those to be served; none: all. Raises SettingsError."""
        names = [name.strip() for name in self.namespace.split(",")]
        try:
            return tuple(dict.fromkeys(namespace_name(name) for name in names if name))
        except InvalidName as error:
            raise SettingsError(f"namespace: {error}") from error

    def placement(self) -> Rules:
        """The table of placement rules. Raises SettingsError."""
        try:
            rules = Rules([*built_in(self.group), *map(_rule, self.rules)])
        except SettingsError as error:
            raise SettingsError(f"rules: {error}") from error
        if self.kinds is None:
            return rules
        if unknown := set(self.kinds) - set(rules.kinds):
            hint = suggestion(min(unknown), rules.kinds)
            raise SettingsError(f"kinds: {min(unknown)} has no rule{hint}")
        if not self.kinds:
            raise SettingsError("kinds: name one at least, or leave it out")
        return rules.only(parse_kind(kind) for kind in self.kinds)

    def policy(self) -> Policy:
        """The times of the core."""
        return Policy(
            hold=self.hold,
            settle=self.settle,
            settle_max=self.settle_max,
            lag=self.lag,
            compress=self.compress,
            guard=GuardPolicy(
                enabled=self.guard.enabled,
                share=self.guard.share,
                number=self.guard.number,
                window=self.guard.window,
            ),
            publish=PublishPolicy(interval=self.interval, repair_rate=self.repair_rate),
        )


def _rule(rule: RuleSettings) -> Rule:
    return make_rule(
        rule.kind,
        rule.nodes,
        [(each.kind, each.path) for each in rule.carries],
        [(each.kind, each.path) for each in rule.follows],
        rule.namespaced,
        rule.version,
        rule.plural,
    )
