"""Clients of plain HTTP: one answer, and a stream of server-sent events read as each client reads lines."""
import http.client
import json
import platform
import re
import subprocess

import aiohttp
import aiosonic
import geventhttpclient
import httpx
import httpx_sse
import niquests
import pycurl
import requests
import sseclient
import urllib3

from checks import HOST, MESSAGES, MODEL, PORT, TOKENS, V1, Client, agree, agree_pieces

URL = V1 + "/chat/completions"
ASKED = {"model": MODEL, "messages": MESSAGES, "max_tokens": TOKENS, "temperature": 0}
STREAMED = {**ASKED, "stream": True}
JSON = {"Content-Type": "application/json"}


def text_of(answer):
    agree((json.loads(answer) if isinstance(answer, (str, bytes)) else answer)["choices"][0]["message"]["content"])


def data_of(lines):
    """The texts after `data: ` in the lines of a stream."""
    for line in lines:
        line = line.decode() if isinstance(line, bytes) else line
        if line.startswith("data:"):
            yield line.removeprefix("data:").strip()


def pieces_of(data):
    data = list(data)
    assert data[-1] == "[DONE]", data[-1]
    agree_pieces([choice["delta"].get("content") for event in data[:-1] for choice in json.loads(event)["choices"]])


def declare(name, distribution=None, version=None, chat=None, stream=None):
    client = Client(name, section="protocols", distribution=distribution, version=version)
    if chat:
        client.check("chat")(chat)
    if stream:
        client.check("stream")(stream)


def by_standard_library(body):
    connection = http.client.HTTPConnection(HOST, PORT, timeout=60)
    connection.request("POST", "/v1/chat/completions", json.dumps(body), JSON)
    return connection.getresponse()


declare("http.client (Python)", version=platform.python_version(), chat=lambda: text_of(by_standard_library(ASKED).read()),
        stream=lambda: pieces_of(data_of(by_standard_library(STREAMED))))
declare("requests", chat=lambda: text_of(requests.post(URL, json=ASKED, timeout=60).json()),
        stream=lambda: pieces_of(data_of(requests.post(URL, json=STREAMED, stream=True, timeout=60).iter_lines())))
declare("niquests", chat=lambda: text_of(niquests.post(URL, json=ASKED, timeout=60).json()),
        stream=lambda: pieces_of(data_of(niquests.post(URL, json=STREAMED, stream=True, timeout=60).iter_lines())))
declare("urllib3", chat=lambda: text_of(urllib3.request("POST", URL, json=ASKED).json()),
        stream=lambda: pieces_of(data_of(urllib3.request("POST", URL, json=STREAMED, preload_content=False))))
declare("sseclient-py", stream=lambda: pieces_of(
    event.data for event in sseclient.SSEClient(requests.post(URL, json=STREAMED, stream=True, timeout=60)).events()))


def httpx_sse_stream():
    with httpx.Client(timeout=60) as api, httpx_sse.connect_sse(api, "POST", URL, json=STREAMED) as source:
        pieces_of([event.data for event in source.iter_sse()])


def httpx_stream():
    with httpx.stream("POST", URL, json=STREAMED, timeout=60) as answer:
        pieces_of(data_of(answer.iter_lines()))


declare("httpx", chat=lambda: text_of(httpx.post(URL, json=ASKED, timeout=60).json()), stream=httpx_stream)
declare("httpx-sse", stream=httpx_sse_stream)


async def aiohttp_chat():
    async with aiohttp.ClientSession() as session, session.post(URL, json=ASKED) as answer:
        text_of(await answer.json())


async def aiohttp_stream():
    async with aiohttp.ClientSession() as session, session.post(URL, json=STREAMED) as answer:
        pieces_of(data_of([line async for line in answer.content]))


declare("aiohttp", chat=aiohttp_chat, stream=aiohttp_stream)


async def aiosonic_chat():
    async with aiosonic.HTTPClient() as api:
        text_of(await (await api.post(URL, json=ASKED)).json())


async def aiosonic_stream():
    async with aiosonic.HTTPClient() as api:
        answer = await api.post(URL, json=STREAMED)
        body = b"".join([chunk async for chunk in answer.read_chunks()])
    pieces_of(data_of(body.split(b"\n")))


declare("aiosonic", chat=aiosonic_chat, stream=aiosonic_stream)


def gevent_post(body):
    return geventhttpclient.HTTPClient(HOST, PORT, network_timeout=60).post(
        "/v1/chat/completions", body=json.dumps(body), headers=JSON)


declare("geventhttpclient", chat=lambda: text_of(gevent_post(ASKED).read()),
        stream=lambda: pieces_of(data_of(gevent_post(STREAMED).read().split(b"\n"))))


def by_pycurl(body):
    got = []
    curl = pycurl.Curl()
    curl.setopt(pycurl.URL, URL)
    curl.setopt(pycurl.HTTPHEADER, ["Content-Type: application/json"])
    curl.setopt(pycurl.POSTFIELDS, json.dumps(body))
    curl.setopt(pycurl.WRITEFUNCTION, got.append)
    curl.perform()
    assert curl.getinfo(pycurl.RESPONSE_CODE) == 200
    curl.close()
    return b"".join(got)


declare("pycurl", chat=lambda: text_of(by_pycurl(ASKED)), stream=lambda: pieces_of(data_of(by_pycurl(STREAMED).split(b"\n"))))


def by_program(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def version_of(program):
    return re.search(r"\d+(\.\d+)+", by_program(program, "--version")).group()


def by_curl(body):
    return by_program("curl", "-sN", "--fail", URL, "-H", "Content-Type: application/json", "-d", json.dumps(body))


def by_wget(body):
    return by_program("wget", "-q", "-O", "-", "--header", "Content-Type: application/json", "--post-data", json.dumps(body), URL)


declare("curl", version=version_of("curl"), chat=lambda: text_of(by_curl(ASKED)),
        stream=lambda: pieces_of(data_of(by_curl(STREAMED).splitlines())))
declare("wget", version=version_of("wget"), chat=lambda: text_of(by_wget(ASKED)),
        stream=lambda: pieces_of(data_of(by_wget(STREAMED).splitlines())))
