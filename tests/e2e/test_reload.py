"""Aliases, and a configuration that changes while requests run."""
import concurrent.futures
import json
import os
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import unittest

import openai

from harness import MODEL, STEP_S, Server, amount, default_model, eventually, figure, free_port, make_key, stand_in


def chat(server, model, **more):
    return server.post("/v1/chat/completions", {"model": model, "max_tokens": 2, "messages": [{"role": "user", "content": "Hi"}], **more})


class Reloaded(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.config = self.path("tutti.toml")

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, text, name="tutti.toml", mode=0o600):
        """Replaces the file at once, as an editor does."""
        with open(os.open(self.path(name + ".new"), os.O_CREAT | os.O_WRONLY | os.O_TRUNC, mode), "w") as out:
            out.write(text)
        os.rename(self.path(name + ".new"), self.path(name))

    def serve(self, text, *options, models=(), **more):
        self.write(text)
        # The first model is the harness's; further ones have names of their own.
        named = [f"{name}={stand_in()}" for name in models]
        server = Server(*named, "--config", self.config, *options, **more)
        self.addCleanup(server.stop)
        if models:
            eventually(lambda: set(models) <= set(server.models()))
        return server

    def reload(self, server, key=None, expected=200):
        status, _, text = server.request("POST", "/admin/reload", headers={"Authorization": f"Bearer {key}"} if key else None)
        self.assertEqual(status, expected, text)
        return json.loads(text)


class Aliases(Reloaded):
    TABLES = """
[[alias]]
name = "gpt-4o-mini"
models = "%s"

[[alias]]
name = "assistant"
models = ["%s=3", "student=1"]
shadow = "student"
shadow_share = 0.5
""" % (MODEL, MODEL)

    def test_an_alias_is_a_model_for_clients(self):
        server = self.serve(self.TABLES, models=["student"])
        client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
        self.assertEqual([model.id for model in client.models.list().data], [MODEL, "student", "gpt-4o-mini", "assistant"])
        answer = client.chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": "Hi"}], max_tokens=4, temperature=0)
        same = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hi"}], max_tokens=4, temperature=0)
        self.assertEqual(answer.choices[0].message.content, same.choices[0].message.content)
        count = server.post_json("/tokenize", {"model": "assistant", "prompt": "a b c"})["count"]
        self.assertEqual(count, server.post_json("/tokenize", {"model": MODEL, "prompt": "a b c"})["count"])
        self.assertEqual(server.get("/v2/models/assistant/ready")[0], 200)
        self.assertEqual(chat(server, "nobody")[0], 404)

    def test_requests_are_divided_and_copied(self):
        server = self.serve(self.TABLES, "--max-num-seqs", "16", models=["student"])
        requests = amount(80, 400, 5000)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for status, _, text in pool.map(lambda _: chat(server, "assistant", max_tokens=1), range(requests)):
                self.assertEqual(status, 200, text)
        counts = {model: server.metric("tutti_alias_requests_total", alias="assistant", model=model) for model in (MODEL, "student")}
        self.assertEqual(sum(counts.values()), requests)
        figure(f"aliases: {requests} requests 3:1 gave {counts}")
        self.assertAlmostEqual(counts[MODEL] / requests, 0.75, delta=0.02)

        def copies():
            return {outcome: server.metric("tutti_shadow_requests_total", alias="assistant", outcome=outcome)
                    for outcome in ("completed", "failed", "dropped")}

        eventually(lambda: abs(sum(copies().values()) - requests / 2) <= 0.02 * requests, lambda: copies())
        self.assertGreater(copies()["completed"], 0)
        self.assertEqual(copies()["failed"], 0)

    def test_a_question_is_scored_by_one_model(self):
        server = self.serve(self.TABLES, models=["student"])
        question = {"type": "choice", "instructions": "Which?", "choices": [{"value": "red"}, {"value": "green and blue"}, {"value": "white"}]}
        for _ in range(4):
            body = server.post_json("/v1/decisions", {"model": "assistant", "input": "A rose.", "questions": [question]})
            self.assertAlmostEqual(sum(label["probability"] for label in body["answers"][0]["probabilities"]), 1, places=5)

    def test_mistakes_are_refused_before_the_port_opens(self):
        for tables, word in (('[[alias]]\nname = "a"\nmodels = "nobody"\n', "nobody"),
                             (f'[[alias]]\nname = "{MODEL}"\nmodels = "{MODEL}"\n', "a model has this name"),
                             (f'[[alias]]\nname = "a"\nmodels = "{MODEL}"\nwieght = 1\n', "wieght")):
            self.write(tables)
            ended = subprocess.run([os.environ["E2E_BINARY"], "serve", default_model(), "--port", "0", "--store", "memory", "--config",
                                    self.config], capture_output=True, text=True, timeout=STEP_S)
            self.assertNotEqual(ended.returncode, 0)
            self.assertIn(word, ended.stderr)
            self.assertNotIn("serving", ended.stdout)


class PausedHandshake:
    """A TLS client that has sent half of its first message."""

    def __init__(self, port):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self.read, self.written = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.read, self.written)
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=STEP_S)
        self.advance()
        hello = self.written.read()
        self.socket.sendall(hello[:len(hello) // 2])
        self.rest = hello[len(hello) // 2:]

    def advance(self):
        try:
            self.tls.do_handshake()
            return True
        except ssl.SSLWantReadError:
            return False

    def end(self):
        """Goes on. Returns the certificate of the server."""
        with self.socket:
            self.socket.sendall(self.rest)
            while not self.advance():
                self.socket.sendall(self.written.read())
                self.read.write(self.socket.recv(1 << 16) or self.fail())
            return ssl.DER_cert_to_PEM_cert(self.tls.getpeercert(binary_form=True)).strip()

    def fail(self):
        raise AssertionError(f"{self.socket.getpeername()} ended the handshake")


class Reload(Reloaded):
    def test_limits_change_and_other_options_are_reported(self):
        server = self.serve("limits.tenant_requests_per_minute = 0\n", "--store", self.path("store"))
        key = make_key(self.path("store"), "operator", "--routes", "admin,generate,metrics")
        ask = {"Authorization": f"Bearer {key}"}
        body = {"model": MODEL, "max_tokens": 1, "messages": [{"role": "user", "content": "Hi"}]}
        for _ in range(3):
            self.assertEqual(server.post("/v1/chat/completions", body, headers=ask)[0], 200)
        self.write("limits.tenant_requests_per_minute = 1\nprep = 5\n")
        self.assertEqual(self.reload(server, key),
                         {"object": "config.reload", "applied": ["limits.tenant_requests_per_minute"], "needs_restart": ["prep"]})
        statuses = [server.post("/v1/chat/completions", body, headers=ask)[0] for _ in range(3)]
        self.assertIn(429, statuses)
        self.write("limits.tenant_requests_per_minute = 0\n")
        self.assertEqual(self.reload(server, key)["needs_restart"], [])
        self.assertEqual(server.post("/v1/chat/completions", body, headers=ask)[0], 200)
        self.reload(server, key="sk-wrong", expected=401)
        self.reload(server, key=make_key(self.path("store"), "client", "--routes", "generate"), expected=403)

    def test_an_invalid_file_changes_nothing_and_says_where(self):
        good = f'[[alias]]\nname = "a"\nmodels = "{MODEL}"\n'
        server = self.serve(good)
        for text, word in (("port = \n", "tutti.toml:1"), ("limits.key_concurrency = -1\n", "tutti.toml:1"), ("no_such_key = 1\n", "no_such_key"),
                           ('[[alias]]\nname = "b"\nmodels = "nobody"\n', "nobody"), ('api-key-file = "/nowhere/key"\n', "/nowhere/key"),
                           ('tls-cert = "/nowhere/cert.pem"\ntls-key = "/nowhere/key.pem"\n', "tls-cert")):
            self.write(text)
            error = self.reload(server, expected=400)["error"]
            self.assertIn(word, error["message"] + str(error.get("param")))
            self.assertEqual(chat(server, "a")[0], 200)
            self.assertEqual(chat(server, "b")[0], 404)
        os.remove(self.config)
        self.reload(server, expected=400)
        self.assertEqual(server.metric("tutti_config_reloads_total", outcome="invalid"), 7)
        self.assertEqual(server.metric("tutti_config_last_reload_ok"), 0)
        self.write(good)
        self.reload(server)
        self.assertEqual(server.metric("tutti_config_last_reload_ok"), 1)

    def test_sighup_reloads(self):
        server = self.serve("")
        self.assertEqual(chat(server, "a")[0], 404)
        self.write(f'[[alias]]\nname = "a"\nmodels = "{MODEL}"\n')
        server.process.send_signal(signal.SIGHUP)
        eventually(lambda: chat(server, "a")[0] == 200)
        self.write("port = \n")
        server.process.send_signal(signal.SIGHUP)
        eventually(lambda: "config.invalid" in server.log())
        self.assertEqual(chat(server, "a")[0], 200)

    def test_a_replaced_key_ends_and_the_new_one_works(self):
        self.write("sk-e2e-old-key-0001\n", "key")
        server = self.serve(f'api-key-file = "{self.path("key")}"\n')
        body = {"model": MODEL, "max_tokens": 1, "messages": [{"role": "user", "content": "Hi"}]}

        def status(key):
            return server.post("/v1/chat/completions", body, headers={"Authorization": f"Bearer {key}"})[0]

        self.assertEqual([status("sk-e2e-old-key-0001"), status("sk-e2e-new-key-0002")], [200, 401])
        self.write("sk-e2e-new-key-0002\n", "key")
        server.process.send_signal(signal.SIGHUP)
        eventually(lambda: status("sk-e2e-new-key-0002") == 200)
        self.assertEqual(status("sk-e2e-old-key-0001"), 401)
        self.assertNotIn("sk-e2e", server.log())

    def test_certificates_are_replaced_for_new_connections(self):
        def make(name):
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                            f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", self.path(name + ".key"), "-out",
                            self.path(name + ".pem")], check=True, capture_output=True)

        def install(name):
            for end in ("pem", "key"):
                with open(self.path(f"{name}.{end}")) as source:
                    self.write(source.read(), f"server.{end}")

        make("first")
        make("second")
        grpc_port = free_port()
        install("first")
        server = self.serve(f'tls-cert = "{self.path("server.pem")}"\ntls-key = "{self.path("server.key")}"\n',
                            "--grpc-port", str(grpc_port))

        def shown():
            """What HTTP and gRPC show, if it is one."""
            found = {ssl.get_server_certificate(("127.0.0.1", port), timeout=STEP_S).strip() for port in (server.port, grpc_port)}
            return found.pop() if len(found) == 1 else None

        def text(name):
            with open(self.path(name)) as file:
                return file.read().strip()

        # Connections that came just before were cut in their handshake.
        begun = [PausedHandshake(port) for port in (server.port, grpc_port)]
        self.assertEqual(shown(), text("first.pem"))
        install("second")
        server.process.send_signal(signal.SIGHUP)
        eventually(lambda: shown() == text("second.pem"))
        self.assertEqual({one.end() for one in begun}, {text("first.pem")})
        # A key that does not fit its certificate changes nothing.
        with open(self.path("first.key")) as source:
            self.write(source.read(), "server.key")
        server.process.send_signal(signal.SIGHUP)
        eventually(lambda: "config.invalid" in server.log())
        self.assertEqual(shown(), text("second.pem"))

    def test_reloads_under_load_drop_no_request(self):
        server = self.serve("", models=["student"])
        reloads = amount(60, 300, 10_000)
        stop, failures, answered = threading.Event(), [], []

        def load():
            client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
            while not stop.is_set():
                try:
                    client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hi"}], max_tokens=2)
                    answered.append(1)
                except openai.OpenAIError as error:
                    failures.append(error)

        clients = [threading.Thread(target=load) for _ in range(4)]
        for client in clients:
            client.start()
        invalid = 0
        try:
            for i in range(reloads):
                if i % 10 == 9:
                    self.write("limits.key_concurrency = -1\n")
                    self.reload(server, expected=400)
                    invalid += 1
                else:
                    share = 1 + i % 5
                    self.write(f'limits.tenant_tokens_per_minute = {10**9 + i}\n[[alias]]\nname = "a"\nmodels = ["{MODEL}={share}", "student"]\n')
                    self.reload(server)
                if i % 10 == 0:
                    self.assertEqual(chat(server, "a")[0], 200)
        finally:
            stop.set()
            for client in clients:
                client.join()
        self.assertEqual(failures, [])
        self.assertGreater(len(answered), 0)
        self.assertEqual(server.metric("tutti_config_reloads_total", outcome="applied"), reloads - invalid)
        figure(f"reload: {reloads} reloads, {invalid} invalid, {len(answered)} requests at the same time, none failed")


if __name__ == "__main__":
    unittest.main()
