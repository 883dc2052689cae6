"""Client certificates instead of keys and passwords, end to end: HTTP, MQTT, WebSocket."""
import http.client
import json
import pathlib
import os
import queue
import socket
import ssl
import subprocess
import tempfile
import unittest

import openai
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

import tiny_model
from harness import STEP_S, Server

EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
WRONG_LOGIN = 0x86


def openssl(folder, *words):
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


def make_own(folder, name, subject, *more):
    openssl(folder, "req", "-x509", *EC, "-days", "2", "-subj", f"/CN={subject}", "-keyout", f"{name}.key", "-out", f"{name}.pem", *more)


def make_client(folder, authority, name, subject):
    openssl(folder, "req", *EC, "-subj", f"/CN={subject}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
    openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.pem", "-CAkey", f"{authority}.key", "-CAcreateserial",
            "-days", "2", "-out", f"{name}.pem")


def free_ports(count):
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


class ClientCertificates(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = pathlib.Path(held.name)
        make_own(self.folder, "server", "localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
        make_own(self.folder, "clients", "clients")
        make_own(self.folder, "others", "others")
        make_own(self.folder, "own", "ann")
        for authority, name, subject in (("clients", "ann", "ann"), ("clients", "nobody", "nobody"), ("others", "foreign", "ann")):
            make_client(self.folder, authority, name, subject)

    def serve(self, *options):
        model = self.file("tiny.gguf")
        tiny_model.write(model)
        self.mqtt, self.websocket = free_ports(2)
        self.server = Server("--tls-cert", self.file("server.pem"), "--tls-key", self.file("server.key"), "--tls-client-ca",
                             self.file("clients.pem"), "--store", self.file("store"), "--mqtt-port", str(self.mqtt),
                             "--mqtt-websocket-port", str(self.websocket), *options, model=model)
        self.addCleanup(lambda: self.assertEqual(self.server.stop(), 0))
        self.key = json.loads(self.tutti("keys", "create", "app", "--json"))["secret"]
        self.tutti("users", "create", "ann", "--no-password")

    def file(self, name):
        return str(self.folder / name)

    def tutti(self, *words):
        return subprocess.run([os.environ["E2E_BINARY"], *words, "--store", self.file("store")], capture_output=True, text=True,
                              check=True, timeout=STEP_S).stdout

    def context(self, name):
        context = ssl.create_default_context(cafile=self.file("server.pem"))
        if name:
            context.load_cert_chain(self.file(name + ".pem"), self.file(name + ".key"))
        return context

    def ask(self, name, key=None, path="/v1/models"):
        """The status; None where the server does not speak with this client."""
        connection = http.client.HTTPSConnection("localhost", self.server.port, timeout=STEP_S, context=self.context(name))
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {key}"} if key else {})
            return connection.getresponse().status
        except OSError:
            return None
        finally:
            connection.close()

    def chat(self, name, user=None, password=None, topics="ann", transport="tcp"):
        """The result of a login over MQTT: "answered", the code of its refusal, or None."""
        client = paho.Client(CallbackAPIVersion.VERSION2, client_id="c", protocol=paho.MQTTv5, transport=transport)
        client.tls_set_context(self.context(name))
        if user is not None:
            client.username_pw_set(user, password)
        if transport == "websockets":
            client.ws_set_options(path="/mqtt")
        told = queue.Queue()
        client.on_connect = lambda c, u, f, code, p: c.subscribe(f"llm/v1/{topics}/s1/out", 1) if code == 0 else told.put(code.value)
        client.on_subscribe = lambda c, u, mid, codes, p: c.publish(
            f"llm/v1/{topics}/s1/in", json.dumps({"id": f"{name}-{transport}-{user}", "type": "message", "input": "Hello",
                                                  "max_output_tokens": 4}), 1)
        client.on_message = lambda c, u, m: told.put("answered") if json.loads(m.payload)["type"] == "accepted" else None
        client.on_disconnect = lambda *_: told.put(None)
        try:
            client.connect("localhost", self.websocket if transport == "websockets" else self.mqtt)
        except OSError:
            return None
        client.loop_start()
        try:
            return told.get(timeout=STEP_S)
        finally:
            client.disconnect()
            client.loop_stop()

    def test_a_certificate_is_its_user_on_every_server(self):
        self.serve()
        self.assertEqual(self.ask("ann"), 200)
        self.assertEqual(self.ask(None), 401)
        self.assertEqual(self.ask("nobody"), 401)
        self.assertEqual(self.ask(None, self.key), 200)
        self.assertEqual(self.ask("nobody", self.key), 200, "what a request shows is judged alone")
        self.assertEqual(self.ask("ann", "tutti-wrong"), 401)
        for transport in ("tcp", "websockets"):
            self.assertEqual(self.chat("ann", transport=transport), "answered")
            self.assertEqual(self.chat("nobody", transport=transport), WRONG_LOGIN)
            self.assertEqual(self.chat(None, transport=transport), WRONG_LOGIN)
            self.assertEqual(self.chat("nobody", "app", self.key, topics="app", transport=transport), "answered")
        self.assertEqual(self.chat("ann", "app"), WRONG_LOGIN, "a name that is not the certificate's")
        self.assertEqual(self.chat("ann", "ann", "wrong horse battery"), WRONG_LOGIN)
        for name in ("foreign", "own"):
            self.assertIsNone(self.ask(name))
            self.assertIsNone(self.chat(name))

        with openai.DefaultHttpxClient(verify=self.context("ann"), timeout=STEP_S) as stock:
            client = openai.OpenAI(base_url=f"https://localhost:{self.server.port}/v1", api_key="none", http_client=stock, max_retries=0)
            self.assertEqual(len(client.models.list(extra_headers={"Authorization": openai.Omit()}).data), 1)
            with self.assertRaises(openai.AuthenticationError):
                client.models.list()

        self.tutti("users", "disable", "ann")
        self.assertEqual(self.ask("ann"), 401)
        self.assertEqual(self.chat("ann"), WRONG_LOGIN)
        self.tutti("users", "enable", "ann")
        self.assertEqual(self.ask("ann"), 200)
        self.tutti("users", "delete", "ann")
        self.assertEqual(self.ask("ann"), 401)
        self.assertEqual(self.chat("ann"), WRONG_LOGIN)
        self.server.expect_log(r"tls\.handshake_failed")
        for text in ("CN=", "BEGIN CERT", "others", self.key):
            self.assertNotIn(text, self.server.log())

    def test_where_one_is_required_nobody_is_spoken_with_without(self):
        self.serve("--tls-client-auth", "required")
        self.assertEqual(self.ask("ann"), 200)
        self.assertEqual(self.ask("nobody", self.key), 200)
        self.assertIsNone(self.ask(None, self.key))
        self.assertIsNone(self.ask(None, path="/livez"))
        self.assertEqual(self.chat("ann"), "answered")
        self.assertIsNone(self.chat(None, "app", self.key, topics="app"))

    def test_a_connection_ends_with_its_user(self):
        self.serve()
        client = paho.Client(CallbackAPIVersion.VERSION2, client_id="c", protocol=paho.MQTTv5)
        client.tls_set_context(self.context("ann"))
        connected, ended = queue.Queue(), queue.Queue()
        client.on_connect = lambda c, u, f, code, p: connected.put(code.value)
        client.on_disconnect = lambda c, u, flags, code, p: ended.put(code.value)
        client.connect("localhost", self.mqtt)
        client.loop_start()
        self.addCleanup(client.loop_stop)
        self.assertEqual(connected.get(timeout=STEP_S), 0)
        self.tutti("users", "delete", "ann")
        self.assertEqual(ended.get(timeout=STEP_S), 0x87)

    def test_settings_that_conflict_are_refused_before_a_port_opens(self):
        cert = ("--tls-cert", self.file("server.pem"), "--tls-key", self.file("server.key"))
        for options, named in ((("--tls-client-ca", self.file("clients.pem")), "--tls-cert"), ((*cert, "--tls-client-auth", "required"), "--tls-client-ca"),
                               ((*cert, "--tls-client-ca", self.file("none.pem")), "none.pem"),
                               ((*cert, "--tls-client-ca", self.file("clients.key")), "clients.key"),
                               ((*cert, "--tls-client-auth", "always"), "required")):
            run = subprocess.run([os.environ["E2E_BINARY"], "serve", "--port", "0", *options], capture_output=True, text=True, timeout=STEP_S)
            self.assertEqual(run.returncode, 78, (options, run.stderr))
            self.assertIn(named, run.stderr)
            self.assertNotIn("listening", run.stderr)


if __name__ == "__main__":
    unittest.main()
