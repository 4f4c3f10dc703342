"""Every error that nodecast raises on purpose.

NodecastError
├── SettingsError        a setting is wrong: the process must not start (exit 78)
│   └── AnotherCluster   (bridge.sources.kubernetes) not the cluster that the bridge began with
├── InvalidName          a node, resource, bridge or topic name that the contract does not allow
├── InvalidQuantity      a value that is no Kubernetes quantity
├── MessageError         bytes from the broker that are not a message we read: the peer's fault
│   ├── Malformed        not JSON, not the shape, or beyond the limits
│   └── NewerSchema      a schema that only a later release reads
├── ObjectError          one object cannot be served: its author's fault
│   └── NoRule           (bridge.objects) its kind has no placement rule: skipped
├── SourceError          a source cannot be read as a whole
│   ├── DocumentError    a file is no YAML or JSON that we read: its last good content stays
│   ├── ApiFailure       (bridge.sources.kubernetes) an API server gave no answer that can be read
│   │   └── Unreachable  the server, or the way to it, is what failed
│   ├── Refusal          (there) it said no
│   │   └── NotServed    it has no such kind
│   ├── Garbled          (there) it said what the API does not say: a list decides
│   └── Contradiction    (there) it told of objects as new in a way that cannot be: a list decides
├── UnknownKind          an operator names a kind that this bridge has nothing to do with
├── NothingToApprove     an operator approves what holds nothing up
├── ConfigFileError      the model config file as a whole says nothing: its models stay
├── ThreadDied           a thread was ended by what nobody foresaw: this process must start anew
├── StoreError           the agent's store cannot be used now (disk full, read-only, locked)
│   └── StoreBroken      what is on disk is no store of ours any more; the next start sets it aside
├── ApplyError           one resource cannot be put on the node's disk, or taken off it
├── SessionError         the broker cannot be reached, or said no
├── ApiError             the bridge's own API cannot be opened, or its loop does not answer now
└── Unavailable          the work cannot go on in this process (exit 69)
    ├── Superseded       another instance of the same bridge took charge
    ├── NoBridge         no bridge answers a command at its socket
    ├── StateDirInUse    another agent runs on the same state directory
    └── TreeInUse        another agent keeps its files in the same resources directory

An error says what is wrong, where, why, and what to do. `exit_code` is what a command ends with
when nothing above it can go on (sysexits.h: 64 usage, 69 unavailable, 78 config).
"""

from __future__ import annotations

EXIT_OK = 0
EXIT_PROBLEM = 1
EXIT_USAGE = 64
EXIT_UNAVAILABLE = 69
EXIT_CONFIG = 78


class NodecastError(Exception):
    """The root: catch it where one bad thing must not stop the others."""

    exit_code = EXIT_PROBLEM


class SettingsError(NodecastError):
    """A setting is missing, unknown, or out of range; names the file or variable and the key."""

    exit_code = EXIT_CONFIG


class InvalidName(NodecastError):
    """A name that the contract does not allow; the text says which and why."""


class InvalidQuantity(NodecastError):
    """A value that is no Kubernetes quantity, such as `1Gi` or `500m`."""


class MessageError(NodecastError):
    """A payload that is not a message of ours. Decoding any bytes raises this or nothing."""


class Malformed(MessageError):
    """Not JSON, not the shape of its message type, or beyond the limits."""


class NewerSchema(MessageError):
    """The message says a greater schema than this release reads: upgrade this side first."""


class ObjectError(NodecastError):
    """One object cannot be served; the others are not touched."""


class SourceError(NodecastError):
    """A source cannot be read as a whole; what it said last stays."""


class DocumentError(SourceError):
    """A file that is no YAML or JSON that we read, or is too large; says line and column."""


class UnknownKind(NodecastError):
    """A kind without a placement rule, of which the ledger counts nothing either."""


class NothingToApprove(NodecastError):
    """An approval of this kind would change nothing now; says why."""


class ConfigFileError(NodecastError):
    """The model config file cannot be read as an array of models; what it said last stays."""


class ThreadDied(NodecastError):
    """An error that nobody foresaw ended a thread; its traceback is in the log."""


class StoreError(NodecastError):
    """The store cannot be read or written now; nothing is claimed as durable meanwhile."""


class StoreBroken(StoreError):
    """The store's file is damaged. The next start sets it aside and begins a fresh one."""


class ApplyError(NodecastError):
    """One resource could not be applied or removed; `reason` is one word for machines."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class SessionError(NodecastError):
    """The broker cannot be reached or refused us; the cause is the `__cause__`."""

    exit_code = EXIT_UNAVAILABLE


class ApiError(NodecastError):
    """The bridge's own API cannot be opened, or the loop behind it does not answer now."""


class Unavailable(NodecastError):
    """This process cannot go on, and starting it again at once would not help."""

    exit_code = EXIT_UNAVAILABLE


class Superseded(Unavailable):
    """Another instance of the same bridge took charge: this one must stay down."""


class NoBridge(Unavailable):
    """No bridge answers at its socket, or what answers is none."""


class StateDirInUse(Unavailable):
    """Another agent holds the state directory."""


class TreeInUse(Unavailable):
    """Another agent keeps its files in the same resources directory."""
