"""Why a kind is held, and what to do about it: one stable line for the log and `check`."""

from __future__ import annotations

from bridge.sources.events import KindStatus
from bridge.sources.kubernetes.api import Api
from bridge.sources.kubernetes.failures import Refusal
from bridge.sources.kubernetes.resources import Resource

_HELD = {
    400: KindStatus.INCOMPLETE,
    403: KindStatus.FORBIDDEN,
    404: KindStatus.MISSING,
}


def status_of(error: Exception | None, verb: str) -> KindStatus | None:
    """What the end of a round says of the kind; None: nothing, there is just no answer now.
    `verb`: what was asked: find, list or watch."""
    if not isinstance(error, Refusal) or (error.status == 400 and verb != "list"):
        return None
    return _HELD.get(error.status)


def why_held(refusal: Refusal, verb: str, resource: Resource | None) -> str:
    """What is wrong with the kind, and what to do; empty where nothing is. `resource`: None where
    it was not found."""
    message = refusal.message
    if refusal.status == 400 and verb == "list":
        return f"{message}: mend the label selector (kubernetes.selector or selectors)"
    if refusal.status == 403:
        if verb == "find":
            return f"{message}: allow it, or give version and plural in the kind's rule"
        return f"{message}: grant the verbs list and watch"
    if refusal.status == 404 and resource is not None:
        return (
            f"the server does not serve {resource.api_version} {resource.plural}: install the CRD"
            f" {resource.name}"
        )
    return message if refusal.status == 404 else ""


def in_words(error: Exception, api: Api) -> str:
    """Any other trouble."""
    if isinstance(error, Refusal) and error.status == 401:
        return f"{error}: the credentials are not accepted ({api.access})"
    return str(error)
