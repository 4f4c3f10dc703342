"""What can happen in a run, as values: a plan can be printed, compared, and played again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from nodecast.names import NodeName, ResourceKey
from tests.chaos.things import Thing, kind_of, name_of


@dataclass(frozen=True, slots=True)
class Edit:
    """People write objects, and delete some."""

    put: tuple[Thing, ...] = ()
    drop: tuple[ResourceKey, ...] = ()

    @property
    def kind(self) -> str:
        if not self.put:
            return "objects deleted"
        return "objects written" if not self.drop else "objects written and deleted"

    def __str__(self) -> str:
        put = [f"{_brief(each.key)}@{'+'.join(sorted(each.nodes)) or '-'}" for each in self.put]
        drop = [_brief(key) for key in self.drop]
        said = [f"write {_some(put)}"] if put else []
        return "; ".join(said + ([f"delete {_some(drop)}"] if drop else []))


class How(StrEnum):
    """Ways to change a model config."""

    RENAMED = "renamed into place"
    IN_PLACE = "written in place"
    PIECES = "written in pieces"
    BROKEN = "broken"
    MISSING = "removed"


@dataclass(frozen=True, slots=True)
class Config:
    """A node's models.json. `models`: storage URIs by name; of no effect where it is broken or
    removed, which leaves the models as they were."""

    node: NodeName
    how: How
    models: tuple[tuple[str, str], ...] = ()

    @property
    def kind(self) -> str:
        return f"model config {self.how}"

    @property
    def speaks(self) -> bool:
        return self.how not in (How.BROKEN, How.MISSING)

    @property
    def specs(self) -> Mapping[str, Mapping[str, object]]:
        """Model specs by name."""
        return {
            name: {"storageUri": uri, "framework": "onnx", "memory": "1Gi"}
            for name, uri in self.models
        }

    def __str__(self) -> str:
        said = f": {_some([name for name, _ in self.models])}" if self.speaks else ""
        return f"{self.node}: {self.kind}{said}"


class What(StrEnum):
    """Kinds of faults, and what ends them."""

    BROKER_KILLED = "broker killed"
    BROKER_STOPPED = "broker stopped"
    BROKER_FROZEN = "broker frozen"
    BROKER_THAWED = "broker thawed"
    BROKER_UP = "broker up"
    BROKER_UP_EMPTY = "broker up, its store wiped"
    BROKER_UP_OLDER = "broker up with an older store"
    STORE_KEPT = "a state of the broker's store is kept"
    BRIDGE_KILLED = "bridge killed"
    BRIDGE_STOPPED = "bridge stopped"
    BRIDGE_UP = "bridge up"
    BRIDGE_UP_CLOCK = "bridge up with a wrong clock"
    BRIDGE_FROZEN = "bridge frozen"
    BRIDGE_THAWED = "bridge thawed"
    BRIDGE_SECOND = "another bridge is started"
    AGENT_KILLED = "agent killed"
    AGENT_STOPPED = "agent stopped"
    AGENT_UP = "agent up"
    AGENT_FROZEN = "agent frozen"
    AGENT_THAWED = "agent thawed"
    AGENT_BACKED_UP = "agent killed, its state backed up"
    AGENT_RESTORED = "agent killed, its state restored"
    AGENT_STORE_RESTORED = "agent killed, its store restored"
    AGENT_WIPED = "agent killed, its state wiped"
    AGENT_STORE_WIPED = "agent killed, its store wiped"
    AGENT_FILES_WIPED = "agent killed, its files wiped"
    LINK_CUT = "link cut"
    LINK_REFUSED = "link refused"
    LINK_FROZEN = "link frozen"
    LINK_SLOW = "link slow"
    LINK_DEAF = "link swallows what goes up"
    LINK_MUTE = "link swallows what comes down"
    LINK_HEALED = "link healed"
    API_DOWN = "API server down"
    API_UP = "API server up"
    API_COMPACTED = "API server compacted, watches cut"
    API_FROZEN = "API server's watches frozen"
    FORBIDDEN = "rights taken"
    GRANTED = "rights given back"
    DIRECTORY_GONE = "directory gone"
    DIRECTORY_BACK = "directory back"
    FILE_BROKEN = "manifest broken"
    FILE_MENDED = "manifest mended"
    DIRECTORY_EMPTIED = "directory emptied"
    DIRECTORY_FILLED = "directory as it was"
    CRD_GONE = "CRD removed"
    CRD_BACK = "CRD back, with its objects"
    KIND_GONE = "nearly all of a kind deleted by mistake"
    KIND_BACK = "what was deleted by mistake made again"
    OPERATOR = "an operator approves what is held"


ACCIDENTS = (What.DIRECTORY_EMPTIED, What.CRD_GONE, What.KIND_GONE)
"""What makes the source show less than people want."""
ACCIDENTS_END = (What.DIRECTORY_FILLED, What.CRD_BACK, What.KIND_BACK)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, or its end. `target`: a node, a link (`api`, `bridge`, or a node), a key, a kind;
    `pick` chooses among what is there when it happens."""

    what: What
    target: str = ""
    pick: int = 0

    @property
    def kind(self) -> str:
        return self.what.value

    def __str__(self) -> str:
        return f"{self.target}: {self.what}" if self.target else self.what.value


Act = Edit | Config | Fault


@dataclass(frozen=True, slots=True)
class Step:
    """An act and the second at which it is due. Steps are taken one after the other."""

    at: float
    act: Act

    def __str__(self) -> str:
        return f"{self.at:7.2f}  {self.act}"


def _brief(key: ResourceKey) -> str:
    return f"{kind_of(key)}/{name_of(key)}"


def _some(texts: list[str], most: int = 4) -> str:
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more
