"""A subscriber in its own process, which tests kill: it writes messages as JSON lines to a file before it acknowledges them.

    mqtt_collector.py FILE PORT VERSION USER FILTER...      the password comes on standard input
"""
import json
import os
import sys

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties


def main():
    file, port, version, user, *filters = sys.argv[1:]
    out = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    v5 = version == "5"
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id=f"collector-{user}", protocol=paho.MQTTv5 if v5 else paho.MQTTv311,
                         **({} if v5 else {"clean_session": False}))
    client.username_pw_set(user, sys.stdin.readline().rstrip("\n"))
    client.reconnect_delay_set(1, 1)

    def write(**line):
        os.write(out, (json.dumps(line) + "\n").encode())

    def hear(_, __, message):
        correlation = getattr(message.properties, "CorrelationData", None) if v5 else None
        write(topic=message.topic, payload=message.payload.decode(), dup=message.dup,
              correlation=correlation.decode() if correlation else None,
              properties=dict(getattr(message.properties, "UserProperty", [])) if v5 else {})

    client.on_connect = lambda c, d, flags, reason, p: c.subscribe([(one, 1) for one in filters])
    client.on_subscribe = lambda *_: write(ready=True)
    client.on_message = hear
    more = {}
    if v5:
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = 3600
        more = {"clean_start": False, "properties": properties}
    client.connect_async("127.0.0.1", int(port), keepalive=60, **more)
    client.loop_forever(retry_first_connection=True)


if __name__ == "__main__":
    main()
