"""Permissions and usage of callers, with the stock openai client against the real model: limits, models, revoked keys."""
import concurrent.futures
import os
import subprocess
import tempfile
import threading
import time
import unittest

import openai

from harness import MODEL, STEP_S, Server


class Callers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tutti-callers-")
        cls.store = os.path.join(cls.folder.name, "store")
        cls.server = Server(environment={"TUTTI_STORE": cls.store})

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0
        cls.folder.cleanup()

    def tutti(self, *arguments):
        done = subprocess.run([os.environ["E2E_BINARY"], *arguments, "--store", self.store], capture_output=True, text=True, timeout=STEP_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def client(self, name, *options):
        key = self.tutti("keys", "create", name, *options)
        return openai.OpenAI(base_url=self.server.url + "/v1", api_key=key, timeout=STEP_S, max_retries=0)

    def ask(self, client, tokens=4, **options):
        return client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "Name a colour."}], max_tokens=tokens, temperature=0, **options)

    def test_forty_parallel_requests_at_a_limit_of_ten(self):
        with self.client("ten", "--requests-per-minute", "10", "--tenant", "ten") as client:
            def attempt(_):
                try:
                    self.ask(client)
                    return None
                except openai.RateLimitError as refusal:
                    return refusal
            started = time.monotonic()
            with concurrent.futures.ThreadPoolExecutor(40) as pool:
                refusals = [r for r in pool.map(attempt, range(40)) if r is not None]
            # A token of the bucket comes back every six seconds.
            more = int((time.monotonic() - started) / 6) + 1
            self.assertTrue(30 - more <= len(refusals) <= 30, len(refusals))
            for refusal in refusals:
                self.assertEqual(refusal.code, "rate_limit_exceeded")
                self.assertGreaterEqual(int(refusal.response.headers["retry-after"]), 1)
                self.assertEqual(refusal.response.headers["x-ratelimit-limit-requests"], "10")
                self.assertEqual(refusal.response.headers["x-ratelimit-remaining-requests"], "0")

    def test_another_key_is_not_limited_and_headers_show_the_rest(self):
        with self.client("one", "--requests-per-minute", "1") as one, self.client("other", "--tokens-per-minute", "10000") as other:
            self.ask(one)
            with self.assertRaises(openai.RateLimitError):
                self.ask(one)
            raw = other.chat.completions.with_raw_response.create(
                model=MODEL, messages=[{"role": "user", "content": "Name a colour."}], max_tokens=4)
            self.assertEqual(raw.headers["x-ratelimit-limit-tokens"], "10000")
            self.assertLess(int(raw.headers["x-ratelimit-remaining-tokens"]), 10000)
            self.assertNotIn("x-ratelimit-limit-requests", raw.headers)

    def test_a_model_that_was_not_given_is_refused_and_not_listed(self):
        with self.client("narrow", "--models", "another") as narrow:
            with self.assertRaises(openai.PermissionDeniedError) as refused:
                self.ask(narrow)
            self.assertEqual(refused.exception.code, "insufficient_scope")
            self.assertEqual(list(narrow.models.list()), [])
            with self.assertRaises(openai.PermissionDeniedError):
                narrow.responses.create(model=MODEL, input="hi")

    def test_a_model_that_the_server_does_not_serve_is_warned_of(self):
        for name, models, warned in (("typo", "smollm2," + MODEL, True), ("right", MODEL, False)):
            done = subprocess.run([os.environ["E2E_BINARY"], "keys", "create", name, "--models", models, "--store", self.store],
                                  capture_output=True, text=True, timeout=STEP_S)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual("no text or vectors of a model smollm2 now" in done.stderr, warned, done.stderr)
            self.assertEqual(done.stderr.count("warning"), int(warned))
            self.tutti("keys", "revoke", name)

    def test_a_revoked_key_ends_its_streams_within_five_seconds(self):
        with self.client("gone") as client:
            first, ended = threading.Event(), []

            def read():
                try:
                    for _ in self.ask(client, tokens=4000, stream=True, extra_body={"ignore_eos": True}):
                        first.set()
                    ended.append("whole")
                except openai.APIError as error:
                    ended.append(error)

            reader = threading.Thread(target=read)
            reader.start()
            self.assertTrue(first.wait(STEP_S))
            self.tutti("keys", "revoke", "gone")
            revoked = time.monotonic()
            with self.assertRaises(openai.AuthenticationError) as refused:
                self.ask(client)
            self.assertEqual(refused.exception.code, "key_revoked")
            reader.join(STEP_S)
            self.assertLess(time.monotonic() - revoked, 5)
            self.assertEqual(len(ended), 1)
            self.assertEqual(getattr(ended[0], "code", ended[0]), "key_revoked")

    def test_the_days_tokens_outlive_a_restart(self):
        with tempfile.TemporaryDirectory(prefix="tutti-callers-") as folder:
            store = os.path.join(folder, "store")
            environment = {"TUTTI_STORE": store}
            server = Server(environment=environment)
            key = subprocess.run([os.environ["E2E_BINARY"], "keys", "create", "daily", "--daily-tokens", "40", "--store", store],
                                 capture_output=True, text=True, check=True, timeout=STEP_S).stdout.strip()

            def use(url, tokens):
                with openai.OpenAI(base_url=url + "/v1", api_key=key, timeout=STEP_S, max_retries=0) as client:
                    return self.ask(client, tokens=tokens, extra_body={"ignore_eos": True})

            spent = use(server.url, 8).usage
            left = 40 - spent.prompt_tokens - spent.completion_tokens
            self.assertGreater(spent.total_tokens, 16)
            self.assertEqual(server.stop(), 0)
            server = Server(environment=environment)
            with self.assertRaises(openai.RateLimitError) as refused:
                use(server.url, max(left, 1))  # with its prompt more than is left
            self.assertEqual(refused.exception.code, "insufficient_quota")
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
