"""Webhooks of durable jobs: signed so that stock libraries verify them; internal addresses are refused (row N39)."""
import base64
import http.server
import json
import os
import secrets
import subprocess
import tempfile
import threading
import time
import unittest

import openai
import standardwebhooks

from harness import STEP_S, Server, eventually
from test_jobs import ASYNC, chat, ended, submit

TUTTI = os.environ["E2E_BINARY"]


def new_secret():
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


class Receiver:
    """Takes events on a port of this machine; what `statuses` holds is answered first, then 200."""

    def __init__(self, *statuses):
        self.events, waiting = [], list(statuses)
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.events.append((dict(self.headers), body))
                self.send_response(waiting.pop(0) if waiting else 200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class Webhooks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.secrets = [new_secret(), new_secret()]
        cls.file = cls.folder.name + "/secrets"
        with open(cls.file, "w") as file:
            file.write("\n".join(cls.secrets) + "\n")
        os.chmod(cls.file, 0o600)
        cls.options = ("--store", cls.folder.name + "/store", "--jobs-webhooks", "on", "--jobs-webhook-secret-file", cls.file,
                       "--jobs-webhook-hosts", "127.0.0.1")
        cls.server = Server(*cls.options)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        cls.folder.cleanup()

    def job(self, url, body=None):
        return submit(self.server, body or chat("Hello", 4), X_Tutti_Webhook=url)["id"]

    def told(self, job):
        """How the telling ended."""
        def over():
            state = json.loads(self.server.get(f"/v1/jobs/{job}")[2])["webhook"]
            return state if state["status"] in ("delivered", "callback_failed") else None
        eventually(over, limit_s=STEP_S)
        return over()

    def test_stock_libraries_verify_the_event_under_both_secrets(self):
        receiver = Receiver()
        self.addCleanup(receiver.stop)
        job = self.job(receiver.url)
        self.assertEqual(ended(self.server, job)["status"], "completed")
        self.assertEqual(self.told(job), {"status": "delivered", "attempts": 1})
        (fields, body), = receiver.events
        for secret in self.secrets:
            seen = standardwebhooks.Webhook(secret).verify(body, fields)
            self.assertEqual((seen["type"], seen["data"]), ("job.completed", {"id": job}))
            client = openai.OpenAI(api_key="none", webhook_secret=secret)
            self.assertEqual(client.webhooks.unwrap(body, fields).data.id, job)
        with self.assertRaises(standardwebhooks.WebhookVerificationError):
            standardwebhooks.Webhook(new_secret()).verify(body, fields)
        with self.assertRaises(standardwebhooks.WebhookVerificationError):
            standardwebhooks.Webhook(self.secrets[0]).verify(body + b" ", fields)
        self.assertLess(len(body), 20_000)
        self.assertNotIn(b"Hello", body)

    def test_each_end_has_its_event_and_a_retry_keeps_its_id(self):
        receiver = Receiver(500)
        self.addCleanup(receiver.stop)
        failing = self.job(receiver.url, chat("x", 100000))
        self.assertEqual(ended(self.server, failing)["status"], "failed")
        self.assertEqual(self.told(failing), {"status": "delivered", "attempts": 2})
        ids = {fields["webhook-id"] for fields, _ in receiver.events}
        self.assertEqual((len(receiver.events), len(ids)), (2, 1))
        self.assertEqual(json.loads(receiver.events[1][1])["type"], "job.failed")
        later = submit(self.server, chat("x"), X_Tutti_Webhook=receiver.url, X_Tutti_Run_At=str(int(time.time()) + 3600))["id"]
        self.assertEqual(json.loads(self.server.get(f"/v1/jobs/{later}")[2])["webhook"], {"status": "waiting", "attempts": 0})
        self.assertEqual(self.server.post(f"/v1/jobs/{later}/cancel", "")[0], 200)
        self.told(later)
        self.assertEqual(json.loads(receiver.events[-1][1])["type"], "job.cancelled")

    def test_an_event_outlives_the_process(self):
        receiver = Receiver()
        self.addCleanup(receiver.stop)
        with tempfile.TemporaryDirectory() as folder:
            options = ("--store", folder + "/store") + self.options[2:]
            server = Server(*options)
            job = submit(server, chat("Hello", 400, ignore_eos=True), X_Tutti_Webhook=receiver.url)["id"]
            server.process.kill()
            server.stop()
            server = Server(*options)
            self.addCleanup(server.stop)
            self.assertEqual(ended(server, job)["status"], "completed")
            eventually(lambda: receiver.events, limit_s=STEP_S)
            self.assertEqual(json.loads(receiver.events[0][1])["data"]["id"], job)

    def test_addresses_that_lead_inside_are_refused_or_never_reached(self):
        inside = Receiver()
        self.addCleanup(inside.stop)
        port = inside.server.server_port
        for url in ("http://example.com/", "https://10.0.0.1/", "https://169.254.169.254/", "https://[::1]/", f"https://127.1:{port}/",
                    "https://user@example.com/", "ftp://x/", "", "https://[::ffff:127.0.0.1]/", "https://0x7f000001/"):
            status, _, text = self.server.post("/v1/chat/completions", chat("x"), headers={**ASYNC, "X-Tutti-Webhook": url})
            self.assertEqual((status, json.loads(text)["error"]["code"]), (400, "invalid_value"), url)
        # A name like any other, until it is asked for.
        job = self.job(f"https://localhost:{port}/")
        ended(self.server, job)
        def tried():
            state = json.loads(self.server.get(f"/v1/jobs/{job}")[2])["webhook"]
            return state if state["attempts"] > 0 else None
        eventually(tried, limit_s=STEP_S)
        self.assertIn("inside a network", tried()["error"])
        self.assertEqual(inside.events, [])

    def test_they_are_off_by_default_and_bad_secrets_stop_a_start(self):
        server = Server()
        self.addCleanup(server.stop)
        status, _, text = server.post("/v1/chat/completions", chat("x"), headers={**ASYNC, "X-Tutti-Webhook": "https://example.com/"})
        self.assertEqual((status, json.loads(text)["error"]["code"]), (400, "unsupported_parameter"))

        def refused(*options):
            run = subprocess.run([TUTTI, "serve", "--store", "memory", "--port", "0", "--jobs-webhooks", "on", *options],
                                 capture_output=True, text=True, timeout=STEP_S)
            self.assertEqual(run.returncode, 78, run.stderr)
            return run.stderr

        self.assertIn("openssl rand", refused())
        open_file = self.folder.name + "/open"
        with open(open_file, "w") as file:
            file.write(self.secrets[0])
        os.chmod(open_file, 0o644)
        self.assertIn("chmod 600", refused("--jobs-webhook-secret-file", open_file))
        os.chmod(open_file, 0o600)
        with open(open_file, "w") as file:
            file.write("whsec_short")
        self.assertIn("24 to 64 bytes", refused("--jobs-webhook-secret-file", open_file))
