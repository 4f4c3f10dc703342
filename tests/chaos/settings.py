"""The product's settings in a run: its own times made short, so that all of them pass in it."""

from __future__ import annotations

from collections.abc import Mapping

_MQTT: Mapping[str, object] = {
    "mqtt.keep_alive": 3,
    "mqtt.reconnect_min": 0.1,
    "mqtt.reconnect_max": 1,
    "mqtt.connect_timeout": 3,
    "mqtt.answer_timeout": 6,
    "mqtt.drain": 2,
}
GUARD_NUMBER = 6
BRIDGE: Mapping[str, object] = {
    **_MQTT,
    "hold": 3,
    "settle": 0.4,
    "settle_max": 3,
    "interval": 0.1,
    "lag": 2,
    "manifests_poll": 2,
    "guard.number": GUARD_NUMBER,
    "guard.window": 10,
    "kubernetes.watch": 3,
    "kubernetes.resync": 20,
}
LEASE: Mapping[str, object] = {
    "lease.mode": "on",
    "lease.namespace": "default",
    "lease.duration": 3,
    "lease.renew": 2,
    "lease.retry": 0.4,
}
AGENT: Mapping[str, object] = {
    **_MQTT,
    "report_coalesce": 0.2,
    "heartbeat": 4,
    "model_config_poll": 2,
    "retry_min": 0.1,
    "retry_max": 1,
    "round": 5,
}
CONVERGES = 60.0
"""Seconds from the end of the last fault by which everything must be as the oracle says."""


def described() -> list[str]:
    """Lines for the beginning of a run."""
    return [
        f"{side}: {' '.join(f'{name}={value}' for name, value in settings.items())}"
        for side, settings in (("bridge", BRIDGE), ("with a Lease", LEASE), ("agent", AGENT))
    ]
