"""The MQTT session: the only part that knows paho. See `session` for the rules."""

from nodecast.session.events import (
    Acknowledged,
    Connected,
    Event,
    Lost,
    Outgoing,
    Received,
    Refused,
    Subscribed,
    Subscription,
)
from nodecast.session.packets import wire_size
from nodecast.session.reach import reach
from nodecast.session.session import Session
from nodecast.session.settings import MqttSettings

__all__ = [
    "Acknowledged",
    "Connected",
    "Event",
    "Lost",
    "MqttSettings",
    "Outgoing",
    "Received",
    "Refused",
    "Session",
    "Subscribed",
    "Subscription",
    "reach",
    "wire_size",
]
