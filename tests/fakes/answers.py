"""What the fake API server says when it says no: Status objects as a real server words them.

Every function that makes an answer is pure. A part that refuses raises `Refused` with the answer
in it; the API's dispatcher is the one place that catches it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from tests.fakes.resources import Body, Resource

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole response: status, body and the headers beyond length and type."""

    status: int
    body: bytes
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cause:
    """One field that is wrong: its path, the machine's reason and the words for people."""

    field: str
    reason: str
    message: str


class Refused(Exception):
    """The request is answered with `answer` and changes nothing."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.body.decode())
        self.answer = answer


def json_answer(status: int, body: object, **headers: str) -> Answer:
    """`headers` with underscores for dashes."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, orjson.dumps(body), JSON, named)


def status_body(
    code: int, reason: str, message: str, details: Body | None = None, metadata: Body | None = None
) -> Body:
    """A Status object of a failure; an empty `reason` is left out as a real server does."""
    body: Body = {"kind": "Status", "apiVersion": "v1", "metadata": metadata or {}}
    body |= {"status": "Failure", "message": message}
    if reason:
        body["reason"] = reason
    if details is not None:
        body["details"] = details
    return body | {"code": code}


def refused(
    code: int, reason: str, message: str, details: Body | None = None, metadata: Body | None = None
) -> Refused:
    return Refused(json_answer(code, status_body(code, reason, message, details, metadata)))


def details_of(resource: Resource, name: str, kind: str | None = None) -> Body:
    details: Body = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    return details | {"kind": kind or resource.plural}


def page_not_found() -> Refused:
    """What no handler stands behind: a kind that is not served, an unknown path."""
    return Refused(Answer(404, b"404 page not found\n", TEXT))


def not_found(resource: Resource, name: str) -> Refused:
    return refused(
        404, "NotFound", f'{resource.qualified} "{name}" not found', details_of(resource, name)
    )


def already_exists(resource: Resource, name: str) -> Refused:
    message = f'{resource.qualified} "{name}" already exists'
    return refused(409, "AlreadyExists", message, details_of(resource, name))


def conflict(resource: Resource, name: str, why: str | None = None) -> Refused:
    why = why or (
        "the object has been modified; please apply your changes to the latest version "
        "and try again"
    )
    message = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return refused(409, "Conflict", message, details_of(resource, name))


def invalid(resource: Resource, name: str, causes: Iterable[Cause]) -> Refused:
    listed = list(causes)
    said = [f"{cause.field}: {cause.message}" for cause in listed]
    words = said[0] if len(said) == 1 else f"[{', '.join(said)}]"
    details = details_of(resource, name, resource.kind) | {
        "causes": [
            {"reason": cause.reason, "message": cause.message, "field": cause.field}
            for cause in listed
        ]
    }
    message = f'{resource.qualified_kind} "{name}" is invalid: {words}'
    return refused(422, "Invalid", message, details)


def bad_request(message: str) -> Refused:
    return refused(400, "BadRequest", message)


def method_not_allowed() -> Refused:
    return refused(
        405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
    )


def unsupported_media_type(accepted: Iterable[str]) -> Refused:
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted)
    )
    return refused(415, "UnsupportedMediaType", message)


def expired(message: str, fresh_token: str | None = None) -> Refused:
    metadata: Body = {"continue": fresh_token} if fresh_token else {}
    return refused(410, "Expired", message, metadata=metadata)


def unauthorized() -> Refused:
    return refused(401, "Unauthorized", "Unauthorized")


def initialising() -> Refused:
    """What a kind says in the moment after its CRD was created."""
    body = status_body(
        429, "TooManyRequests", "storage is (re)initializing", {"retryAfterSeconds": 1}
    )
    return Refused(json_answer(429, body, Retry_After="1"))


def busy(retry_after: float) -> Answer:
    """What a server with too many requests in flight says."""
    text = b"Too many requests, please try again later.\n"
    return Answer(429, text, TEXT, {"Retry-After": f"{retry_after:g}"})


def watch_error(refusal: Refused) -> bytes:
    """The same Status as the ERROR line of a watch stream."""
    status: dict[str, Any] = orjson.loads(refusal.answer.body)
    return orjson.dumps({"type": "ERROR", "object": status}) + b"\n"
