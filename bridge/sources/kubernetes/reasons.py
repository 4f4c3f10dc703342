"""Why a kind is held, and what to do about it: one stable line for the log and `check`."""

from __future__ import annotations

from bridge.sources.kubernetes.failures import Refusal
from bridge.sources.kubernetes.resources import Resource


def missing(resource: Resource | None, refusal: Refusal) -> str:
    """What to do about a kind that is not there."""
    if resource is None:
        return refusal.message
    return (
        f"the server does not serve {resource.api_version} {resource.plural}:"
        f" install the CRD {resource.name}"
    )


def forbidden(refusal: Refusal, verb: str) -> str:
    """What to do about a right that is missing. `verb`: find, list or watch."""
    if verb == "find":
        return f"{refusal.message}: allow it, or give version and plural in the kind's rule"
    return f"{refusal.message}: grant the verbs list and watch"
