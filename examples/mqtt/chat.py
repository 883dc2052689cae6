#!/usr/bin/env python3
"""A chat with Tutti over MQTT, each line of standard input one message: pip install paho-mqtt

    chat.py HOST PORT USER SESSION [PASSWORD_FILE]
"""
import json
import queue
import sys
import time
import uuid

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

ENDS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled", "error")

if len(sys.argv) < 5:
    sys.exit(__doc__)
host, port, user, session = sys.argv[1:5]
topic, ready, heard, next_send = f"llm/v1/{user}/{session}", queue.Queue(), queue.Queue(), 0.0
client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
client.username_pw_set(user, open(sys.argv[5]).read().strip() if len(sys.argv) > 5 else None)
client.on_connect = lambda c, u, f, code, p: c.subscribe(topic + "/out", 1) if code == 0 else ready.put(f"not let in: {code}")
client.on_subscribe = lambda *_: ready.put(None)
client.on_message = lambda c, u, message: heard.put(message)
client.connect(host, int(port))
client.loop_start()
if refused := ready.get(timeout=30):
    sys.exit(refused)
for line in sys.stdin:
    mine, event = str(uuid.uuid4()), {"code": "rate_limit_exceeded"}  # an id that is sent twice is answered once
    properties = Properties(PacketTypes.PUBLISH)
    properties.CorrelationData = mine.encode()  # comes back with each event of the answer
    said = json.dumps({"id": mine, "type": "message", "input": line.rstrip("\n"), "max_output_tokens": 256, "temperature": 0})
    while event.get("code") == "rate_limit_exceeded":  # then the same again, after the time that the server asks for
        time.sleep(max(0.0, next_send - time.monotonic()))
        next_send = time.monotonic() + 0.1  # servers expect so much between two sends
        client.publish(topic + "/in", said, 1, properties=properties)
        shown, event = "", {"type": "none yet"}
        while event["type"] not in ENDS:
            message = heard.get(timeout=600)
            if getattr(message.properties, "CorrelationData", None) == mine.encode():  # else of another client here
                event = json.loads(message.payload)
                if event["type"] == "response.output_text.delta":
                    print(event["delta"], end="", flush=True)
                    shown += event["delta"]
        next_send = max(next_send, time.monotonic() + event.get("retry_after_ms", 0) / 1000)
    # Deltas may be lost (QoS 0); the last event has the whole answer.
    whole = "".join(part["text"] for each in event.get("response", {}).get("output", []) for part in each["content"])
    print(whole[len(shown):] if whole.startswith(shown) else "\n" + whole)
    if event["type"] == "error":
        print(f"({event['message']})", file=sys.stderr)
client.disconnect()
