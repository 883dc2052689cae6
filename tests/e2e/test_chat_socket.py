"""Chat over WebSocket (/v1/ws) with wsproto as the client: along with MQTT and HTTP, over cuts, kills and drains, and its close codes."""
import json
import os
import queue
import random
import signal
import tempfile
import time
import unittest

from harness import MODEL, STEP_S, Server, ServerCase, amount, eventually, make_key
from test_mqtt import Chat, mqtt_port, serve
from test_websocket import ENDS, Client, text_of


class Talk(Client):
    """A connection of a user's."""

    def __init__(self, server, query="?user=ada", headers=()):
        super().__init__(server, headers, "/v1/ws" + query)

    def message(self, session, message_id, text, **members):
        self.say(**{"type": "message", "session": session, "id": message_id, "input": text, "temperature": 0, "max_output_tokens": 16, **members})

    def texts(self):
        """An answer's events as they came, up to its end."""
        told = [self.read_text()]
        while told[-1] is not None and json.loads(told[-1])["type"] not in ENDS:
            told.append(self.read_text())
        return told

    def log(self, response_id, starting_after=None):
        """The events of a response, from its beginning or after an event."""
        place = {} if starting_after is None else {"starting_after": starting_after}
        self.say(type="resume", response_id=response_id, **place)
        return self.texts()

    def next(self, kind):
        while (event := self.read()) is not None and event["type"] != kind:
            pass
        return event


class RawChat(Chat):
    """Over MQTT, with payloads as they came."""

    def __init__(self, *args, **keywords):
        self.raw = queue.Queue()
        super().__init__(*args, **keywords)
        self.client.on_message = lambda c, u, m: self.raw.put(m.payload.decode())

    def texts(self):
        told = [self.raw.get(timeout=STEP_S)]
        while json.loads(told[-1])["type"] not in ENDS:
            told.append(self.raw.get(timeout=STEP_S))
        return told


def apart(texts):
    """Events other than deltas, and the text of all deltas together."""
    told = [json.loads(text) for text in texts]
    return [text for text, event in zip(texts, told) if event["type"] != "response.output_text.delta"], text_of(told)


class BesideMqtt(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = serve()

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def test_one_session_over_both_with_the_same_bytes(self):
        chat = RawChat(mqtt_port(self.server), "ada", "both")
        self.addCleanup(chat.close)
        chat.say("I am Ada.", "m-1")
        over_mqtt = chat.texts()
        first = json.loads(over_mqtt[0])["response_id"]
        with Talk(self.server) as talk:
            here = talk.log(first)
            self.assertEqual(apart(here), apart(over_mqtt), "to the byte, but that MQTT puts deltas together")
            single = {json.loads(text)["sequence_number"]: text for text in here}
            alone = [text for text in over_mqtt if "first_sequence_number" not in json.loads(text)]
            self.assertEqual([single[json.loads(text)["sequence_number"]] for text in alone], alone)
            # The same message over this transport is the same turn, and the next turn has it in its history.
            talk.message("both", "m-1", "I am Ada.")
            self.assertEqual(talk.texts(), here)
            talk.message("both", "m-2", "Who am I?")
            told = talk.texts()
            self.assertEqual(json.loads(told[0])["turn"], 2)
            talk.say(type="history", session="both", id="h")
            history = talk.read_text()
        # And back.
        chat.control(type="resume", response_id=json.loads(told[0])["response_id"])
        self.assertEqual(apart(chat.texts()), apart(told))
        chat.control(type="history", id="h")
        self.assertEqual(chat.raw.get(timeout=STEP_S), history)
        self.assertEqual([item["turn"] for item in json.loads(history)["items"]], [1, 1, 2, 2])

    def test_another_user_sees_none_of_it(self):
        with Talk(self.server) as talk:
            talk.message("mine", "m", "I am Ada.")
            first = talk.read()["response_id"]
        with Talk(self.server, "?user=eve") as talk:
            for verb in ("resume", "subscribe", "cancel"):
                talk.say(type=verb, response_id=first)
                self.assertEqual(talk.read()["code"], "not_found", verb)
            talk.say(type="history", session="mine")
            self.assertEqual(talk.read()["code"], "not_found")


class Sessions(ServerCase):
    def test_a_conversation_of_http_goes_on_here_and_there(self):
        conversation = self.server.post_json("/v1/conversations", {})["id"]
        body = {"model": MODEL, "conversation": conversation, "temperature": 0, "max_output_tokens": 16}
        self.server.post_json("/v1/responses", {**body, "input": "I am Ada."})
        with Talk(self.server) as talk:
            talk.say(type="message", id="1", input="Who am I?", conversation=conversation, temperature=0, max_output_tokens=16)
            self.assertIn(talk.answer()[-1]["type"], ("response.completed", "response.incomplete"))
        self.server.post_json("/v1/responses", {**body, "input": "And who are you?"})
        items = json.loads(self.server.get(f"/v1/conversations/{conversation}/items?order=asc")[2])["data"]
        self.assertEqual([item["content"][0]["text"] for item in items if item["role"] == "user"],
                         ["I am Ada.", "Who am I?", "And who are you?"])

    def test_two_sessions_overlap(self):
        with Talk(self.server) as talk:
            for session in "ab":
                talk.message(session, "overlap", "Name three colours.", stream_id=session, max_output_tokens=64, ignore_eos=True)
            order = []
            while sum(kind in ENDS for _, kind in order) < 2:
                event = talk.read()
                order.append((event["stream_id"], event["type"]))
        channels = [channel for channel, kind in order if kind == "response.output_text.delta"]
        self.assertGreater(sum(a != b for a, b in zip(channels, channels[1:])), 16, "they take turns")

    def test_a_cut_connection_resumes_with_exactly_what_it_missed(self):
        for i in range(amount(2, 4, 20)):
            told = []
            with Talk(self.server) as talk:
                talk.message(f"cut-{i}", "m", "Name three colours.", max_output_tokens=64, ignore_eos=True)
                for _ in range(random.randrange(1, 50)):
                    told.append(talk.read_text())
            first = json.loads(told[0])["response_id"]
            with Talk(self.server) as talk:
                told += talk.log(first, json.loads(told[-1])["sequence_number"])
                self.assertEqual(told, talk.log(first), "nothing twice, nothing missing")
            self.assertEqual([json.loads(text)["sequence_number"] for text in told], list(range(len(told))))

    def test_a_cancel_lets_another_run(self):
        with Talk(self.server) as talk:
            for session in range(4):
                talk.message(str(session), "m", "Count.", stream_id=str(session), max_output_tokens=2000, ignore_eos=True)
            eventually(lambda: self.server.load()["running"] == 4)
            started = time.monotonic()
            for session in range(4):
                talk.say(type="cancel", session=str(session), id="c", stream_id=str(session))
            ends = {}
            while len(ends) < 8:
                event = talk.read()
                if event["type"] in ("response.cancelled", "cancelled"):
                    ends[(event["stream_id"], event["type"])] = event
            self.server.wait_idle()
            self.assertLess(time.monotonic() - started, 5)
            for session in "0123":
                self.assertEqual(ends[session, "cancelled"]["response_id"], ends[session, "response.cancelled"]["response"]["id"])

    def test_a_job_is_followed_from_its_link(self):
        status, _, text = self.server.request("POST", "/v1/chat/completions", {
            "model": MODEL, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 8}, {"Prefer": "respond-async"})
        self.assertEqual(status, 202)
        job = json.loads(text)
        self.assertEqual(job["links"]["ws"], f"/v1/ws?job={job['id']}")
        with Client(self.server, target=job["links"]["ws"]) as client:
            last = client.read()
            while last["type"] != "job.completed":
                last = client.read()
        self.assertEqual(last["job"], json.loads(self.server.get(job["links"]["self"])[2]))


class Codes(ServerCase):
    TINY = True

    def setUp(self):
        self.running = {"model": self.server.models()[0], "ignore_eos": True}

    def test_one_session_keeps_order_over_200_messages(self):
        with Talk(self.server) as talk:
            sent, ended = 0, []
            while len(ended) < 200:
                while sent < 200 and sent - len(ended) < 16:
                    talk.message("order", f"m{sent}", f"{sent}", model=self.running["model"])
                    sent += 1
                event = talk.read()
                self.assertNotEqual(event["type"], "error", event)
                if event["type"] == "accepted":
                    turn = event["turn"]
                    self.assertEqual(event["id"], f"m{turn - 1}")
                if event["type"] in ENDS:
                    ended.append(event["response"]["id"])
            self.assertEqual(turn, 200)
            talk.say(type="history", session="order", limit=100)
            items = talk.read()["items"]
            self.assertEqual([item["content"] for item in items if item["role"] == "user"], [str(n) for n in range(150, 200)])

    def test_close_codes(self):
        def code(*frames):
            with Talk(self.server) as talk:
                for frame in frames:
                    talk.say(**frame)
                return talk.closed()
        self.assertEqual(code({"type": "none"}), 4400)
        long = {"type": "message", "session": "codes", "input": "Hi", "max_output_tokens": 100, **self.running}
        self.assertEqual(code({**long, "id": "1"}, {**long, "id": "2", "policy": "reject"}), 4409)
        self.assertEqual(code(*({**long, "id": f"f{i}", "session": "flood"} for i in range(40))), 4429)
        self.server.wait_idle()

    def test_a_flood_of_verbs_is_bounded(self):
        with Talk(self.server) as talk:
            for _ in range(2000):
                try:
                    talk.say(type="history", session="any")
                except (BrokenPipeError, ConnectionResetError):
                    break
            self.assertIn(talk.closed(), (4429, 1006))
        self.server.wait_idle()


class OverStops(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.store = folder.name

    def test_a_killed_server_goes_on_by_number(self):
        server = Server("--store", self.store)
        told = []
        with Talk(server) as talk:
            talk.message("kill", "m", "Name three colours.", max_output_tokens=256, ignore_eos=True)
            told += [talk.read_text() for _ in range(20)]
            os.kill(server.process.pid, signal.SIGKILL)
            server.process.wait()
            while (text := talk.read_text()) is not None:
                told.append(text)
        server.stop()
        server = Server("--store", self.store)
        first, last = json.loads(told[0])["response_id"], json.loads(told[-1])["sequence_number"]
        with Talk(server) as talk:
            rest = None
            while rest is None or json.loads(rest[0]).get("code") == "model_loading":  # it comes to it as soon as it can
                rest = talk.log(first, last)
            told += rest
            self.assertEqual(apart(told), apart(talk.log(first)))
            talk.message("kill", "m", "Name three colours.", max_output_tokens=256, ignore_eos=True)
            self.assertEqual(json.loads(talk.texts()[0])["response_id"], first, "the same turn, no second answer")
        self.assertEqual([json.loads(text)["sequence_number"] for text in told], list(range(len(told))))
        self.assertEqual(server.stop(), 0)

    def test_a_drain_closes_with_1001_and_loses_nothing_accepted(self):
        server = Server("--store", self.store, "--drain-s", "5")
        accepted, finals = {}, {}
        with Talk(server) as talk, Talk(server, "?user=idle") as idle:
            for i in range(4):
                talk.message("drain", f"m{i}", f"Name {i} colours.", max_output_tokens=64, ignore_eos=True)
            while len(accepted) < 4:
                event = talk.read()
                if event["type"] == "accepted":
                    accepted[event["id"]] = event["response_id"]
                elif event["type"] in ENDS:
                    finals[event["response"]["id"]] = event["response"]["output"]
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(idle.closed(), 1001)
            while (event := talk.read()) is not None:
                if event["type"] == "error":
                    self.assertEqual(event["code"], "draining")
                elif event["type"] in ENDS:
                    finals[event["response"]["id"]] = event["response"]["output"]
            self.assertEqual(talk.code, 1001)
        self.assertGreater(len(finals), 0, "what runs ends")
        server.process.wait(STEP_S)
        self.assertEqual(server.stop(), 0)
        server = Server("--store", self.store)
        with Talk(server) as talk:
            for i in range(4):
                talk.message("drain", f"m{i}", f"Name {i} colours.", max_output_tokens=64, ignore_eos=True)
            told = {}
            while len(told) < 4:
                event = talk.read()
                self.assertNotEqual(event["type"], "error", event)
                if event["type"] == "accepted":
                    self.assertEqual(event["response_id"], accepted[event["id"]], "the same turn")
                elif event["type"] in ENDS:
                    told[event["response"]["id"]] = event["response"]["output"]
            for response, output in finals.items():
                self.assertEqual(told[response], output)
            talk.say(type="history", session="drain")
            items = talk.read()["items"]
        self.assertEqual([item["content"] for item in items if item["role"] == "user"], [f"Name {i} colours." for i in range(4)])
        self.assertEqual(server.stop(), 0)

    def test_keys_users_and_tenants(self):
        ann, eve = make_key(self.store, "ann"), make_key(self.store, "eve", "--tenant", "others")
        weak = make_key(self.store, "bob", "--routes", "embed")
        server = Server("--store", self.store)
        self.addCleanup(lambda: server.process.poll() is None and server.stop())
        bearer = lambda text: [(b"Authorization", f"Bearer {text}".encode())]
        for query, key, status in (("", ann, 101), ("?user=ann", ann, 101), ("?user=eve", ann, 403), ("", "wrong", 401), ("", weak, 403),
                                   ("?token=x", ann, 401)):
            with Talk(server, query, bearer(key)) as talk:
                self.assertEqual(talk.status, status, (query, key))
        with Talk(server, "") as talk:
            talk.say(type="auth", token=ann)
            talk.message("s", "m", "I am Ann.")
            told = talk.answer()
            self.assertEqual(told[-1]["type"], "response.incomplete", told[-1])
        for first, code, close in (({"type": "auth", "token": "wrong"}, "invalid_api_key", 4401),
                                   ({"type": "auth", "token": weak}, "insufficient_scope", 4403),
                                   ({"type": "ping"}, "invalid_api_key", 4401)):
            with Talk(server, "") as talk:
                talk.say(**first)
                self.assertEqual(talk.read()["code"], code)
                self.assertEqual(talk.closed(), close)
        with Talk(server, "") as talk:
            started = time.monotonic()
            self.assertEqual(talk.closed(), 4401)
            self.assertGreater(time.monotonic() - started, 4)
        status, _, text = server.request("POST", "/v1/chat/completions", {
            "model": MODEL, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 8},
            {"Prefer": "respond-async", "Authorization": f"Bearer {ann}"})
        self.assertEqual(status, 202)
        with Talk(server, f"?job={json.loads(text)['id']}", bearer(eve)) as talk:
            self.assertEqual(talk.read()["code"], "not_found")
            talk.say(type="resume", response_id=told[0]["response_id"])
            self.assertEqual(talk.read()["code"], "not_found")
            talk.say(type="history", session="s")
            self.assertEqual(talk.read()["code"], "not_found")
        self.assertNotIn(ann, server.log())
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
