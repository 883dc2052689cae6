"""`tutti serve` and stock clients connect to Debian's mosquitto, with the shipped configuration and rules."""
import itertools
import json
import pathlib
import queue
import statistics
import subprocess
import tempfile
import threading
import time
import unittest

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from harness import AMOUNT, MODEL, STEP_S, amount, figure, stand_in
from mqtt_world import ENDS, PASSWORDS, Collector, Ledger, Listener, Speaker, World, let_in

VERSIONS = (paho.MQTTv5, paho.MQTTv311)
AT_ONCE = 150  # messages of a user that wait; 200 may
PROJECTS = "".join(f'[[mqtt.project]]\nname = "{name}"\nrate = "off"\n' for name in ("driving", "general"))


def openssl(folder, *words):
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


def make_certificates(folder):
    openssl(folder, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=ours", "-keyout", "ca.key",
            "-out", "ca.crt")
    openssl(folder, "req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=broker", "-keyout", "broker.key", "-out", "broker.csr")
    pathlib.Path(folder, "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    openssl(folder, "x509", "-req", "-in", "broker.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
            "-extfile", "names", "-out", "broker.crt")


class ThroughTheBroker(unittest.TestCase):
    """The real model, by TLS between server and broker."""

    @classmethod
    def setUpClass(cls):
        certificates = tempfile.TemporaryDirectory()
        cls.addClassCleanup(certificates.cleanup)
        make_certificates(certificates.name)
        users = {**PASSWORDS, **{f"user{i}": f"secret of user {i}" for i in range(10)}}
        cls.world = World(PROJECTS, users=users, tls=certificates.name,
                          rules=lambda broker: let_in(broker, ("driving", "general"), "anna"))
        cls.addClassCleanup(cls.world.close)

    def listener(self, *arguments, **named):
        listener = Listener(self.world, *arguments, **named)
        self.addCleanup(listener.close)
        return listener

    def speaker(self, *arguments, **named):
        speaker = Speaker(self.world, *arguments, **named)
        self.addCleanup(speaker.close)
        return speaker

    def test_two_sessions_in_two_projects_are_answered_together(self):
        """Row U24: each within 1.3 x what it takes alone, and both in less than 0.75 x one after the other."""
        speaker = self.speaker("anna")
        heard = {name: self.listener("anna", [f"{name}/assistant_response/#"]) for name in ("driving", "general")}

        def answered(repeat, *names):
            """Seconds to the reply in each of these projects, asked at once."""
            begin, took = time.monotonic(), {}
            for name in names:
                speaker.publish(f"{name}/user_input", {"sessionId": f"pair{repeat}of{len(names)}", "maxTokens": 64, "temperature": 0,
                                                       "message": "Tell me a long story about a river."})

            def wait(name):
                texts.add(heard[name].next().payload)
                took[name] = time.monotonic() - begin
            threads = [threading.Thread(target=wait, args=(name,)) for name in names]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return [took[name] for name in names]

        each, both, texts = [], [], set()
        for repeat in range(amount(1, 2, 20)):
            alone = answered(repeat, "driving") + answered(repeat, "general")
            together = answered(repeat, "driving", "general")
            each.append(max(time / solo for time, solo in zip(together, alone)))
            both.append(max(together) / sum(alone))
        self.assertEqual(len(texts), 1, "one question, one answer, alone and together")
        self.assertGreater(len(texts.pop()), 100)
        each, both = statistics.median(each), statistics.median(both)
        figure(f"two together: {each:.2f} x alone, {both:.2f} x one after the other")
        if AMOUNT == "full":  # nothing else runs then
            self.assertLessEqual(each, 1.3)
            self.assertLess(both, 0.75)

    def test_three_messages_are_answered_in_order_in_both_versions(self):
        for repeat, version in itertools.product(range(amount(1, 1, 100)), VERSIONS):
            session = f"order{version}x{repeat}"
            heard, speaker = self.listener("anna", [f"llm/v1/anna/{session}/out"], version=version), self.speaker("anna", version)
            for i in range(3):
                speaker.publish(f"llm/v1/anna/{session}/in", {"id": f"m-{i}", "type": "message", "input": f"Message {i}",
                                                              "max_output_tokens": 12, "temperature": 0})
            accepted, finals = [], []
            while len(finals) < 3:
                event = json.loads(heard.next().payload)
                if event["type"] == "accepted":
                    accepted.append((event["id"], event["turn"], event["response_id"]))
                elif event["type"] in ENDS:
                    finals.append(event["response"]["id"])
            self.assertEqual([one[:2] for one in accepted], [("m-0", 1), ("m-1", 2), ("m-2", 3)])
            self.assertEqual(finals, [one[2] for one in accepted])
            heard.close()
            speaker.close()

    def test_ten_clients_with_secrets_never_see_each_others_words(self):
        heard = [self.listener(f"user{i}", ["#", f"llm/v1/user{i}/s/out", "llm/v1/+/+/out", "$share/g/llm/v1/#"]) for i in range(10)]
        for i in range(10):
            self.speaker(f"user{i}").publish(f"llm/v1/user{i}/s/in", {
                "id": "m-1", "type": "message", "input": f"The word is zebra{i}. Repeat it.", "max_output_tokens": 16, "temperature": 0})
        for i, listener in enumerate(heard):
            said = ""
            while True:
                message = listener.next()
                self.assertTrue(message.topic.startswith((f"llm/v1/user{i}/", "llm/v1/server/")), message.topic)
                said += message.payload.decode()
                if message.topic.endswith("/out") and json.loads(message.payload)["type"] in ENDS:
                    break
            for other in range(10):
                self.assertEqual(f"zebra{other}" in said, other == i and f"zebra{i}" in said)

    def test_a_project_is_served_in_both_versions_to_who_is_let_in(self):
        for version in VERSIONS:
            heard, speaker = self.listener("anna", ["driving/assistant_response/#"], version=version), self.speaker("anna", version)
            outside = self.listener("ben", ["#", "driving/#", "$share/g/driving/#"], version=version)
            session = f"p{version}"
            for i in range(3):
                speaker.publish("driving/user_input", {"sessionId": session, "message": f"Message {i}", "maxTokens": 12, "clientId": "c",
                                                       "requestId": f"r-{i}", "temperature": 0})
            topics = [heard.next().topic for _ in range(3)]
            self.assertEqual(topics, [f"driving/assistant_response/{session}/c/r-{i}" for i in range(3)])
            stranger = self.speaker("ben", version)
            stranger.publish("driving/user_input", {"sessionId": session, "message": "Hello."})
            time.sleep(0.3)
            self.assertTrue(heard.messages.empty())
            while not outside.messages.empty():
                self.assertTrue(outside.messages.get().topic.startswith("llm/v1/server/"))
            heard.close()

    def test_the_states_of_a_job_come_through_the_broker(self):
        """Row U47; clients of the broker belong to the tenant of a server without keys, as HTTP clients do."""
        heard = {version: self.listener("anna", [f"llm/v1/anna/job{version}/out"], version=version) for version in VERSIONS}
        status, _, text = self.world.server.post("/v1/completions", {"model": MODEL, "prompt": "One,", "max_tokens": 30},
                                                 headers={"Prefer": "respond-async"})
        self.assertEqual(status, 202, text)
        job_id = json.loads(text)["id"]
        for version, listener in heard.items():
            self.speaker("anna", version).publish(f"llm/v1/anna/job{version}/ctl", {"type": "subscribe", "job_id": job_id})
            event = listener.next().payload.decode()
            while not event.startswith('{"type":"job.completed"'):
                self.assertTrue(event.startswith(('{"type":"job.queued"', '{"type":"job.running"')), event)
                event = listener.next().payload.decode()
            self.assertTrue(event.endswith(f'"job":{self.world.server.get(f"/v1/jobs/{job_id}")[2]}}}'), event)

    def test_wrong_words_are_refused_and_no_password_is_told(self):
        for version in VERSIONS:
            refused = queue.Queue()
            client = paho.Client(CallbackAPIVersion.VERSION2, protocol=version)
            client.username_pw_set("anna", "wrong")
            client.on_connect = lambda c, d, flags, reason, p: refused.put(reason.is_failure)
            client.connect("127.0.0.1", self.world.broker.port)
            client.loop_start()
            self.assertTrue(refused.get(timeout=STEP_S))
            client.disconnect()
            client.loop_stop()
        secret = PASSWORDS["llmserver"]
        self.assertNotIn(secret, self.world.server.log())
        self.assertNotIn(secret, "".join(self.world.server.output))
        self.assertNotIn(secret, pathlib.Path(f"/proc/{self.world.server.process.pid}/cmdline").read_text())


class BrokerAway(unittest.TestCase):
    """Short turns of few weights under load."""

    def setUp(self):
        self.world = World(PROJECTS, model=stand_in(), rules=lambda broker: let_in(broker, ("driving", "general"), "anna"))
        self.addCleanup(self.world.close)

    def test_a_broker_outage_of_5_s_loses_and_doubles_no_answer(self):
        """U19, with the server in the middle: no client sends a message again by itself, but the transport may."""
        project = Collector(self.world, "anna", ["driving/assistant_response/#"])
        self.addCleanup(project.kill)
        project.wait_ready()
        native = Ledger(self.world, "ben")
        self.addCleanup(native.close)
        speaker = Speaker(self.world, "anna")
        self.addCleanup(speaker.close)
        away, over, asked = threading.Event(), threading.Event(), []

        def fail():
            away.wait()
            self.world.broker.end()
            time.sleep(5)
            self.world.broker.start()
            over.set()
        failing = threading.Thread(target=fail)
        failing.start()
        number, sessions = 0, 10
        more = amount(20, 50, 1000)
        while not over.is_set() or more > 0:  # before, while it is away, and after
            native.hear()
            if len(native.unanswered()) >= AT_ONCE:
                time.sleep(0.02)
                continue
            session = f"s{number % sessions}-{number // (sessions * 20)}"
            asked.append(f"{session}/c/r{number}")
            speaker.publish("driving/user_input", {"sessionId": session, "clientId": "c", "requestId": f"r{number}",
                                                   "message": f"the same {number % 3}", "maxTokens": 8})
            native.say(session, f"m{number}", f"text {number}", max_output_tokens=8, ignore_eos=True)
            number += 1
            if number == 50:
                away.set()
            if over.is_set():
                more -= 1
            time.sleep(0.02)
        failing.join()
        replies = []

        def all_heard():
            native.hear()
            replies.extend(project.heard())
            return not native.unanswered() and len({reply["topic"] for reply in replies}) >= number
        end = time.monotonic() + 2 * STEP_S
        while not all_heard() and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(native.errors, {})
        native.check(self, sorted({session for session, _ in native.sent})[:5])
        base = "driving/assistant_response/"
        self.assertEqual({reply["topic"] for reply in replies}, {base + one for one in asked})
        kinds = {reply["properties"]["type"] for reply in replies}
        self.assertEqual(kinds, {"reply"})
        seen = {}
        for reply in replies:  # what comes twice is the same turn, once more carried
            turn = (reply["properties"]["seq"], reply["payload"])
            self.assertEqual(seen.setdefault(reply["topic"], turn), turn)
        carried = len(replies) - number + native.repeats()
        print(f"\n    broker away for 5 s: {2 * number} messages, 0 lost, 0 turns twice, {carried} answers carried twice", flush=True)
        self.assertLessEqual(carried, 0.05 * 2 * number)


if __name__ == "__main__":
    unittest.main()
