"""What a user would write instead of the bridge: kopf, paho, and one retained message an object.

Run with `kopf run`; BROKER_PORT is the broker's. It has no versions, no repair and no hold.
"""

import json
import os
from typing import Any

import kopf
from paho.mqtt.client import Client, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion

client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTv5)


@kopf.on.startup()
async def connect(**_: Any) -> None:
    client.connect("127.0.0.1", int(os.environ["BROKER_PORT"]))
    client.loop_start()


@kopf.on.event("sedna.io", "v1alpha1", "jointinferenceservices")
async def publish(event: Any, body: Any, spec: Any, name: str, **_: Any) -> None:
    node = spec["edgeWorker"]["template"]["spec"]["nodeName"]
    payload = "" if event["type"] == "DELETED" else json.dumps(dict(body))
    client.publish(f"node/{node}/JointInferenceService/{name}", payload, qos=1, retain=True)
