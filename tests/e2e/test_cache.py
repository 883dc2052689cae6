"""The response cache, with the stock openai client against the real model: hits equal the computed answers, uncacheable requests are
computed anew, and concurrent equal requests share one generation."""
import concurrent.futures
import json
import os
import statistics
import subprocess
import tempfile
import threading
import time
import unittest

import openai

from harness import MODEL, STEP_S, Server, ServerCase, amount, eventually, figure, make_key

TUTTI = os.environ["E2E_BINARY"]
QUESTION = [{"role": "user", "content": "Name three colours."}]


def plain(answer):
    """An answer without what is each one's own."""
    body = answer.model_dump() if not isinstance(answer, dict) else dict(answer)
    usage = dict(body["usage"])
    cached = usage.pop("cached_response", False)
    return {**body, "id": "", "created": 0, "usage": usage}, cached


class Cache(ServerCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tutti-cache-")
        cls.OPTIONS = ("--cache-exact", "on", "--cache-ttl-s", "600", "--store", cls.folder.name)
        super().setUpClass()
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="none", timeout=STEP_S, max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        super().tearDownClass()
        cls.folder.cleanup()

    def chat(self, headers=None, **options):
        """The answer and its head."""
        raw = self.client.chat.completions.with_raw_response.create(
            extra_headers=headers or {},
            **{"model": MODEL, "messages": QUESTION, "max_tokens": 24, "temperature": 0, **options})
        return raw.parse(), raw.headers

    def outcome(self, **options):
        return self.chat(**options)[1]["x-cache"]

    def computed(self):
        """Tokens drawn so far. A client has its last token a moment before that is counted."""
        self.server.wait_idle()
        return self.server.metric("tutti_output_tokens_total")

    def flush(self, *options):
        done = subprocess.run([TUTTI, "cache", "flush", "--store", self.folder.name, "--json", *options],
                              capture_output=True, text=True, timeout=STEP_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["answers"]

    def setUp(self):
        self.flush()

    def test_the_second_equal_request_is_answered_without_the_model(self):
        first, head = self.chat(logprobs=True, top_logprobs=3)
        self.assertEqual(head["x-cache"], "miss")
        self.assertNotIn("age", head)
        before = self.computed()
        second, head = self.chat(logprobs=True, top_logprobs=3)
        self.assertEqual(head["x-cache"], "hit")
        self.assertGreaterEqual(int(head["age"]), 0)
        self.assertEqual(plain(first)[0], plain(second)[0])
        self.assertEqual((plain(first)[1], plain(second)[1]), (False, True))
        self.assertEqual(self.computed(), before, "no token was drawn")
        self.assertGreater(self.server.metric("tutti_cache_lookups_total", cache="exact", outcome="hit"), 0)
        self.assertEqual(self.server.metric("tutti_cache_entries", cache="exact"), 1)

    def test_streams_and_whole_answers_come_from_one_entry(self):
        whole, _ = self.chat()
        for streamed_first in (False, True):
            if streamed_first:
                self.flush()
            raw = self.client.chat.completions.with_raw_response.create(
                model=MODEL, messages=QUESTION, max_tokens=24, temperature=0, stream=True,
                stream_options={"include_usage": True})
            self.assertEqual(raw.headers["x-cache"], "miss" if streamed_first else "hit")
            chunks = list(raw.parse())
            self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks if c.choices),
                             whole.choices[0].message.content)
            self.assertEqual(plain(chunks[-1])[1], not streamed_first)
            self.assertEqual(chunks[-1].usage.completion_tokens, 24)
        again, head = self.chat()
        self.assertEqual(head["x-cache"], "hit")
        self.assertEqual(again.choices[0].message.content, whole.choices[0].message.content)

    def test_any_field_that_can_change_the_answer_gives_a_miss(self):
        self.assertEqual(self.outcome(), "miss")
        changes = [
            {"messages": [*QUESTION, {"role": "assistant", "content": "Red."}, {"role": "user", "content": "More."}]},
            {"messages": [{"role": "system", "content": "Be brief."}, *QUESTION]},
            {"messages": [{"role": "user", "content": "Name three colours!"}]},
            {"max_tokens": 23}, {"seed": 7}, {"n": 2}, {"stop": ["zebra"]}, {"logprobs": True},
            {"logprobs": True, "top_logprobs": 2}, {"logit_bias": {"100": -1}}, {"presence_penalty": 0.1},
            {"frequency_penalty": 0.1}, {"top_p": 0.9}, {"temperature": 0.5, "seed": 7},
            {"extra_body": {"top_k": 3}}, {"extra_body": {"min_p": 0.1}}, {"extra_body": {"repetition_penalty": 1.1}},
            {"extra_body": {"min_tokens": 3}}, {"extra_body": {"ignore_eos": True}}, {"extra_body": {"stop_token_ids": [5]}},
            {"extra_body": {"include_stop_str_in_output": True}}, {"extra_body": {"skip_special_tokens": False}}]
        for change in changes:
            with self.subTest(change=change):
                self.assertEqual(self.outcome(**change), "miss")
        for change in changes:
            with self.subTest(again=change):
                self.assertEqual(self.outcome(**change), "hit")
        self.assertEqual(self.outcome(), "hit")

    def test_what_may_differ_is_none_of_its_business(self):
        for _ in range(2):
            self.assertEqual(self.outcome(temperature=0.7), "bypass")

    def test_each_directive_of_the_client_holds(self):
        self.assertEqual(self.outcome(headers={"Cache-Control": "no-store"}), "bypass")
        self.assertEqual(self.outcome(), "miss", "no-store kept nothing")
        before = self.computed()
        self.assertEqual(self.outcome(headers={"Cache-Control": "no-cache"}), "bypass")
        self.assertEqual(self.computed(), before + 24, "no-cache was computed")
        time.sleep(2.1)
        self.assertEqual(self.outcome(headers={"Cache-Control": "max-age=1"}), "miss")
        time.sleep(1.1)
        self.assertEqual(self.outcome(headers={"Cache-Control": "max-age=60"}), "hit")

    def test_errors_and_cut_streams_are_not_kept(self):
        with self.assertRaises(openai.BadRequestError):
            self.chat(max_tokens=100000)
        stream = self.client.chat.completions.create(
            model=MODEL, messages=QUESTION, max_tokens=2000, temperature=0, stream=True, extra_body={"ignore_eos": True})
        next(iter(stream))
        stream.close()
        eventually(lambda: self.server.load()["running"] == 0)
        self.assertEqual(self.server.metric("tutti_cache_entries", cache="exact"), 0)

    def test_fifty_concurrent_repeats_share_one_generation(self):
        before = self.computed()
        with concurrent.futures.ThreadPoolExecutor(50) as pool:
            ready = threading.Barrier(50)

            def ask(_):
                ready.wait(STEP_S)
                return self.chat(max_tokens=96, extra_body={"ignore_eos": True})
            answers = list(pool.map(ask, range(50)))
        self.assertEqual(self.computed() - before, 96)
        self.assertEqual(len({answer.choices[0].message.content for answer, _ in answers}), 1)
        outcomes = [head["x-cache"] for _, head in answers]
        self.assertEqual(outcomes.count("miss"), 1)
        self.assertGreater(outcomes.count("join"), 0)
        self.assertEqual(outcomes.count("miss") + outcomes.count("join") + outcomes.count("hit"), 50)

    def test_who_joined_reads_on_when_the_first_has_left(self):
        for round_ in range(amount(2, 2, 20)):
            options = {"max_tokens": amount(300, 150, 300), "seed": round_, "extra_body": {"ignore_eos": True}}
            first = self.client.chat.completions.create(
                model=MODEL, messages=QUESTION, temperature=0, stream=True, **options)
            next(iter(first))
            raw = self.client.chat.completions.with_raw_response.create(
                model=MODEL, messages=QUESTION, temperature=0, stream=True, **options)
            self.assertEqual(raw.headers["x-cache"], "join")
            second = iter(raw.parse())
            text = next(second).choices[0].delta.content
            first.close()
            text += "".join(chunk.choices[0].delta.content or "" for chunk in second if chunk.choices)
            answer, head = self.chat(**options)
            self.assertEqual(head["x-cache"], "hit", "what was read to its end is kept")
            self.assertEqual(answer.choices[0].message.content, text)

    def test_other_servers_have_the_same_answers(self):
        answer, _ = self.chat()
        reply = self.client.responses.with_raw_response.create(
            model=MODEL, input="Name three colours.", max_output_tokens=24, temperature=0)
        self.assertEqual(reply.parse().output_text, answer.choices[0].message.content)

    def test_a_streamed_response_says_it_before_its_first_event(self):
        def ask(**options):
            raw = self.client.responses.with_raw_response.create(
                model=MODEL, input="Name three colours.", max_output_tokens=24, stream=True, **{"temperature": 0, **options})
            events = list(raw.parse())
            self.assertEqual(events[0].type, "response.created")
            return events[-1].response.output_text, raw.headers

        text, head = ask()
        self.assertEqual(head["x-cache"], "miss")
        again, head = ask()
        self.assertEqual((head["x-cache"], again), ("hit", text))
        self.assertGreaterEqual(int(head["age"]), 0)
        self.assertEqual(ask(extra_headers={"Cache-Control": "no-store"})[1]["x-cache"], "bypass")
        self.assertEqual(ask(temperature=0.7)[1]["x-cache"], "bypass")
        self.assertEqual(ask(store=False)[1]["x-cache"], "hit")

    def test_kserves_routes_say_it_too(self):
        for route in ("generate", "generate_stream"):
            body = {"text_input": f"Once upon a {route}", "parameters": {"max_tokens": 8, "temperature": 0}}
            heads = [self.server.post(f"/v2/models/{MODEL}/{route}", body)[1] for _ in range(2)]
            self.assertEqual([head["x-cache"] for head in heads], ["miss", "hit"])
            self.assertNotIn("Age", heads[0])
            self.assertGreaterEqual(int(heads[1]["Age"]), 0)

    def test_a_flush_of_one_tenant_takes_its_answers(self):
        self.assertEqual(self.outcome(), "miss")
        self.assertEqual(self.flush("--tenant", "nobody"), 0)
        self.assertEqual(self.outcome(), "hit")
        self.assertEqual(self.flush(), 1)
        self.assertEqual(self.outcome(), "miss")

    def test_a_hit_takes_a_moment(self):
        self.chat(max_tokens=64, extra_body={"ignore_eos": True})
        took = []
        for _ in range(amount(100, 150, 1000)):
            begin = time.monotonic()
            status, _, _ = self.server.post("/v1/chat/completions", {
                "model": MODEL, "messages": QUESTION, "max_tokens": 64, "temperature": 0, "ignore_eos": True})
            took.append(time.monotonic() - begin)
            self.assertEqual(status, 200)
        took.sort()
        figure(f"hit over HTTP, 64 tokens: p50 {1e3 * statistics.median(took):.2f} ms, p99 {1e3 * took[int(len(took) * .99)]:.2f} ms")
        self.assertLess(statistics.median(took), 0.1)


class Tenants(ServerCase):
    """Two tenants with the same question never get each other's answers."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tutti-cache-")
        cls.keys = [make_key(cls.folder.name, tenant, "--tenant", tenant) for tenant in ("red", "blue")]
        cls.OPTIONS = ("--cache-exact", "on", "--store", cls.folder.name)
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()

    def test_what_one_has_the_other_computes(self):
        outcomes = []
        for key in (*self.keys, *self.keys):
            with openai.OpenAI(base_url=self.server.url + "/v1", api_key=key, timeout=STEP_S) as client:
                raw = client.chat.completions.with_raw_response.create(
                    model=MODEL, messages=QUESTION, max_tokens=8, temperature=0)
                outcomes.append((raw.headers["x-cache"], raw.parse().usage.prompt_tokens_details.cached_tokens))
        self.assertEqual([outcome for outcome, _ in outcomes], ["miss", "miss", "hit", "hit"])
        self.assertEqual([cached for _, cached in outcomes[:2]], [0, 0])


class Shared(unittest.TestCase):
    def test_tenants_of_one_scope_share_and_others_do_not(self):
        with tempfile.TemporaryDirectory(prefix="tutti-cache-") as folder:
            keys = [make_key(folder, tenant, "--tenant", tenant) for tenant in ("red", "blue", "green")]
            server = Server("--cache-exact", "on", "--cache-shared", "red=family,blue=family", "--store", folder)
            self.addCleanup(server.stop)
            body = {"model": MODEL, "messages": QUESTION, "max_tokens": 8, "temperature": 0}
            outcomes = [server.post("/v1/chat/completions", body, headers={"Authorization": f"Bearer {key}"})[1]["x-cache"] for key in keys]
            self.assertEqual(outcomes, ["miss", "hit", "miss"])


class Rows(ServerCase):
    """Only the texts of a call that are not in the cache are computed."""
    OPTIONS = ("--cache-embeddings", "on", "--encode-decoders", "on")

    def embed(self, texts, headers=None, **options):
        with openai.OpenAI(base_url=self.server.url + "/v1", api_key="none", timeout=STEP_S, max_retries=0) as client:
            raw = client.embeddings.with_raw_response.create(
                model=MODEL, input=texts, encoding_format="float", extra_headers=headers or {}, **options)
            answer = raw.parse()
        self.assertEqual([each.index for each in answer.data], list(range(len(texts))))
        return [each.embedding for each in answer.data], raw.headers["x-cache"], answer.usage.prompt_tokens

    def looked_up(self, outcome):
        return self.server.metric("tutti_cache_lookups_total", cache="embedding", outcome=outcome)

    def test_of_32_texts_only_the_8_uncached_ones_are_computed(self):
        known = [f"text number {i} about colours" for i in range(24)]
        fresh = [f"another text, {i}" for i in range(8)]
        self.assertEqual(self.embed(known)[1], "miss")
        texts = [text for i in range(8) for text in (*known[23 - 3 * i:20 - 3 * i if i < 7 else None:-1], fresh[i])]
        self.assertEqual(sorted(texts), sorted(known + fresh))
        misses, hits = self.looked_up("miss"), self.looked_up("hit")
        vectors, outcome, tokens = self.embed(texts)
        self.assertEqual((outcome, self.looked_up("miss") - misses, self.looked_up("hit") - hits), ("miss", 8, 24))
        uncached, outcome, counted = self.embed(texts, headers={"Cache-Control": "no-store"})
        self.assertEqual(outcome, "bypass")
        self.assertEqual(vectors, uncached, "bit for bit, in their order")
        self.assertEqual(tokens, counted)
        again, outcome, _ = self.embed(texts)
        self.assertEqual((again, outcome), (vectors, "hit"))


class Off(ServerCase):
    def test_without_a_cache_nothing_is_said_of_one(self):
        for _ in range(2):
            status, headers, text = self.server.post("/v1/chat/completions", {
                "model": MODEL, "messages": QUESTION, "max_tokens": 4, "temperature": 0})
            self.assertEqual(status, 200)
            self.assertNotIn("x-cache", {name.lower() for name in headers})
            self.assertNotIn("cached_response", text)
        self.assertEqual(self.server.metric("tutti_cache_entries"), 0)


if __name__ == "__main__":
    unittest.main()
