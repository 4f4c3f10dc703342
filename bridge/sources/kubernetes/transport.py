"""What the client's transport raises, put into words.

The texts are stable, without addresses of objects and counters, so that the same trouble is said
once.
"""

from __future__ import annotations

import http.client
import ssl
from urllib.parse import urlsplit

from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NameResolutionError,
    NewConnectionError,
    ProtocolError,
    ProxyError,
    ReadTimeoutError,
    SSLError,
)

TRANSPORT = (HTTPError, http.client.HTTPException, ApiException, OSError)
"""All that it raises; ApiException stands for TLS there."""


def is_tls(error: BaseException) -> bool:
    """Whether TLS is what failed: a certificate may have been renewed, or its file be gone."""
    return any(isinstance(each, ssl.SSLError | SSLError) for each in _chain(error))


def in_words(error: BaseException, proxy: str = "") -> str:
    """A transport error in one stable line; `proxy`: the address of the one in between."""
    root = list(_chain(error))[-1]
    match error:
        case ProxyError():
            return f"the proxy {proxy} cannot be reached: {_proxy_words(root)}"
        case NameResolutionError():
            return "its name does not resolve"
        case NewConnectionError():
            return _root_words(root)
        case ConnectTimeoutError():
            return "no connection in time"
        case ReadTimeoutError():
            return "silent for too long"
        case ProtocolError():
            return "the connection broke off"
    return _root_words(root)


def address(url: str) -> str:
    """Host and port of a URL, without the user and the password that it may hold."""
    return urlsplit(url if "//" in url else f"//{url}").netloc.rpartition("@")[2]


def without_user(url: str) -> str:
    """The URL without the user and the password that it may hold."""
    return urlsplit(url)._replace(netloc=address(url)).geturl()


def _chain(error: BaseException | None) -> list[BaseException]:
    """The error and what caused it, the first cause last."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    return chain


def _proxy_words(root: BaseException) -> str:
    """A proxy that refuses says why in an OSError without a number."""
    if isinstance(root, OSError) and not root.strerror and root.args:
        return str(root.args[0])[:200]
    return _root_words(root)


def _root_words(root: BaseException) -> str:
    if isinstance(root, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {root.verify_message}"
    if isinstance(root, ssl.SSLError):
        plain = " (is it plain http?)" if root.reason == "WRONG_VERSION_NUMBER" else ""
        return f"TLS failed: {root.reason or root}{plain}"
    if isinstance(root, OSError) and root.strerror:
        return root.strerror
    return type(root).__name__
