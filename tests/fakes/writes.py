"""What a write does to an object: uid, generation, versions, finalizers, status, refusals.

Always holds: a write that changes nothing keeps the version; a stale version never wins; the
generation rises only with what is neither metadata nor (where there is a status subresource)
status. Runs in the thread of the request, with the store's lock held; waits for nothing else.
Raises `Refused`."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from tests.fakes import builtin_rules, schemas
from tests.fakes.answers import Cause, already_exists, bad_request, conflict, invalid, not_found
from tests.fakes.resources import CRDS, NAMESPACES, Body, Resource
from tests.fakes.storage import Entry, Store, entry_of, key_of

_KEPT = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "resourceVersion",
)
_NO_CONTENT = frozenset({"apiVersion", "kind", "metadata"})
CRD_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"


@dataclass(frozen=True, slots=True)
class Written:
    """The object as it is shown, what the schema did not know, whether it is gone now."""

    entry: Entry
    unknown: list[str] = field(default_factory=list)
    removed: bool = False


def merged(old: Any, patch: Any) -> Any:
    """RFC 7386: `patch` over `old`."""
    if not isinstance(patch, dict):
        return patch
    base = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            base.pop(key, None)
        else:
            base[key] = merged(base.get(key), value)
    return base


class Writer:
    """Creates, replaces, patches and deletes. `now` is the wall clock, for time stamps only."""

    def __init__(self, store: Store, now: Callable[[], datetime]) -> None:
        self._store = store
        self._now = now

    def _stamp(self) -> str:
        return self._now().strftime("%Y-%m-%dT%H:%M:%SZ")

    def create(self, resource: Resource, namespace: str, given: Mapping[str, Any]) -> Written:
        """409 where the name is taken; 404 where the namespace is missing."""
        body = _shaped(resource, given, namespace)
        metadata = body["metadata"]
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + uuid.uuid4().hex[:5]
        name = metadata.get("name") or ""
        if not name:
            words = "Required value: name or generateName is required"
            raise invalid(resource, "", [Cause("metadata.name", "FieldValueRequired", words)])
        builtin_rules.check_name(resource, name)
        with self._store.lock:
            table = self._store.table(resource)
            self._namespace_must_be(resource, namespace)
            if key_of(namespace, name) in table.entries:
                raise already_exists(resource, name)
            for lasting in _KEPT[2:]:
                metadata.pop(lasting, None)
            metadata["uid"] = str(uuid.uuid4())
            metadata["creationTimestamp"] = self._stamp()
            if resource.generation:
                metadata["generation"] = 1
            if resource.status:
                body.pop("status", None)
            if resource is CRDS:
                metadata["finalizers"] = [CRD_FINALIZER]
            body, unknown = _checked(resource, body, update=False)
            return Written(self._store.put(table, key_of(namespace, name), body), unknown)

    def _namespace_must_be(self, resource: Resource, namespace: str) -> None:
        if not resource.namespaced:
            return
        if key_of("", namespace) not in self._store.table(NAMESPACES).entries:
            raise not_found(NAMESPACES, namespace)

    def current(self, resource: Resource, namespace: str, name: str) -> Entry:
        """404 where there is none."""
        with self._store.lock:
            entry = self._store.table(resource).entries.get(key_of(namespace, name))
        if entry is None:
            raise not_found(resource, name)
        return entry

    def replace(
        self, resource: Resource, namespace: str, name: str, sub: str, given: Mapping[str, Any]
    ) -> Written:
        """PUT: a version must be there (most kinds) and be the current one."""
        body = _shaped(resource, given, namespace)
        if body["metadata"].setdefault("name", name) != name:
            raise bad_request(
                f"the name of the object ({body['metadata']['name']}) does not match the name on "
                f"the URL ({name})"
            )
        with self._store.lock:
            entry = self.current(resource, namespace, name)
            if not body["metadata"].get("resourceVersion") and not resource.blind_put:
                words = "Invalid value: 0: must be specified for an update"
                cause = Cause("metadata.resourceVersion", "FieldValueInvalid", words)
                raise invalid(resource, name, [cause])
            old = entry.body()
            wanted_uid = body["metadata"].get("uid") or old["metadata"]["uid"]
            if wanted_uid != old["metadata"]["uid"]:
                raise conflict(resource, name, _precondition(wanted_uid, old["metadata"]["uid"]))
            return self._update(resource, entry, old, body, sub)

    def merge(
        self, resource: Resource, namespace: str, name: str, sub: str, patch: Mapping[str, Any]
    ) -> Written:
        """A merge patch; a version in it must be the current one, a uid in it is not looked at."""
        with self._store.lock:
            entry = self.current(resource, namespace, name)
            old = entry.body()
            body = merged(old, orjson.loads(orjson.dumps(patch)))
            builtin_rules.decode(resource, body)
            return self._update(resource, entry, old, body, sub)

    def _update(self, resource: Resource, entry: Entry, old: Body, body: Body, sub: str) -> Written:
        name = old["metadata"]["name"]
        given = (body.get("metadata") or {}).get("resourceVersion")
        if given and given != str(entry.version):
            raise conflict(resource, name)
        body = _only_what_may_change(resource, old, body, sub)
        body, unknown = _checked(resource, body, update=True)
        if body == old:
            return Written(entry, unknown)
        if resource.generation and _content(resource, body) != _content(resource, old):
            body["metadata"]["generation"] = old["metadata"]["generation"] + 1
        table = self._store.table(resource)
        metadata = body["metadata"]
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            # What the answer shows keeps its version: only the removal has a new one.
            self._store.remove(table, entry.key)
            return Written(entry_of(entry.key, entry.version, body), unknown, removed=True)
        return Written(self._store.put(table, entry.key, body), unknown)

    def delete(
        self, resource: Resource, namespace: str, name: str, options: Mapping[str, Any]
    ) -> Written:
        """Remove it, or mark it deleted while it has finalizers."""
        with self._store.lock:
            entry = self.current(resource, namespace, name)
            body = entry.body()
            metadata = body["metadata"]
            _check_preconditions(resource, entry, options.get("preconditions") or {})
            table = self._store.table(resource)
            if not metadata.get("finalizers"):
                self._store.remove(table, entry.key)
                return Written(entry, removed=True)
            if metadata.get("deletionTimestamp"):
                return Written(entry)
            metadata["deletionTimestamp"] = self._stamp()
            metadata["deletionGracePeriodSeconds"] = 0
            if resource.generation:
                metadata["generation"] += 1
            return Written(self._store.put(table, entry.key, body))

    def empty_namespace(self, namespace: str) -> None:
        """Delete everything in it, as the namespace controller would."""
        with self._store.lock:
            for table, key in list(self._store.in_namespace(namespace)):
                self._store.remove(table, key)


def _precondition(wanted: str, found: str) -> str:
    return (
        "StorageError: invalid object, Code: 4, AdditionalErrorMsg: Precondition failed: "
        f"UID in precondition: {wanted}, UID in object meta: {found}"
    )


def _check_preconditions(resource: Resource, entry: Entry, wanted: Mapping[str, Any]) -> None:
    metadata = entry.body()["metadata"]
    for field_name in ("uid", "resourceVersion"):
        found = metadata[field_name]
        if wanted.get(field_name, found) != found:
            raise conflict(
                resource, metadata["name"], _precondition(str(wanted[field_name]), str(found))
            )


def _shaped(resource: Resource, given: Mapping[str, Any], namespace: str) -> Body:
    """A copy with its type and namespace filled in; 400 where they are others."""
    body: Body = orjson.loads(orjson.dumps(given))
    for name, wanted in (("apiVersion", resource.api_version), ("kind", resource.kind)):
        if body.setdefault(name, wanted) != wanted:
            raise bad_request(
                f"the API version in the data ({body.get('apiVersion')}, Kind={body.get('kind')}) "
                f"does not match the expected one ({resource.api_version}, Kind={resource.kind})"
            )
    builtin_rules.decode(resource, body)
    metadata = body.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        raise bad_request(f"{resource.kind} cannot be handled: metadata is no object")
    if resource.namespaced and metadata.setdefault("namespace", namespace) != namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    return body


def _checked(resource: Resource, body: Body, update: bool) -> tuple[Body, list[str]]:
    """`body` without what is unknown; `Refused` (422) where the schema is against it."""
    if resource.schema is None:
        builtin_rules.complete(resource, body)
        return body, []
    body, unknown = schemas.pruned(resource.schema, body)
    causes = schemas.complaints(resource.schema, body, update)
    if causes:
        raise invalid(resource, body["metadata"]["name"], causes)
    return body, unknown


def _only_what_may_change(resource: Resource, old: Body, body: Body, sub: str) -> Body:
    if sub == "status":
        rest = {key: value for key, value in old.items() if key != "status"}
        return rest | ({"status": body["status"]} if body.get("status") is not None else {})
    if resource.status:
        body = {key: value for key, value in body.items() if key != "status"}
        body |= {"status": old["status"]} if "status" in old else {}
    kept = {key: old["metadata"][key] for key in _KEPT if key in old["metadata"]}
    changed = {
        key: value
        for key, value in (body.get("metadata") or {}).items()
        if key not in _KEPT and key != "managedFields"
    }
    return body | {
        "apiVersion": old["apiVersion"],
        "kind": old["kind"],
        "metadata": changed | kept,
    }


def _content(resource: Resource, body: Body) -> Body:
    ignored = _NO_CONTENT | ({"status"} if resource.status else frozenset())
    return {key: value for key, value in body.items() if key not in ignored}
