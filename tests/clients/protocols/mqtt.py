"""Clients of MQTT that live in an event loop, and Debian's command line, against the server's own listener."""
import asyncio
import json
import re
import subprocess
import uuid

import aiomqtt
import gmqtt

from checks import HOST, MQTT_PORT, PROMPT, TOKENS, Client, agree, agree_pieces

SESSION = uuid.uuid4().hex[:8]
ENDS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled", "error")


def question():
    return json.dumps({"id": str(uuid.uuid4()), "type": "message", "input": PROMPT, "max_output_tokens": TOKENS, "temperature": 0})


def judge(told):
    assert told[0]["type"] == "accepted", told[0]
    agree_pieces([event["delta"] for event in told if event["type"] == "response.output_text.delta"])
    agree(told[-1]["response"]["output"][0]["content"][0]["text"])


@Client("aiomqtt", section="protocols").check("mqtt")
async def by_aiomqtt():
    for user, protocol in (("aio-3", aiomqtt.ProtocolVersion.V311), ("aio-5", aiomqtt.ProtocolVersion.V5)):
        told = []
        async with aiomqtt.Client(HOST, MQTT_PORT, username=user, protocol=protocol) as api:
            await api.subscribe(f"llm/v1/{user}/{SESSION}/out", qos=1)
            await api.publish(f"llm/v1/{user}/{SESSION}/in", question(), qos=1)
            async for message in api.messages:
                told.append(json.loads(message.payload))
                if told[-1]["type"] in ENDS:
                    break
        judge(told)


@Client("gmqtt", section="protocols").check("mqtt")
async def by_gmqtt():
    told, ended, subscribed = [], asyncio.Event(), asyncio.Event()

    def heard(api, topic, payload, qos, properties):
        told.append(json.loads(payload))
        if told[-1]["type"] in ENDS:
            ended.set()
        return 0
    api = gmqtt.Client("gmqtt-client")
    api.set_auth_credentials("gmqtt", None)
    api.on_message = heard
    api.on_subscribe = lambda *_: subscribed.set()
    await api.connect(HOST, MQTT_PORT)
    api.subscribe(f"llm/v1/gmqtt/{SESSION}/out", qos=1)
    await asyncio.wait_for(subscribed.wait(), 30)
    api.publish(f"llm/v1/gmqtt/{SESSION}/in", question(), qos=1)
    await asyncio.wait_for(ended.wait(), 60)
    await api.disconnect()
    judge(told)


def version_of(program):
    return re.search(r"\d+(\.\d+)+", subprocess.run([program, "--help"], capture_output=True, text=True).stdout).group()


@Client("mosquitto_pub, mosquitto_sub", section="protocols", version=version_of("mosquitto_pub")).check("mqtt")
def by_mosquitto():
    where = ["-h", HOST, "-p", str(MQTT_PORT), "-u", "mosquitto", "-q", "1"]
    listening = subprocess.Popen(
        ["stdbuf", "-oL", "mosquitto_sub", *where, "-d", "-W", "60", "-t", f"llm/v1/mosquitto/{SESSION}/out"],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        told = []
        for line in listening.stdout:
            if "SUBACK" in line:
                done = subprocess.run(["mosquitto_pub", *where, "-t", f"llm/v1/mosquitto/{SESSION}/in", "-m", question()],
                                      capture_output=True, text=True, timeout=30)
                assert done.returncode == 0, done.stderr
            if line.startswith("{"):
                told.append(json.loads(line))
                if told[-1]["type"] in ENDS:
                    break
    finally:
        listening.kill()
        listening.wait()
    judge(told)
