"""The stock client of Ollama's API (R22): each answer is the one of OpenAI's API to the same request."""
import datetime
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import unittest

import jsonschema
import ollama

import calling_model
import encoder_models
import thinking_model
import tiny_model
from harness import MODEL, STEP_S, Server, ServerCase, default_model, eventually

QUESTION = [{"role": "user", "content": "Name three colours."}]
MARKS = ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>", "<|file_sep|>"]
GREEDY = {"temperature": 0, "num_predict": 24}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 999}}, "required": ["n"],
          "additionalProperties": False}


def get_weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: its name
    """
    return f"sunny in {city}"


def client_of(server, case):
    client = ollama.Client(host=server.url, timeout=STEP_S)
    case.addClassCleanup(client._client.close)
    return client


class Ollama(ServerCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.client = client_of(cls.server, cls)

    def chat(self, messages, **options):
        answer = self.server.post_json("/v1/chat/completions", {
            "model": MODEL, "messages": messages, "max_tokens": 24, "temperature": 0, **options})
        return answer["choices"][0]["message"]["content"], answer["usage"]

    def refused(self, status, **body):
        path = body.pop("path", "/api/chat")
        got, _, text = self.server.post(path, {"model": MODEL, **body})
        self.assertEqual(got, status, text)
        answer = json.loads(text)
        self.assertEqual(list(answer), ["error"])
        return answer["error"]

    def test_a_chat_is_that_of_the_chat_completion(self):
        text, usage = self.chat(QUESTION)
        answer = self.client.chat(MODEL, QUESTION, options=GREEDY)
        self.assertEqual((answer.message.role, answer.message.content), ("assistant", text))
        self.assertEqual((answer.model, answer.done, answer.done_reason), (MODEL, True, "length"))
        self.assertEqual((answer.prompt_eval_count, answer.eval_count), (usage["prompt_tokens"], usage["completion_tokens"]))
        self.assertGreater(answer.eval_duration, 0)
        self.assertGreaterEqual(answer.total_duration, answer.eval_duration + answer.prompt_eval_duration)
        self.assertRegex(answer.created_at, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")

    def test_a_stream_has_the_pieces_of_the_whole_answer(self):
        parts = list(self.client.chat(MODEL, QUESTION, options=GREEDY, stream=True))
        self.assertEqual("".join(part.message.content for part in parts), self.chat(QUESTION)[0])
        self.assertEqual([part.done for part in parts], [False] * (len(parts) - 1) + [True])
        self.assertGreater(len(parts), 3)
        self.assertEqual((parts[-1].message.content, parts[-1].done_reason, parts[-1].eval_count), ("", "length", 24))
        status, headers, text = self.server.post("/api/chat", {"model": MODEL, "messages": QUESTION, "options": GREEDY})
        self.assertEqual((status, headers["Content-Type"]), (200, "application/x-ndjson"))
        self.assertTrue(json.loads(text.splitlines()[-1])["done"])

    def test_the_options_are_those_of_the_sampling_chain(self):
        drawn = {"temperature": 1.5, "seed": 7, "top_k": 30, "top_p": 0.9, "min_p": 0.01, "presence_penalty": 0.5,
                 "frequency_penalty": 0.25}
        expected, _ = self.chat(QUESTION, **drawn, repetition_penalty=1.2)
        idle = {"num_ctx": 2048, "num_thread": 3, "num_gpu": 0, "low_vram": True, "use_mmap": False, "num_keep": 5}
        answer = self.client.chat(MODEL, QUESTION, options={**drawn, **idle, "repeat_penalty": 1.2, "repeat_last_n": -1,
                                                            "num_predict": 24})
        self.assertEqual(answer.message.content, expected)
        word = self.chat(QUESTION)[0][5:9]
        stopped = self.client.chat(MODEL, QUESTION, options={**GREEDY, "stop": [word]})
        self.assertEqual((stopped.message.content, stopped.done_reason), (self.chat(QUESTION)[0].split(word)[0], "stop"))

    def test_generate_writes_the_template_around_system_and_prompt(self):
        system = "You answer in one word."
        text, usage = self.chat([{"role": "system", "content": system}, *QUESTION])
        answer = self.client.generate(MODEL, QUESTION[0]["content"], system=system, options=GREEDY)
        self.assertEqual((answer.response, answer.done_reason, answer.prompt_eval_count), (text, "length", usage["prompt_tokens"]))
        parts = self.client.generate(MODEL, QUESTION[0]["content"], system=system, options=GREEDY, stream=True)
        self.assertEqual("".join(part.response for part in parts), text)
        raw = self.client.generate(MODEL, "One, two,", raw=True, options=GREEDY)
        expected = self.server.post_json("/v1/completions", {"model": MODEL, "prompt": "One, two,", "max_tokens": 24, "temperature": 0})
        self.assertEqual(raw.response, expected["choices"][0]["text"])

    def test_a_format_holds_the_answer(self):
        whole = {"temperature": 0, "num_predict": 200}
        jsonschema.validate(json.loads(self.client.chat(MODEL, QUESTION, format=SCHEMA, options=whole).message.content), SCHEMA)
        jsonschema.validate(json.loads(self.client.generate(MODEL, "Count.", format=SCHEMA, options=whole).response), SCHEMA)
        text = self.client.chat(MODEL, QUESTION, format="json", options=whole).message.content
        self.assertEqual(text[:1], "{")
        self.assertIn('format must be "json" or a JSON schema', self.refused(400, messages=QUESTION, format="xml"))

    def test_tools_and_results_are_those_of_the_chat_completion(self):
        tool = {"type": "function", "function": {"name": "get_weather", "description": "The weather of a city.", "parameters": {
            "type": "object", "required": ["city"], "properties": {"city": {"type": "string", "description": "its name"}}}}}
        called = {"name": "get_weather", "arguments": {"city": "Rome"}}
        turns = [{"role": "user", "content": "How is the weather in Rome?"},
                 {"role": "assistant", "content": "", "tool_calls": [{"function": called}]},
                 {"role": "tool", "tool_name": "get_weather", "content": get_weather("Rome")}]
        theirs = [turns[0], {"role": "assistant", "content": "", "tool_calls": [{"id": "call_1_0", "type": "function", "function": {
            **called, "arguments": json.dumps(called["arguments"], separators=(",", ":"))}}]},
            {"role": "tool", "tool_call_id": "call_1_0", "name": "get_weather", "content": get_weather("Rome")}]
        expected, usage = self.chat(theirs, tools=[tool])
        for tools in ([tool], [get_weather]):  # the client describes a function itself
            answer = self.client.chat(MODEL, turns, tools=tools, options=GREEDY)
            self.assertEqual((answer.message.content, answer.prompt_eval_count), (expected, usage["prompt_tokens"]), tools)

    def test_log_probabilities_are_those_of_the_chat_completion(self):
        expected = self.server.post_json("/v1/chat/completions", {"model": MODEL, "messages": QUESTION, "max_tokens": 24, "temperature": 0,
                                                                  "logprobs": True, "top_logprobs": 2})["choices"][0]["logprobs"]
        answer = self.server.post_json("/api/chat", {"model": MODEL, "messages": QUESTION, "options": GREEDY, "stream": False,
                                                     "logprobs": True, "top_logprobs": 2})
        self.assertEqual(answer["logprobs"], expected["content"])

    def test_models_are_listed_and_found_with_their_tag(self):
        listed, = self.client.list().models
        self.assertEqual((listed.model, listed.details.family), (MODEL + ":latest", "llama"))
        running, = self.client.ps().models
        self.assertEqual((running.model, running.digest), (listed.model, listed.digest))
        self.assertEqual(self.client.chat(listed.model, QUESTION, options=GREEDY).message.content, self.chat(QUESTION)[0])
        shown = self.client.show(listed.model)
        self.assertEqual(shown.capabilities, ["completion", "tools"])
        self.assertIn("<|im_start|>", shown.template)
        self.assertEqual(shown.modelinfo["llama.context_length"], running.context_length)
        self.assertRegex(json.loads(self.server.get("/api/version")[2])["version"], r"^\d+\.\d+\.\d+$")
        for method in ("GET", "HEAD"):
            status, _, text = self.server.request(method, "/")
            self.assertEqual((status, text), (200, "Ollama is running" if method == "GET" else ""))

    def test_a_request_without_a_prompt_loads_or_unloads(self):
        for keep, reason in ((None, "load"), (0, "unload"), ("0s", "unload"), ("5m", "load"), (-1, "load")):
            answer = self.client.chat(MODEL, [], keep_alive=keep)
            self.assertEqual((answer.message.content, answer.done, answer.done_reason), ("", True, reason))
            answer = self.client.generate(MODEL, "", keep_alive=keep)
            self.assertEqual((answer.response, answer.done_reason), ("", reason))
        self.assertIn("keep_alive must be", self.refused(400, messages=[], keep_alive="soon"))

    def test_what_is_not_supported_is_refused_by_name(self):
        image = [{"role": "user", "content": "x", "images": ["aGk="]}]
        for status, word, body in (
                (400, "messages[0].images", {"messages": image}),
                (400, "options.mirostat", {"messages": QUESTION, "options": {"mirostat": 2}}),
                (400, "options.repeat_last_n", {"messages": QUESTION, "options": {"repeat_last_n": 64, "repeat_penalty": 1.1}}),
                (400, "options.top_p", {"messages": QUESTION, "options": {"top_p": 2}}),
                (400, "think", {"messages": QUESTION, "think": "deep"}),
                (400, "template", {"path": "/api/generate", "prompt": "x", "template": "{{ .Prompt }}"}),
                (400, "context", {"path": "/api/generate", "prompt": "x", "context": [1]}),
                (400, "images", {"path": "/api/generate", "prompt": "x", "images": ["aGk="]}),
                (400, "system", {"path": "/api/generate", "prompt": "x", "system": "s", "raw": True}),
                (403, "--pull on-demand", {"path": "/api/pull", "model": "org/m"}),
                (501, "not in this release", {"path": "/api/create"})):
            with self.subTest(word):
                self.assertIn(word, self.refused(status, **body))
        self.assertIn("JSON", json.loads(self.server.post("/api/chat", "{")[2])["error"])
        with self.assertRaises(ollama.ResponseError) as raised:
            self.client.chat("nobody", QUESTION)
        self.assertEqual(raised.exception.status_code, 404)
        with self.assertRaises(ollama.ResponseError) as raised:
            list(self.client.chat(MODEL, QUESTION, options={"num_ctx": 9, "typical_p": 0.5}, stream=True))
        self.assertIn("options.typical_p", raised.exception.error)
        status, _, text = self.server.post("/api/chat", {"model": MODEL, "messages": [{"role": "user", "content": "word " * 20000}]})
        self.assertEqual(status, 400, text)
        self.assertIsInstance(json.loads(text)["error"], str)


class OllamaPort(unittest.TestCase):
    def test_a_second_port_serves_the_same(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        server = Server("--threads", "1", "--ollama-port", str(port))
        self.addCleanup(server.stop)
        server.expect_log(rf"ollama\.listening.*:{port}")
        client = ollama.Client(host=f"http://127.0.0.1:{port}", timeout=STEP_S)
        self.addCleanup(client._client.close)
        self.assertEqual([each.model for each in client.list().models], [MODEL + ":latest"])
        done = subprocess.run([os.environ["E2E_BINARY"], "serve", default_model(), "--port", str(port), "--ollama-port", str(port)],
                              capture_output=True, text=True, timeout=STEP_S)
        self.assertEqual(done.returncode, 78)
        self.assertIn("--ollama-port and --port", done.stderr)


class OllamaThinking(unittest.TestCase):
    def test_thinking_is_separate_from_the_answer(self):
        folder = tempfile.mkdtemp(prefix="tutti-ollama-")
        self.addCleanup(shutil.rmtree, folder)
        path = os.path.join(folder, "thinking")
        thinking_model.write(path)
        server = Server("--threads", "1", model=path)
        self.addCleanup(server.stop)
        client = ollama.Client(host=server.url, timeout=STEP_S)
        self.addCleanup(client._client.close)
        self.assertIn("thinking", client.show("thinking").capabilities)
        for think in (None, True):
            parts = list(client.chat("thinking", QUESTION, think=think, options=GREEDY, stream=True))
            self.assertTrue("".join(part.message.thinking or "" for part in parts))
            self.assertEqual("".join(part.message.content for part in parts), "")
        self.assertTrue(client.generate("thinking", "x", think=True, options=GREEDY).thinking)


class OllamaCalls(unittest.TestCase):
    def test_calls_and_results_are_those_of_the_chat_completion(self):
        folder = tempfile.mkdtemp(prefix="tutti-ollama-")
        self.addCleanup(shutil.rmtree, folder)
        path = os.path.join(folder, "caller")
        calling_model.write(path)
        server = Server("--threads", "1", model=path)
        self.addCleanup(server.stop)
        client = ollama.Client(host=server.url, timeout=STEP_S)
        self.addCleanup(client._client.close)
        self.assertEqual(client.show("caller").capabilities, ["completion", "tools"])
        tool = {"type": "function", "function": {"name": "get_weather", "description": "The weather of a city.", "parameters": {
            "type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}}}
        question = [{"role": "user", "content": "How is the weather in Rome?"}]
        theirs = server.post_json("/v1/chat/completions", {"model": "caller", "messages": question, "tools": [tool], "temperature": 0})
        expected = theirs["choices"][0]["message"]["tool_calls"][0]["function"]
        whole = client.chat("caller", question, tools=[tool], options={"temperature": 0})
        streamed = list(client.chat("caller", question, tools=[tool], options={"temperature": 0}, stream=True))
        for parts in ([whole], streamed):
            call, = [call.function for part in parts for call in part.message.tool_calls or []]
            self.assertEqual((call.name, dict(call.arguments)), (expected["name"], json.loads(expected["arguments"])))
            self.assertEqual((call.name, dict(call.arguments)), (calling_model.NAME, calling_model.ARGUMENTS))
            self.assertEqual("".join(part.message.content or "" for part in parts), "")
            self.assertEqual((parts[-1].done_reason, parts[-1].eval_count), ("stop", theirs["usage"]["completion_tokens"]))
            dialog = [*question, {"role": "assistant", "content": "", "tool_calls": [{"function": {
                "name": call.name, "arguments": dict(call.arguments)}}]}, {"role": "tool", "tool_name": call.name, "content": "sunny"}]
            answer = client.chat("caller", dialog, tools=[tool], options={"temperature": 0})
            self.assertEqual((answer.message.content, answer.message.tool_calls), (calling_model.ANSWER, None))


class OllamaInfill(unittest.TestCase):
    def test_a_suffix_asks_for_what_stands_in_between(self):
        folder = tempfile.mkdtemp(prefix="tutti-ollama-")
        self.addCleanup(shutil.rmtree, folder)
        path = os.path.join(folder, "coder.gguf")
        tiny_model.write(path, MARKS)
        server = Server("--threads", "1", model=path)
        self.addCleanup(server.stop)
        client = ollama.Client(host=server.url, timeout=STEP_S)
        self.addCleanup(client._client.close)
        self.assertIn("insert", client.show("coder").capabilities)
        expected = server.post_json("/v1/completions", {"model": "coder", "prompt": "a =", "suffix": "b", "max_tokens": 16, "seed": 7,
                                                        "temperature": 2})
        answer = client.generate("coder", "a =", suffix="b", options={"temperature": 2, "seed": 7, "num_predict": 16})
        self.assertEqual(answer.response, expected["choices"][0]["text"])


class OpenWebUi(unittest.TestCase):
    """The requests of Open WebUI 0.12.4 to an Ollama backend (backend/open_webui: routers/ollama.py, utils/payload.py and response.py,
    retrieval/utils.py), with its headers, and what it reads of the answers. The program itself is not installed."""
    HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer none", "X-OpenWebUI-User-Name": "Ann", "X-OpenWebUI-User-Id": "1",
               "X-OpenWebUI-User-Email": "ann@example.org", "X-OpenWebUI-User-Role": "admin"}

    @classmethod
    def setUpClass(cls):
        folder = tempfile.mkdtemp(prefix="tutti-ollama-")
        cls.addClassCleanup(shutil.rmtree, folder)
        caller = os.path.join(folder, "caller")
        calling_model.write(caller)
        cls.server = Server(encoder_models.EMBEDDER, f"caller={caller}")
        cls.addClassCleanup(cls.server.stop)
        cls.server.wait_models(3)

    def ask(self, method, path, body=None, status=200):
        got, headers, text = self.server.request(method, path, None if body is None else json.dumps(body), headers=self.HEADERS)
        self.assertEqual(got, status, text)
        return headers, text

    def json(self, *asked, **more):
        headers, text = self.ask(*asked, **more)
        self.assertEqual(headers["Content-Type"], "application/json")  # it reads JSON of no other type
        return json.loads(text)

    def test_a_connection_is_verified_and_its_models_are_listed(self):
        version = self.json("GET", "/api/version")["version"]
        self.assertEqual(len(tuple(map(int, re.sub(r"^v|-.*", "", version).split(".")))), 3)
        models = {model["model"]: model for model in self.json("GET", "/api/tags")["models"]}
        self.assertEqual(set(models), {MODEL + ":latest", encoder_models.EMBEDDER + ":latest", "caller:latest"})
        expires = {model["name"]: model["expires_at"] for model in self.json("GET", "/api/ps")["models"]}
        for model in models.values():
            self.assertGreater(datetime.datetime.fromisoformat(expires[model["name"]]).timestamp(), 0)
            self.assertTrue(model["size"] > 0 and model["digest"] and model["details"]["parameter_size"], model)
        shown = self.json("POST", "/api/show", {"name": MODEL + ":latest", "model": MODEL + ":latest"})
        self.assertIn("completion", shown["capabilities"])
        self.assertIn("error", self.json("POST", "/api/show", {"model": "nobody:latest"}, status=404))

    def stream(self, **body):
        headers, text = self.ask("POST", "/api/chat", {"model": MODEL + ":latest", "stream": True, **body})
        self.assertEqual(headers["Content-Type"], "application/x-ndjson")
        return [json.loads(line) for line in text.splitlines()]

    def test_a_chat_is_streamed_with_its_usage(self):
        messages = [{"role": "system", "content": "You answer briefly."}, *QUESTION]
        options = {"temperature": 0.0, "top_p": 0.9, "seed": 7, "top_k": 40, "min_p": 0.0, "num_ctx": 2048, "num_batch": 512, "num_keep": 24,
                   "num_predict": 24, "num_gpu": 1, "num_thread": 2, "use_mmap": True, "use_mlock": False, "stop": ["<|im_end|>"]}
        theirs = self.server.post_json("/v1/chat/completions", {"model": MODEL, "messages": messages, "temperature": 0, "max_tokens": 24})
        parts = self.stream(messages=messages, options=options, keep_alive="5m")
        self.assertEqual("".join(part["message"].get("content") or "" for part in parts), theirs["choices"][0]["message"]["content"])
        last = parts[-1]
        self.assertEqual((last["done"], last["done_reason"]), (True, theirs["choices"][0]["finish_reason"]))
        self.assertEqual((last["prompt_eval_count"], last["eval_count"]),
                         (theirs["usage"]["prompt_tokens"], theirs["usage"]["completion_tokens"]))
        for name in ("total_duration", "prompt_eval_duration", "eval_duration"):
            self.assertGreater(last[name], 0, name)
        # Titles and tags are asked for whole, with fields of its own.
        title = self.json("POST", "/api/chat", {"model": MODEL + ":latest", "messages": messages, "stream": False,
                                                "options": {"temperature": 0, "num_predict": 24}, "metadata": {"task": "title_generation"}})
        self.assertEqual(title["message"]["content"], theirs["choices"][0]["message"]["content"])

    def test_native_tool_calls_go_round(self):
        tool = {"type": "function", "function": {"name": "get_weather", "description": "The weather of a city.", "parameters": {
            "type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}}}
        call, = [call for part in self.stream(model="caller:latest", messages=QUESTION, tools=[tool])
                 for call in part["message"].get("tool_calls") or []]
        self.assertEqual(call["function"]["name"], "get_weather")
        dialog = [*QUESTION, {"role": "assistant", "tool_calls": [{"index": 0, "id": call["id"], "function": {
            "name": "get_weather", "arguments": call["function"]["arguments"]}}], "content": ""},
            {"role": "tool", "content": "sunny", "tool_call_id": call["id"]}]
        parts = self.stream(model="caller:latest", messages=dialog, tools=[tool])
        self.assertEqual("".join(part["message"].get("content") or "" for part in parts), calling_model.ANSWER)

    def test_documents_are_embedded(self):
        texts = ["A cat sits on the mat.", "Dogs bark."]
        answer = self.json("POST", "/api/embed", {"input": texts, "model": encoder_models.EMBEDDER, "truncate": True})
        theirs = self.server.post_json("/v1/embeddings", {"model": encoder_models.EMBEDDER, "input": texts})
        for got, wanted in zip(answer["embeddings"], theirs["data"], strict=True):
            self.assertGreater(encoder_models.cosine(got, wanted["embedding"]), 0.99999)

    def test_an_administrator_unloads_copies_and_deletes(self):
        self.json("POST", "/api/generate", {"model": "caller:latest", "keep_alive": 0, "prompt": ""})
        eventually(lambda: "caller:latest" not in [model["model"] for model in self.json("GET", "/api/ps")["models"]])
        self.ask("POST", "/api/copy", {"source": "caller:latest", "destination": "second"})
        self.assertIn("second:latest", [model["model"] for model in self.json("GET", "/api/tags")["models"]])
        self.ask("DELETE", "/api/delete", {"model": "second:latest"})
        self.assertNotIn("second:latest", [model["model"] for model in self.json("GET", "/api/tags")["models"]])
        refused = self.json("POST", "/api/pull", {"name": "org/m", "model": "org/m", "insecure": True}, status=403)
        self.assertIn("--pull on-demand", refused["error"])


class OllamaEmbed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(model=encoder_models.EMBEDDER)
        cls.addClassCleanup(cls.server.stop)
        cls.client = client_of(cls.server, cls)

    def test_vectors_are_those_of_sentence_transformers(self):
        references = encoder_models.vectors()[:4]
        texts = [text for text, _, _ in references]
        answer = self.client.embed(encoder_models.EMBEDDER, texts)
        for got, (_, _, wanted) in zip(answer.embeddings, references):
            self.assertGreater(encoder_models.cosine(got, wanted), 0.995)
            self.assertAlmostEqual(sum(x * x for x in got), 1, 3)
        self.assertEqual(answer.prompt_eval_count, sum(tokens for _, tokens, _ in references))
        one = self.client.embed(encoder_models.EMBEDDER, texts[0])
        self.assertEqual(list(one.embeddings[0]), list(answer.embeddings[0]))
        self.assertEqual(list(self.client.embeddings(encoder_models.EMBEDDER, texts[0]).embedding), list(one.embeddings[0]))
        self.assertEqual(self.client.show(encoder_models.EMBEDDER).capabilities, ["embedding"])

    def test_long_texts_are_cut_unless_refused(self):
        text = "word " * 2000
        long = self.client.embed(encoder_models.EMBEDDER, text)
        with self.assertRaises(ollama.ResponseError) as raised:
            self.client.embed(encoder_models.EMBEDDER, text, truncate=False)
        self.assertEqual(raised.exception.status_code, 400)
        cut = self.client.embed(encoder_models.EMBEDDER, text, options={"num_ctx": 16})
        self.assertEqual(cut.prompt_eval_count, 16)
        self.assertGreater(long.prompt_eval_count, 16)

    def test_nothing_to_embed_loads_the_model(self):
        self.assertEqual(list(self.client.embed(encoder_models.EMBEDDER, []).embeddings), [])
        self.assertEqual(list(self.client.embeddings(encoder_models.EMBEDDER, "").embedding), [])
        for call in (lambda: self.client.embed("nobody", []), lambda: self.client.embed("nobody", "x")):
            with self.assertRaises(ollama.ResponseError) as raised:
                call()
            self.assertEqual(raised.exception.status_code, 404)
