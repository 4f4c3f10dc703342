"""From a request to its answer: who may do it, which part does it, and how the result is shown.

Runs in the thread of the connection; knows no sockets. Everything that is refused comes out as
an answer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import orjson

from tests.fakes import discovery, reads, watching
from tests.fakes.answers import (
    Answer,
    Cause,
    Refused,
    bad_request,
    details_of,
    invalid,
    json_answer,
    method_not_allowed,
    not_found,
    page_not_found,
    refused,
    unauthorized,
    unsupported_media_type,
)
from tests.fakes.definitions import Definitions, Delays
from tests.fakes.identities import Identities, User
from tests.fakes.requests import Request
from tests.fakes.resources import (
    ACCESS_REVIEWS,
    CRDS,
    NAMESPACES,
    SERVICE_ACCOUNTS,
    Body,
    Resource,
)
from tests.fakes.rights import Rights, Wish, forbidden, forbidden_path
from tests.fakes.storage import Clock, Store
from tests.fakes.watching import Watch, Watches
from tests.fakes.writes import Writer, Written

_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
_PATCHES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
)
_SHORTEST_TOKEN = 600


class Api:
    """All the server does but HTTP. `clock` is monotonic, `now` the wall clock."""

    def __init__(
        self,
        delays: Delays,
        bookmark_every: float,
        clock: Clock,
        now: Callable[[], datetime],
    ) -> None:
        self.store = Store()
        self.identities = Identities(self.store, clock)
        self.rights = Rights(self.store)
        self.watches = Watches(self.store)
        self.writer = Writer(self.store, now)
        self.definitions = Definitions(self.store, delays, clock, now, self.watches.end_kind)
        self._clock, self._now, self._bookmark_every = clock, now, bookmark_every
        for name in ("default", "kube-system"):
            self.writer.create(NAMESPACES, "", {"metadata": {"name": name}})

    def respond(self, request: Request, user: User | None) -> Answer | Watch:
        """The answer, or the watch to stream; `user` None: the token was not good."""
        try:
            if user is None:
                raise unauthorized()
            if not request.target.resource:
                return self._document(request, user)
            if not self.rights.allows(user, request.wish):
                raise forbidden(user, request.wish)
            target = request.target
            resource = self.definitions.find(target.group, target.version, target.resource)
            return self._resource(request, resource, user)
        except Refused as refusal:
            return refusal.answer

    def _document(self, request: Request, user: User) -> Answer:
        if not self.rights.allows_path(user, request.path.rstrip("/")):
            raise forbidden_path(user, request.verb, request.path)
        if request.method != "GET":
            raise method_not_allowed()
        return discovery.document(request.path, self.definitions.resources())

    def _resource(self, request: Request, resource: Resource, user: User) -> Answer | Watch:
        target = request.target
        if resource.namespaced and not target.namespace and request.verb not in ("list", "watch"):
            raise page_not_found()
        if not resource.namespaced and target.namespace and resource is not NAMESPACES:
            raise page_not_found()
        if target.sub == "token" and resource is SERVICE_ACCOUNTS:
            return self._token(request)
        if target.sub and not (target.sub == "status" and resource.status):
            if resource.custom:
                raise not_found(resource, target.name)
            raise page_not_found()
        if resource is ACCESS_REVIEWS:
            return self._review(request, user)
        if request.verb == "watch":
            return watching.opened(
                self.store, resource, request, user.name, self._clock, self._bookmark_every
            )
        if request.verb == "list":
            return reads.listed(self.store, resource, request)
        if request.verb == "get":
            entry = self.writer.current(resource, self._namespace(request, resource), target.name)
            return Answer(200, entry.encoded)
        return self._write(request, resource)

    @staticmethod
    def _namespace(request: Request, resource: Resource) -> str:
        return request.target.namespace if resource.namespaced else ""

    def _write(self, request: Request, resource: Resource) -> Answer:
        if request.verb == "create":
            return self._create(request, resource)
        if request.verb == "update":
            return self._update(request, resource)
        if request.verb == "patch":
            return self._patch(request, resource)
        if request.verb == "delete":
            return self._delete(request, resource)
        if request.verb == "deletecollection":
            return self._delete_all(request, resource)
        raise method_not_allowed()

    def _create(self, request: Request, resource: Resource) -> Answer:
        if request.target.name:
            raise method_not_allowed()
        written = self.create(resource, self._namespace(request, resource), _body(request))
        return _shown(201, written)

    def create(self, resource: Resource, namespace: str, body: Body) -> Written:
        with self.store.lock:
            self.definitions.must_take_new(resource)
            written = self.writer.create(resource, namespace, body)
        if resource is CRDS:
            self.definitions.created(written.entry.body()["metadata"]["name"])
        return written

    def _update(self, request: Request, resource: Resource) -> Answer:
        target = request.target
        return _shown(
            200,
            self.replace(
                resource,
                self._namespace(request, resource),
                target.name,
                target.sub,
                _body(request),
            ),
        )

    def replace(
        self, resource: Resource, namespace: str, name: str, sub: str, body: Body
    ) -> Written:
        written = self.writer.replace(resource, namespace, name, sub, body)
        self._after_change(resource, name)
        return written

    def _patch(self, request: Request, resource: Resource) -> Answer:
        if request.content_type not in (_MERGE, _STRATEGIC) or (
            resource.custom and request.content_type == _STRATEGIC
        ):
            raise unsupported_media_type(_PATCHES)
        target = request.target
        namespace = self._namespace(request, resource)
        return _shown(200, self.merge(resource, namespace, target.name, target.sub, _body(request)))

    def merge(
        self, resource: Resource, namespace: str, name: str, sub: str, patch: Body
    ) -> Written:
        written = self.writer.merge(resource, namespace, name, sub, patch)
        self._after_change(resource, name)
        return written

    def _after_change(self, resource: Resource, name: str) -> None:
        if resource is CRDS:
            self.definitions.changed(name)

    def _delete(self, request: Request, resource: Resource) -> Answer:
        target = request.target
        options = _body(request) if request.body else {}
        written = self.delete(resource, self._namespace(request, resource), target.name, options)
        if not written.removed or resource is NAMESPACES:
            return Answer(200, written.entry.encoded)
        uid = written.entry.body()["metadata"]["uid"]
        details = details_of(resource, target.name) | {"uid": uid}
        said: Body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        return json_answer(200, said | {"details": details})

    def delete(self, resource: Resource, namespace: str, name: str, options: Body) -> Written:
        with self.store.lock:
            if resource is NAMESPACES:
                self.writer.current(resource, "", name)
                self.writer.empty_namespace(name)
            terminating = resource is CRDS and self._terminating(name)
            written = self.writer.delete(resource, namespace, name, options)
            if resource is CRDS and not written.removed and not terminating:
                self.definitions.deleted(name)
            return written

    def _terminating(self, name: str) -> bool:
        metadata = self.writer.current(CRDS, "", name).body()["metadata"]
        return "deletionTimestamp" in metadata

    def _delete_all(self, request: Request, resource: Resource) -> Answer:
        answer = reads.listed(self.store, resource, request)
        for item in orjson.loads(answer.body)["items"]:
            metadata = item["metadata"]
            self.delete(resource, metadata.get("namespace", ""), metadata["name"], {})
        return answer

    def _token(self, request: Request) -> Answer:
        """A TokenRequest for a service account."""
        if request.verb != "create":
            raise method_not_allowed()
        target = request.target
        self.writer.current(SERVICE_ACCOUNTS, target.namespace, target.name)
        body = _body(request)
        spec = body.setdefault("spec", {})
        seconds = spec.setdefault("expirationSeconds", 3600)
        if seconds < _SHORTEST_TOKEN:
            words = f"Invalid value: {seconds}: may not specify a duration less than 10 minutes"
            request_kind = Resource("authentication.k8s.io", "v1", "tokenrequests", "TokenRequest")
            cause = Cause("spec.expirationSeconds", "FieldValueInvalid", words)
            raise invalid(request_kind, "", [cause])
        spec.setdefault("audiences", ["https://kubernetes.default.svc"])
        stamp = (self._now() + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
        token = self.identities.issue_account(target.namespace, target.name, seconds)
        answer = {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"name": target.name, "namespace": target.namespace},
            "spec": spec,
            "status": {"token": token, "expirationTimestamp": stamp},
        }
        return json_answer(201, answer)

    def _review(self, request: Request, user: User) -> Answer:
        """A SelfSubjectAccessReview: may I?"""
        if request.verb != "create":
            raise method_not_allowed()
        spec = _body(request).get("spec") or {}
        asked: dict[str, Any] = spec.get("resourceAttributes") or {}
        path = (spec.get("nonResourceAttributes") or {}).get("path")
        if path is not None:
            allowed = self.rights.allows_path(user, path)
        else:
            sub = asked.get("subresource")
            allowed = self.rights.allows(
                user,
                Wish(
                    asked.get("verb", ""),
                    asked.get("group", ""),
                    asked.get("resource", "") + (f"/{sub}" if sub else ""),
                    asked.get("namespace", ""),
                    asked.get("name", ""),
                ),
            )
        answer = {
            "kind": ACCESS_REVIEWS.kind,
            "apiVersion": ACCESS_REVIEWS.api_version,
            "metadata": {},
            "spec": spec,
            "status": {"allowed": allowed},
        }
        return json_answer(201, answer)


def _body(request: Request) -> Body:
    if request.content_type == "application/yaml":
        raise unsupported_media_type(("application/json",))
    try:
        body = orjson.loads(request.body)
    except ValueError:
        raise bad_request("the object provided is unrecognized: it does not parse") from None
    if not isinstance(body, dict):
        raise refused(400, "BadRequest", "the object provided is unrecognized: it is no object")
    return body


def _shown(status: int, written: Written) -> Answer:
    """The object; a warning names the fields that its schema does not know."""
    headers = {}
    if written.unknown:
        fields = "; ".join(f'unknown field \\"{path}\\"' for path in written.unknown)
        headers["Warning"] = f'299 - "{fields}"'
    return Answer(status, written.entry.encoded, headers=headers)
