"""The settings of the connection."""

from __future__ import annotations

import msgspec
import pytest

from nodecast.errors import SettingsError
from nodecast.session.settings import Endpoint, MqttSettings, parse_url


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("mqtt://127.0.0.1:1884", "127.0.0.1", 1884),
        ("mqtt://broker.example", "broker.example", 1883),
        ("mqtt://broker/", "broker", 1883),
        ("mqtt://[::1]:1885", "::1", 1885),
        ("mqtt://[fe80::1]", "fe80::1", 1883),
    ],
)
def test_a_url_gives_host_and_port(url: str, host: str, port: int) -> None:
    assert parse_url(url) == Endpoint(host, port)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:1883",
        "http://broker",
        "mqtt://",
        "mqtt://:1883",
        "mqtt://broker:0",
        "mqtt://broker:65536",
        "mqtt://broker:port",
        "mqtt://broker/path",
        "mqtt://broker?x=1",
        "mqtt://bro ker",
        "mqtt://[::1",
    ],
)
def test_what_is_no_broker_url_is_refused_by_its_key(url: str) -> None:
    with pytest.raises(SettingsError, match=r"mqtt\.url"):
        MqttSettings(url=url)


def test_tls_is_refused_with_the_reason() -> None:
    with pytest.raises(SettingsError, match="TLS"):
        MqttSettings(url="mqtts://broker")


def test_a_password_in_the_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(SettingsError) as raised:
        MqttSettings(url="mqtt://user:geheim@broker")
    assert "geheim" not in str(raised.value)


def test_a_bad_prefix_is_refused_by_its_key() -> None:
    with pytest.raises(SettingsError, match=r"mqtt\.prefix"):
        MqttSettings(prefix="a/#")


def test_pauses_out_of_order_are_refused() -> None:
    with pytest.raises(SettingsError, match="reconnect_min"):
        MqttSettings(reconnect_min=5.0, reconnect_max=1.0)


def test_a_password_without_a_user_is_refused() -> None:
    with pytest.raises(SettingsError, match="username"):
        MqttSettings(password_file="/etc/password")


def test_a_bad_url_in_a_file_is_a_settings_error_too() -> None:
    with pytest.raises(SettingsError):
        msgspec.convert({"url": "nonsense"}, MqttSettings)


@pytest.mark.parametrize("field", MqttSettings.__struct_fields__)
def test_every_setting_is_described(field: str) -> None:
    schema = msgspec.json.schema(MqttSettings)
    properties = schema["$defs"]["MqttSettings"]["properties"]
    assert properties[field]["description"].endswith(".")
