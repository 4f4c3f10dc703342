"""Requests on the official client's transport, with time limits, and every failure translated.

Any thread. Credentials are read anew from their files where the server does not accept them (401,
403, a TLS failure) or they cannot be sent, at most every `_RENEW` seconds: that covers a rotated
token, a renewed certificate, a rewritten kubeconfig and an expired login alike. No token is ever in
an error.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import orjson
import urllib3
from kubernetes.client import ApiClient, Configuration
from urllib3.exceptions import HTTPError

from bridge.sources.kubernetes.access import UNREADABLE, Access, has_token
from bridge.sources.kubernetes.deep import loads
from bridge.sources.kubernetes.failures import ApiFailure, Refusal, Unreachable, refusal_of
from bridge.sources.kubernetes.patience import Overdue, Patience
from bridge.sources.kubernetes.transport import TRANSPORT, address, in_words, is_tls, without_user
from nodecast import __version__
from nodecast.errors import SettingsError
from nodecast.log import Repeats, logger

log = logger(__name__)

CONNECT = 5.0
"""Seconds for a connection to come about."""
READ = 15.0
"""Seconds without a byte of an answer."""
WHOLE = 300.0
"""Seconds for one whole answer, however slowly it comes."""
_PIECES = 16
"""Of the body of an error, at the most."""
_LARGEST = 1 << 30
"""Bytes of one: of a page of 500 objects, 2 MiB each."""
_RENEW = 10.0
LOGIN = 60.0
"""Seconds for a program that logs in."""
CHUNK = 65536
_YES = (200, 201)
_POOL = 1000
"""Connections kept: more than there are informers, or the pool throws them away."""

Response = urllib3.HTTPResponse


class _BadToken(ApiFailure):
    """The token cannot be read, or cannot be sent."""


class Api:
    """One API server. Any thread."""

    def __init__(self, access: Access, clock: Callable[[], float] = time.monotonic) -> None:
        """Raises SettingsError where the credentials cannot be read."""
        self.access = access
        self._clock = clock
        self._lock = threading.Lock()
        self._patience = Patience(LOGIN)
        self._client = self._new_client()
        self._renewed_at = clock()
        self._unread = Repeats()
        self.servers = 1
        """How many different ones it was in turn: the credentials may name another."""

    @property
    def host(self) -> str:
        """The server's URL, without a user or a password in it."""
        return without_user(str(self._client.configuration.host))

    @contextmanager
    def open(
        self,
        path: str,
        query: Mapping[str, str],
        *,
        read: float = READ,
        method: str = "GET",
        body: Mapping[str, Any] | None = None,
    ) -> Iterator[Response]:
        """A response that says yes, not read yet; `read`: seconds without a byte of it.

        Raises ApiFailure or Refusal, also for what happens while it is read in the block.
        """
        client = self._client
        try:
            response = _request(client, self._token(client), method, path, query, body, read)
            try:
                if response.status not in _YES:
                    raise _refusal(response)
                yield response
            finally:
                response.close()
        except Refusal as refusal:
            if refusal.status in (401, 403):
                self._renew(client)
            raise
        except _BadToken:
            self._renew(client)
            raise
        except TRANSPORT as error:
            if is_tls(error):
                self._renew(client)
            proxy = address(str(client.configuration.proxy or ""))
            raise Unreachable(f"{self.host}: {in_words(error, proxy)}") from error

    def read(self, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The JSON object that the server answers. Raises ApiFailure or Refusal."""
        with self.open(path, query or {}) as response:
            return self.json_of(response)

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, within: float
    ) -> dict[str, Any]:
        """The JSON object that the server answers; gives up after about `within` seconds.

        Raises ApiFailure or Refusal; what was to be written may be written all the same.
        """
        with self.open(path, {}, read=within, method=method, body=body) as response:
            return self.json_of(response, within)

    def json_of(self, response: Response, within: float = WHOLE) -> dict[str, Any]:
        """The JSON object that a response holds, come within so many seconds. Raises ApiFailure."""
        parts = b"".join(self._whole(response, within))
        try:
            answer = loads(parts)
        except orjson.JSONDecodeError as error:
            raise ApiFailure(f"{self.host}: an answer is not JSON") from error
        if not isinstance(answer, dict):
            raise ApiFailure(f"{self.host}: an answer is no JSON object")
        return answer

    def _whole(self, response: Response, within: float) -> Iterator[bytes]:
        """The pieces of a body that ends. Raises ApiFailure where it is too long, or too slow."""
        deadline, size = self._clock() + within, 0
        for piece in chunks(response):
            yield piece
            size += len(piece)
            if size > _LARGEST:
                raise ApiFailure(f"{self.host}: an answer is larger than {_LARGEST} bytes")
            if self._clock() > deadline:
                raise ApiFailure(f"{self.host}: an answer comes too slowly")

    def _token(self, client: ApiClient) -> str | None:
        with self._lock:  # the client's refresh of a token is not made for several threads
            try:
                token = self._refreshed(client.configuration)
            except UNREADABLE as error:
                raise _BadToken(f"{self.access}: no token: {type(error).__name__}") from error
        if token and not has_token(token):  # as nobody we would be told what nobody may
            raise _BadToken(f"{self.access}: the token is empty: is its file half written?")
        # Files of tokens end with a line break, which may not stand in a header.
        return token.strip() if token else None

    def _refreshed(self, configuration: Configuration) -> str | None:
        """The token, by a new login where the client finds the last one expired."""

        def read() -> str | None:
            token: str | None = configuration.get_api_key_with_prefix("BearerToken")
            return token

        return read() if self.access.in_cluster else self._patience.call(read, *UNREADABLE)

    def _new_client(self) -> ApiClient:
        """One with the credentials as they are now. Raises SettingsError."""
        try:
            return self._patience.call(lambda: _client(self.access), SettingsError)
        except Overdue as error:
            raise SettingsError(f"{self.access}: {error}") from error

    def _renew(self, used: ApiClient) -> None:
        """Read the credentials anew, unless that has just been done, or is being done."""
        with self._lock:
            if self._client is not used or self._clock() < self._renewed_at + _RENEW:
                return
            self._renewed_at = math.inf
        try:  # without the lock: a plug-in for the login may take its time, or hang
            client = self._new_client()
        except SettingsError as error:
            client = used
            if self._unread.new("credentials", str(error)):
                log.warning("credentials cannot be read, the old ones stay", reason=str(error))
        else:
            if self._unread.over("credentials"):
                log.info("credentials can be read again", access=str(self.access))
        with self._lock:
            if client is not used and client.configuration.host != used.configuration.host:
                self.servers += 1
            self._client, self._renewed_at = client, self._clock()


def chunks(response: Response) -> Iterator[bytes]:
    """The body as it comes, in pieces of any size. Raises ApiFailure, and what TRANSPORT has."""
    try:
        if response.chunked:
            yield from response.stream(CHUNK, decode_content=False)
        else:
            yield from _unchunked(response)
    except ValueError as error:  # a length below nothing, say: the transport does not look
        raise ApiFailure(f"the body of an answer is not HTTP: {type(error).__name__}") from error


def _unchunked(response: Response) -> Iterator[bytes]:
    """Here `stream` waits until a piece is full: for a watch that would be for ever."""
    while part := response.read1(CHUNK, decode_content=False):
        yield part


def _client(access: Access) -> ApiClient:
    configuration = access.configuration()
    configuration.connection_pool_maxsize = _POOL
    try:
        client = ApiClient(configuration)
    except (
        ImportError,
        ValueError,
        TypeError,
        AttributeError,
    ) as error:  # a scheme that is not known, or not installed
        proxy = address(str(configuration.proxy or ""))
        raise SettingsError(
            f"{access}: the proxy {proxy} of the environment or the"
            f" kubeconfig cannot be used ({type(error).__name__}): give it as http://host:port,"
            " or name the API server in NO_PROXY"
        ) from error
    client.user_agent = f"nodecast-bridge/{__version__}"
    return client


def _request(
    client: ApiClient,
    token: str | None,
    method: str,
    path: str,
    query: Mapping[str, str],
    body: Mapping[str, Any] | None,
    read: float,
) -> Response:
    headers = {"Accept": "application/json"}
    if body is not None:
        headers["Content-Type"] = "application/json"
    if token is not None:
        # Sent, it would raise an error whose text holds it.
        if not (token.isascii() and token.isprintable()):
            raise _BadToken("the token holds characters that no header may have")
        headers["authorization"] = token
    request = client.param_serialize(
        method, path, query_params=list(query.items()), header_params=headers, body=body
    )
    limits = min(CONNECT, read), read
    try:
        response = client.call_api(*request, _request_timeout=limits).response
    except HTTPError:
        raise
    except ValueError as error:  # a name of a host that cannot be one, in a proxy's URL
        raise Unreachable(f"the request cannot be made: {type(error).__name__}") from None
    assert isinstance(response, Response)
    return response


def _refusal(response: Response) -> Refusal:
    # A Status is short; what is not, or trickles, is no Status.
    body = b"".join(piece for piece, _ in zip(chunks(response), range(_PIECES), strict=False))
    retry_after = response.headers.get("Retry-After", "")
    # Its other form, a date, would need the wall clock.
    seconds = float(retry_after) if retry_after.isdecimal() else None
    try:
        status = orjson.loads(body)
    except orjson.JSONDecodeError:
        status = body.decode("utf-8", "replace")
    return refusal_of(status, response.status, seconds)
