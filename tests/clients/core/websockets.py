"""The websockets library on both routes that take an upgrade."""
import json
import uuid

import websockets

from checks import HOST, MODEL, PORT, PROMPT, TOKENS, Client, agree, agree_pieces

client = Client("websockets", section="protocols")
ENDS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled", "error")


async def answer(path, message):
    async with websockets.connect(f"ws://{HOST}:{PORT}{path}") as socket:
        await socket.send(json.dumps({"max_output_tokens": TOKENS, "temperature": 0, "input": PROMPT, **message}))
        told = [json.loads(await socket.recv())]
        while told[-1]["type"] not in ENDS:
            told.append(json.loads(await socket.recv()))
    agree_pieces([event["delta"] for event in told if event["type"] == "response.output_text.delta"])
    agree(told[-1]["response"]["output"][0]["content"][0]["text"])


@client.check("websocket")
async def websocket():
    await answer("/v1/responses", {"type": "response.create", "model": MODEL})
    await answer("/v1/ws?user=websockets", {"type": "message", "session": uuid.uuid4().hex[:8], "id": str(uuid.uuid4())})
