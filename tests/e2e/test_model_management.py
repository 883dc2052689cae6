"""Models that are loaded and unloaded while the server runs (R21, N12): a folder of models, a memory budget, keep_alive, admin
routes in every form, and swaps under load."""
import http.client
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import ollama

import encoder_models
from harness import LONGER, STEP_S, Server, amount, eventually, figure, judged, make_key, stand_in

QUESTION = [{"role": "user", "content": "Name three colours."}]
SMALL = ("--context", "512", "--grpc-port", "0", "--store", "memory")


def status_of(server, model):
    listed = json.loads(server.get("/models")[2])["data"]
    return next(entry["status"] for entry in listed if entry["id"] == model)


def chat(server, model, max_tokens=4, **fields):
    """(status, text or error code) of one chat."""
    status, headers, text = server.post("/v1/chat/completions", {
        "model": model, "messages": QUESTION, "max_tokens": max_tokens, "temperature": 0, **fields})
    body = json.loads(text)
    if status != 200:
        return status, body["error"]["code"]
    return status, body["choices"][0]["message"]["content"]


class Folder(unittest.TestCase):
    """A folder of models, and servers of it."""
    CACHE = "16MiB"  # holds the contexts of a few sequences; the default would be most of a small model's memory

    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = held.name

    def add(self, *names):
        """The stand-in for the default model under these names."""
        for name in names:
            os.symlink(stand_in(), os.path.join(self.folder, name + ".gguf"))

    def start(self, *options, model="", environment=None):
        server = Server("--models", self.folder, "--kv-cache-bytes", self.CACHE, *SMALL, *options, model=model, environment=environment)
        self.addCleanup(lambda: server.process.poll() is None and server.stop())
        return server

    def bytes_of_one(self):
        """Memory of the stand-in."""
        server = self.start()
        name = server.models()[0]
        eventually(lambda: status_of(server, name).get("memory_bytes"), lambda: server.log())
        found = server.post_json("/v1/models/load", {"model": name})["status"]["memory_bytes"]
        self.assertEqual(server.stop(), 0)
        return found


class OnDemand(Folder):
    def test_a_request_loads_its_model_and_waits(self):
        self.add("one", "two")
        server = self.start()
        self.assertEqual(server.models(), ["one", "two"])
        self.assertEqual(status_of(server, "one")["value"], "unloaded")
        self.assertEqual(server.get("/readyz")[0], 200)
        status, text = chat(server, "one")
        self.assertEqual(status, 200)
        self.assertEqual(status_of(server, "one")["value"], "loaded")
        self.assertEqual(status_of(server, "two")["value"], "unloaded")
        self.assertEqual(chat(server, "two"), (200, text), "the same file")
        self.assertEqual(chat(server, "three"), (404, "model_not_found"))
        self.assertEqual(server.metric("tutti_model_loads_total", outcome="loaded"), 2)
        self.assertEqual(server.metric("tutti_models", state="loaded"), 2)
        server.expect_log(r"model\.loading model=one", r"model\.loaded model=two")

    def test_a_stream_begins_when_the_model_is_loaded(self):
        self.add("one")
        server = self.start()
        status, _, text = server.post("/v1/chat/completions", {"model": "one", "messages": QUESTION, "max_tokens": 4, "stream": True})
        self.assertEqual(status, 200)
        self.assertTrue(text.endswith("data: [DONE]\n\n"), text[-200:])

    def test_many_requests_for_one_model_load_it_once(self):
        self.add("one")
        server = self.start()
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(chat(server, "one"))) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(set(answers)), 1, answers)
        self.assertEqual(answers[0][0], 200)
        self.assertEqual(server.metric("tutti_model_loads_total", outcome="loaded"), 1)

    def test_refuse_answers_at_once_and_loads(self):
        self.add("one")
        server = self.start("--load-on-demand", "refuse")
        status, headers, text = server.post("/v1/chat/completions", {"model": "one", "messages": QUESTION, "max_tokens": 4})
        self.assertEqual((status, json.loads(text)["error"]["code"]), (503, "model_loading"))
        self.assertIn("Retry-After", headers)
        eventually(lambda: status_of(server, "one")["value"] == "loaded", server.log)
        self.assertEqual(chat(server, "one")[0], 200)

    def test_every_route_finds_the_model(self):
        self.add("one", "two", "three")
        shutil.copytree(encoder_models.embedder_folder(), os.path.join(self.folder, "minilm"))
        server = self.start()
        self.assertEqual(server.models(), ["minilm", "one", "three", "two"])
        vectors = server.post_json("/v1/embeddings", {"model": "minilm", "input": ["a", "b"]})["data"]
        self.assertEqual([len(each["embedding"]) for each in vectors], [384, 384])
        self.assertGreater(server.post_json("/tokenize", {"model": "one", "prompt": "Hello"})["count"], 0)
        self.assertEqual(server.post_json("/v1/responses", {"model": "two", "input": "Hi", "max_output_tokens": 16})["status"], "incomplete")
        status, _, text = server.post("/v1/messages", {"model": "three", "messages": QUESTION, "max_tokens": 4})
        self.assertEqual(status, 200, text)

    def test_a_broken_file_fails_alone(self):
        self.add("good")
        pathlib.Path(self.folder, "bad.gguf").write_bytes(b"GGUF" + bytes(64))
        server = self.start()
        self.assertEqual(chat(server, "bad"), (503, "model_load_failed"))
        self.assertNotIn(self.folder, server.post("/v1/chat/completions", {"model": "bad", "messages": QUESTION})[2])
        self.assertEqual(chat(server, "good")[0], 200)
        failed = status_of(server, "bad")
        self.assertEqual((failed["value"], failed["failed"]), ("unloaded", True))
        server.expect_log(r"model\.load_failed model=bad code=gguf_")

    def test_a_kill_while_a_model_loads_leaves_nothing(self):
        self.add("one")
        server = self.start()
        client = threading.Thread(target=lambda: self.assertRaises((OSError, http.client.HTTPException), chat, server, "one", 400 * LONGER))
        client.start()
        eventually(lambda: "model.loading" in server.log(), server.log)
        server.process.kill()
        self.assertEqual(server.stop(), -signal.SIGKILL)
        client.join(STEP_S)
        self.assertFalse(client.is_alive())
        server = self.start()
        self.assertEqual(chat(server, "one")[0], 200)

    def test_sigterm_ends_a_load_and_its_requests(self):
        self.add("one")
        server = self.start()
        seen = []

        def ask():
            try:
                seen.append(chat(server, "one"))
            except (OSError, http.client.HTTPException) as error:
                seen.append(error)
        client = threading.Thread(target=ask)
        client.start()
        eventually(lambda: "model.loading" in server.log(), server.log)
        self.assertEqual(server.stop(), 0)
        client.join(STEP_S)
        self.assertEqual(len(seen), 1)


class Control(Folder):
    def test_every_form_of_load_and_unload(self):
        self.add("one")
        server = self.start()

        def becomes(value):
            eventually(lambda: status_of(server, "one")["value"] == value, server.log)
        self.assertEqual(server.post_json("/v1/models/load", {"model": "one"})["status"]["value"], "loaded")
        self.assertEqual(server.post_json("/v1/models/unload", {"model": "one"})["status"]["value"], "unloaded")
        self.assertEqual(server.post_json("/models/load", {"model": "one"}), {"success": True})
        becomes("loaded")
        self.assertEqual(server.post_json("/models/unload", {"model": "one"}), {"success": True})
        becomes("unloaded")
        self.assertEqual(server.post("/v2/repository/models/one/load", {})[0], 200)
        becomes("loaded")
        index = {each["name"]: each["state"] for each in json.loads(server.post("/v2/repository/index", {})[2])}
        self.assertEqual(index["one"], "READY")
        self.assertEqual(server.post("/v2/repository/models/one/unload", {})[0], 200)
        becomes("unloaded")
        for path in ("/v1/models/load", "/models/load", "/v1/models/unload"):
            self.assertEqual(server.post(path, {"model": "none"})[0], 404, path)
        self.assertEqual(server.post("/v2/repository/models/none/load", {})[0], 404)

    def test_ollamas_client_loads_lists_and_unloads(self):
        self.add("one", "two")
        server = self.start()
        client = ollama.Client(host=server.url, timeout=STEP_S)
        self.addCleanup(client._client.close)
        self.assertEqual([model.model for model in client.list().models], ["one:latest", "two:latest"])
        self.assertEqual(client.ps().models, [])
        self.assertEqual(client.generate("one", keep_alive="10m").done_reason, "load")
        running = client.ps().models
        self.assertEqual([model.model for model in running], ["one:latest"])
        self.assertGreater(running[0].size, 16 << 20)
        left = running[0].expires_at.timestamp() - time.time()
        self.assertTrue(500 < left < 700, left)
        self.assertEqual(client.generate("one", keep_alive=0).done_reason, "unload")
        eventually(lambda: client.ps().models == [], server.log)

    def test_an_idle_model_is_unloaded_after_its_keep_alive(self):
        self.add("one", "two")
        server = self.start("--keep-alive", "1s")
        self.assertEqual(chat(server, "one")[0], 200)
        self.assertEqual(status_of(server, "one")["value"], "loaded")
        eventually(lambda: status_of(server, "one")["value"] == "unloaded", server.log)
        status, _, text = server.post("/api/generate", {"model": "two", "prompt": "Hi", "stream": False, "keep_alive": 0})
        self.assertEqual(status, 200, text)
        eventually(lambda: status_of(server, "two")["value"] == "unloaded", server.log)
        self.assertEqual(server.metric("tutti_model_unloads_total", reason="keep_alive"), 2)

    def test_models_of_the_command_line_are_pinned(self):
        self.add("one")
        server = self.start("--keep-alive", "0", model="main=" + stand_in())
        self.assertTrue(status_of(server, "main")["pinned"])
        self.assertEqual(chat(server, "main")[0], 200)
        self.assertEqual(chat(server, "one")[0], 200)
        eventually(lambda: status_of(server, "one")["value"] == "unloaded", server.log)
        self.assertEqual(status_of(server, "main")["value"], "loaded")
        self.assertEqual(server.post_json("/v1/models/unload", {"model": "main"})["status"]["value"], "unloaded")
        self.assertEqual(server.get("/readyz")[0], 200)
        self.assertEqual(chat(server, "main")[0], 200, "it is loaded again")

    def test_only_operators_load_and_unload(self):
        self.add("one")
        store = tempfile.TemporaryDirectory()
        self.addCleanup(store.cleanup)
        user, operator = make_key(store.name, "user"), make_key(store.name, "op", "--routes", "admin,models")
        server = Server("--models", self.folder, "--kv-cache-bytes", self.CACHE, *SMALL[:-2], "--store", store.name, model="")
        self.addCleanup(lambda: server.process.poll() is None and server.stop())

        def load(path, key):
            return server.post(path, {"model": "one"}, headers={"Authorization": f"Bearer {key}"})[0]
        for path in ("/v1/models/load", "/models/load", "/v1/models/unload", "/models/unload"):
            self.assertEqual(load(path, user), 403, path)
            self.assertEqual(load(path, operator), 200, path)

    def test_a_rescan_lists_new_files(self):
        self.add("one")
        server = self.start()
        self.add("two")
        self.assertEqual(chat(server, "two"), (404, "model_not_found"))
        server.get("/models?reload=1")
        eventually(lambda: server.models() == ["one", "two"], server.log)
        self.assertEqual(chat(server, "two")[0], 200)

    def test_a_model_may_get_a_file_of_another_form(self):
        self.add("one")
        server = self.start()
        file = os.path.join(self.folder, "one.gguf")
        subprocess.run([os.environ["E2E_BINARY"], "pack", file, os.path.join(self.folder, "one.tutti")], check=True, capture_output=True)
        os.unlink(file)
        server.get("/models?reload=1")
        eventually(lambda: chat(server, "one")[0] == 200, server.log)


class OverKserve(Folder):
    """What KServe shows of models that come, go and change."""
    def generate(self, server, model):
        status, headers, text = server.post(f"/v2/models/{model}/generate", {
            "text_input": "Hello there", "max_tokens": 6, "temperature": 0, "exclude_input_in_output": True})
        return json.loads(text)["text_output"] if status == 200 else status

    def index(self, server):
        return [entry["name"] for entry in server.post_json("/v2/repository/index", {})]

    def remove(self, server, name):
        server.post_json("/v1/models/unload", {"model": name})
        os.unlink(os.path.join(self.folder, name + ".gguf"))
        server.get("/models?reload=1")
        eventually(lambda: name not in server.models(), server.log)

    def test_a_name_follows_its_model(self):
        # Regression: KServe kept what it had first seen under a name: alias, kind of model, and existence.
        self.add("one")
        shutil.copy(stand_in(2), os.path.join(self.folder, "two.gguf"))
        server = self.start()
        eventually(lambda: all(status_of(server, name).get("memory_bytes") for name in ("one", "two")), server.log)  # read
        one, two = self.generate(server, "one"), self.generate(server, "two")
        self.assertIsInstance(one, str)
        self.assertIsInstance(two, str)
        self.assertNotEqual(one, two)
        self.assertEqual(self.generate(server, "x"), 404)
        for source, text in (("one", one), ("two", two)):
            server.post("/api/copy", {"source": source, "destination": "x"})
            self.assertEqual(self.generate(server, "x"), text)
            self.assertEqual(server.request("DELETE", "/api/delete", {"model": "x"})[0], 200)
            self.assertEqual(self.generate(server, "x"), 404)
        self.remove(server, "one")
        self.assertEqual(self.generate(server, "one"), 404)
        self.assertEqual(self.index(server), ["two"])
        shutil.copytree(encoder_models.embedder_folder(), os.path.join(self.folder, "one"))
        server.get("/models?reload=1")
        question = {"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": ["a"]}]}
        eventually(lambda: server.post("/v2/models/one/infer", question)[0] == 200, server.log)
        self.assertEqual(sorted(self.index(server)), ["one", "two"])

    def test_a_key_sees_only_its_models(self):
        self.add("mine", "secret")
        store = tempfile.TemporaryDirectory()
        self.addCleanup(store.cleanup)
        key = make_key(store.name, "narrow", "--models", "mine")
        server = Server("--models", self.folder, "--kv-cache-bytes", self.CACHE, *SMALL[:-2], "--store", store.name, model="")
        self.addCleanup(lambda: server.process.poll() is None and server.stop())

        def ask(method, path, body=None):
            return server.request(method, path, body, headers={"Authorization": "Bearer " + key})
        eventually(lambda: ask("GET", "/v2/models/mine")[0] == 200, server.log)
        for path in ("", "/config", "/stats"):
            self.assertEqual(ask("GET", "/v2/models/secret" + path)[0], 404, path)
        self.assertEqual(ask("GET", "/v2/models/secret/ready")[0], 400)
        self.assertEqual(ask("POST", "/v2/models/secret/generate", {"text_input": "x"})[0], 404)
        for method, path in (("POST", "/v2/repository/index"), ("GET", "/v2/models/stats")):
            status, headers, text = ask(method, path, {} if method == "POST" else None)
            self.assertEqual(status, 200)
            self.assertIn("mine", text)
            self.assertNotIn("secret", text)


class Memory(Folder):
    def test_an_unload_returns_the_memory(self):
        if not judged("memory of an unloaded model", "a sanitizer keeps freed memory for a while"):
            return
        real = pathlib.Path(os.environ.get("TUTTI_CACHE") or os.path.expanduser("~/.cache/tutti"), "models", "SmolLM2-135M-Instruct.Q4_1.gguf")
        os.symlink(real, os.path.join(self.folder, "real.gguf"))
        self.add("small")
        server = self.start()
        # Threads, caches and the program's own tables are there once something has run.
        self.assertEqual(chat(server, "small")[0], 200)
        server.post_json("/v1/models/unload", {"model": "small"})
        for round in range(amount(1, 3, 10)):
            before = server.resident_kib()
            self.assertEqual(chat(server, "real", 16)[0], 200)
            loaded = server.resident_kib()
            begin = time.monotonic()
            server.post_json("/v1/models/unload", {"model": "real"})
            took = time.monotonic() - begin
            left = server.resident_kib()
            grown = loaded - before
            self.assertGreater(grown, 60 << 10)
            returned = (loaded - left) / grown
            figure(f"unload {round}: {grown >> 10} MiB, returned {returned:.1%} in {took:.2f} s")
            self.assertGreaterEqual(returned, 0.95, f"{before} KiB, loaded {loaded}, left {left}")
            self.assertLess(took, 5)
        self.assertEqual(server.metric("tutti_kv_blocks", model="real"), 0)
        self.assertEqual(server.metric("tutti_model_info", model="real"), 0)
        self.assertEqual(server.metric("tutti_models_memory_bytes"), 0)

    def test_a_model_that_does_not_fit_is_refused_with_the_numbers(self):
        self.add("one")
        server = self.start("--memory-budget", "4MiB")
        self.assertEqual(chat(server, "one"), (409, "model_too_large"))
        message = json.loads(server.post("/v1/models/load", {"model": "one"})[2])["error"]["message"]
        self.assertRegex(message, r"needs \d+ MiB, memory budget 4 MiB")
        self.assertEqual(server.get("/readyz")[0], 200)

    def test_twenty_models_over_a_budget_of_four(self):
        names = [f"m{i:02}" for i in range(20)]
        self.add(*names)
        budget = int(4.5 * self.bytes_of_one())
        server = self.start("--memory-budget", str(budget))
        expected = chat(server, names[0])
        self.assertEqual(expected[0], 200)
        end = time.monotonic() + amount(3, 6, 120)
        answers, most = {}, [0]

        def client(number):
            turn = number
            while time.monotonic() < end:
                answer = chat(server, names[turn % len(names)])
                answers[answer] = answers.get(answer, 0) + 1
                turn += 7
        threads = [threading.Thread(target=client, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            most[0] = max(most[0], server.metric("tutti_models_memory_bytes"))
            time.sleep(0.05)
        for thread in threads:
            thread.join()
        figure(f"twenty models: {answers}, {server.metric('tutti_model_loads_total', outcome='loaded'):.0f} loads")
        good = answers.pop(expected, 0)
        self.assertGreater(good, 5)
        self.assertLessEqual({answer for answer in answers if answer[0] != 503}, set(), "typed 503s alone")
        self.assertLessEqual(most[0], budget)
        self.assertGreater(server.metric("tutti_model_unloads_total", reason="evicted"), 4)


class Swap(Folder):
    CACHE = "128MiB"  # of each: more than an encoder reserves until its type is chosen

    def test_models_are_swapped_under_load_without_a_failure(self):
        """Chat and embeddings run all the time; two further chat models take turns, for which there is room for one."""
        self.add("first", "second")
        shutil.copytree(encoder_models.embedder_folder(), os.path.join(self.folder, "minilm"))
        server = self.start(model="main=" + stand_in())
        sizes = []
        # An encoder takes less once its type has been chosen, so all are loaded.
        for name in ("main", "minilm", "first"):
            sizes.append(server.post_json("/v1/models/load", {"model": name})["status"]["memory_bytes"])
        self.assertEqual(server.stop(), 0)
        budget = sizes[0] + sizes[1] + int(1.5 * sizes[2])
        server = self.start("--pin", "minilm", "--memory-budget", str(budget), model="main=" + stand_in())
        texts = {name: chat(server, name)[1] for name in ("main", "first", "second")}
        end = time.monotonic() + amount(3, 8, 600)
        failures, counts, lock = [], {}, threading.Lock()

        def client(name, ask):
            while time.monotonic() < end:
                try:
                    wrong = ask()
                except (OSError, http.client.HTTPException) as error:
                    wrong = repr(error)
                with lock:
                    counts[name] = counts.get(name, 0) + 1
                    if wrong:
                        failures.append((name, wrong))

        def asks(name):
            def ask():
                answer = chat(server, name)
                return None if answer == (200, texts[name]) else answer
            return ask

        def embed():
            status, _, text = server.post("/v1/embeddings", {"model": "minilm", "input": "a text"})
            return None if status == 200 else (status, text)

        def swap():
            for name in ("first", "second"):
                answer = asks(name)()
                if answer is not None:
                    return answer
            time.sleep(0.05)
            return None
        threads = [threading.Thread(target=client, args=each) for each in (
            ("main", asks("main")), ("main", asks("main")), ("minilm", embed), ("swap", swap), ("swap", swap))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        evicted = server.metric("tutti_model_unloads_total", reason="evicted")
        figure(f"swap under load: {counts}, {evicted:.0f} evictions")
        self.assertEqual(failures, [])
        self.assertGreater(evicted, 3)
        self.assertEqual(set(counts), {"main", "minilm", "swap"})
        self.assertEqual(status_of(server, "main")["value"], "loaded")


if __name__ == "__main__":
    unittest.main()
