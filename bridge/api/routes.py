"""What can be asked of a running bridge.

    GET  /v1/status                 bridge.status.Status
    POST /v1/kinds/{kind}/approve   bridge.kind_views.KindView, as it is after it

Errors are problems (RFC 9457, `application/problem+json`): 400 no kind, 404 no such kind or path,
405, 409 it cannot be done as things are, 503 the bridge's loop does not answer in time, or stops.
Everything that touches the core is a call for the loop (`bridge.api.calls`), with a time limit;
what comes back is a value, encoded here. The API's thread; nothing here blocks it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Protocol, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bridge.api.calls import Calls
from bridge.kind_views import KindView
from bridge.status import Status
from nodecast.errors import ApiError, InvalidName, NodecastError, UnknownKind
from nodecast.names import KindName, parse_kind

T = TypeVar("T")

ANSWER_WITHIN = 5.0
"""Seconds that the bridge's loop has for a call."""
_STATUS_OF = {InvalidName: 400, UnknownKind: 404, ApiError: 503}


class Subject(Protocol):
    """What the API is about. The loop's thread calls it."""

    def status(self) -> Status: ...

    def approve(self, kind: KindName) -> KindView:
        """Raises UnknownKind, NothingToApprove; ApiError where that is not known yet."""


class Routes:
    """The handlers. `within`: seconds that the loop has for a call."""

    def __init__(self, subject: Subject, calls: Calls, within: float = ANSWER_WITHIN) -> None:
        self._subject = subject
        self._calls = calls
        self._within = within

    @property
    def application(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/status", self._status, methods=["GET"]),
                Route("/v1/kinds/{kind}/approve", self._approve, methods=["POST"]),
            ],
            exception_handlers={
                NodecastError: _refused,
                HTTPException: _unroutable,
                Exception: _failed,
            },
        )

    async def _status(self, request: Request) -> Response:
        del request
        return _json(await self._ask(self._subject.status))

    async def _approve(self, request: Request) -> Response:
        kind = parse_kind(request.path_params["kind"])
        return _json(await self._ask(lambda: self._subject.approve(kind)))

    async def _ask(self, function: Callable[[], T]) -> T:
        """What the loop answers. Raises NodecastError; ApiError when it does not come in time, and
        then the call is not made any more."""
        call = self._calls.submit(function)
        answer = asyncio.wrap_future(call)
        done, _ = await asyncio.wait((answer,), timeout=self._within)
        if not done and call.cancel():
            raise ApiError(
                f"the bridge's loop did not answer within {self._within:g} s: it has too much to"
                " do, or hangs; nothing was changed, ask again later, and look at its log"
            )
        return await answer


def _json(value: object) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")


def _problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    body = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
    }
    return Response(
        msgspec.json.encode(body), status, dict(headers or {}), "application/problem+json"
    )


async def _refused(request: Request, error: Exception) -> Response:
    del request
    status = next((s for kind, s in _STATUS_OF.items() if isinstance(error, kind)), 409)
    return _problem(status, str(error))


async def _unroutable(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = f"{request.method} {request.url.path}: see GET /v1/status"
    return _problem(error.status_code, detail, error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    """uvicorn logs it with its traceback."""
    del request, error
    return _problem(500, "an error that was not foreseen: see the bridge's log")
