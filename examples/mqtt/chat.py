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

MIN_INTERVAL_S = 0.1  # between two sends, as servers expect of their clients
MOST_TOKENS = 256  # of an answer
ENDS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled", "error")


class Chat:
    def __init__(self, host, port, user, session, password=None):
        self.topic, self.events, self.next_send = f"llm/v1/{user}/{session}", queue.Queue(), 0.0
        subscribed = queue.Queue()
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        self.client.username_pw_set(user, password)
        self.client.on_connect = lambda c, u, f, code, p: (
            c.subscribe(self.topic + "/out", 1) if code == 0 else subscribed.put(str(code)))
        self.client.on_subscribe = lambda c, u, mid, codes, p: subscribed.put(None)
        self.client.on_message = lambda c, u, message: self.events.put(message)
        self.client.connect(host, port)
        self.client.loop_start()
        if (refused := subscribed.get(timeout=30)) is not None:
            sys.exit(f"not let in: {refused}")

    def ask(self, text):
        """Says it, shows the answer as it comes, and waits where the server says so."""
        mine = str(uuid.uuid4())  # sent twice, it is answered once
        properties = Properties(PacketTypes.PUBLISH)
        properties.CorrelationData = mine.encode()
        while True:
            time.sleep(max(0.0, self.next_send - time.monotonic()))
            self.next_send = time.monotonic() + MIN_INTERVAL_S
            self.client.publish(self.topic + "/in", json.dumps({
                "id": mine, "type": "message", "input": text, "max_output_tokens": MOST_TOKENS}), 1,
                                properties=properties)
            end = self.show(mine)
            if end.get("code") != "rate_limit_exceeded":
                return
            self.next_send = time.monotonic() + end["retry_after_ms"] / 1000

    def show(self, mine):
        shown = ""
        while True:
            message = self.events.get(timeout=600)
            if getattr(message.properties, "CorrelationData", b"").decode() != mine:
                continue
            event = json.loads(message.payload)
            if event["type"] == "response.output_text.delta":
                print(event["delta"], end="", flush=True)
                shown += event["delta"]
            elif event["type"] in ENDS:
                # Deltas may be lost (QoS 0); the last event has the whole answer.
                whole = "".join(p["text"] for o in event.get("response", {}).get("output", []) for p in o["content"])
                print(whole[len(shown):] if whole.startswith(shown) else "\n" + whole)
                if event["type"] == "error":
                    print(f"({event['message']})", file=sys.stderr)
                return event


if __name__ == "__main__":
    host, port, user, session = sys.argv[1:5]
    chat = Chat(host, int(port), user, session, open(sys.argv[5]).read().strip() if len(sys.argv) > 5 else None)
    for line in sys.stdin:
        chat.ask(line.rstrip("\n"))
    chat.client.disconnect()
