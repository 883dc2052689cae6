"""The paho client against the server's own MQTT listener, in both versions of the protocol."""
import json
import queue
import uuid

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from checks import HOST, MQTT_PORT, PROMPT, TOKENS, Client, agree, agree_pieces

client = Client("paho-mqtt", section="protocols")
SESSION = uuid.uuid4().hex[:8]
ENDS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled", "error")


def turn(protocol, user):
    """The events of one answer."""
    events, ready = queue.Queue(), queue.Queue()
    one = paho.Client(CallbackAPIVersion.VERSION2, client_id=user, protocol=protocol)
    one.username_pw_set(user)
    one.on_connect = lambda c, data, flags, reason, properties: c.subscribe(f"llm/v1/{user}/{SESSION}/out", 1)
    one.on_subscribe = lambda c, data, number, reasons, properties: ready.put(reasons)
    one.on_message = lambda c, data, message: events.put(json.loads(message.payload))
    one.connect(HOST, MQTT_PORT)
    one.loop_start()
    try:
        ready.get(timeout=30)
        one.publish(f"llm/v1/{user}/{SESSION}/in", json.dumps({
            "id": str(uuid.uuid4()), "type": "message", "input": PROMPT, "max_output_tokens": TOKENS, "temperature": 0}), 1)
        told = [events.get(timeout=60)]
        while told[-1]["type"] not in ENDS:
            told.append(events.get(timeout=60))
        return told
    finally:
        one.disconnect()
        one.loop_stop()


@client.check("mqtt")
def mqtt():
    for protocol, user in ((paho.MQTTv311, "paho-3"), (paho.MQTTv5, "paho-5")):
        told = turn(protocol, user)
        assert told[0]["type"] == "accepted", told[0]
        agree_pieces([event["delta"] for event in told if event["type"] == "response.output_text.delta"])
        agree(told[-1]["response"]["output"][0]["content"][0]["text"])
