"""What the tests of the model config share: files, a store, and a consumer of ops."""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from agent.models.configfile import ConfigReading, ConfigSeen, read_config
from agent.models.outbox import Outbox, OutboxState, SentOp
from agent.models.spec import Spec
from agent.models.sync import ModelSync
from agent.store.database import META
from agent.store.models import SCHEMA, ModelStore
from nodecast.messages import ModelOp


def spec(uri: str, **more: Any) -> dict[str, Any]:
    return {"storageUri": uri, "framework": "sklearn", "memory": "1Gi", **more}


def entry(name: str, uri: str, **more: Any) -> dict[str, Any]:
    return {"modelName": name, "modelSpec": spec(uri, **more)}


def file_of(models: Mapping[str, str]) -> bytes:
    """A config file of names and their storage URIs."""
    return json.dumps([entry(name, uri) for name, uri in models.items()]).encode()


def reading(models: Mapping[str, str]) -> ConfigReading:
    return read_config(file_of(models))


def specs(models: Mapping[str, str]) -> dict[str, Spec]:
    return {name: Spec.of(spec(uri)) for name, uri in models.items()}


def outbox_with(models: Mapping[str, str], window: int = 20) -> Outbox:
    """An outbox that read `models` at its start."""
    outbox = Outbox(OutboxState(), window)
    outbox.read(reading(models), startup=True)
    return outbox


def fits(_: SentOp) -> None:
    """No op is too large."""


def send_all(outbox: Outbox) -> list[SentOp]:
    """Mark, hand over and settle until nothing is pending; the ops in order."""
    sent: list[SentOp] = []
    while batch := outbox.propose(fits):
        outbox.mark_sent(batch)
        for each in outbox.unhanded():
            outbox.acknowledge(outbox.hand(each))
        outbox.settle(outbox.settled())
        sent += batch
    return sent


def words(ops: Iterable[SentOp]) -> list[tuple[str, str]]:
    return [(each.op.word, each.op.model) for each in ops]


def database() -> sqlite3.Connection:
    """A store as the opener makes it, in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for schema in (META, SCHEMA):
        connection.executescript(schema)
    connection.execute("INSERT INTO meta VALUES ('store', 's1')")
    return connection


def sync_on(
    connection: sqlite3.Connection,
    *,
    oversize: Callable[[ModelOp], str | None] = lambda _: None,
    storage: Any = None,
) -> ModelSync:
    """A process that starts on the store of `connection`."""
    store = connection.execute("SELECT value FROM meta WHERE key = 'store'").fetchone()[0]
    time = map(str, itertools.count())
    return ModelSync(
        "edge-a",
        store,
        "/etc/nodecast/models/models.json",
        storage or ModelStore(connection),
        oversize=oversize,
        now=lambda: next(time),
    )


def see(sync: ModelSync, models: Mapping[str, str]) -> None:
    sync.seen(ConfigSeen(file_of(models)))


def start(sync: ModelSync, models: Mapping[str, str] | None = None) -> ModelSync:
    """The broker keeps nothing of this node; the config file is read where given."""
    sync.own_set(None, lambda: "never")
    sync.connected()
    if models is not None:
        see(sync, models)
    return sync


def deliver(sync: ModelSync, room: int = 20) -> list[ModelOp]:
    """Commit, publish and acknowledge until all is settled; the ops in order."""
    ops: list[ModelOp] = []
    while True:
        sync.commit(room)
        published = sync.publications(room)
        if not published:
            return ops
        for token, op in published:
            ops.append(op)
            sync.acknowledged(token)


def replay(ops: Iterable[ModelOp]) -> dict[str, str]:
    """The storage URIs of a consumer that carries out `ops`, idempotent and in order."""
    models: dict[str, str] = {}
    for op in ops:
        if op.op == "load":
            models[op.model] = op.spec["storageUri"]
        else:
            models.pop(op.model, None)
    return models
