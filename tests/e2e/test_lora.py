"""LoRA adapters (R23): each is a model of its own, several share steps without a change of an answer, and they are loaded and
unloaded under traffic without a failed request."""
import concurrent.futures
import json
import os
import re
import tempfile
import threading
import time
import unittest

import lora_files
from harness import MODEL, STEP_S, Server, amount, eventually, figure, make_key, stand_in

QUESTION = "Tell me a story about a river and a town."


def ask(server, model, prompt=QUESTION, tokens=16, headers=None):
    """The body of a greedy completion."""
    status, _, text = server.post("/v1/completions", {"model": model, "prompt": prompt, "max_tokens": tokens, "temperature": 0,
                                                      "logprobs": 0}, headers=headers)
    if status != 200:
        raise AssertionError(f"{model}: {status} {text[:500]}")
    return json.loads(text)


def answer(server, model, **options):
    """Text and log-probabilities: the same for the same bits."""
    choice = ask(server, model, **options)["choices"][0]
    return choice["text"], choice["logprobs"]["token_logprobs"]


class Adapters(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        path = cls.folder.name
        lora_files.write_gguf(f"{path}/story.gguf", rank=8, seed=1)
        lora_files.write_folder(f"{path}/story", rank=8, seed=1)
        lora_files.write_folder(f"{path}/attention", rank=16, seed=2, targets=("attn_q", "attn_v"), use_rslora=True)
        lora_files.write_gguf(f"{path}/network.gguf", rank=3, seed=3, targets=("ffn_gate", "ffn_up", "ffn_down"))
        lora_files.write_gguf(f"{path}/other-base.gguf", base=lora_files.SMOLLM2, rank=1, targets=("attn_q",))
        lora_files.write_folder(f"{path}/dora", use_dora=True)
        with open(f"{path}/broken.gguf", "wb") as out:
            out.write(b"GGUF and then nothing that fits")
        os.symlink("/etc", f"{path}/elsewhere")
        cls.server = Server("--lora", f"story={path}/story.gguf", "--lora", f"same={path}/story",
                            "--lora", f"{MODEL}/attention={path}/attention", "--lora", f"network={path}/network.gguf:0.5",
                            "--lora-folder", path, "--max-num-seqs", "8", "--max-loras", "6", "--metrics-vllm", "on", model=stand_in())

    @classmethod
    def tearDownClass(cls):
        status = cls.server.stop()
        assert status == 0, f"exit status {status} after SIGTERM"

    def load(self, name, path, server=None, headers=None, **more):
        status, _, text = (server or self.server).post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": path, **more},
                                                       headers=headers)
        return status, text

    def unload(self, name):
        status, _, text = self.server.post("/v1/unload_lora_adapter", {"lora_name": name})
        return status, text

    def test_each_adapter_is_a_model_with_its_parent(self):
        models = {model["id"]: model for model in json.loads(self.server.get("/v1/models")[2])["data"]}
        self.assertEqual(set(models), {MODEL, "story", "same", "attention", "network"})
        self.assertIsNone(models[MODEL]["parent"])
        for name in ("story", "same", "attention", "network"):
            self.assertEqual(models[name]["parent"], MODEL)
            self.assertEqual(models[name]["max_model_len"], models[MODEL]["max_model_len"])
        self.assertEqual(len({model["digest"] for model in models.values()}), 5)

    def test_adapters_change_answers_and_fingerprints(self):
        answers = {name: answer(self.server, name) for name in (MODEL, "story", "attention", "network")}
        self.assertEqual(len({str(value) for value in answers.values()}), 4)
        prints = {ask(self.server, name)["system_fingerprint"] for name in answers}
        self.assertEqual(len(prints), 4)

    def test_both_forms_of_an_adapter_answer_alike(self):
        self.assertEqual(answer(self.server, "story"), answer(self.server, "same"))

    def test_prefixes_are_reused_under_one_adapter_alone(self):
        prompt = "A sentence that no other test has, many times. " * 20

        def cached(name):
            usage = ask(self.server, name, prompt=prompt, tokens=1)["usage"]
            return (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)

        self.assertEqual([cached(name) for name in (MODEL, "story", "attention")], [0, 0, 0])
        for name in (MODEL, "story", "attention"):
            self.assertGreater(cached(name), 64)
        # An adapter's keys and values are not the base's: what is reused gives the same answer.
        self.assertEqual(answer(self.server, "story", prompt=prompt), answer(self.server, "story", prompt=prompt))

    def test_a_mixed_batch_gives_the_answers_of_each_alone(self):
        names = (MODEL, "story", "attention", "network", "same")
        alone = {(name, i): answer(self.server, name, prompt=f"{i} {QUESTION}", tokens=24) for name in names for i in range(3)}
        with concurrent.futures.ThreadPoolExecutor(15) as pool:
            for _ in range(amount(1, 3, 20)):
                together = {key: pool.submit(answer, self.server, key[0], prompt=f"{key[1]} {QUESTION}", tokens=24)
                            for key in alone}
                for key, future in together.items():
                    self.assertEqual(future.result(STEP_S), alone[key], key)

    def test_chats_and_grammars_use_the_adapter(self):
        body = {"model": "story", "messages": [{"role": "user", "content": QUESTION}], "max_tokens": 24, "temperature": 0}
        plain = self.server.post_json("/v1/chat/completions", body)["choices"][0]["message"]["content"]
        base = self.server.post_json("/v1/chat/completions", dict(body, model=MODEL))["choices"][0]["message"]["content"]
        self.assertNotEqual(plain, base)
        limited = self.server.post_json("/v1/chat/completions", dict(body, response_format={
            "type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": ["red", "green"]}}}))
        self.assertIn(json.loads(limited["choices"][0]["message"]["content"]), ("red", "green"))

    def test_loads_and_unloads_under_traffic_fail_no_request(self):
        expected = {name: answer(self.server, name, tokens=12) for name in (MODEL, "story", "attention")}
        dynamic = None
        stop, failures, done = threading.Event(), [], [0]

        def client(name):
            while not stop.is_set():
                try:
                    if answer(self.server, name, tokens=12) != expected[name]:
                        failures.append(f"{name}: another answer")
                except Exception as error:  # counted, whatever it is
                    failures.append(f"{name}: {error}")
                done[0] += 1

        threads = [threading.Thread(target=client, args=(name,)) for name in expected for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                for i in range(amount(4, 20, 200)):
                    status, text = self.load("dynamic", "story.gguf")
                    self.assertEqual((status, text), (200, "Success: LoRA adapter 'dynamic' added successfully."))
                    # One request begins before the unload and ends after it.
                    running = pool.submit(answer, self.server, "dynamic", tokens=40)
                    whole = answer(self.server, "dynamic", tokens=12)
                    self.assertEqual(whole, expected["story"])
                    status, text = self.unload("dynamic")
                    self.assertEqual((status, text), (200, "Success: LoRA adapter 'dynamic' removed successfully."))
                    text = running.result(STEP_S)
                    dynamic = dynamic or text
                    self.assertEqual(text, dynamic)
                    self.assertEqual(self.server.post("/v1/completions", {"model": "dynamic", "prompt": "x"})[0], 404)
        finally:
            stop.set()
            for thread in threads:
                thread.join(STEP_S)
        self.assertEqual(failures, [])
        self.assertGreater(done[0], 10)
        figure(f"{done[0]} requests while adapters were loaded and unloaded")

    def test_refusals_name_the_fault(self):
        cases = (("story", "story.gguf", {}, 409, "adapter_exists"), (MODEL, "story.gguf", {}, 409, "adapter_exists"),
                 ("x", "../story.gguf", {}, 403, "adapter_path"), ("x", "/etc/passwd", {}, 403, "adapter_path"),
                 ("x", "elsewhere/passwd", {}, 400, "adapter_invalid"), ("x", "none.gguf", {}, 400, "adapter_invalid"),
                 ("x", "broken.gguf", {}, 400, "adapter_invalid"), ("x", "dora", {}, 400, "adapter_config"),
                 ("x", "other-base.gguf", {}, 400, "adapter_shape"), ("a b", "story.gguf", {}, 400, "invalid_value"),
                 ("x", "story.gguf", {"base_model_name": "nix"}, 404, "model_not_found"),
                 ("x", "story.gguf", {"base_model_name": "story"}, 400, "invalid_value"),
                 ("x", "story.gguf", {"scale": 1e9}, 400, "invalid_value"))
        for name, path, more, status, code in cases:
            with self.subTest(name=name, path=path, **more):
                got, text = self.load(name, path, **more)
                self.assertEqual((got, json.loads(text)["error"]["code"]), (status, code), text)
        self.assertEqual(self.unload("x")[0], 404)
        self.assertEqual(self.unload(MODEL)[0], 404)
        self.assertIn("the model's has", self.load("x", "other-base.gguf")[1])

    def test_paths_may_be_absolute_and_limits_hold(self):
        try:
            self.assertEqual(self.load("five", os.path.join(os.path.realpath(self.folder.name), "attention"))[0], 200)
            self.assertEqual(self.load("six", "network.gguf", scale=0.5, base_model_name=MODEL)[0], 200)
            status, text = self.load("seven", "story.gguf")
            self.assertEqual((status, json.loads(text)["error"]["code"]), (409, "adapter_limit"))
            self.assertEqual(answer(self.server, "six"), answer(self.server, "network"))
            # In place: another file under the name.
            self.assertEqual(self.load("six", "story.gguf", load_inplace=True)[0], 200)
            self.assertEqual(answer(self.server, "six"), answer(self.server, "story"))
        finally:
            for name in ("five", "six"):
                self.unload(name)

    def test_vllms_gauge_names_the_adapters_in_use(self):
        def gauge():
            line = re.search(r"^vllm:lora_requests_info\{(.*)\} (\S+)$", self.server.get("/metrics")[2], re.M)
            return dict(re.findall(r'(\w+)="([^"]*)"', line[1])), float(line[2])
        self.server.wait_idle()
        names, when = gauge()
        self.assertEqual(names, {"max_lora": "6", "running_lora_adapters": "", "waiting_lora_adapters": ""})
        self.assertLess(abs(time.time() - when), 60)
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            running = [pool.submit(answer, self.server, name, tokens=400) for name in ("story", "attention") for _ in range(6)]
            eventually(lambda: sorted(gauge()[0]["running_lora_adapters"].split(",")) == ["attention", "story"], self.server.log)
            for each in running:
                each.result(STEP_S)
        self.server.wait_idle()
        self.assertEqual(gauge()[0], names)

    def test_events_and_metrics_show_adapters(self):
        self.assertEqual(self.load("shown", "story.gguf")[0], 200)
        self.unload("shown")
        self.load("shown", "broken.gguf")
        self.assertEqual(self.server.metric("tutti_lora_adapters"), 4)
        self.server.expect_log(r"adapter\.loaded.*shown", r"adapter\.unloaded.*shown", r"adapter\.refused.*adapter_invalid")


class ComeAndGo(unittest.TestCase):
    """Adapters of models that are loaded and unloaded at run time, and of a process that starts again."""

    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = held.name
        os.mkdir(f"{self.folder}/models")
        os.symlink(stand_in(), f"{self.folder}/models/base.gguf")
        lora_files.write_gguf(f"{self.folder}/story.gguf", rank=8, seed=1)

    def serve(self, *options, model=""):
        server = Server("--lora-folder", self.folder, "--kv-cache-bytes", "16MiB", "--context", "1024", "--store", f"{self.folder}/store",
                        "--grpc-port", "0", *options, model=model)
        self.addCleanup(lambda: server.process.poll() is None and server.stop())
        return server

    @staticmethod
    def load(server):
        status, _, text = server.post("/v1/load_lora_adapter", {"lora_name": "story", "lora_path": "story.gguf"})
        assert status == 200, text

    @staticmethod
    def listed(server):
        return {model["id"]: model for model in json.loads(server.get("/models")[2])["data"]}

    @staticmethod
    def index(server):
        return {entry["name"]: entry["state"] for entry in json.loads(server.post("/v2/repository/index", {})[2])}

    def test_an_adapter_comes_back_with_its_base(self):
        server = self.serve("--models", f"{self.folder}/models")
        plain = answer(server, "base")
        self.load(server)
        adapted = answer(server, "story")
        self.assertNotEqual(adapted, plain)
        self.assertEqual(self.index(server), {"base": "READY", "story": "READY"})
        server.post_json("/v1/models/unload", {"model": "base"})
        self.assertEqual(server.metric("tutti_lora_adapters"), 1)
        story = self.listed(server)["story"]
        self.assertEqual((story["parent"], story["status"]["value"]), ("base", "unloaded"))
        # A request for the adapter loads both.
        self.assertEqual(answer(server, "story"), adapted)
        self.assertEqual({model["status"]["value"] for model in self.listed(server).values()}, {"loaded"})
        # A request for the base brings the adapter back too.
        server.post_json("/v1/models/unload", {"model": "base"})
        self.assertEqual(answer(server, "base"), plain)
        self.assertEqual(answer(server, "story"), adapted)
        # Unloaded while its base is unloaded, it stays away, in every list.
        server.post_json("/v1/models/unload", {"model": "base"})
        self.assertEqual(server.post("/v1/unload_lora_adapter", {"lora_name": "story"})[0], 200)
        self.assertEqual(set(self.listed(server)), {"base"})
        self.assertEqual(set(self.index(server)), {"base"})
        self.assertEqual(server.post("/v1/completions", {"model": "story", "prompt": "x"})[0], 404)
        self.assertEqual(answer(server, "base"), plain)
        self.assertEqual(server.post("/v1/completions", {"model": "story", "prompt": "x"})[0], 404)

    def test_a_load_loads_the_base(self):
        for base in ({"base_model_name": "base"}, {}):
            server = self.serve("--models", f"{self.folder}/models")
            self.assertEqual(self.listed(server)["base"]["status"]["value"], "unloaded")
            status, _, text = server.post("/v1/load_lora_adapter", {"lora_name": "story", "lora_path": "story.gguf", **base})
            self.assertEqual(status, 200, text)
            self.assertEqual({model["status"]["value"] for model in self.listed(server).values()}, {"loaded"})
            self.assertNotEqual(answer(server, "story"), answer(server, "base"))
            self.assertEqual(server.stop(), 0)

    def test_an_adapter_of_the_start_may_have_a_base_of_the_folder(self):
        server = self.serve("--models", f"{self.folder}/models", "--lora", f"base/story={self.folder}/story.gguf")
        self.assertEqual(self.listed(server)["story"]["parent"], "base")
        self.assertEqual(answer(server, "story")[0], answer(server, "story")[0])
        self.assertNotEqual(answer(server, "story"), answer(server, "base"))

    def test_aliases_and_adapters_are_loaded_by_ollamas_clients(self):
        config = f"{self.folder}/tutti.toml"
        with open(config, "w") as out:
            out.write('[[alias]]\nname = "assistant"\nmodels = "base"\n')
        server = self.serve("--models", f"{self.folder}/models", "--lora", f"base/story={self.folder}/story.gguf", "--config", config)
        for name in ("assistant", "story"):
            self.assertEqual(server.post_json("/api/generate", {"model": name})["done_reason"], "load")
            self.assertEqual(self.listed(server)["base"]["status"]["value"], "loaded")
            server.post_json("/v1/models/unload", {"model": "base"})
        status, _, text = server.post("/v1/load_lora_adapter", {"lora_name": "assistant", "lora_path": "story.gguf"})
        self.assertEqual((status, json.loads(text)["error"]["code"]), (409, "adapter_exists"), text)

    def test_an_adapter_whose_file_is_gone_is_dropped_alone(self):
        server = self.serve("--models", f"{self.folder}/models")
        plain = answer(server, "base")
        self.load(server)
        server.post_json("/v1/models/unload", {"model": "base"})
        os.unlink(f"{self.folder}/story.gguf")
        status, _, text = server.post("/v1/completions", {"model": "story", "prompt": "x"})
        self.assertEqual((status, json.loads(text)["error"]["code"]), (503, "model_load_failed"), text)
        self.assertEqual(answer(server, "base"), plain)
        self.assertEqual(set(self.listed(server)), {"base"})
        server.expect_log(r"adapter\.refused name=story")

    def test_pins_under_an_adapter_are_restored_with_it(self):
        options = ("--prefix-disk-bytes", "64MiB")
        server = self.serve(*options, model="base=" + stand_in())
        self.load(server)
        prompt = "A long text that many requests begin with, " * 12
        status, _, text = server.post("/v1/prefixes", {"model": "story", "prompt": prompt, "ttl_s": 600})
        self.assertEqual(status, 200, text)
        pins = json.loads(server.get("/v1/prefixes")[2])["data"]
        self.assertEqual([pin["model"] for pin in pins], ["story"])
        self.assertEqual(server.stop(), 0)
        server = self.serve(*options, model="base=" + stand_in())
        self.assertEqual(json.loads(server.get("/v1/prefixes")[2])["data"], [])
        self.load(server)
        eventually(lambda: json.loads(server.get("/v1/prefixes")[2])["data"] == pins, server.log)
        usage = ask(server, "story", prompt=prompt + "What?", tokens=1)["usage"]
        self.assertGreaterEqual(usage["prompt_tokens_details"]["cached_tokens"], pins[0]["pinned_tokens"])


class Permission(unittest.TestCase):
    def test_only_admins_load_adapters(self):
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as store:
            lora_files.write_gguf(f"{folder}/story.gguf")
            user, admin = make_key(store, "user"), make_key(store, "admin", "--routes", "admin,generate,models")
            server = Server("--lora-folder", folder, "--store", store, model=stand_in())
            try:
                body = {"lora_name": "story", "lora_path": "story.gguf"}

                def load(key):
                    return server.post("/v1/load_lora_adapter", body, headers={"Authorization": f"Bearer {key}"})[0]

                self.assertEqual(load("wrong"), 401)
                self.assertEqual(load(user), 403)
                self.assertEqual(load(admin), 200)
            finally:
                self.assertEqual(server.stop(), 0)

    def test_without_a_folder_the_routes_are_off(self):
        server = Server(model=stand_in())
        try:
            status, _, text = server.post("/v1/load_lora_adapter", {"lora_name": "x", "lora_path": "/tmp/x"})
            self.assertEqual(status, 501)
            self.assertIn("--lora-folder", text)
        finally:
            self.assertEqual(server.stop(), 0)

    def test_a_start_with_a_bad_adapter_names_it(self):
        with tempfile.TemporaryDirectory() as folder:
            lora_files.write_gguf(f"{folder}/other.gguf", base=lora_files.SMOLLM2, rank=1, targets=("attn_q",))
            server = Server("--lora", f"other={folder}/other.gguf", model=stand_in(), wait=False)
            eventually(lambda: server.process.poll() is not None)
            self.assertIn("adapter other", server.log())
            self.assertIn("blk.0.attn_q.weight.lora_b", server.log())
            self.assertNotEqual(server.stop(), 0)
