"""The stock openai client against the real model: its requests are answered, and answers have the fields that it expects."""
import concurrent.futures
import json
import unittest

import openai

from harness import MODEL, STEP_S, RealModel, ServerCase

QUESTION = [{"role": "user", "content": "Name three colours."}]


class OpenAiClient(RealModel, ServerCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="none", timeout=STEP_S)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        super().tearDownClass()

    def chat(self, **options):
        return self.client.chat.completions.create(
            **{"model": MODEL, "messages": QUESTION, "max_tokens": 24, "temperature": 0, **options})

    def text(self, **options):
        return self.client.completions.create(
            **{"model": MODEL, "prompt": "The capital of France is", "max_tokens": 8, "temperature": 0, **options})

    def test_models_are_listed(self):
        models = self.client.models.list().data
        self.assertEqual(models[0].id, MODEL)
        self.assertEqual(models[0].max_model_len, 8192)
        self.assertEqual(self.client.models.retrieve(MODEL).owned_by, "tutti")

    def test_chat_answers_and_counts(self):
        answer = self.chat()
        self.assertTrue(answer.id.startswith("chatcmpl-"))
        self.assertEqual(answer.object, "chat.completion")
        self.assertEqual(answer.model, MODEL)
        choice = answer.choices[0]
        self.assertEqual((choice.index, choice.message.role, choice.finish_reason), (0, "assistant", "length"))
        self.assertIsNone(choice.message.refusal)
        self.assertTrue(choice.message.content)
        self.assertEqual(answer.usage.completion_tokens, 24)
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + 24)

    def test_streamed_and_whole_answers_have_the_same_text_and_usage(self):
        whole = self.chat()
        chunks = list(self.chat(stream=True, stream_options={"include_usage": True}))
        self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks if c.choices),
                         whole.choices[0].message.content)
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertTrue(chunks[0].choices[0].delta.content, "the role comes with text")
        self.assertEqual([c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason],
                         ["length"])
        self.assertEqual(chunks[-1].choices, [])
        self.assertEqual(chunks[-1].usage.completion_tokens, whole.usage.completion_tokens)
        self.assertEqual(chunks[-1].usage.prompt_tokens, whole.usage.prompt_tokens)
        self.assertEqual(len({(c.id, c.created, c.model) for c in chunks}), 1)
        self.assertTrue(all(c.usage is None for c in chunks[:-1]))

    def test_the_streaming_helper_of_the_client_works(self):
        stop = self.chat().choices[0].message.content[20:24]  # the helper refuses answers that were cut by length
        options = {"max_tokens": 40, "stop": stop}
        with self.client.chat.completions.stream(model=MODEL, messages=QUESTION, temperature=0, **options) as stream:
            for _ in stream:
                pass
            final = stream.get_final_completion()
        self.assertEqual(final.choices[0].message.content, self.chat(**options).choices[0].message.content)

    def test_several_choices_differ_and_the_first_equals_n_1(self):
        options = {"temperature": 1, "seed": 11, "max_tokens": 16}
        single = self.chat(**options)
        several = self.chat(n=3, **options)
        texts = [c.message.content for c in several.choices]
        self.assertEqual([c.index for c in several.choices], [0, 1, 2])
        self.assertEqual(texts[0], single.choices[0].message.content)
        self.assertGreater(len(set(texts)), 1)
        self.assertEqual(several.usage.completion_tokens, 48)
        streamed = {}
        for chunk in self.chat(n=3, stream=True, **options):
            for choice in chunk.choices:
                streamed[choice.index] = streamed.get(choice.index, "") + (choice.delta.content or "")
        self.assertEqual([streamed[i] for i in range(3)], texts)

    def test_a_seed_repeats_an_answer_and_another_does_not(self):
        one, again, other = (self.chat(temperature=1.2, seed=s).choices[0].message.content for s in (5, 5, 6))
        self.assertEqual(one, again)
        self.assertNotEqual(one, other)

    def test_log_probabilities_of_chat(self):
        answer = self.chat(logprobs=True, top_logprobs=3, max_tokens=6)
        tokens = answer.choices[0].logprobs.content
        self.assertEqual(len(tokens), 6)
        self.assertEqual("".join(t.token for t in tokens), answer.choices[0].message.content)
        for token in tokens:
            self.assertEqual(len(token.top_logprobs), 3)
            self.assertLessEqual(token.logprob, 0)
            self.assertEqual(bytes(token.bytes).decode(), token.token)
            self.assertEqual(token.top_logprobs[0].token, token.token, "temperature 0 takes the most probable")
            ranked = [t.logprob for t in token.top_logprobs]
            self.assertEqual(ranked, sorted(ranked, reverse=True))
        streamed = [t for c in self.chat(logprobs=True, top_logprobs=3, max_tokens=6, stream=True) if c.choices
                    for t in (c.choices[0].logprobs.content if c.choices[0].logprobs else [])]
        self.assertEqual([t.token for t in streamed], [t.token for t in tokens])

    def test_stop_strings_end_the_text_before_them(self):
        full = self.text(max_tokens=24).choices[0].text
        stop = full[6:10]  # crosses token borders
        cut = self.text(max_tokens=24, stop=stop)
        self.assertEqual(cut.choices[0].text, full[:full.index(stop)])
        self.assertEqual(cut.choices[0].finish_reason, "stop")
        streamed = "".join(c.choices[0].text for c in self.text(max_tokens=24, stop=[stop, "zzzz"], stream=True) if c.choices)
        self.assertEqual(streamed, cut.choices[0].text)
        kept = self.text(max_tokens=24, stop=stop, extra_body={"include_stop_str_in_output": True})
        self.assertEqual(kept.choices[0].text, full[:full.index(stop)] + stop)

    def test_text_completions_and_several_prompts(self):
        prompts = ["The capital of France is", "One, two, three,", "Once upon a time"]
        single = [self.text(prompt=p).choices[0].text for p in prompts]
        together = self.text(prompt=prompts)
        self.assertEqual([c.text for c in together.choices], single)
        self.assertEqual([c.index for c in together.choices], [0, 1, 2])
        streamed = {}
        for chunk in self.text(prompt=prompts, stream=True):
            for choice in chunk.choices:
                streamed[choice.index] = streamed.get(choice.index, "") + choice.text
        self.assertEqual([streamed[i] for i in range(3)], single)

    def test_token_ids_give_the_same_answer_as_their_text(self):
        ids = self.server.post_json("/tokenize", {"prompt": "The capital of France is"})["tokens"]
        self.assertEqual(self.text(prompt=ids).choices[0].text, self.text().choices[0].text)
        self.assertEqual(self.text(prompt=[ids, ids]).choices[1].text, self.text().choices[0].text)

    def test_echo_and_scoring(self):
        echoed = self.text(echo=True, max_tokens=4)
        self.assertEqual(echoed.choices[0].text, "The capital of France is" + self.text(max_tokens=4).choices[0].text)
        scored = self.text(echo=True, max_tokens=0, logprobs=2).choices[0]
        self.assertEqual(scored.text, "The capital of France is")
        self.assertEqual(scored.finish_reason, "length")
        logprobs = scored.logprobs
        self.assertEqual("".join(logprobs.tokens), "The capital of France is")
        self.assertIsNone(logprobs.token_logprobs[0])
        self.assertIsNone(logprobs.top_logprobs[0])
        self.assertTrue(all(value < 0 for value in logprobs.token_logprobs[1:]))
        self.assertEqual(logprobs.text_offset, [0, 3, 11, 14, 21])
        both = self.text(echo=True, max_tokens=2, logprobs=2).choices[0].logprobs
        self.assertEqual(len(both.tokens), len(logprobs.tokens) + 2)
        for one, other in zip(both.token_logprobs[1:], logprobs.token_logprobs[1:]):
            self.assertAlmostEqual(one, other, places=5)

    def test_bias_bans_and_forces_tokens(self):
        first = self.text(max_tokens=1, logprobs=1).choices[0].logprobs.tokens[0]
        token = self.server.post_json("/tokenize", {"prompt": first})["tokens"][0]
        self.assertNotEqual(self.text(max_tokens=1, logit_bias={str(token): -100}).choices[0].text, first)
        forced = self.server.post_json("/tokenize", {"prompt": " banana"})["tokens"][0]
        answer = self.text(max_tokens=3, extra_body={"allowed_token_ids": [forced], "ignore_eos": True})
        self.assertEqual(answer.usage.completion_tokens, 3)

    def test_ignore_eos_returns_exactly_max_tokens(self):
        answer = self.chat(max_tokens=60, messages=[{"role": "user", "content": "Say: hi"}], extra_body={"ignore_eos": True})
        self.assertEqual(answer.usage.completion_tokens, 60)

    def test_content_parts_and_null_fields_are_accepted(self):
        parts = [{"role": "user", "content": [{"type": "text", "text": "Name three"}, {"type": "text", "text": "colours."}]}]
        joined = [{"role": "user", "content": "Name three\ncolours."}]
        a = self.chat(messages=parts, extra_body={"stop": None, "logprobs": None, "tools": None, "seed": None})
        self.assertEqual(a.choices[0].message.content, self.chat(messages=joined).choices[0].message.content)

    def test_twenty_prompts_at_once_equal_the_same_prompts_alone(self):
        prompts = [f"Question {i}: what is {i} plus {i + 3}?" for i in range(20)]
        ask = lambda p: self.chat(messages=[{"role": "user", "content": p}], max_tokens=16).choices[0].message.content
        alone = [ask(p) for p in prompts]
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            self.assertEqual(list(pool.map(ask, prompts)), alone)

    def test_errors_are_the_exceptions_of_the_client(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            self.chat(model="gpt-nope")
        self.assertEqual(caught.exception.code, "model_not_found")
        for options, param in (({"temperature": 3}, "temperature"), ({"n": 9}, "n"), ({"messages": []}, "messages"),
                               ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
                               ({"response_format": {"type": "xml"}}, "response_format.type"),
                               ({"top_logprobs": 3}, "top_logprobs"), ({"logit_bias": {"99999": 1}}, "logit_bias")):
            with self.subTest(param), self.assertRaises(openai.BadRequestError) as caught:
                self.chat(**options)
            self.assertEqual(caught.exception.param, param)
            self.assertEqual(caught.exception.type, "invalid_request_error")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(messages=[{"role": "user", "content": "word " * 9000}])
        self.assertEqual(caught.exception.code, "context_length_exceeded")
        self.assertGreater(caught.exception.body["n_prompt_tokens"], 9000)
        self.assertEqual(caught.exception.body["n_ctx"], 8192)
        with self.assertRaises(openai.BadRequestError):
            self.chat(stream=True, messages=[{"role": "user", "content": "word " * 9000}])

    def test_routes_of_later_releases_are_not_retried(self):
        before = self.server.metric("tutti_requests_total", code="501")
        with self.assertRaises(openai.InternalServerError):
            self.client.post("/responses/compact", cast_to=object, body={})
        self.assertEqual(self.server.metric("tutti_requests_total", code="501"), before + 1)

    def test_request_ids_reach_the_client(self):
        raw = self.client.chat.completions.with_raw_response.create(
            model=MODEL, messages=QUESTION, max_tokens=1, extra_headers={"X-Request-Id": "e2e-1"})
        self.assertEqual(raw.headers["x-request-id"], "e2e-1")
        self.assertEqual(raw.parse()._request_id, "e2e-1")

    def test_fields_nobody_knows_are_named(self):
        raw = self.client.chat.completions.with_raw_response.create(
            model=MODEL, messages=QUESTION, max_tokens=1, extra_body={"n_discard": -1})
        self.assertEqual(raw.headers["x-tutti-ignored"], "n_discard")

    def test_a_stream_that_the_client_leaves_ends_on_the_server(self):
        stream = self.chat(stream=True, max_tokens=4000, extra_body={"ignore_eos": True})
        next(iter(stream))
        stream.close()
        self.server.wait_idle()

    def test_an_async_client_runs_many_streams(self):
        import asyncio

        async def one(client, i):
            text = ""
            async for chunk in await client.chat.completions.create(
                    model=MODEL, messages=[{"role": "user", "content": f"Count from {i}."}], max_tokens=12, temperature=0,
                    stream=True):
                text += chunk.choices[0].delta.content or ""
            return text

        async def run():
            async with openai.AsyncOpenAI(base_url=self.server.url + "/v1", api_key="none", timeout=STEP_S) as client:
                return await asyncio.gather(*(one(client, i) for i in range(12)))

        self.assertTrue(all(asyncio.run(run())))


class WithKey(ServerCase):
    ENVIRONMENT = {"TUTTI_API_KEY": "sk-e2e-key"}

    def test_the_key_is_needed_for_all_but_health(self):
        wrong = openai.OpenAI(base_url=self.server.url + "/v1", api_key="wrong", timeout=STEP_S)
        with self.assertRaises(openai.AuthenticationError) as caught:
            wrong.models.list()
        self.assertEqual(caught.exception.code, "invalid_api_key")
        wrong.close()
        right = openai.OpenAI(base_url=self.server.url + "/v1", api_key="sk-e2e-key", timeout=STEP_S)
        self.assertEqual(right.models.list().data[0].id, MODEL)
        right.close()
        for path in ("/livez", "/readyz", "/health", "/healthz", "/ping", "/startupz"):
            self.assertEqual(self.server.get(path)[0], 200, path)
        for path in ("/metrics", "/load", "/version", "/v1/models", "/nothing"):
            self.assertEqual(self.server.get(path)[0], 401, path)


if __name__ == "__main__":
    unittest.main()
