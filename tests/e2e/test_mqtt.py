"""Chat over MQTT with the stock paho client against the real model: the embedded listener, its users, durability."""
import http.client
import json
import os
import queue
import re
import signal
import socket
import subprocess
import tempfile
import unittest

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from harness import STEP_S, Server, eventually


class Chat:
    """One client of the native profile: a user with a session."""

    def __init__(self, port, user, session="s1", password=None, protocol=paho.MQTTv5):
        self.out = queue.Queue()
        self.base = f"llm/v1/{user}/{session}"
        self.client = paho.Client(CallbackAPIVersion.VERSION2, client_id=f"{user}-{session}", protocol=protocol)
        self.client.username_pw_set(user, password)
        self.refused = None
        subscribed = queue.Queue()
        self.client.on_connect = lambda c, u, f, code, p: c.subscribe(self.base + "/out", 1) if code == 0 else self.refuse(code)
        self.client.on_subscribe = lambda c, u, mid, codes, p: subscribed.put(codes)
        self.client.on_message = lambda c, u, m: self.out.put(json.loads(m.payload))
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        eventually(lambda: self.refused is not None or not subscribed.empty(), lambda: "no answer to the login")

    def refuse(self, code):
        self.refused = code

    def say(self, text, message_id, **fields):
        self.client.publish(self.base + "/in", json.dumps({
            "id": message_id, "type": "message", "input": text, "max_output_tokens": 16, "temperature": 0, **fields}), 1)

    def control(self, **fields):
        self.client.publish(self.base + "/ctl", json.dumps(fields), 1)

    def turn(self):
        """The events of one answer, until its end."""
        events = []
        while not events or events[-1]["type"] not in ("response.completed", "response.incomplete", "response.failed", "error"):
            events.append(self.out.get(timeout=STEP_S))
        return events

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()


def text_of(event):
    return event["response"]["output"][0]["content"][0]["text"]


def mqtt_port(server):
    return int(re.search(r"mqtts?://[^ ]*:(\d+)", "".join(server.output)).group(1))


def serve(folder=None, options=(), **environment):
    """On a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    if folder is not None:
        environment["TUTTI_STORE"] = os.path.join(folder, "store")
    return Server("--mqtt-port", str(port), *options, environment=environment)


class MqttChat(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = serve()
        cls.port = mqtt_port(cls.server)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def test_an_answer_is_accepted_and_streamed_in_both_versions(self):
        texts = []
        for protocol in (paho.MQTTv5, paho.MQTTv311):
            chat = Chat(self.port, "ada", f"v{protocol}", protocol=protocol)
            chat.say("Name three colours.", "m-1")
            events = chat.turn()
            self.assertEqual((events[0]["type"], events[0]["id"], events[0]["turn"]), ("accepted", "m-1", 1))
            numbers = [e["sequence_number"] for e in events]
            self.assertEqual(numbers, sorted(set(numbers)))
            deltas = "".join(e["delta"] for e in events if e["type"] == "response.output_text.delta")
            self.assertEqual(deltas, text_of(events[-1]))
            texts.append(deltas)
            chat.close()
        self.assertEqual(len(set(texts)), 1)

    def test_three_rapid_messages_are_answered_in_order_and_stored(self):
        chat = Chat(self.port, "ada", "rapid")
        for i in range(3):
            chat.say(f"Message {i}", f"m-{i}")
        finals, accepted = [], []
        while len(finals) < 3:
            event = chat.out.get(timeout=STEP_S)
            if event["type"] == "accepted":
                accepted.append((event["id"], event["turn"]))
            elif event["type"] in ("response.completed", "response.incomplete"):
                finals.append(text_of(event))
        self.assertEqual(accepted, [("m-0", 1), ("m-1", 2), ("m-2", 3)])
        chat.control(type="history", id="h")
        history = chat.out.get(timeout=STEP_S)
        self.assertEqual([(i["role"], i["turn"]) for i in history["items"]],
                         [(r, t) for t in (1, 2, 3) for r in ("user", "assistant")])
        self.assertEqual([i["content"] for i in history["items"] if i["role"] == "assistant"], finals)
        chat.close()

    def test_the_same_id_again_is_the_same_turn(self):
        chat = Chat(self.port, "ada", "again")
        chat.say("Name three colours.", "m-1")
        first = chat.turn()
        chat.say("Name three colours.", "m-1")
        again = chat.turn()
        self.assertEqual(again[0], first[0])
        self.assertEqual(again[-1], first[-1])
        chat.close()

    def test_ten_clients_with_secrets_never_see_each_others_words(self):
        chats = [Chat(self.port, f"user{i}", "secret") for i in range(10)]
        for i, chat in enumerate(chats):
            chat.say(f"The word is zebra{i}. Repeat it.", "m-1")
        for i, chat in enumerate(chats):
            said = json.dumps(chat.turn())
            for other in range(10):
                if other != i:
                    self.assertNotIn(f"zebra{other}", said)
            self.assertTrue(chat.out.empty())
            chat.close()

    def test_nobody_reads_or_writes_what_is_anothers(self):
        eve, ada = Chat(self.port, "eve"), Chat(self.port, "ada", "private")
        codes = queue.Queue()
        eve.client.on_subscribe = lambda c, u, mid, reasons, p: codes.put([r.value for r in reasons])
        for topic in ("llm/v1/ada/#", "llm/v1/#", "#", "$share/g/llm/v1/ada/+/out", "llm/v1/+/private/out"):
            eve.client.subscribe(topic, 1)
            self.assertTrue(all(code >= 0x80 for code in codes.get(timeout=STEP_S)), topic)
        refused = queue.Queue()
        eve.client.on_publish = lambda c, u, mid, code, p: refused.put(code.value)
        eve.client.publish("llm/v1/ada/private/in", json.dumps({"id": "x", "type": "message", "input": "Hi"}), 1)
        self.assertEqual(refused.get(timeout=STEP_S), 0x87)
        ada.say("Hello.", "m-1")
        ada.turn()
        self.assertTrue(eve.out.empty())
        eve.close()
        ada.close()

    def test_rubbish_gets_an_error_and_the_next_message_an_answer(self):
        chat = Chat(self.port, "ada", "rubbish")
        for payload in ("", "{", "[]", '{"type":"message"}', '{"id":"x","type":"message","input":7}',
                        '{"id":"x","type":"message","input":"hi","temperature":9}', "\x00" * 1000):
            chat.client.publish(chat.base + "/in", payload, 1)
            error = chat.out.get(timeout=STEP_S)
            self.assertEqual(error["type"], "error", payload[:40])
        chat.say("Hello.", "m-1")
        self.assertEqual(chat.turn()[0]["type"], "accepted")
        chat.close()


class MqttUsers(unittest.TestCase):
    def test_with_users_only_they_are_let_in_and_http_asks_for_a_key(self):
        with tempfile.TemporaryDirectory() as folder:
            server = serve(folder)
            try:
                port = mqtt_port(server)
                store = ["--store", os.path.join(folder, "store")]
                subprocess.run([os.environ["E2E_BINARY"], "users", "create", "ada", "--password-stdin", *store],
                               input="correct horse battery\n", text=True, check=True, capture_output=True)
                key = subprocess.run([os.environ["E2E_BINARY"], "keys", "create", "robot", *store], text=True, check=True,
                                     capture_output=True).stdout.strip()
                wrong = key[:-1] + ("y" if key.endswith("x") else "x")
                for user, password in (("ada", "wrong horse battery"), ("bob", "correct horse battery"), ("ada", None),
                                       ("ada", key), ("robot", wrong)):
                    refused = Chat(port, user, password=password)
                    self.assertIsNotNone(refused.refused, (user, password))
                    refused.close()
                for user, password in (("ada", "correct horse battery"), ("robot", key)):
                    chat = Chat(port, user, password=password)
                    self.assertIsNone(chat.refused, user)
                    chat.say("Hello.", "m-1")
                    self.assertEqual(chat.turn()[0]["type"], "accepted")
                    chat.close()
                for fields, status in (({}, 401), ({"Authorization": f"Bearer {key}"}, 200),
                                       ({"Authorization": f"Bearer {wrong}"}, 401)):
                    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=STEP_S)
                    connection.request("GET", "/v1/models", headers=fields)
                    self.assertEqual(connection.getresponse().status, status)
                    connection.close()
                for secret in (key, "correct horse battery", "wrong horse battery"):
                    self.assertNotIn(secret, server.log())
            finally:
                self.assertEqual(server.stop(), 0)


    def test_a_revoked_key_disconnects_and_a_narrow_one_loses_models(self):
        with tempfile.TemporaryDirectory() as folder:
            server = serve(folder)
            try:
                def tutti(*arguments):
                    return subprocess.run([os.environ["E2E_BINARY"], *arguments, "--store", os.path.join(folder, "store")],
                                          text=True, check=True, capture_output=True, timeout=STEP_S).stdout.strip()

                narrow = Chat(mqtt_port(server), "narrow", password=tutti("keys", "create", "narrow", "--models", "another"))
                narrow.say("Hello.", "m-1")
                self.assertEqual(narrow.turn()[-1]["code"], "insufficient_scope")  # at once: it is not accepted
                narrow.close()
                gone = Chat(mqtt_port(server), "gone", password=tutti("keys", "create", "gone"))
                ended = queue.Queue()
                gone.client.on_disconnect = lambda c, u, flags, code, p: ended.put(code.value)
                gone.say("Tell a story.", "m-1", max_output_tokens=2000, ignore_eos=True)
                self.assertEqual(gone.out.get(timeout=STEP_S)["type"], "accepted")
                tutti("keys", "revoke", "gone")
                self.assertEqual(ended.get(timeout=5), 0x87)
                gone.close()
            finally:
                self.assertEqual(server.stop(), 0)


class MqttOutlastsTheProcess(unittest.TestCase):
    def test_after_kill_9_every_accepted_message_has_one_answer(self):
        with tempfile.TemporaryDirectory() as folder:
            server = serve(folder)
            chat = Chat(mqtt_port(server), "ada", "kill")
            for i in range(4):
                chat.say(f"Message {i}", f"m-{i}", max_output_tokens=60, ignore_eos=True)
            accepted = []
            while len(accepted) < 4:
                event = chat.out.get(timeout=STEP_S)
                if event["type"] == "accepted":
                    accepted.append(event["id"])
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
            chat.close()
            server = serve(folder)
            try:
                chat = Chat(mqtt_port(server), "ada", "kill")

                def history():
                    chat.control(type="history", id="h", limit=100)
                    while True:
                        event = chat.out.get(timeout=STEP_S)
                        if event["type"] == "history":
                            return event["items"]
                eventually(lambda: len(history()) == 8, server.log)
                self.assertEqual([i["content"] for i in history() if i["role"] == "user"],
                                 [f"Message {i}" for i in range(4)])
                finals = {}
                for i in range(4):
                    chat.say(f"Message {i}", f"m-{i}", max_output_tokens=60, ignore_eos=True)
                    finals[i] = text_of(chat.turn()[-1])
                self.assertEqual([i["content"] for i in history() if i["role"] == "assistant"],
                                 [finals[i] for i in range(4)])
                chat.close()
            finally:
                self.assertEqual(server.stop(), 0)
