"""The messages of the contract: bytes in, values out, and back.

No clock, thread, log or socket here. `decode` of any bytes gives a message or raises MessageError,
nothing else; unknown fields are ignored, a greater schema is refused.
"""

from nodecast.messages.codec import MAX_BODY, SCHEMA, Wire, decode, encode, pack, unpack
from nodecast.messages.ledger import Ledger, Probe
from nodecast.messages.models import ConfigState, ModelEntry, ModelOp, ModelSet, RecentOp
from nodecast.messages.presence import Presence
from nodecast.messages.report import Refusal, Report, ResourceReport
from nodecast.messages.snapshot import (
    Resource,
    Snapshot,
    Unread,
    decode_snapshot,
    encode_snapshot,
    resource_digest,
    snapshot_digest,
)
from nodecast.messages.version import MAX_NUMBER, NONE, Digest, Number, Version

__all__ = [
    "MAX_BODY",
    "MAX_NUMBER",
    "NONE",
    "SCHEMA",
    "ConfigState",
    "Digest",
    "Ledger",
    "ModelEntry",
    "ModelOp",
    "ModelSet",
    "Number",
    "Presence",
    "Probe",
    "RecentOp",
    "Refusal",
    "Report",
    "Resource",
    "ResourceReport",
    "Snapshot",
    "Unread",
    "Version",
    "Wire",
    "decode",
    "decode_snapshot",
    "encode",
    "encode_snapshot",
    "pack",
    "resource_digest",
    "snapshot_digest",
    "unpack",
]
