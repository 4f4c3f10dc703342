"""What an idle agent takes, and how long a changed manifest takes to its disk."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson

from nodecast.session import (
    Connected,
    MqttSettings,
    Outgoing,
    Received,
    Session,
    Subscribed,
    Subscription,
)
from tests.bench.table import median, print_table, quantile
from tests.support.mosquitto import Broker
from tests.support.wait import eventually

_BIN = Path(sys.executable).parent
_PAGE = os.sysconf("SC_PAGE_SIZE")
_IMPORTS = (
    ("Python alone", "pass"),
    ("and orjson, msgspec", "import orjson, msgspec"),
    ("and paho-mqtt", "import paho.mqtt.client"),
    ("and sqlite3", "import sqlite3"),
    ("and click", "import click"),
    ("and the agent's own modules", "import agent.cli, agent.app"),
)


@contextlib.contextmanager
def _process(name: str, log: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as output:
        process = subprocess.Popen([_BIN / name, *arguments], stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(20)


def _agent(broker: Broker, directory: Path) -> contextlib.AbstractContextManager[object]:
    return _process(
        "nodecast-agent",
        directory / "agent.log",
        *("run", "--node", "bench", "--mqtt-url", broker.url),
        *("--state-dir", str(directory / "state")),
        *("--model-config-dir", str(directory / "models")),
    )


def _bridge(broker: Broker, directory: Path) -> contextlib.AbstractContextManager[object]:
    return _process(
        "nodecast-bridge",
        directory / "bridge.log",
        *("run", "--mqtt-url", broker.url, "--hold", "0"),
        *("--manifests", str(directory / "manifests")),
    )


def _write_objects(directory: Path, count: int) -> None:
    (directory / "manifests").mkdir()
    for number in range(count):
        _write_object(directory, number, "0")


def _write_object(directory: Path, number: int, content: str) -> None:
    raw = {
        "apiVersion": "sedna.io/v1alpha1",
        "kind": "Dataset",
        "metadata": {"name": f"dataset-{number}"},
        "spec": {"nodeName": "bench", "url": content, "format": "x" * 1000},
    }
    path = directory / "manifests" / f"dataset-{number}.json"
    path.with_suffix(".tmp").write_bytes(orjson.dumps(raw))
    path.with_suffix(".tmp").rename(path)


def _resources(directory: Path) -> list[Path]:
    return sorted((directory / "state" / "resources").glob("*/*/*.json"))


def _rss(pid: int) -> float:
    """Resident memory in MB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE / 1e6


def idle_memory(directory: Path) -> None:
    """An agent with 20 resources and 5 models, once it is quiet."""
    _write_objects(directory, 20)
    (directory / "models").mkdir()
    models = [
        {"modelName": f"m{i}", "modelSpec": {"storageUri": f"s3://b/m{i}", "memory": "1Gi"}}
        for i in range(5)
    ]
    (directory / "models" / "models.json").write_bytes(orjson.dumps(models))
    with (
        Broker(directory / "broker") as broker,
        _bridge(broker, directory),
        _agent(broker, directory) as agent,
    ):
        eventually(lambda: len(_resources(directory)) == 20, 30, what="20 resources on disk")
        time.sleep(8)  # the coalesced report is out, and then there is nothing to do
        assert isinstance(agent, subprocess.Popen)
        resident = _rss(agent.pid)
    steps, rows, before = [], [], 0.0
    for name, statement in _IMPORTS:
        steps.append(statement)
        now = _rss_after("; ".join(steps))
        rows.append([name, f"{now:.1f}", f"+{now - before:.1f}"])
        before = now
    rows.append(["running, 20 resources, 5 models", f"{resident:.1f}", f"+{resident - before:.1f}"])
    print_table("Resident memory of an idle agent (goal: below 40 MB)", ["", "MB", "more"], rows)


def _rss_after(statement: str) -> float:
    code = f"{statement}\nprint(open('/proc/self/statm').read().split()[1])"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    return int(output.stdout) * _PAGE / 1e6


def latency(directory: Path, samples: int = 100) -> None:
    """From a changed manifest to the file on the agent's disk."""
    _write_objects(directory, 20)
    (directory / "models").mkdir()
    with (
        Broker(directory / "broker") as broker,
        _bridge(broker, directory),
        _agent(broker, directory),
    ):
        eventually(lambda: len(_resources(directory)) == 20, 30, what="20 resources on disk")
        whole = [_change(directory, number % 20) for number in range(samples)]
        bare = _bare(broker, directory, samples)
    print_table(
        f"From a changed manifest to the agent's disk, {samples} samples, ms",
        ["", "median", "99th percentile"],
        [
            [name, f"{median(t) * 1e3:.1f}", f"{quantile(t, 0.99) * 1e3:.1f}"]
            for name, t in (
                ("manifest, bridge, broker, agent, file", whole),
                ("bare publish, receive, write and fsync", bare),
            )
        ],
    )


def _change(directory: Path, number: int) -> float:
    """Seconds until a change is on the disk; the node's interval is over when it begins."""
    time.sleep(0.55)
    content = secrets.token_hex(8)
    path = directory / "state/resources/Dataset.sedna.io/default" / f"dataset-{number}.json"
    begin = time.perf_counter()
    _write_object(directory, number, content)
    eventually(lambda: content.encode() in path.read_bytes(), 10, every=0.0005)
    return time.perf_counter() - begin


def _bare(broker: Broker, directory: Path, samples: int) -> list[float]:
    """The same bytes through the same broker, and the least that makes a file durable."""
    session = Session(MqttSettings(url=broker.url), "bench-bare", will=lambda: None)
    _poll(session, lambda event: isinstance(event, Connected))
    session.subscribe([Subscription("bench/bare")], "bare")
    _poll(session, lambda event: isinstance(event, Subscribed))
    path, times = directory / "bare.json", []
    for _ in range(samples):
        payload = b"x" * 1300
        begin = time.perf_counter()
        session.publish(Outgoing("bench/bare", payload, retain=True), "bare")
        _poll(session, lambda event: isinstance(event, Received))
        with path.open("wb") as file:
            file.write(payload)
            file.flush()
            os.fsync(file.fileno())
        times.append(time.perf_counter() - begin)
    session.close(time.monotonic() + 2)
    return times


def _poll(session: Session, until: Callable[[object], bool]) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if any(map(until, session.poll(1.0))):
            return
    raise AssertionError("the broker did not answer within 10 s")
