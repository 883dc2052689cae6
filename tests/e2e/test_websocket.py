"""The Responses API over WebSocket, with wsproto as the client: conformance, channels, resuming, authentication, hostile peers."""
import base64
import json
import os
import random
import re
import signal
import socket
import struct
import tempfile
import time
import unittest

import wsproto
from wsproto.events import AcceptConnection, CloseConnection, Ping, Pong, RejectConnection, Request, TextMessage

from harness import AMOUNT, MODEL, STEP_S, Server, ServerCase, amount, eventually, events, make_key, raw_request

ENDS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled", "error")


class Client:
    """A stock client's protocol over a plain socket."""

    def __init__(self, server, headers=(), target="/v1/responses"):
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=STEP_S)
        self.protocol = wsproto.WSConnection(wsproto.ConnectionType.CLIENT)
        self.socket.sendall(self.protocol.send(Request(host=f"127.0.0.1:{server.port}", target=target, extra_headers=list(headers))))
        self.waiting, self.partial, self.code, self.gone = [], "", None, False
        self.status = None
        while self.status is None:
            event = self.event()
            if isinstance(event, AcceptConnection):
                self.status, self.extensions = 101, event.extensions
            elif isinstance(event, RejectConnection):
                self.status = event.status_code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def event(self):
        """The next of any kind; None at the end of the connection."""
        while not self.waiting:
            if self.gone or self.code is not None:  # wsproto reports an end after the end too
                return None
            try:
                data = self.socket.recv(65536)
            except ConnectionResetError:
                data = b""
            self.gone = not data
            try:
                self.protocol.receive_data(data or None)
            except wsproto.utilities.RemoteProtocolError:
                return None
            self.waiting = list(self.protocol.events())
        event = self.waiting.pop(0)
        if isinstance(event, Ping):
            self.socket.sendall(self.protocol.send(event.response()))
        if isinstance(event, CloseConnection):
            self.code = event.code
        return event

    def say(self, **message):
        self.socket.sendall(self.protocol.send(TextMessage(data=json.dumps(message))))

    def create(self, text="Name three colours.", **members):
        self.say(type="response.create", input=text, **{"model": members.pop("model", MODEL), "temperature": 0,
                                                        "max_output_tokens": 24, **members})

    def read(self):
        """The next message; None where the connection ends first."""
        text = self.read_text()
        return None if text is None else json.loads(text)

    def read_text(self):
        """The message as text."""
        while True:
            event = self.event()
            if event is None or isinstance(event, CloseConnection):
                return None
            if isinstance(event, TextMessage):
                self.partial += event.data
                if event.message_finished:
                    whole, self.partial = self.partial, ""
                    return whole

    def answer(self):
        """Events up to the one that ends an answer, of a connection with one channel."""
        told = [self.read()]
        while told[-1] is not None and told[-1]["type"] not in ENDS:
            told.append(self.read())
        return told

    def closed(self):
        """The code of the close frame; 1006 where the connection ended without one."""
        while self.event() is not None:
            pass
        return self.code


def text_of(told):
    return "".join(event["delta"] for event in told if event["type"] == "response.output_text.delta")


def frame(first, payload=b"", masked=True, length=None):
    """A frame of a client, written out; `length`: the stated length of the payload, if not the true one."""
    size = len(payload) if length is None else length
    head = bytes([first])
    bit = 0x80 if masked else 0
    if size <= 125:
        head += bytes([bit | size])
    elif size <= 0xFFFF:
        head += bytes([bit | 126]) + struct.pack(">H", size)
    else:
        head += bytes([bit | 127]) + struct.pack(">Q", size)
    if not masked:
        return head + payload
    mask = random.randbytes(4)
    return head + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload))


def cut(opcode, payload, *sizes):
    """A message in fragments of these sizes, and the rest."""
    frames, at = b"", 0
    for i, size in enumerate(sizes):
        frames += frame(opcode if i == 0 else 0, payload[at:at + size])
        at += size
    return frames + frame(0x80, payload[at:])


def ping_text(name):
    return json.dumps({"type": "ping", "id": name}, ensure_ascii=False).encode()


class Conformance(ServerCase):
    """Cases after the Autobahn suite's chapters, of which the suite itself cannot be had."""
    TINY = True

    def outcome(self, data, piece=None):
        """The received replies: ids of pongs in JSON, payloads of pong frames, the close code."""
        with Client(self.server) as client:
            client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                for at in range(0, len(data), piece or len(data)):
                    client.socket.sendall(data[at:at + (piece or len(data))])
            except (BrokenPipeError, ConnectionResetError):
                pass  # it had heard enough
            got = []
            while (event := client.event()) is not None:
                if isinstance(event, TextMessage):
                    got.append(json.loads(event.data).get("id", json.loads(event.data)["type"]))
                elif isinstance(event, Pong):
                    got.append(bytes(event.payload))
                elif isinstance(event, CloseConnection):
                    got.append(event.code)
            return got

    BYE = frame(0x88, struct.pack(">H", 1000))

    def test_what_is_well_formed_is_answered_however_it_is_cut(self):
        euro = "\u20ac\U0001f600\u00b5"
        good = {
            "text": (frame(0x81, ping_text("a")), ["a"]),
            "text of 125": (frame(0x81, ping_text("a" * 99)), ["a" * 99]),
            "text in 16 bits of length": (frame(0x81, ping_text("a" * 120)), ["a" * 120]),
            "characters of 2, 3 and 4 bytes": (frame(0x81, ping_text(euro)), [euro]),
            "fragments": (cut(1, ping_text("abc"), 3, 5, 0, 1), ["abc"]),
            "characters split over fragments": (cut(1, ping_text(euro), *([1] * 30)), [euro]),
            "a ping": (frame(0x89, b"\xff\x00x"), [b"\xff\x00x"]),
            "an empty ping": (frame(0x89), [b""]),
            "a ping of 125": (frame(0x89, b"p" * 125), [b"p" * 125]),
            "ten pings": (b"".join(frame(0x89, bytes([i])) for i in range(10)), [bytes([i]) for i in range(10)]),
            "pongs nobody asked for": (frame(0x8A, b"x") + frame(0x8A), []),
            "a ping between fragments": (frame(1, ping_text("q")[:4]) + frame(0x89, b"m") + frame(0x80, ping_text("q")[4:]), [b"m", "q"]),
            "two messages": (frame(0x81, ping_text("a")) + cut(1, ping_text("b"), 2), ["a", "b"]),
        }
        for name, (data, expected) in good.items():
            for piece in (None, 1, 7):
                with self.subTest(name, piece=piece):
                    self.assertEqual(self.outcome(data + self.BYE, piece), [*expected, 1000])

    def test_what_is_not_ends_with_its_code(self):
        hello = ping_text("a")
        bad = {1002: [frame(0x81, hello, masked=False), frame(0x01, hello) + frame(0x81, hello), frame(0x80, hello), frame(0x00, hello),
                      frame(0x09), frame(0x89, b"x" * 126), frame(0x08), frame(0x88, b"x"), frame(0x88, b"x" * 126),
                      b"\x81\xfe\x00\x05" + bytes(4) + b"hello", b"\x81\xff" + struct.pack(">Q", 5) + bytes(4) + b"hello",
                      *[frame(0x81 | rsv, hello) for rsv in (0x40, 0x20, 0x10, 0x70)], *[frame(0x89 | rsv) for rsv in (0x40, 0x20, 0x10)],
                      *[frame(0x80 | op) for op in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15)],
                      *[frame(0x88, struct.pack(">H", code)) for code in (0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535)]],
               1003: [frame(0x82, b"x"), frame(0x02, b"x"), frame(0x82)],
               1007: [frame(0x81, text) for text in (b"\xff", b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80edited", b"\xf4\x90\x80\x80",
                                                     b"\xc0\x80", b"\xe0\x80\xaf", b"\xf8\x88\x80\x80\x80", b"\xe2\x82", b"\x80")]
                     + [cut(1, b"\xe2\x82" + b"x", 1, 1), frame(0x88, struct.pack(">H", 1000) + b"\xff")],
               1009: [frame(0x81, length=length) for length in ((1 << 20) + 1, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)]}
        for code, cases in bad.items():
            for data in cases:
                for piece in (None, 1):
                    with self.subTest(data[:40], piece=piece):
                        self.assertEqual(self.outcome(data, piece), [code])

    def test_a_close_is_answered_with_its_code(self):
        for code in (1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 3000, 3999, 4000, 4999):
            with self.subTest(code):
                self.assertEqual(self.outcome(frame(0x88, struct.pack(">H", code) + b"bye")), [code])
        self.assertEqual(self.outcome(frame(0x88)), [1005])
        self.assertEqual(self.outcome(self.BYE + frame(0x81, ping_text("unheard"))), [1000])

    def test_messages_and_frames_are_bounded(self):
        junk = json.dumps({"type": "ping", "id": "big", "junk": "x" * (8 << 20)}).encode()[:8 << 20]
        junk = junk[:-3] + b'"}'
        junk += b" " * ((8 << 20) - len(junk))
        whole = b"".join(frame(1 if at == 0 else 0, junk[at:at + (1 << 20)]) for at in range(0, len(junk), 1 << 20))
        self.assertEqual(self.outcome(whole + frame(0x80) + self.BYE), ["big", 1000])
        self.assertEqual(self.outcome(whole + frame(0x80, b" ")), [1009])
        tiny = bytearray()
        for _ in range(amount(1 << 12, 1 << 14, 1 << 20)):
            tiny += b"\x00\x81\x00\x00\x00\x00x"  # the mask is zeros
        self.assertEqual(self.outcome(whole + bytes(tiny)), [1009], "8 MiB and then single bytes")
        self.assertEqual(self.outcome(frame(1) + b"\x00\x80\x00\x00\x00\x00" * amount(2000, 100_000, 1_000_000)), [1008])
        self.assertEqual(self.outcome(frame(0x89) * amount(1000, 20_000, 100_000))[-1], 1008)

    def test_an_upgrade_that_is_none_is_refused_in_http(self):
        key = base64.b64encode(bytes(16)).decode()
        good = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key}
        for change, status in (({"Sec-WebSocket-Version": "12"}, 426), ({"Sec-WebSocket-Version": None}, 426), ({"Upgrade": "h2c"}, 426),
                               ({"Connection": "close"}, 426), ({"Sec-WebSocket-Key": None}, 400), ({"Sec-WebSocket-Key": "eHg="}, 400),
                               ({"Origin": "https://evil.example"}, 403), ({"Host": "evil.example"}, 403)):
            headers = {name: value for name, value in {**good, **change}.items() if value is not None}
            with self.subTest(change):
                self.assertEqual(self.server.get("/v1/responses", headers=headers)[0], status)
        status, _, body = self.server.get("/v1/responses?api_key=verysecret", headers=good)
        self.assertEqual((status, json.loads(body)["error"]["code"]), (401, "invalid_api_key"))
        self.assertNotIn("verysecret", self.server.log())
        offered = [("Sec-WebSocket-Extensions", "permessage-deflate; client_max_window_bits")]
        with Client(self.server, headers=[(a.encode(), b.encode()) for a, b in offered]) as client:
            self.assertEqual(client.status, 101)
            self.assertEqual(client.extensions, [])


class Answers(ServerCase):
    def sse(self, **members):
        status, _, text = self.server.post("/v1/responses", {"model": MODEL, "input": "Name three colours.", "temperature": 0,
                                                             "max_output_tokens": 24, "stream": True, **members})
        self.assertEqual(status, 200)
        return [json.loads(event.split("\ndata: ", 1)[1]) for event in events(text)]

    @staticmethod
    def alike(told):
        """Events without what no two answers share."""
        return [json.loads(re.sub(r'"(resp|msg)_[a-z0-9]+"', '"ID"', re.sub(r'"(created|completed)_at": \d+', '"at": 0', json.dumps(event))))
                for event in told]

    def test_the_events_are_those_of_sse(self):
        expected = self.alike(self.sse())
        with Client(self.server) as client:
            client.create()
            self.assertEqual(self.alike(client.answer()), expected)
            client.create(stream_id="a_lane.1")
            self.assertEqual(self.alike(client.answer()), [{**event, "stream_id": "a_lane.1"} for event in expected])

    def test_prompts_have_the_texts_of_http(self):
        with Client(self.server) as client:
            for i in range(amount(6, 6, 20)):
                members = {"temperature": 0.8, "seed": i} if i % 2 else {}
                prompt = f"Tell me about the number {i}."
                client.create(prompt, **members)
                told = client.answer()
                answer = self.server.post_json("/v1/responses", {"model": MODEL, "input": prompt, "temperature": 0, "max_output_tokens": 24,
                                                                 **members})
                self.assertEqual(text_of(told), answer["output"][0]["content"][0]["text"])
                self.assertEqual(told[-1]["response"]["usage"]["output_tokens"], answer["usage"]["output_tokens"])

    def test_two_lanes_overlap_and_one_keeps_its_order(self):
        with Client(self.server) as client:
            for channel in "ab":
                client.create(stream_id=channel, max_output_tokens=64, ignore_eos=True)
            order = []
            while sum(kind in ENDS for _, kind in order) < 2:
                event = client.read()
                order.append((event["stream_id"], event["type"]))
            channels = [channel for channel, kind in order if kind == "response.output_text.delta"]
            self.assertGreater(sum(a != b for a, b in zip(channels, channels[1:])), 16, "they take turns")

    def test_a_subscriber_goes_on_where_a_stream_was_cut(self):
        whole = text_of(self.sse(max_output_tokens=64))
        for _ in range(amount(2, 6, 20)):
            stop = random.randrange(1, 50)
            connection = raw_request(self.server.port, "POST", "/v1/responses",
                                     {"model": MODEL, "input": "Name three colours.", "temperature": 0, "max_output_tokens": 64, "stream": True})
            got = b""
            while got.count(b"event: response.output_text.delta\n") < stop and b"event: response.incomplete" not in got:
                got += connection.recv(4096)
            connection.close()
            told = [json.loads(line[6:]) for line in got.decode(errors="ignore").split("\n")[:-1] if line.startswith("data: ") and line.endswith("}")]
            identity = told[0]["response"]["id"]
            with Client(self.server) as client:
                client.say(type="subscribe", response_id=identity, starting_after=told[-1]["sequence_number"])
                told += client.answer()
            self.assertEqual([event["sequence_number"] for event in told], list(range(len(told))))
            self.assertEqual(text_of(told), whole)

    def test_a_killed_server_goes_on_for_a_subscriber(self):
        whole = text_of(self.sse(max_output_tokens=256, ignore_eos=True))
        with tempfile.TemporaryDirectory() as store:
            server = Server("--store", store)
            with Client(server) as client:
                client.create(max_output_tokens=256, ignore_eos=True)
                told = [client.read() for _ in range(20)]
                os.kill(server.process.pid, signal.SIGKILL)
                server.process.wait()
                while (event := client.read()) is not None:
                    told.append(event)
            server.stop()
            server = Server("--store", store)
            with Client(server) as client:
                rest = None
                while rest is None or rest[0].get("error", {}).get("code") == "model_loading":  # it comes to it as soon as it can
                    client.say(type="subscribe", response_id=told[0]["response"]["id"], starting_after=told[-1]["sequence_number"])
                    rest = client.answer()
                told += rest
            self.assertEqual(server.stop(), 0)
        self.assertEqual([event["sequence_number"] for event in told], list(range(len(told))))
        self.assertEqual(text_of(told), whole)

    def test_what_is_not_stored_can_be_continued_on_its_connection(self):
        with Client(self.server) as client:
            client.create("I am Ada.", store=False, stream_id="a")
            first = client.answer()
            client.create("Who am I?", store=False, stream_id="b", previous_response_id=first[-1]["response"]["id"])
            second = client.answer()
        chat = self.server.post_json("/v1/chat/completions", {
            "model": MODEL, "temperature": 0, "max_tokens": 24,
            "messages": [{"role": "user", "content": "I am Ada."}, {"role": "assistant", "content": text_of(first)},
                         {"role": "user", "content": "Who am I?"}]})
        self.assertEqual(text_of(second), chat["choices"][0]["message"]["content"])

    def test_a_cancel_and_a_closed_connection_free_the_work(self):
        with Client(self.server) as client:
            client.create(max_output_tokens=2000, ignore_eos=True)
            client.say(type="response.cancel", response_id=client.read()["response"]["id"])
            self.assertEqual(client.answer()[-1]["type"], "response.cancelled")
            for channel in range(4):
                client.create(stream_id=str(channel), max_output_tokens=2000, ignore_eos=True, store=False)
            eventually(lambda: self.server.load()["running"] == 4)
        started = time.monotonic()
        self.server.wait_idle()
        self.assertLess(time.monotonic() - started, 5)

    def test_a_server_that_shuts_down_lets_an_answer_end(self):
        server = Server()
        with Client(server) as idle, Client(server) as client:
            client.create(max_output_tokens=48, ignore_eos=True)
            client.read()
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(idle.closed(), 1001)
            self.assertEqual(client.answer()[-1]["type"], "response.incomplete")
            self.assertEqual(client.closed(), 1001)
        server.process.wait(STEP_S)
        self.assertEqual(server.stop(), 0)


class Order(ServerCase):
    TINY = True

    def test_one_lane_keeps_order_over_200_messages(self):
        model = self.server.models()[0]
        with Client(self.server) as client:
            sent, ended = 0, []
            while len(ended) < 200:
                while sent < 200 and sent - len(ended) < 16:
                    client.create(f"{sent}", model=model, stream_id="one", max_output_tokens=16, metadata={"n": str(sent)})
                    sent += 1
                event = client.read()
                if event["type"] == "response.created":
                    self.assertEqual(event["response"]["metadata"]["n"], str(len(ended)), "the one before has ended")
                if event["type"] in ENDS:
                    self.assertNotEqual(event["type"], "error", event)
                    ended.append(event["response"]["metadata"]["n"])
        self.assertEqual(ended, [str(n) for n in range(200)])

    def test_half_a_goodbye_ends_it(self):
        with Client(self.server) as client:
            client.create(model=self.server.models()[0], store=False, max_output_tokens=16)
            client.socket.shutdown(socket.SHUT_WR)
            self.assertEqual(client.closed(), 1006)
        self.server.wait_idle()


    @unittest.skipUnless(AMOUNT == "full", "waits for 30 s")
    def test_a_reader_that_takes_nothing_is_cut(self):
        with Client(self.server) as client:
            client.create(model=self.server.models()[0], max_output_tokens=100, ignore_eos=True)
            identity = client.answer()[-1]["response"]["id"]
            before = self.server.log().count('101')
            started = time.monotonic()
            for channel in range(40):
                for _ in range(10):
                    client.say(type="subscribe", stream_id=str(channel), response_id=identity)
            eventually(lambda: self.server.log().count('101') > before, self.server.log, 60)
            self.assertLess(abs(time.monotonic() - started - 31), 4)


class Keys(unittest.TestCase):
    def test_a_key_comes_with_the_upgrade_or_first_of_all(self):
        with tempfile.TemporaryDirectory() as store:
            secret = make_key(store, "ann")
            weak = make_key(store, "bob", "--routes", "embed")
            server = Server("--store", store)
            self.addCleanup(lambda: server.process.poll() is None and server.stop())
            bearer = lambda text: [(b"Authorization", f"Bearer {text}".encode())]
            for text, status in ((secret, 101), ("wrong", 401), (weak, 403)):
                with Client(server, bearer(text)) as client:
                    self.assertEqual(client.status, status)
            with Client(server) as client:
                client.say(type="auth", token=secret)
                client.create()
                told = client.answer()
                self.assertEqual(told[-1]["type"], "response.incomplete", told[-1])
            for first, code, close in (({"type": "auth", "token": "wrong"}, "invalid_api_key", 4401),
                                       ({"type": "auth", "token": weak}, "insufficient_scope", 4403),
                                       ({"type": "ping"}, "invalid_api_key", 4401)):
                with Client(server) as client:
                    client.say(**first)
                    self.assertEqual(client.read()["error"]["code"], code)
                    self.assertEqual(client.closed(), close)
            with Client(server) as client:
                started = time.monotonic()
                self.assertEqual(client.closed(), 4401)
                self.assertGreater(time.monotonic() - started, 4)
            # Another tenant's answer is not there.
            other = make_key(store, "eve", "--tenant", "others")
            with Client(server, bearer(other)) as client:
                client.say(type="subscribe", response_id=told[0]["response"]["id"])
                self.assertEqual(client.read()["error"]["code"], "not_found")
            self.assertNotIn(secret, server.log())
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
