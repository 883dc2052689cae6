"""WebSocket clients on the route of the Responses API and on that of chat."""
import asyncio
import json
import socket
import uuid

import aiohttp
import picows
import websocket
import wsproto
from wsproto.events import AcceptConnection, Request, TextMessage

from checks import HOST, MODEL, PORT, PROMPT, TOKENS, Client, agree, agree_pieces

ENDS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled", "error")
ASKED = {"max_output_tokens": TOKENS, "temperature": 0, "input": PROMPT}
BASE = f"ws://{HOST}:{PORT}"


def conversations(user):
    """(path, message) of one question on each route."""
    yield "/v1/responses", json.dumps({**ASKED, "type": "response.create", "model": MODEL})
    yield f"/v1/ws?user={user}", json.dumps({**ASKED, "type": "message", "session": uuid.uuid4().hex[:8], "id": str(uuid.uuid4())})


def ended(told):
    return told and told[-1]["type"] in ENDS


def judge(told):
    agree_pieces([event["delta"] for event in told if event["type"] == "response.output_text.delta"])
    agree(told[-1]["response"]["output"][0]["content"][0]["text"])


@Client("websocket-client", section="protocols").check("websocket")
def by_websocket_client():
    for path, message in conversations("websocket-client"):
        link = websocket.create_connection(BASE + path, timeout=60)
        link.send(message)
        told = []
        while not ended(told):
            told.append(json.loads(link.recv()))
        link.close()
        judge(told)


@Client("aiohttp (WebSocket)", section="protocols", distribution="aiohttp").check("websocket")
async def by_aiohttp():
    for path, message in conversations("aiohttp"):
        told = []
        async with aiohttp.ClientSession() as session, session.ws_connect(BASE + path) as link:
            await link.send_str(message)
            while not ended(told):
                told.append(await link.receive_json())
        judge(told)


@Client("picows", section="protocols").check("websocket")
async def by_picows():
    for path, message in conversations("picows"):
        told, done = [], asyncio.Event()

        class Listener(picows.WSListener):
            def on_ws_connected(self, transport):
                transport.send(picows.WSMsgType.TEXT, message.encode())

            def on_ws_frame(self, transport, frame):
                if frame.msg_type == picows.WSMsgType.TEXT:
                    told.append(json.loads(frame.get_payload_as_bytes()))
                    if ended(told):
                        done.set()
        transport, _ = await picows.ws_connect(Listener, BASE + path)
        await asyncio.wait_for(done.wait(), 60)
        transport.disconnect()
        judge(told)


@Client("wsproto", section="protocols").check("websocket")
def by_wsproto():
    for path, message in conversations("wsproto"):
        with socket.create_connection((HOST, PORT), timeout=60) as link:
            protocol = wsproto.WSConnection(wsproto.ConnectionType.CLIENT)
            link.sendall(protocol.send(Request(host=f"{HOST}:{PORT}", target=path)))
            told, partial = [], ""
            while not ended(told):
                protocol.receive_data(link.recv(65536) or None)
                for event in protocol.events():
                    if isinstance(event, AcceptConnection):
                        link.sendall(protocol.send(TextMessage(data=message)))
                    elif isinstance(event, TextMessage):
                        partial += event.data
                        if event.message_finished:
                            told.append(json.loads(partial))
                            partial = ""
        judge(told)
