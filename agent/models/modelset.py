"""The ModelSet: every model of this node as it is after the last op, for those who come late.

Models are those that the file asks for and those that are there, by name. A model whose op was not
sent yet shows the spec that is asked for and `Pending`; ops follow, and end in the same. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import msgspec

from agent.models.configfile import ConfigReading
from agent.models.outbox import Held, Outbox
from agent.models.spec import UNKNOWN, Spec
from nodecast.messages import ConfigState, ModelEntry, ModelSet, RecentOp
from nodecast.messages.models import ModelState

SHOWN_PROBLEMS = 10
"""Entries of a file that `config.message` names; the rest is counted."""
_MAX_MESSAGE = 300  # characters of one entry's problem
NOTHING_READ = ConfigReading()


def describe(reading: ConfigReading) -> str:
    """What is wrong with the entries of a file, short enough for a message."""
    told = [str(each)[:_MAX_MESSAGE] for each in reading.problems[:SHOWN_PROBLEMS]]
    rest = len(reading.problems) + reading.untold - len(told)
    return "; ".join(told) + (f"; and {rest} more" if rest > 0 else "")


def model_set(
    node: str,
    store: str,
    outbox: Outbox,
    config: ConfigState,
    *,
    reading: ConfigReading = NOTHING_READ,
    recent: Iterable[RecentOp] = (),
    time: str = "",
) -> ModelSet:
    """The ModelSet of the outbox as it is now; `reading`: what the file said last."""
    reasons = {p.name: p.reason for p in reading.problems if p.name in reading.keep}
    want = outbox.want
    refused = outbox.refused
    names = outbox.held.keys() | (want or {}).keys()
    return ModelSet(
        node=node,
        store=store,
        seq=outbox.seq,
        time=time,
        config=config,
        models=[
            _entry(name, outbox, refused.get(name), reasons.get(name, "")) for name in sorted(names)
        ],
        recent_ops=list(recent),
    )


def _entry(name: str, outbox: Outbox, refused: str | None, problem: str) -> ModelEntry:
    held = outbox.held.get(name) or Held(None)
    want = outbox.want.get(name) if outbox.want is not None else held.spec
    note = f"its entry in the config file counts for nothing: {problem}" if problem else ""
    if refused is not None:
        # Consumers still have what was there: a change that cannot be sent is no state of theirs.
        spec = held.spec or want or UNKNOWN
        stays = "; what was there stays" if held.spec is not None else ""
        return _model(name, spec, "Failed", f"{refused}{stays}", note)
    spec = want or held.spec or UNKNOWN
    if want == held.spec:
        if held.failure is not None:
            return _model(name, spec, "Failed", held.failure, note)
        return _model(name, spec, "Requested", note)
    missing = "load" if held.spec is None else "unload" if want is None else "change"
    return _model(name, spec, "Pending", f"{missing} not sent yet", note)


def _model(name: str, spec: Spec, state: ModelState, *messages: str) -> ModelEntry:
    message = "; ".join(filter(None, messages))
    return ModelEntry(name=name, spec=spec.value(), state=state, message=message)


def shed(full: ModelSet, unsendable: Collection[str] = ()) -> Iterator[ModelSet]:
    """`full`, then ever smaller forms, for a broker that does not take so much.

    Messages go first, then the recent ops, then the specs of the `unsendable` models, which nobody
    was sent: one that is too large must not hide the others. The models with their states always
    stay, since a set without them would say something else.
    """
    yield full
    brief = [msgspec.structs.replace(each, message="") for each in full.models]
    config = msgspec.structs.replace(full.config, message=full.config.message[:_MAX_MESSAGE])
    smaller = msgspec.structs.replace(full, models=brief, config=config)
    yield smaller
    smaller = msgspec.structs.replace(smaller, recent_ops=[])
    yield smaller
    if not unsendable:
        return
    bare = [
        msgspec.structs.replace(each, spec={}) if each.name in unsendable else each
        for each in smaller.models
    ]
    yield msgspec.structs.replace(smaller, models=bare)
