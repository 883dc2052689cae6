"""The caller's identity in the usage ledger and in the log, end to end. Both once named only keys, or nothing."""
import base64
import csv
import hashlib
import hmac
import http.client
import io
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
import unittest

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from harness import MODEL, STEP_S, Server, eventually, free_port, stand_in

PASSWORD, SECRET = "correct horse battery", "0123456789abcdef0123456789abcdef"


def token(subject):
    part = lambda value: base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")
    signed = part({"alg": "HS256", "typ": "JWT"}) + b"." + part(
        {"iss": "https://id.example", "aud": "tutti", "sub": subject, "exp": int(time.time()) + 600})
    mac = hmac.new(SECRET.encode(), signed, hashlib.sha256).digest()
    return (signed + b"." + base64.urlsafe_b64encode(mac).rstrip(b"=")).decode()


class Case(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory(prefix="tutti-who-")
        self.addCleanup(held.cleanup)
        self.folder, self.store = held.name, os.path.join(held.name, "store")
        self.model = stand_in()

    def serve(self, *options):
        self.mqtt = free_port()
        server = Server("--store", self.store, "--mqtt-port", str(self.mqtt), *options, model=self.model)
        self.addCleanup(lambda: self.assertEqual(server.stop(), 0))
        return server

    def tutti(self, *words, fails=False, text=None):
        done = subprocess.run([os.environ["E2E_BINARY"], *words, "--store", self.store], capture_output=True, text=True, timeout=STEP_S,
                              input=text)
        self.assertEqual(done.returncode != 0, fails, done.stderr)
        return done.stderr if fails else done.stdout

    def refused(self, *options):
        """The error output of `tutti serve` before it ends."""
        done = subprocess.run([os.environ["E2E_BINARY"], "serve", self.model, "--port", "0", "--grpc-port", "0", "--store", self.store,
                               *options], capture_output=True, text=True, timeout=STEP_S)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        return done.stderr

    def post(self, path, key, **body):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=STEP_S)
        connection.request("POST", path, json.dumps({"model": MODEL, **body}), {"Content-Type": "application/json", "Authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status

    def login(self, user, password, client_id="c"):
        client = paho.Client(CallbackAPIVersion.VERSION2, client_id=client_id, protocol=paho.MQTTv5)
        client.username_pw_set(user, password)
        client.told = []
        client.on_connect = lambda c, u, f, code, p: c.told.append(code.value)
        client.on_message = lambda c, u, message: c.told.append(json.loads(message.payload)["type"])
        client.connect("127.0.0.1", self.mqtt)
        client.loop_start()
        self.addCleanup(lambda: (client.disconnect(), client.loop_stop()))
        eventually(lambda: client.told)
        return client

    def say(self, client, user, **more):
        client.subscribe(f"llm/v1/{user}/s/out", 1)
        message = {"id": f"m-{user}", "type": "message", "input": "ab", "max_output_tokens": 2, **more}
        client.publish(f"llm/v1/{user}/s/in", json.dumps(message), 1)
        eventually(lambda: {"response.completed", "response.incomplete"} & set(client.told), lambda: client.told)


class Ledger(Case):
    def test_every_row_says_who_it_was_and_by_which_route(self):
        secret = os.path.join(self.folder, "secret")
        with open(secret, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(SECRET)
        self.server = self.serve("--auth-jwt-issuer", "https://id.example", "--auth-jwt-audience", "tutti", "--auth-jwt-algorithm",
                                 "HS256", "--auth-jwt-key-file", secret)
        key = self.tutti("keys", "create", "app").strip()
        self.assertEqual(self.tutti("users", "create", "ann", "--password-stdin", text=PASSWORD + "\n").strip(), "created ann")
        messages = [{"role": "user", "content": "ab"}]
        self.assertEqual(self.post("/v1/chat/completions", key, messages=messages, max_tokens=2, user="alice"), 200)
        self.assertEqual(self.post("/v1/chat/completions", token("carl"), messages=messages, max_tokens=2, user="alice"), 200)
        self.assertEqual(self.post("/v1/completions", key, prompt="ab", max_tokens=2), 200)
        self.assertEqual(self.post("/v1/responses", key, input="ab", max_output_tokens=16, user="dora"), 200)
        self.say(self.login("ann", PASSWORD), "ann")
        self.say(self.login("app", key), "app")
        rows = lambda: list(csv.DictReader(io.StringIO(self.tutti("usage", "--export", "csv"))))
        eventually(lambda: len(rows()) == 6)
        self.assertEqual(sorted((row["user"], row["route"]) for row in rows()),
                         [("", "completions"), ("alice", "chat.completions"), ("ann", "mqtt"), ("app", "mqtt"),
                          ("carl", "chat.completions"), ("dora", "responses")])
        self.assertIn("alice", self.tutti("usage", "--by", "user"))
        self.assertIn("chat.completions", self.tutti("usage", "--by", "route"))


class Log(Case):
    def test_the_log_says_who_did_what_and_nothing_secret(self):
        self.server = self.serve()
        key = self.tutti("keys", "create", "app", "--tenant", "acme", "--requests-per-minute", "1").strip()
        public = key.split("-")[1]
        self.tutti("users", "create", "ann", "--password-stdin", text=PASSWORD + "\n")
        ask = {"prompt": "ab", "max_tokens": 1}
        self.assertEqual([self.post("/v1/completions", key, **ask) for _ in range(2)], [200, 429])
        self.assertEqual(self.post("/v1/completions", "tutti-" + "x" * 12 + "-" + "y" * 43, **ask), 401)
        self.assertEqual(self.login("mallory\n", "my secret password").told, [0x86])
        ann = self.login("ann", PASSWORD)
        ann.publish("llm/v1/bob/s/in", "{}", 1)
        eventually(lambda: "mqtt.forbidden" in self.server.log(), self.server.log)
        self.tutti("keys", "rotate", "app")
        self.tutti("keys", "revoke", "app")
        self.tutti("users", "disable", "ann")
        self.tutti("users", "delete", "ann")
        log = self.server.expect_log(
            r"auth\.open ", r"accounts\.changed op=keys\.create name=app id=%s tenant=acme result=ok" % public, r"auth\.closed ",
            r"op=users\.create name=ann ", r"op=keys\.rotate name=app id=\w{12} ", r"op=keys\.revoke name=app id=\w{12},\w{12} ",
            r"op=users\.disable name=ann ", r"op=users\.delete name=ann ",
            r"http\.request .*status=429 .*caller=key:%s tenant=acme" % public,
            r"http\.request .*status=401 .*caller=refused:key:x{12} tenant=-",
            r'mqtt\.connection_ended .*user=- asked_as="mallory\\x0a" reason=0x86 suppressed=',
            r"mqtt\.forbidden .*user=ann what=publish topic=llm/v1/bob/s/in reason=0x87")
        for secret in (key, key.split("-")[2], "y" * 43, PASSWORD, "my secret password"):
            self.assertNotIn(secret, log)

    def test_what_a_crash_has_left_is_told(self):
        self.server = server = Server("--store", self.store, model=self.model)
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=STEP_S)
        connection.request("POST", "/v1/responses", json.dumps({"model": MODEL, "input": "ab", "background": True, "max_output_tokens": 400,
                                                                "ignore_eos": True}), {"Content-Type": "application/json"})
        self.assertEqual(connection.getresponse().status, 200)
        connection.close()
        server.process.send_signal(signal.SIGKILL)
        server.process.wait(STEP_S)
        server.stop()
        again = self.serve()
        eventually(lambda: re.search(r"state\.resumed responses=1 turns=0", again.log()), again.log)


class Start(Case):
    def test_under_tls_mqtt_urls_show_it_and_plain_mqtt_is_logged(self):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                        "/CN=localhost", "-keyout", "k.pem", "-out", "c.pem"], cwd=self.folder, check=True, capture_output=True)
        websocket = free_port()
        server = self.serve("--tls-cert", os.path.join(self.folder, "c.pem"), "--tls-key", os.path.join(self.folder, "k.pem"),
                            "--mqtt-websocket-port", str(websocket))
        addresses = f"mqtts://127.0.0.1:{self.mqtt} and wss://127.0.0.1:{websocket}/mqtt"
        self.assertIn(addresses, "".join(server.output))
        server.expect_log(re.escape(addresses))
        with socket.create_connection(("127.0.0.1", self.mqtt), timeout=STEP_S) as plain:
            plain.sendall(b"\x10\x0d\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x00")
            plain.recv(16)
        eventually(lambda: "plain MQTT on the TLS port" in server.log(), server.log)

    def test_a_broker_is_named_without_its_credentials(self):
        password = os.path.join(self.folder, "password")
        with open(password, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(PASSWORD)
        server = self.serve("--mqtt-url", f"mqtt://127.0.0.1:{free_port()}", "--mqtt-username", "llmserver", "--mqtt-password-file", password)
        self.assertRegex("".join(server.output), r"through the broker mqtt://127\.0\.0\.1:\d+ ")
        self.assertNotIn("llmserver", "".join(server.output))

    def test_settings_that_mean_nothing_are_refused(self):
        for options, told in ((("--mqtt-username", "x"), "mqtt.url"), (("--mqtt-password-file", "/nonexistent"), "mqtt.url"),
                              (("--mqtt-prefix", "a/#"), "prefix"), (("--mqtt-tenant", "a b"), "tenant"),
                              (("--host", "0.0.0.0"), "tutti keys create")):
            self.assertIn(told, self.refused(*options), options)
        for name in ("server", "jobs"):
            self.assertIn("topics", self.tutti("users", "create", name, "--no-password", fails=True))
            self.assertIn("topics", self.tutti("keys", "create", name, fails=True))

    def test_a_port_that_is_taken_is_reported_with_its_option(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            self.assertIn("--mqtt-port", self.refused("--mqtt-port", str(taken.getsockname()[1])))

    def test_a_store_writable_by_others_is_refused_a_readable_warned(self):
        self.tutti("keys", "create", "app")
        database = os.path.join(self.store, "tutti.db")
        self.assertEqual(os.stat(database).st_mode & 0o777, 0o600)
        os.chmod(self.store, 0o755)
        os.chmod(database, 0o644)
        self.serve().expect_log(r"store\.readable")
        os.chmod(database, 0o664)
        self.assertIn(f"chmod go-w {database}", self.refused())

    def test_a_store_that_is_no_database_is_named_with_what_to_do(self):
        os.mkdir(self.store, 0o700)
        with open(os.path.join(self.store, "tutti.db"), "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write("no database\n" * 1000)
        told = self.refused()
        self.assertIn(os.path.join(self.store, "tutti.db"), told)
        self.assertIn("backup", told)


if __name__ == "__main__":
    unittest.main()
