"""The semantic cache on the real models: questions that must not share an answer, questions that should, and the reports of shadow
mode (rows U54, U55, N42)."""
import json
import os
import subprocess
import tempfile
import unittest

import numpy
import openai

from encoder_models import EMBEDDER
from harness import MODEL, STEP_S, Server, amount, default_model, eventually, figure, make_key
from semantic_pairs import PARAPHRASES, SWAPS

TUTTI = os.environ["E2E_BINARY"]


def ask(server, text, headers=None, **fields):
    """(outcome, kind, source, answer)"""
    body = {"model": MODEL, "messages": [{"role": "user", "content": text}], "max_tokens": 2, "temperature": 0, **fields}
    status, said, answer = server.post("/v1/chat/completions", body, headers=headers or {})
    assert status == 200, (status, answer)
    return said["x-cache"], said["x-cache-kind"], said["x-cache-source"], json.loads(answer)["choices"][0]["message"]["content"]


def serve(mode, *options, key=None):
    server = Server("encoder=" + EMBEDDER, "--cache-semantic-mode", mode, "--cache-semantic-model", "encoder", "--cache-semantic-routes",
                    "chat,responses", *options)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    eventually(lambda: len(json.loads(server.get("/v1/models", headers=headers)[2])["data"]) == 2, server.log)
    return server


class Semantic(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = serve("on")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def test_no_pair_that_asks_for_something_else_is_answered_alike(self):
        pairs = [(kind, *pair) for kind, some in SWAPS.items() for pair in some]
        self.assertGreaterEqual(len(pairs), 200)
        pairs = pairs[::amount(4, 4, 1)]
        client = openai.OpenAI(base_url=self.server.url + "/v1", api_key="none", timeout=STEP_S)
        near, wrong = 0, []
        for number, (kind, one, other) in enumerate(pairs):
            # Each by itself: "three" of one pair is rightly the "3" of another.
            salt = {"messages": [{"role": "system", "content": f"{kind} {number}"}, {"role": "user", "content": one}]}
            ask(self.server, one, **salt)
            salt["messages"][1] = {"role": "user", "content": other}
            outcome, how, _, _ = ask(self.server, other, **salt)
            if how == "semantic":
                wrong.append((kind, one, other))
            vectors = [numpy.array(row.embedding) for row in client.embeddings.create(model="encoder", input=[one, other]).data]
            near += float(vectors[0] @ vectors[1]) > 0.98
        figure(f"semantic: {len(pairs)} pairs of another sense, {near} of them above 0.98, {len(wrong)} wrong hits")
        self.assertEqual(wrong, [])
        self.assertGreater(near, 5)

    def test_what_asks_the_same_is_given_the_same_answer(self):
        hits, missed = 0, []
        for base, other in PARAPHRASES:
            _, _, _, first = ask(self.server, base)
            outcome, kind, source, second = ask(self.server, other)
            if kind == "semantic":
                self.assertEqual((outcome, second), ("hit", first), other)
                self.assertTrue(source.startswith("sem_"))
                hits += 1
            else:
                missed.append(other)
        figure(f"semantic: {hits} of {len(PARAPHRASES)} paraphrases hit; missed: {missed}")
        self.assertGreaterEqual(hits, 50)

    def test_the_stream_is_the_same_and_says_what_it_is(self):
        text = "What colour is an emerald?"
        ask(self.server, text)
        status, said, events = self.server.post("/v1/chat/completions", {
            "model": MODEL, "messages": [{"role": "user", "content": "what color is an emerald"}], "max_tokens": 2, "temperature": 0,
            "stream": True, "stream_options": {"include_usage": True}})
        self.assertEqual((status, said["x-cache"], said["x-cache-kind"]), (200, "hit", "semantic"))
        self.assertGreaterEqual(float(said["x-cache-similarity"]), 0.98)
        self.assertTrue(said["Age"].isdigit())
        self.assertIn("[DONE]", events)

    def test_clients_may_pass_it_by_and_tighten_it(self):
        text, other = "How tall is Mount Everest?", "how tall is mount everest"
        ask(self.server, text)
        self.assertEqual(ask(self.server, other)[1], "semantic")
        for headers in ({"Cache-Control": "no-cache"}, {"Cache-Control": "no-store"}, {"x-cache-similarity": "1.1"}):
            self.assertIsNone(ask(self.server, other, headers)[1], headers)
        for fields in ({"temperature": 0.5}, {"n": 2}, {"logprobs": True}):
            self.assertIsNone(ask(self.server, text, **fields)[1], fields)
        for headers in ({"x-cache-similarity": "0.1"}, {"x-cache-similarity": "rubbish"}):
            self.assertEqual(ask(self.server, other, headers)[1], "semantic", headers)


class Apart(unittest.TestCase):
    def test_tenants_prompts_and_histories_share_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = [make_key(folder, name, "--tenant", name) for name in ("one", "two")]
            server = serve("on", "--store", folder, key=keys[0])
            self.addCleanup(server.stop)
            bearer = [{"Authorization": f"Bearer {key}"} for key in keys]
            for i in range(50):
                text, other = f"What is the name of moon {i}?", f"what's the name of moon {i}"
                ask(server, text, bearer[0])
                self.assertIsNone(ask(server, other, bearer[1])[1])
                self.assertEqual(ask(server, other, bearer[0])[1], "semantic")
            said = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}]
            last = {"role": "user", "content": "what's the name of moon 1"}
            for messages in ([{"role": "system", "content": "Be brief."}, last], said + [last], said[:1] + [last]):
                self.assertIsNone(ask(server, "", bearer[0], messages=messages)[1])
            flushed = subprocess.run([TUTTI, "cache", "flush", "--tenant", "one", "--store", folder], capture_output=True, text=True, timeout=STEP_S)
            self.assertEqual(flushed.returncode, 0, flushed.stderr)
            self.assertIsNone(ask(server, "what's the name of moon 1", bearer[0])[1])

    def test_shadow_mode_answers_nothing_and_reports(self):
        server = serve("shadow")
        self.addCleanup(server.stop)
        for base, other in PARAPHRASES[:40]:
            ask(server, base)
            self.assertIsNone(ask(server, other)[1])
        compared = sum(server.metric("tutti_semantic_compared_total", verdict=verdict) for verdict in ("right", "wrong"))
        figure(f"semantic: shadow compared {compared:.0f}, rate of false hits {server.metric('tutti_semantic_false_hit_rate'):.3f}, "
               f"bound {server.metric('tutti_semantic_false_hit_bound'):.3f}")
        self.assertGreaterEqual(compared, 20)
        self.assertEqual(server.metric("tutti_semantic_answers"), 0)
        self.assertGreater(server.metric("tutti_semantic_false_hit_bound"), server.metric("tutti_semantic_false_hit_rate"))

    def test_what_is_wrong_at_start_is_said(self):
        def refused(*options):
            run = subprocess.run([TUTTI, "serve", default_model(), "--port", "0", "--store", "memory", "--cache-semantic-mode", "on", *options],
                                 capture_output=True, text=True, timeout=STEP_S)
            self.assertEqual(run.returncode, 78, run.stderr)
            return run.stderr

        self.assertIn("--cache-semantic-routes chat,responses", refused())
        self.assertIn("takes chat|responses", refused("--cache-semantic-routes", "completions"))
        self.assertIn("takes chat|responses", refused("--cache-semantic-routes", "/v1/chat/completions"))
        self.assertIn("is served", refused("--cache-semantic-routes", "chat", "--cache-semantic-model", "nobody"))
        self.assertIn("between 0 and 1", refused("--cache-semantic-routes", "chat", "--cache-semantic-threshold", "2"))
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write('[cache.semantic]\nmode = "shadow"\nthreshold = 0.99\nroutes = ["chat", "responses"]\n')
            file.flush()
            shown = subprocess.run([TUTTI, "serve", "--config", file.name, "--print-config"], capture_output=True, text=True, timeout=STEP_S)
            self.assertIn('0.99', shown.stdout)
            self.assertEqual(shown.returncode, 0, shown.stderr)
