"""What the broker's yes and its goodbye mean: CONNACK properties, reason codes (MQTT 5 §2.4).

Pure: no socket, no clock.
"""

from __future__ import annotations

from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from nodecast.session.events import PACKET_TOO_LARGE, QOS_NOT_SUPPORTED, RETAIN_NOT_SUPPORTED
from nodecast.session.limits import Sign

_UNSPECIFIED, _MALFORMED, _PROTOCOL_ERROR, _TAKEN_OVER = 0x80, 0x81, 0x82, 0x8E


def unfit(said: Properties | None) -> tuple[int, str] | None:
    """Why a broker that said yes cannot be used all the same, as the code it would have given."""
    if getattr(said, "MaximumQoS", 2) == 0:
        return QOS_NOT_SUPPORTED, "the broker offers QoS 0 only"
    if getattr(said, "RetainAvailable", 1) == 0:
        return RETAIN_NOT_SUPPORTED, "the broker keeps no retained messages"
    return None


def end_reason(code: ReasonCode, by_broker: bool) -> str:
    """Why a connection ended, for people; `by_broker`: it said so in a DISCONNECT."""
    if by_broker:
        return f"the broker ended the connection: {code} (0x{code.value:02x})"
    if code.value == _UNSPECIFIED:
        return "the connection was closed or reset without a reason"
    return f"{code} (0x{code.value:02x})"


def end_sign(code: int, by_broker: bool) -> Sign:
    """What the end says about the size of what was in flight."""
    if code == _TAKEN_OVER:
        return Sign.TAKEN_OVER
    if by_broker:
        if code in (_MALFORMED, _PROTOCOL_ERROR):
            return Sign.CLOSED
        return Sign.TOO_LARGE if code == PACKET_TOO_LARGE else Sign.UNRELATED
    if code == _PROTOCOL_ERROR:
        return Sign.TOO_LARGE
    return Sign.CLOSED if code == _UNSPECIFIED else Sign.UNRELATED
