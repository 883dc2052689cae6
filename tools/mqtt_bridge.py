#!/usr/bin/env python3
"""A thin bridge from an MQTT broker to an OpenAI server, as a user might write it: pip install paho-mqtt

    mqtt_bridge.py BROKER_PORT SERVER_URL WORKERS MODEL

A message on PREFIX/{user}/{session}/in, {"id", "input", "max_output_tokens"}, is asked of the server as a stream; each piece goes to
.../out at QoS 0, the whole text at QoS 1. It keeps nothing: no dialog, no order, no answer that outlives it.
"""
import concurrent.futures
import http.client
import json
import sys
import urllib.parse

import paho.mqtt.client as mqtt

PREFIX = "llm/v1"


def answer(client, server, model, message):
    asked, out = json.loads(message.payload), message.topic.removesuffix("/in") + "/out"
    connection = http.client.HTTPConnection(server.hostname, server.port, timeout=600)
    connection.request("POST", "/v1/chat/completions", json.dumps({
        "model": model, "messages": [{"role": "user", "content": asked["input"]}], "max_tokens": asked["max_output_tokens"], "stream": True,
        "temperature": 0, "ignore_eos": True, "cache_prompt": True}), {"Content-Type": "application/json"})
    text, response = "", connection.getresponse()
    if response.status != 200:
        client.publish(out, json.dumps({"type": "error", "id": asked["id"], "message": response.read().decode(errors="replace")}), 1)
        return connection.close()
    for line in response:
        if not line.startswith(b"data: {"):
            continue
        for choice in json.loads(line[6:])["choices"]:
            piece = choice["delta"].get("content") or ""
            if piece:
                text += piece
                client.publish(out, json.dumps({"type": "response.output_text.delta", "id": asked["id"], "delta": piece}), 0)
    connection.close()
    client.publish(out, json.dumps({"type": "response.completed", "id": asked["id"], "text": text}), 1)


def main():
    port, server, workers = int(sys.argv[1]), urllib.parse.urlsplit(sys.argv[2]), int(sys.argv[3])
    pool = concurrent.futures.ThreadPoolExecutor(workers)
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    client.on_connect = lambda c, *rest: c.subscribe(f"{PREFIX}/+/+/in", 1)
    client.on_subscribe = lambda *rest: print("ready", flush=True)
    client.on_message = lambda c, u, message: pool.submit(answer, c, server, sys.argv[4], message)
    client.connect("127.0.0.1", port)
    client.loop_forever()


if __name__ == "__main__":
    main()
