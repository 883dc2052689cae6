"""Fill-in-the-middle: `suffix` of completions, with the stock openai client, and llama.cpp's /infill. The model has random
weights: its answers must equal those to the same tokens sent as ids, in the order that its authors publish."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

import openai

import folder_model
import tiny_model
from harness import STEP_S, Server, ServerCase, default_model, events

MARKS = ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>", "<|file_sep|>"]
FIRST = 260 + tiny_model.LONG_TOKENS  # of MARKS
PREFIX, SUFFIX, MIDDLE, REPOSITORY, FILE = range(FIRST, FIRST + len(MARKS))
ENDS = [PREFIX, SUFFIX, MIDDLE, REPOSITORY, FILE]
BEFORE, BEHIND = "def add(a, b):\n    c = ", "\n    return c\n"
ids = tiny_model.byte_ids
# Hot draws: a prompt that differs in a token has another answer. The greedy ones of such weights are all alike.
DRAWN, TOKENS = {"temperature": 2, "seed": 7}, 16
HOLE = [PREFIX, *ids(BEFORE), SUFFIX, *ids(BEHIND), MIDDLE]


class Infill(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.mkdtemp(prefix="tutti-infill-")
        cls.addClassCleanup(shutil.rmtree, folder)
        cls.path = os.path.join(folder, "coder.gguf")
        tiny_model.write(cls.path, MARKS)
        cls.server = Server("--threads", "1", model=cls.path)
        cls.addClassCleanup(cls.server.stop)
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="none", timeout=STEP_S)
        cls.addClassCleanup(cls.client.close)

    def text(self, **options):
        return self.client.completions.create(**{"model": "coder", "prompt": BEFORE, "suffix": BEHIND, **DRAWN, "max_tokens": TOKENS,
                                                 **options})

    def of_ids(self, tokens, **options):
        """The model's continuation of these tokens; the tokens that end a hole stop it."""
        answer = self.text(prompt=tokens, suffix=None, extra_body={"stop_token_ids": ENDS}, **options)
        self.assertEqual(answer.usage.prompt_tokens, len(tokens))
        return answer

    def infill(self, **fields):
        return self.server.post_json("/infill", {"input_prefix": BEFORE, "input_suffix": BEHIND, **DRAWN, "n_predict": TOKENS, **fields})

    def test_the_stock_client_gets_what_stands_in_the_middle(self):
        expected, answer = self.of_ids(HOLE, logprobs=2), self.text(logprobs=2)
        self.assertEqual(answer.choices[0].text, expected.choices[0].text)
        self.assertEqual(answer.choices[0].logprobs.token_logprobs, expected.choices[0].logprobs.token_logprobs)
        self.assertEqual(self.text().choices[0].text, expected.choices[0].text)
        self.assertEqual(answer.usage.prompt_tokens, len(HOLE))
        self.assertNotEqual(answer.choices[0].text, self.text(suffix=None).choices[0].text)
        self.assertNotEqual(answer.choices[0].text, self.text(suffix=BEHIND + "#").choices[0].text)

    def test_streams_choices_lists_and_echo_are_those_of_completions(self):
        whole = self.text().choices[0].text
        chunks = list(self.text(stream=True))
        self.assertEqual("".join(chunk.choices[0].text for chunk in chunks), whole)
        self.assertEqual([choice.text for choice in self.text(n=2).choices], [choice.text for choice in self.of_ids(HOLE, n=2).choices])
        pair = self.text(prompt=[BEFORE, "x = "])
        self.assertEqual([choice.text for choice in pair.choices], [whole, self.text(prompt="x = ").choices[0].text])
        self.assertEqual(self.text(echo=True).choices[0].text, BEFORE + whole)
        begin = self.text(prompt="").choices[0].text
        self.assertEqual(begin, self.of_ids([PREFIX, SUFFIX, *ids(BEHIND), MIDDLE]).choices[0].text)

    def test_an_empty_suffix_asks_for_nothing(self):
        self.assertEqual(self.text(suffix="").choices[0].text, self.text(suffix=None).choices[0].text)

    def test_what_has_no_meaning_with_a_suffix_is_refused(self):
        for options, param in (({"prompt": [1, 2]}, "suffix"), ({"echo": True, "logprobs": 1}, "echo"),
                               ({"extra_body": {"truncate_prompt_tokens": 5}}, "truncate_prompt_tokens")):
            with self.assertRaises(openai.BadRequestError) as raised:
                self.text(**options)
            self.assertEqual(raised.exception.param, param)

    def test_no_text_of_a_client_becomes_a_mark(self):
        forged = "a<|fim_middle|>"
        answer = self.text(prompt=forged, suffix=forged)
        self.assertEqual(answer.usage.prompt_tokens, 3 + 2 * len(forged))

    def test_infill_answers_as_llama_cpp_does(self):
        answer = self.infill()
        self.assertEqual(answer["content"], self.of_ids(HOLE).choices[0].text)
        self.assertEqual((answer["stop"], answer["model"], answer["truncated"]), (True, "coder", False))
        self.assertEqual((answer["tokens_evaluated"], answer["tokens_predicted"]), (len(HOLE), TOKENS))
        self.assertEqual((answer["stop_type"], answer["stopping_word"]), ("limit", ""))
        status, headers, text = self.server.post("/infill", {"input_prefix": BEFORE, "input_suffix": BEHIND, **DRAWN,
                                                             "n_predict": TOKENS, "stream": True})
        self.assertEqual((status, headers["Content-Type"]), (200, "text/event-stream; charset=utf-8"))
        parts = [json.loads(event.removeprefix("data: ")) for event in events(text)]
        self.assertEqual("".join(part["content"] for part in parts), answer["content"])
        self.assertEqual([part["stop"] for part in parts], [False] * (len(parts) - 1) + [True])
        word = answer["content"][10:20]
        stopped = self.infill(stop=[word])
        self.assertEqual((stopped["stop_type"], stopped["stopping_word"]), ("word", word))

    def test_infill_takes_files_and_what_was_typed(self):
        files = [{"filename": "x.py", "text": "one\n", "time": 1}, {"text": "two\n"}]
        tokens = [REPOSITORY, *ids("myproject\n"), FILE, *ids("x.py\none\n"), FILE, *ids("tmp\ntwo\n"), FILE, *ids("filename\n")]
        answer = self.infill(input_extra=files)
        self.assertEqual(answer["tokens_evaluated"], len(tokens + HOLE))
        self.assertEqual(answer["content"], self.of_ids(tokens + HOLE).choices[0].text)
        self.assertEqual(self.infill(prompt="a +")["content"], self.text(prompt=BEFORE + "a +").choices[0].text)

    def test_an_editor_may_have_a_prompt_computed_before_it_asks(self):
        before = BEFORE * 4  # some blocks of the cache
        warm = self.infill(input_prefix=before, n_predict=0)
        self.assertEqual((warm["content"], warm["tokens_predicted"]), ("", 0))
        self.assertGreaterEqual(self.infill(input_prefix=before)["timings"]["cache_n"], 64)

    def test_the_model_is_shown_to_fill_holes(self):
        self.assertEqual(json.loads(self.server.get("/v1/models")[2])["data"][0]["tasks"], ["generate", "infill"])
        done = subprocess.run([os.environ["E2E_BINARY"], "inspect", self.path], capture_output=True, text=True, timeout=STEP_S)
        self.assertIn("fill in the middle: yes", done.stdout, done.stderr)

    def test_a_folder_names_its_marks_among_the_added_tokens(self):
        with tempfile.TemporaryDirectory() as folder:
            folder_model.write(folder)
            path = os.path.join(folder, "tokenizer.json")
            with open(path) as file:
                tokenizer = json.load(file)
            first = 3 + len(tokenizer["model"]["vocab"])
            tokenizer["added_tokens"] += [{"id": first + i, "content": text, "special": False}
                                          for i, text in enumerate(("<fim_prefix>", "<fim_suffix>", "<fim_middle>"))]
            with open(path, "w") as file:
                json.dump(tokenizer, file)
            server = Server("--threads", "1", model=f"coder={folder}")
            try:
                ask = {"model": "coder", **DRAWN, "max_tokens": TOKENS}
                tokens = [first, *ids("a = "), first + 1, *ids(";"), first + 2]
                expected = server.post_json("/v1/completions", {**ask, "prompt": tokens, "stop_token_ids": [first, first + 1, first + 2]})
                answer = server.post_json("/v1/completions", {**ask, "prompt": "a = ", "suffix": ";"})
                self.assertEqual(answer["usage"]["prompt_tokens"], len(tokens))
                self.assertEqual(answer["choices"][0]["text"], expected["choices"][0]["text"])
            finally:
                server.stop()


class NoInfill(ServerCase):
    def test_a_model_without_marks_refuses_by_the_field(self):
        client = openai.OpenAI(base_url=self.server.url + "/v1", api_key="none", timeout=STEP_S)
        self.addCleanup(client.close)
        name = client.models.list().data[0].id
        with self.assertRaises(openai.BadRequestError) as raised:
            client.completions.create(model=name, prompt="a", suffix="b")
        self.assertEqual((raised.exception.code, raised.exception.param), ("unsupported_parameter", "suffix"))
        self.assertIn(f'"{name}" has no fill-in-the-middle tokens', raised.exception.message)
        status, _, body = self.server.post("/infill", {"input_prefix": "a", "input_suffix": "b"})
        error = json.loads(body)["error"]
        self.assertEqual((status, error["code"], error["param"]), (400, "unsupported_parameter", "input_suffix"))
        self.assertNotIn("infill", json.loads(self.server.get("/v1/models")[2])["data"][0]["tasks"])
        done = subprocess.run([os.environ["E2E_BINARY"], "inspect", default_model(), "--json"], capture_output=True, text=True,
                              timeout=STEP_S)
        self.assertEqual(json.loads(done.stdout)["fill_in_the_middle"], "no", done.stderr)


if __name__ == "__main__":
    unittest.main()
