"""Good inputs: messages as both sides write them, the demo's manifests, what a real API server
answered, sample settings."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from nodecast.messages import (
    ConfigState,
    Ledger,
    ModelEntry,
    ModelOp,
    ModelSet,
    Presence,
    Probe,
    RecentOp,
    Refusal,
    Report,
    ResourceReport,
    encode,
)
from nodecast.names import BridgeName
from nodecast.settings import describe
from tests.support.device import BRIDGE, NODE, resource, snapshot
from tests.support.objects import dataset, federated, inference, model

_ROOT = Path(__file__).parents[2]
_RECORDED = _ROOT / "tests" / "cluster" / "recorded"
_MANIFESTS = _ROOT / "docker" / "demo" / "manifests"

BRIDGE_NAME = BridgeName(BRIDGE)
OBJECTS = (
    dataset("shelf", NODE),
    inference("plates", NODE, "small"),
    model("small"),
    federated("wear", NODE, "edge-b"),
)

_YAML = b"""\
apiVersion: sedna.io/v1alpha1
kind: Dataset
metadata: &meta
  name: "shelf"
  labels: {a: 'x', "b": y}
spec:
  url: >-
    /data
    more
  nodeName: edge-a
  size: [1, 0x1F, 017, 1_000, .5, 1e3, 24:00, ~, yes, !!str 5, !!binary aGVsbG8=]
---
# a list, with an alias and a merge
apiVersion: v1
kind: List
items:
- apiVersion: sedna.io/v1alpha1
  kind: Model
  metadata: {<<: *none, name: small}
- ? kind
  : Dataset
"""
_KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: here
clusters:
- name: there
  cluster:
    server: https://127.0.0.1:6443
    insecure-skip-tls-verify: true
    proxy-url: http://127.0.0.1:3128
    tls-server-name: api
contexts:
- name: here
  context: {cluster: there, user: me, namespace: default}
users:
- name: me
  user:
    token: abc.def
    username: me
    password: secret
preferences: {}
extensions: []
"""


@cache
def messages() -> tuple[bytes, ...]:
    """One of each kind."""
    node = {"node": NODE, "store": "store-1", "seq": 3}
    spec = {"storageUri": "s3://a/b", "framework": "onnx", "memory": "1Gi"}
    reports = [
        ResourceReport(key="Dataset.sedna.io/default/shelf", digest="0" * 32, state="Applied"),
        ResourceReport(key="Model.sedna.io/default/m", state="Failed", status={"a": [1, None]}),
    ]
    report = Report(
        bridge=BRIDGE,
        node=NODE,
        instance="one",
        seq=2,
        time="2026-11-30T12:00:00+00:00",
        epoch=1_700_000_000,
        revision=1,
        digest="0" * 32,
        incomplete=True,
        refused=Refusal(epoch=3, revision=4, reason="older"),
        resources=reports,
    )
    bodies = [resource("Dataset.sedna.io/default/shelf"), resource("Model.sedna.io/default/small")]
    models = ModelSet(
        **node,
        config=ConfigState(path="/etc/nodecast/models/models.json", state="ok"),
        models=[ModelEntry(name="m", spec=spec, state="Requested")],
        recent_ops=[RecentOp(seq=3, op="load", model="m")],
    )
    return (
        snapshot((1_700_000_000, 2), bodies, held=["Lens.x.io"], omitted=["A.b/c/d"]).payload,
        snapshot((1, 1)).payload,
        encode(report),
        encode(models),
        encode(ModelOp(**node, op="load", model="m", spec=spec)),
        encode(Presence(online=True, instance="one", since="now", version="1", epoch=5)),
        encode(Probe(instance="me", connection=1)),
        encode(
            Ledger(
                bridge=BRIDGE,
                source="manifests",
                instance="other",
                epoch=1_700_000_000,
                mark=4,
                nodes=[NODE, "edge-b"],
                kinds={"Dataset.sedna.io": 3},
            )
        ),
    )


@cache
def manifests() -> tuple[bytes, ...]:
    """Files of the demo, and one with what YAML can do."""
    found = [path.read_bytes() for path in sorted(_MANIFESTS.iterdir())]
    listed = {"apiVersion": "v1", "kind": "List", "items": OBJECTS}
    return (*found, _YAML, json.dumps(listed).encode(), *map(_dumped, OBJECTS))


@cache
def configs() -> tuple[bytes, ...]:
    """Model configs of the demo, and one with every spelling."""
    found = [path.read_bytes() for path in sorted((_ROOT / "docker/demo/models").rglob("*.json"))]
    entry = {
        "modelName": "m",
        "modelSpec": {
            "storageUri": "s3://a",
            "framework": None,
            "memory": "1.5e3Mi",
            "x": {"y": [1]},
        },
    }
    others = [{**entry, "modelName": f"m{n}"} for n in range(3)]
    return (*found, _dumped([entry, *others, entry]))


@cache
def lists() -> tuple[bytes, ...]:
    """Bodies that a real server answered: lists, Statuses, objects."""
    answers = [each["response"] for each in _recorded() if "body" in each["response"]]
    return tuple(_dumped(answer["body"]) for answer in answers)


@cache
def leases() -> tuple[bytes, ...]:
    """Leases that a real server showed."""
    return tuple(each for each in lists() if b'"Lease"' in each)


@cache
def watches() -> tuple[bytes, ...]:
    """Streams of a watch that a real server sent."""
    streams = [each["response"].get("events") for each in _recorded()]
    return tuple(b"".join(_dumped(event) + b"\n" for event in each) for each in streams if each)


def files() -> tuple[bytes, ...]:
    """What stands in an agent's directories: a resource, a stamp, a status file."""
    stamp = {"store": "store-1", "bridge": BRIDGE, "epoch": 5, "revision": 1}
    status = {
        **dict.fromkeys(("version", "instance", "started", "broker", "since", "written"), "x"),
        "connected": True,
        "report": json.loads(messages()[2]),
        "models": json.loads(messages()[3]),
    }
    return (resource("Dataset.sedna.io/default/shelf"), _dumped(stamp), _dumped(status))


def kubeconfigs() -> tuple[bytes, ...]:
    return (_KUBECONFIG.encode(),)


def settings(kind: type[msgspec.Struct]) -> tuple[bytes, ...]:
    """A file with every setting that has a default, and one with rules."""
    lines = []
    table = ""
    for setting in describe(kind):
        head, _, name = setting.key.rpartition(".")
        if head != table:
            table = head
            lines.append(f"[{head}]")
        if setting.default is not None and setting.default is not msgspec.NODEFAULT:
            lines.append(f"{name} = {json.dumps(setting.default)}")
    rules = (
        '[[rules]]\nkind = "Camera.example.com"\nnodes = ["spec.nodeName", "spec.a[].b"]\n'
        'carries = [{kind = "Lens", path = "spec.lenses[].name"}]\nversion = "v1"\n'
    )
    return ("\n".join(lines).encode(), rules.encode())


def variables(kind: type[msgspec.Struct]) -> tuple[bytes, ...]:
    """An environment: `NAME=value` a line."""
    lines = [
        f"{each.variable}={each.default}"
        for each in describe(kind)
        if each.scalar and each.default is not msgspec.NODEFAULT
    ]
    return ("\n".join(lines).encode(),)


def _dumped(value: object) -> bytes:
    return json.dumps(value).encode()


def _recorded() -> list[dict[str, Any]]:
    return [
        each for path in sorted(_RECORDED.glob("*.json")) for each in json.loads(path.read_text())
    ]
