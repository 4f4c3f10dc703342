"""What is served of a cluster, and how it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nodecast.backoff import Backoff
from nodecast.names import KindName

BACKOFF = Backoff(first=1.0, most=20.0)
"""Seconds. The longest keeps a recovery (rotated token, granted right) within a minute."""
LASTED = 5.0
"""Seconds after which a watch has proved itself."""

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
    page. `grace`: seconds that a watch may last longer than was asked for, and be silent for;
    `silence`: seconds that a list may be silent for; `backoff`: pauses after failures; `lasted`:
    seconds after which a watch has not failed."""

    watch: float = 60.0
    resync: float = 1800.0
    page: int = 500
    grace: float = 15.0
    silence: float = 30.0
    backoff: Backoff = BACKOFF
    lasted: float = LASTED

    @property
    def enough(self) -> float:
        """Seconds after which a watch has not failed, though it was asked to be a short one."""
        return min(self.lasted, 0.7 * self.watch)
