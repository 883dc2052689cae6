"""Projects of MQTT ([[mqtt.project]]) with the stock paho client against the real model, through the embedded listener."""
import json
import os
import pathlib
import queue
import subprocess
import tempfile
import time
import unittest

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from harness import STEP_S, Server, free_port

NOT_AUTHORISED = 0x87
SETTINGS = """
[mqtt]
port = {port}

[[mqtt.project]]
name = "driving"

[[mqtt.project]]
name = "general"
reply_format = "json"
system_prompt = "Answer with one word."
rate = "3/60s"

[[mqtt.project]]
name = "chunks"
stream = true

[[mqtt.project]]
name = "closed"
enabled = false
"""


class ProjectClient:
    """A client of one project, which hears all of its replies."""

    def __init__(self, port, project, user=None, password=None, protocol=paho.MQTTv5):
        self.project, self.v5 = project, protocol == paho.MQTTv5
        self.heard, granted, told = queue.Queue(), queue.Queue(), queue.Queue()
        self.told = told
        self.client = paho.Client(CallbackAPIVersion.VERSION2, protocol=protocol)
        if user:
            self.client.username_pw_set(user, password)
        self.client.on_connect = lambda c, u, f, code, p: c.subscribe(
            [(f"{project}/assistant_response/#", 1), (f"{project}/status", 1)])
        self.client.on_subscribe = lambda c, u, mid, codes, p: granted.put([code.value for code in codes])
        self.client.on_publish = lambda c, u, mid, code, p: told.put(code.value)
        self.client.on_message = lambda c, u, m: self.heard.put(m)
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        self.granted = granted.get(timeout=STEP_S)

    def publish(self, channel, payload, **properties):
        given = None
        if properties:
            given = Properties(PacketTypes.PUBLISH)
            for name, value in properties.items():
                setattr(given, name, value)
        text = payload if isinstance(payload, str) else json.dumps(payload)
        self.client.publish(f"{self.project}/{channel}", text, 1, properties=given)

    def say(self, text, session="s1", **fields):
        self.publish("user_input", {"sessionId": session, "message": text, "temperature": 0, "maxTokens": 16, **fields})

    def reply(self):
        """The next message that is no status."""
        while True:
            message = self.heard.get(timeout=STEP_S)
            if not message.topic.endswith("/status"):
                return message

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()


def kind(message):
    return dict(message.properties.UserProperty)["type"]


def serve(folder, **more):
    file = pathlib.Path(folder, "tutti.toml")
    port = free_port()
    file.write_text(SETTINGS.format(port=port))
    store = os.path.join(folder, "store")
    return Server("--config", str(file), environment={"TUTTI_STORE": store, **more}), port, ["--store", store]


class Projects(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.server, cls.port, _ = serve(cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def client(self, *arguments, **named):
        client = ProjectClient(self.port, *arguments, **named)
        self.addCleanup(client.close)
        return client

    def test_each_form_of_topic_has_its_reply_in_both_versions(self):
        base = "driving/assistant_response/"
        texts = set()
        for protocol in (paho.MQTTv5, paho.MQTTv311):
            client, session = self.client("driving", protocol=protocol), f"forms{protocol}"
            for turn, (fields, topic) in enumerate((({}, session), ({"clientId": "c", "requestId": "r"}, f"{session}/c/r"),
                                                    ({"replyTopic": f"{base}{session}/mine"}, f"{session}/mine")), 1):
                client.say("Name three colours.", session, **fields)
                reply = client.reply()
                self.assertEqual(reply.topic, base + topic)
                self.assertGreater(len(reply.payload), 3)
                if turn == 1:
                    texts.add(reply.payload)
                if protocol == paho.MQTTv5:
                    properties = dict(reply.properties.UserProperty)
                    self.assertEqual((properties["type"], properties["seq"]), ("reply", str(turn)))
        self.assertEqual(len(texts), 1)
        client = self.client("driving")
        client.publish("user_input", "Name three colours.")
        self.assertRegex(client.reply().topic, "^" + base + "default-[A-Za-z0-9_-]{8}$")

    def test_replies_are_json_or_chunks_where_the_settings_say_so(self):
        client = self.client("general")
        client.say("Name a colour.", "json", requestId="r-1")
        reply = json.loads(client.reply().payload)
        self.assertEqual((reply["sessionId"], reply["requestId"], reply["seq"], reply["final"]), ("json", "r-1", 1, True))
        self.assertGreater(reply["usage"]["completion_tokens"], 0)
        client = self.client("chunks")
        client.say("Name three colours.", "stream")
        chunks = [json.loads(client.reply().payload)]
        while not chunks[-1]["final"]:
            chunks.append(json.loads(client.reply().payload))
        self.assertEqual([chunk["index"] for chunk in chunks], list(range(len(chunks))))
        self.assertEqual("".join(chunk["text"] for chunk in chunks[:-1]), chunks[-1]["text"])

    def test_a_session_beyond_its_rate_is_refused_and_others_go_on(self):
        client = self.client("general")
        for turn in range(3):
            client.say("Hello.", "busy", requestId=f"r-{turn}")
            self.assertEqual(kind(client.reply()), "reply")
        client.say("Hello.", "busy", requestId="r-1")  # again: no new message
        self.assertEqual(json.loads(client.reply().payload)["seq"], 2)
        client.say("Hello.", "busy", requestId="r-4")
        refused = client.reply()
        error = json.loads(refused.payload)["error"]
        self.assertEqual((refused.topic, kind(refused)), ("general/assistant_response/busy", "error"))
        self.assertEqual((error["code"], error["requestId"]), ("rate_limit_exceeded", "r-4"))
        self.assertTrue(0 < error["retry_after_ms"] <= 60_000, error)
        client.say("Hello.", "calm")
        self.assertEqual(kind(client.reply()), "reply")

    def test_a_project_that_is_disabled_or_unknown_is_not_authorised(self):
        before = self.server.metric("tutti_output_tokens_total")
        for name in ("closed", "unheard"):
            client = self.client(name)
            self.assertEqual(client.granted, [NOT_AUTHORISED] * 2)
            client.say("Hello.")
            self.assertEqual(client.told.get(timeout=STEP_S), NOT_AUTHORISED)
        time.sleep(0.2)
        self.assertTrue(client.heard.empty())
        self.assertEqual(self.server.metric("tutti_output_tokens_total"), before)

    def test_a_reply_never_leaves_the_session_that_asked(self):
        client = self.client("driving")
        for topic in ("driving/assistant_response/other", "general/assistant_response/mine", "driving/assistant_response/mine/#"):
            client.say("Hello.", "mine", replyTopic=topic)
            refused = client.reply()
            self.assertEqual((refused.topic, kind(refused)), ("driving/assistant_response/mine", "error"))
        self.server.expect_log(r"mqtt\.refused")

    def test_verbs_are_acknowledged_and_the_status_says_online(self):
        client = self.client("chunks")
        self.assertEqual(json.loads(client.heard.get(timeout=STEP_S).payload)["status"], "online")
        for verb, payload in (("template", {"system_prompt": "Say nothing but yes."}), ("clear", {"session_id": "x"}),
                              ("delete/y", "")):
            client.publish(verb, payload)
            ack = json.loads(client.reply().payload)
            self.assertEqual((ack["type"], ack["op"]), ("ack", verb.split("/")[0]))

    def test_the_settings_are_shown_and_can_be_loaded_again(self):
        def shown(file):
            return subprocess.run([os.environ["E2E_BINARY"], "serve", "--config", file, "--print-config"], check=True,
                                  capture_output=True, text=True).stdout
        first = shown(os.path.join(self.folder.name, "tutti.toml"))
        again = os.path.join(self.folder.name, "again.toml")
        pathlib.Path(again).write_text(first)
        without = [line.rsplit("#", 1)[0] for line in first.splitlines()]
        self.assertEqual([line.rsplit("#", 1)[0] for line in shown(again).splitlines()], without)
        self.assertEqual(first.count("[[mqtt.project]]"), 4)

    def test_a_wrong_table_is_refused_before_anything_starts(self):
        file = pathlib.Path(self.folder.name, "wrong.toml")
        file.write_text('[[mqtt.project]]\nname = "driving"\nrate = "20 per minute"\n')
        refused = subprocess.run([os.environ["E2E_BINARY"], "serve", "--config", str(file)], capture_output=True, text=True)
        self.assertEqual(refused.returncode, 78)
        self.assertIn('[[mqtt.project]] 1 ("driving"): rate must be N/TIME', refused.stderr)


class ProjectUsers(unittest.TestCase):
    def test_users_of_the_tenant_write_and_only_admins_have_verbs(self):
        with tempfile.TemporaryDirectory() as folder:
            server, port, store = serve(folder)
            try:
                for name, more in (("ada", []), ("boss", ["--routes", "generate,admin"]), ("guest", ["--tenant", "other"]),
                                   ("reader", ["--routes", "models"])):
                    subprocess.run([os.environ["E2E_BINARY"], "users", "create", name, "--password-stdin", *more, *store],
                                   input="correct horse battery\n", text=True, check=True, capture_output=True)
                ada, boss, guest = (ProjectClient(port, "driving", name, "correct horse battery")
                                    for name in ("ada", "boss", "guest"))
                self.assertEqual((ada.granted, boss.granted, guest.granted), ([1, 1], [1, 1], [NOT_AUTHORISED] * 2))
                ada.say("Hello.", "s1")
                self.assertEqual(ada.reply().payload, boss.reply().payload)
                self.assertEqual(ada.told.get(timeout=STEP_S), 0)
                for client, code in ((ada, NOT_AUTHORISED), (guest, NOT_AUTHORISED), (boss, 0)):
                    for verb in ("clear", "delete/s1", "template"):
                        client.publish(verb, {"system_prompt": "x"} if verb == "template" else "")
                        self.assertEqual(client.told.get(timeout=STEP_S), code, (client is boss, verb))
                guest.say("Hello.", "s1")
                self.assertEqual(guest.told.get(timeout=STEP_S), NOT_AUTHORISED)
                for client in (ada, boss, guest):
                    client.close()
            finally:
                self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
