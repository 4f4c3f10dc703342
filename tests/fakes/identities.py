"""Who asks: bearer tokens, static ones and those of service accounts.

They can be revoked, and they expire. One lock guards the tokens; nothing waits. The clock is
monotonic and comes from outside."""

from __future__ import annotations

import secrets
import threading
from dataclasses import dataclass

from tests.fakes.resources import SERVICE_ACCOUNTS
from tests.fakes.storage import Clock, Store, key_of

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"


@dataclass(frozen=True, slots=True)
class User:
    """A name and the groups that rights can be given to."""

    name: str
    groups: frozenset[str]


ANONYMOUS = User("system:anonymous", frozenset({"system:unauthenticated"}))


@dataclass(frozen=True, slots=True)
class _Pass:
    user: User
    expires: float | None
    account: str | None  # the key of the service account that it lives and dies with


class Identities:
    """The tokens that are good now."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._lock = threading.Lock()
        self._passes: dict[str, _Pass] = {}

    def issue(
        self, name: str, groups: tuple[str, ...] = (), *, lifetime: float | None = None
    ) -> str:
        """A new token of the user `name`, good for `lifetime` seconds (None: for ever)."""
        token = f"{name.replace(':', '-')}.{secrets.token_hex(16)}"
        self.accept(token, name, groups, lifetime=lifetime)
        return token

    def accept(
        self, token: str, name: str, groups: tuple[str, ...] = (), *, lifetime: float | None = None
    ) -> None:
        """Let `token` be good for the user `name`."""
        self._add(token, User(name, frozenset({*groups, AUTHENTICATED})), lifetime, None)

    def issue_account(self, namespace: str, name: str, lifetime: float) -> str:
        """A token of a service account; it is good while the account is there."""
        groups = {AUTHENTICATED, "system:serviceaccounts", f"system:serviceaccounts:{namespace}"}
        user = User(f"system:serviceaccount:{namespace}:{name}", frozenset(groups))
        token = f"{namespace}.{name}.{secrets.token_hex(16)}"
        self._add(token, user, lifetime, key_of(namespace, name))
        return token

    def _add(self, token: str, user: User, lifetime: float | None, account: str | None) -> None:
        expires = None if lifetime is None else self._clock() + lifetime
        with self._lock:
            self._passes[token] = _Pass(user, expires, account)

    def revoke(self, token: str) -> None:
        """From now on `token` is 401."""
        with self._lock:
            self._passes.pop(token, None)

    def who(self, authorization: str | None) -> User | None:
        """The user of an Authorization header; None where its token is not good."""
        if not authorization:
            return ANONYMOUS
        scheme, _, token = authorization.partition(" ")
        with self._lock:
            held = self._passes.get(token.strip()) if scheme.lower() == "bearer" else None
        if held is None or (held.expires is not None and self._clock() >= held.expires):
            return None
        if held.account is not None:
            with self._store.lock:
                if held.account not in self._store.table(SERVICE_ACCOUNTS).entries:
                    return None
        return held.user
