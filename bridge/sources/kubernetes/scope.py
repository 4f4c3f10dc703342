"""What is served of a cluster, and how it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nodecast.names import KindName

Namespace = str | None
"""None: all of them at once."""


@dataclass(frozen=True, slots=True)
class Scope:
    """No namespaces: all of them. `selectors`: label selectors by kind; `selector`: that of all
    other kinds, empty for none."""

    namespaces: tuple[str, ...] = ()
    selector: str = ""
    selectors: Mapping[str, str] = field(default_factory=dict)

    def of(self, *, namespaced: bool) -> tuple[Namespace, ...]:
        """The namespaces to ask for, one by one."""
        return self.namespaces if self.namespaces and namespaced else (None,)

    def selects(self, kind: KindName) -> str:
        """The label selector of a kind."""
        return self.selectors.get(kind, self.selector)


@dataclass(frozen=True, slots=True)
class Tuning:
    """`watch`: seconds a watch lasts at the most; `resync`: between two lists; `page`: objects a
    page."""

    watch: float = 60.0
    resync: float = 1800.0
    page: int = 500
