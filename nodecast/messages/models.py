"""ModelSet and ModelOp: the model config of a node, as a whole and as steps.

Ops are the one message that says what to do instead of what is; the ModelSet is their truth. A
consumer that sees a new `store` or a gap in `seq` reads the ModelSet: the state after op `seq`.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from nodecast.messages.version import Number

ModelState = Literal["Pending", "Requested", "Loading", "Loaded", "Failed", "Unloaded"]


class ConfigState(msgspec.Struct, frozen=True, kw_only=True):
    """The config file: `unread` before the first read, so that it differs from "no models"."""

    path: str
    state: Literal["ok", "missing", "invalid", "unread"]
    message: str = ""


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One model; `Pending`: its op was not sent yet, `Requested`: it was."""

    name: str
    spec: dict[str, Any]
    state: ModelState
    message: str = ""


class RecentOp(msgspec.Struct, frozen=True, kw_only=True):
    """One of the last ops, for people."""

    seq: Number
    op: Literal["load", "unload"]
    model: str
    time: str = ""


class ModelSet(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """All models of a node; `seq`: the greatest op that `models` accounts for."""

    schema: int = 1
    node: str
    store: str
    seq: Number
    time: str = ""
    config: ConfigState
    models: list[ModelEntry] = []
    recent_ops: list[RecentOp] = []


class ModelOp(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One step; sent at least once, in the order of `seq` within a `store`."""

    schema: int = 1
    node: str
    store: str
    seq: Number
    op: Literal["load", "unload"]
    model: str
    spec: dict[str, Any]
    on_startup: bool = False
