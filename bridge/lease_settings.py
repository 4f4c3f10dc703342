"""The settings of the Lease, each described once."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from bridge.lease import JITTER, Terms
from nodecast.errors import InvalidName, SettingsError
from nodecast.names import namespace_name, object_name
from nodecast.settings import PositiveSeconds

_TERMS = Terms()


class LeaseSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The Lease that says which of several instances in a cluster is in charge."""

    mode: Annotated[
        Literal["auto", "on", "off"],
        Meta(
            description="Whether a Lease (coordination.k8s.io) is held while in charge, so that"
            " several instances may run\nand one of them serves. auto: in a pod that serves its own"
            " cluster. off: run one instance at a time."
        ),
    ] = "auto"
    name: Annotated[
        str | None,
        Meta(description="The Lease's name. Not set: nodecast-bridge- and the bridge's name."),
    ] = None
    namespace: Annotated[
        str | None,
        Meta(
            description="The Lease's namespace: all instances need the same. Not set: the pod's"
            " own; outside of a pod\nit must be given."
        ),
    ] = None
    duration: Annotated[
        int,
        Meta(
            description="Whole seconds that the Lease must have stood still before another instance"
            " takes it.",
            ge=1,
            le=3600,
        ),
    ] = _TERMS.duration
    renew: Annotated[
        PositiveSeconds,
        Meta(
            description="Seconds without a renewal after which the holder falls silent: well below"
            " duration, since\nthat is what keeps two clocks of different speeds apart."
        ),
    ] = _TERMS.renew
    retry: Annotated[PositiveSeconds, Meta(description="Seconds between two requests for it.")] = (
        _TERMS.retry
    )

    @property
    def terms(self) -> Terms:
        return Terms(self.duration, self.renew, self.retry)

    def check(self) -> None:
        """Raises SettingsError."""
        try:
            if self.name is not None:
                object_name(self.name)
            if self.namespace is not None:
                namespace_name(self.namespace)
        except InvalidName as error:
            raise SettingsError(f"lease: {error}") from error
        if self.renew >= self.duration:
            raise SettingsError("lease.renew: must be shorter than lease.duration")
        if self.retry * (1 + JITTER) >= self.renew:
            raise SettingsError("lease.retry: must be shorter than lease.renew by a fifth or more")
