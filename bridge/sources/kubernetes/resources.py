"""A kind as the API server's paths name it: group, version and plural. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from nodecast.names import KindName


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind as the API server's paths name it."""

    kind: KindName
    version: str
    plural: str

    @property
    def short(self) -> str:
        """`Dataset` of `Dataset.sedna.io`."""
        return self.kind.partition(".")[0]

    @property
    def group(self) -> str:
        """`sedna.io`; empty for the core group."""
        return self.kind.partition(".")[2]

    @property
    def name(self) -> str:
        """`datasets.sedna.io`: how a Role and a CRD name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None) -> str:
        """Of the collection, in one namespace or (None) in all."""
        inside = f"/namespaces/{namespace}" if namespace is not None else ""
        return f"{group_path(self.group)}/{self.version}{inside}/{self.plural}"


def group_path(group: str) -> str:
    """Of a group's discovery document; empty: the core group."""
    return f"/apis/{group}" if group else "/api"
