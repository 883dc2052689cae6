"""Things that clients send by habit: values without effect, options of the chat template, trailing assistant messages,
model names as on hubs; and the sampling defaults of a request without parameters."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest
import urllib.parse

import folder_model
from harness import MODEL, STEP_S, Server, ServerCase, default_model

# A template that thinks unless thinking is turned off, and that shows each part of a message in brackets.
THINKING = ("{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% if m['content'] is string %}{{ m['content'] }}"
            "{% else %}{% for part in m['content'] %}[{{ part['text'] }}]{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n"
            "{% if enable_thinking is defined and enable_thinking is false %}<think></think>{% endif %}{% endif %}")
DEFAULTS = {"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "eos_token_id": [2]}


class OneFolder(unittest.TestCase):
    """A small model with a template that has an option, and with its makers' sampling defaults."""
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.mkdtemp(prefix="tutti-habits-")
        cls.addClassCleanup(shutil.rmtree, cls.work)
        cls.folder = os.path.join(cls.work, "small")
        folder_model.write(cls.folder)
        cls.put("tokenizer_config.json", {"eos_token": "<|im_end|>", "chat_template": THINKING})
        cls.put("generation_config.json", DEFAULTS)

    @classmethod
    def put(cls, name, value):
        with open(os.path.join(cls.folder, name), "w") as file:
            json.dump(value, file)

    def serve(self, *options):
        server = Server("--threads", "1", *options, model=f"maker/small={self.folder}")
        self.addCleanup(server.stop)
        return server

    def ask(self, server, path="/v1/chat/completions", **more):
        return server.post_json(path, {"model": "maker/small", "messages": [{"role": "user", "content": "Hi"}],
                                       "max_tokens": 4, **more})


class TemplateOptions(OneFolder):
    def test_every_route_with_messages_takes_what_the_template_reads(self):
        server = self.serve()
        quiet = {"chat_template_kwargs": {"enable_thinking": False}}
        plain, thinks = [self.ask(server, "/apply-template", max_tokens=None, **more)["prompt"] for more in (quiet, {})]
        self.assertTrue(plain.endswith("assistant\n<think></think>"), plain)
        self.assertTrue(thinks.endswith("assistant\n"), thinks)
        counts = [self.ask(server, "/tokenize", max_tokens=None, **more)["count"] for more in (quiet, {})]
        self.assertGreater(counts[0], counts[1])
        for more in ({"reasoning_effort": "none"}, {"chat_template_kwargs": {"thinking": False}}):
            self.assertEqual(self.ask(server, "/apply-template", max_tokens=None, **more)["prompt"], plain)
        used = [self.ask(server, **more)["usage"]["prompt_tokens"] for more in (quiet, {}, {"chat_template_kwargs": {}})]
        self.assertEqual(used, [counts[0], counts[1], counts[1]])
        for more, tokens in ((quiet, counts[0]), ({}, counts[1])):
            answer = server.post_json("/v1/responses", {"model": "maker/small", "input": "Hi", "max_output_tokens": 16, **more})
            self.assertEqual(answer["usage"]["input_tokens"], tokens)

    def test_an_option_unknown_to_the_template_is_refused_by_name(self):
        server = self.serve()
        for more, name in (({"chat_template_kwargs": {"style": "short"}}, "style"), ({"reasoning_effort": "low"}, "reasoning_effort")):
            status, _, body = server.post("/v1/chat/completions", {"model": "maker/small", "messages": [{"role": "user", "content": "Hi"}], **more})
            error = json.loads(body)["error"]
            self.assertEqual((status, error["code"], error["param"]), (400, "unsupported_parameter", "chat_template_kwargs." + name))
            self.assertIn("it reads enable_thinking", error["message"])

    def test_parts_go_to_a_template_that_reads_them(self):
        server = self.serve()
        content = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
        prompt = server.post_json("/apply-template", {"messages": [{"role": "user", "content": content}]})["prompt"]
        self.assertIn("user\n[a][b]<|im_end|>", prompt)

    def test_the_exact_cache_tells_the_options_apart(self):
        server = self.serve("--cache-exact", "on")
        def ask(**more):
            status, headers, _ = server.post("/v1/chat/completions", {
                "model": "maker/small", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4, "temperature": 0, **more})
            self.assertEqual(status, 200)
            return headers["x-cache"]
        quiet = {"chat_template_kwargs": {"enable_thinking": False}}
        self.assertEqual([ask(), ask(**quiet), ask(**quiet), ask()], ["miss", "miss", "hit", "hit"])

    def test_run_takes_them_as_json(self):
        def run(options, status=0):
            done = subprocess.run([os.environ["E2E_BINARY"], "run", self.folder, "-p", "Hi", "-n", "2", "--threads", "1", "--json",
                                   "--chat-template-kwargs", options], capture_output=True, text=True, timeout=STEP_S,
                                  stdin=subprocess.DEVNULL)
            self.assertEqual(done.returncode, status, done.stderr)
            return json.loads(done.stdout)["prompt_tokens"] if status == 0 else done.stderr
        self.assertGreater(run('{"enable_thinking": false}'), run("{}"))
        self.assertIn("--chat-template-kwargs must be a JSON object", run("[1]", status=78))
        self.assertIn('does not read "other"', run('{"other": 1}', status=1))


class SamplingDefaults(OneFolder):
    def test_they_are_listed_and_apply_where_a_request_is_silent(self):
        server = self.serve()
        listed = json.loads(server.get("/v1/models")[2])["data"][0]["default_sampling_params"]
        self.assertEqual(listed, {"temperature": 0.6, "top_k": 20, "top_p": 0.95})
        self.assertIn("sampling of generation_config.json: temperature 0.6, top_k 20, top_p 0.95", "".join(server.output))
        def text(**more):
            return self.ask(server, seed=7, max_tokens=24, **more)["choices"][0]["message"]["content"]
        silent = text()
        self.assertEqual(silent, text(temperature=0.6, top_k=20, top_p=0.95))
        self.assertEqual(silent, text(temperature=None))
        self.assertNotEqual(silent, text(temperature=1, top_k=0, top_p=1))  # a value in the request wins
        completion = server.post_json("/v1/completions", {"model": "maker/small", "prompt": "x", "seed": 7, "max_tokens": 24})["choices"][0]["text"]
        same = server.post_json("/v1/completions", {"model": "maker/small", "prompt": "x", "seed": 7, "max_tokens": 24, "temperature": 0.6,
                                                    "top_k": 20, "top_p": 0.95})["choices"][0]["text"]
        self.assertEqual(completion, same)

    def test_none_leaves_the_usual_values(self):
        server = self.serve("--generation-config", "none")
        self.assertNotIn("default_sampling_params", json.loads(server.get("/v1/models")[2])["data"][0])
        def text(**more):
            return self.ask(server, seed=7, max_tokens=24, **more)["choices"][0]["message"]["content"]
        self.assertEqual(text(), text(temperature=1, top_k=0, top_p=1))

    def test_makers_who_draw_nothing_are_answered_greedily(self):
        self.put("generation_config.json", {"do_sample": False, "temperature": 0.6})
        self.addCleanup(self.put, "generation_config.json", DEFAULTS)
        server = self.serve()
        texts = {self.ask(server, max_tokens=24, **more)["choices"][0]["message"]["content"] for more in ({}, {"temperature": 0}, {})}
        self.assertEqual(len(texts), 1)


class Habits(ServerCase):
    def test_values_that_ask_for_nothing_pass_on_kserve_too(self):
        nothing = {"logprobs": False, "echo": False, "stop": [], "seed": -1, "tools": [], "tool_choice": "none", "reasoning_effort": "none"}
        answer = self.server.post_json(f"/v2/models/{MODEL}/generate", {"text_input": "The", "parameters": {"max_tokens": 2, **nothing}})
        self.assertTrue(answer["text_output"])
        answer = self.server.post_json("/generate", {"prompt": "The", "max_tokens": 2, "stream": False, **nothing})
        self.assertTrue(answer)

    def test_top_p_of_nothing_takes_the_likeliest_token(self):
        def text(**more):
            return self.server.post_json("/v1/chat/completions", {"model": MODEL, "messages": [{"role": "user", "content": "Name a river."}],
                                                                  "max_tokens": 12, **more})["choices"][0]["message"]["content"]
        self.assertEqual(text(top_p=0, temperature=1, seed=3), text(temperature=0))

    def test_a_trailing_message_of_the_assistants_is_answered(self):
        user, assistant = {"role": "user", "content": "Name a river."}, {"role": "assistant", "content": "The Nile"}
        def prompt(**more):
            return self.server.post_json("/apply-template", {"messages": [user, assistant], **more})["prompt"]
        self.assertTrue(prompt().endswith("The Nile<|im_end|>\n<|im_start|>assistant\n"))
        self.assertTrue(prompt(continue_final_message=True).endswith("The Nile"))
        body = {"model": MODEL, "max_tokens": 2, "messages": [user, assistant]}
        self.assertEqual(self.server.post_json("/v1/chat/completions", body)["usage"]["completion_tokens"], 2)
        body = {"model": MODEL, "max_output_tokens": 16, "input": [user, assistant]}
        self.assertEqual(self.server.post_json("/v1/responses", body)["object"], "response")


    def test_prompts_are_counted_and_the_tokenizer_is_told(self):
        body = {"model": MODEL, "instructions": "Be brief.", "input": "Name a river.", "max_output_tokens": 16}
        counted = self.server.post_json("/v1/responses/input_tokens", body)
        self.assertEqual(counted, {"object": "response.input_tokens",
                                   "input_tokens": self.server.post_json("/v1/responses", body)["usage"]["input_tokens"]})
        told = json.loads(self.server.get("/tokenizer_info")[2])
        self.assertEqual((told["bos_token"], told["eos_token"]), ("<|im_start|>", "<|im_end|>"))
        self.assertIn("add_generation_prompt", told["chat_template"])
        self.assertEqual(self.server.get("/v1/models/gpt-4o")[0], 404)


class Names(unittest.TestCase):
    def test_any_name_is_answered_where_that_is_wanted(self):
        server = Server("--any-model-name", "on", "--cors-origin", "https://a.example", "--cors-origin", "https://b.example", model=default_model())
        self.addCleanup(server.stop)
        body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
        self.assertEqual(server.post_json("/v1/chat/completions", body)["model"], "gpt-4o")
        self.assertEqual(server.post_json("/v1/responses", {"model": "gpt-4o", "input": "Hi", "max_output_tokens": 16})["object"], "response")
        self.assertEqual(server.post_json("/tokenize", {"model": "gpt-4o", "prompt": "Hi"})["count"], 1)
        self.assertEqual(server.get("/v1/models/gpt-4o")[0], 200)
        self.assertEqual(server.post("/v1/embeddings", {"model": "text-embedding-3-small", "input": "Hi"})[0], 404)
        status, _, text = server.post("/v1/chat/completions", body, headers={"Prefer": "respond-async"})
        self.assertEqual(status, 202, text)
        done = json.loads(server.get(f"/v1/jobs/{json.loads(text)['id']}?wait=30")[2])
        self.assertEqual((done["status"], done["result"]["model"]), ("completed", "gpt-4o"))
        events = server.get(f"/v1/jobs/{done['id']}/events?starting_after=0")[2]
        self.assertEqual([line for line in events.splitlines() if line.startswith("event:")],
                         ["event: job.queued", "event: job.running", "event: job.completed"])
        for origin, allowed in (("https://a.example", 200), ("https://b.example", 200), ("https://c.example", 403)):
            self.assertEqual(server.get("/v1/models", headers={"Origin": origin})[0], allowed, origin)

    def test_a_hubs_name_is_listed_asked_and_counted(self):
        for name in ("maker/small.model:Q4_1", "smol-\u00e9 2"):
            with self.subTest(name):
                server = Server(model=f"{name}={default_model()}")
                self.addCleanup(server.stop)
                quoted = urllib.parse.quote(name, safe="")
                self.assertEqual(json.loads(server.get("/v1/models/" + quoted)[2])["id"], name)
                self.assertEqual(json.loads(server.get("/v1/models/" + urllib.parse.quote(name, safe="/:"))[2])["id"], name)
                self.assertEqual(json.loads(server.get("/v2/models/" + quoted)[2])["name"], name)
                self.assertEqual(server.get("/v1/models/" + quoted + "/no-such")[0], 404)
                body = {"model": name, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
                self.assertEqual(server.post_json("/v1/chat/completions", body)["model"], name)
                self.assertIn(f'"{name}"', server.get("/metrics")[2])

    def test_a_second_server_is_told_the_command(self):
        store = tempfile.mkdtemp(prefix="tutti-second-")
        self.addCleanup(shutil.rmtree, store)
        first = Server("--store", store, model=default_model())
        self.addCleanup(first.stop)
        port = str(first.port)
        done = subprocess.run([os.environ["E2E_BINARY"], "serve", default_model(), "--store", store, "--port", port, "--grpc-port", "0"],
                              capture_output=True, text=True, timeout=STEP_S, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 1, done.stderr)
        told = done.stderr.strip().splitlines()[-1]
        self.assertIn("is in use by process", told)
        command = told.partition(": tutti serve ")[2].split()
        self.assertIn("memory", command)
        self.assertNotEqual(command[command.index("--port") + 1], port)


if __name__ == "__main__":
    unittest.main()
