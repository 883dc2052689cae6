"""Models that come and go through Ollama's API (R22): the stock client's pull, copy and delete, against a hub on this machine."""
import concurrent.futures
import json
import os
import shutil
import threading
import unittest

import ollama

from harness import MODEL, STEP_S, Server, default_model, eventually
from test_pull import WithHub, folder_files, gguf_file

QUESTION = "the hens"
GREEDY = {"temperature": 0, "num_predict": 8}


class Library(WithHub):
    def setUp(self):
        super().setUp()
        self.gguf = gguf_file()

    def serve(self, *options, stops=True):
        server = Server("--threads", "1", "--kv-cache-bytes", "64MiB", *options, environment=self.environment)
        if stops:
            self.addCleanup(server.stop)
        client = ollama.Client(host=server.url, timeout=STEP_S)
        self.addCleanup(client._client.close)
        return server, client

    def listed(self, client):
        return sorted(model.model for model in client.list().models)

    def text(self, client, model):
        return client.generate(model, QUESTION, raw=True, options=GREEDY).response

    def error(self, status, call, *arguments, **more):
        with self.assertRaises(ollama.ResponseError) as raised:
            call(*arguments, **more)
        if status is not None:
            self.assertEqual(raised.exception.status_code, status, raised.exception.error)
        return raised.exception.error

    def test_a_model_is_pulled_used_copied_and_deleted(self):
        self.add("org/m", {"m-Q8_0.gguf": self.gguf, "README.md": b"x"})
        server, client = self.serve("--pull", "on-demand")
        self.hub.faults.cut_every = 64 << 10
        parts = list(client.pull("org/m:Q8_0", stream=True))
        self.assertEqual(parts[0].status, "pulling manifest")
        self.assertEqual([part.status for part in parts[-3:]], ["verifying sha256 digest", "writing manifest", "success"])
        files = [part for part in parts if part.digest]
        self.assertGreater(len(files), 0)
        self.assertEqual({(part.digest[:7], part.total) for part in files}, {("sha256:", len(self.gguf))})
        self.assertEqual([part.status for part in files], ["pulling " + files[0].digest[7:19]] * len(files))
        bytes_ = [part.completed or 0 for part in files]
        self.assertEqual((bytes_, bytes_[-1]), (sorted(bytes_), len(self.gguf)))
        self.assertEqual(self.listed(client), ["org/m:Q8_0", MODEL + ":latest"])
        # It is the model that the command line serves under that name.
        expected = self.tutti("run", "org/m:Q8_0", "--raw", "-p", QUESTION, "-n", "8", "--temperature", "0", "--threads", "1")
        self.assertEqual(self.text(client, "org/m:Q8_0"), expected.rstrip("\n"))
        self.assertEqual(client.pull("org/m:Q8_0").status, "success")  # nothing is fetched again
        self.assertEqual(len(self.hub.asked_for_files()), len({(r.path, r.headers.get("range")) for r in self.hub.asked_for_files()}))
        # A copy is a further name: nothing is loaded twice.
        self.assertEqual(client.copy("org/m:Q8_0", "mine").status, "success")
        self.assertEqual(client.copy("org/m:Q8_0", "mine:latest").status, "success")
        self.assertEqual(self.text(client, "mine"), self.text(client, "org/m:Q8_0"))
        self.assertEqual(self.listed(client), ["mine:latest", "org/m:Q8_0", MODEL + ":latest"])
        self.assertIn("called", self.error(409, client.copy, "org/m:Q8_0", MODEL))
        self.error(404, client.copy, "nobody", "other")
        # Deleting needs the last name, unloaded.
        self.assertIn("mine", self.error(409, client.delete, "org/m:Q8_0"))
        self.assertEqual(client.delete("mine").status, "success")
        self.assertIn("unload it first", self.error(409, client.delete, "org/m:Q8_0"))
        self.assertIn("pinned", self.error(409, client.delete, MODEL))
        client.generate("org/m:Q8_0", "", keep_alive=0)
        eventually(lambda: [model.model for model in client.ps().models] == [MODEL + ":latest"])
        self.assertNotEqual(self.names(), [])
        self.assertEqual(client.delete("org/m:Q8_0").status, "success")
        self.assertEqual(self.listed(client), [MODEL + ":latest"])
        self.assertEqual([name for name in self.names() if "/blobs/" in name or "/snapshots/" in name], [])
        self.error(404, client.delete, "org/m:Q8_0")
        self.error(404, client.generate, "org/m:Q8_0", "x")
        metrics = server.get("/metrics")[2]
        self.assertIn('tutti_model_pulls_total{outcome="pulled"} 2', metrics)
        self.assertIn("tutti_model_pulls_running 0", metrics)

    def test_names_with_the_address_of_the_hub_are_kept(self):
        self.add("org/m", {"m-Q8_0.gguf": self.gguf})
        self.add("org/folder", folder_files())
        _, client = self.serve("--pull", "on-demand")
        for name in ("hf.co/org/m:Q8_0", "hf.co/org/folder"):
            self.assertEqual(list(client.pull(name, stream=True))[-1].status, "success")
            self.assertTrue(self.text(client, name))
        self.assertEqual(client.pull("org/m:Q8_0").status, "success")  # the same files, by another name
        self.assertEqual(self.listed(client), ["hf.co/org/folder:latest", "hf.co/org/m:Q8_0", "org/m:Q8_0", MODEL + ":latest"])
        self.assertEqual(len(client.ps().models), 4)  # each name of a loaded model
        self.assertEqual(self.text(client, "org/m:Q8_0"), self.text(client, "hf.co/org/m:Q8_0"))

    def test_names_come_back_after_a_restart(self):
        self.add("org/m", {"m-Q8_0.gguf": self.gguf})
        self.add("org/other", {"o-Q8_0.gguf": self.gguf + b"\0"})
        store = os.path.join(self.home, "store")
        server, client = self.serve("--pull", "on-demand", "--store", store, stops=False)
        for name in ("org/m:Q8_0", "org/other"):
            self.assertEqual(client.pull(name).status, "success")
        for source, name in (("org/m:Q8_0", "mine"), ("mine", "ours"), (MODEL, "default")):
            self.assertEqual(client.copy(source, name).status, "success")
        names = self.listed(client)
        self.assertEqual(len(names), 6, names)
        answer = self.text(client, "ours")
        server.process.kill()
        server.stop()
        # No connection is needed, and none is made.
        self.hub.stop()
        server, client = self.serve("--store", store, stops=False)
        self.assertEqual(self.listed(client), names)
        self.assertEqual(self.text(client, "ours"), answer)
        self.assertEqual(client.delete("ours").status, "success")
        server.stop()
        # What is no longer in the cache is dropped with a warning, and so are its names.
        shutil.rmtree(os.path.join(self.cache, "models--org--m"))
        server, client = self.serve("--store", store, stops=False)
        self.assertEqual(self.listed(client), ["default:latest", "org/other:latest", MODEL + ":latest"])
        server.expect_log("model.not_listed_again.*org/m:Q8_0")
        self.assertEqual(client.delete("org/other").status, "success")
        server.stop()
        with open(os.path.join(store, "models.json"), encoding="utf-8") as record:
            self.assertEqual(json.load(record), {"version": 1, "pulled": [], "copies": [{"name": "default", "model": MODEL}]})
        with open(os.path.join(store, "models.json"), "w", encoding="utf-8") as record:
            record.write('{"version": 1, "pulled": [')
        server, client = self.serve("--store", store)
        self.assertEqual(self.listed(client), [MODEL + ":latest"])
        server.expect_log("models.record_unreadable")

    def test_a_delete_leaves_other_models_of_the_repository(self):
        self.add("org/m", {"m-Q4_0.gguf": self.gguf, "m-Q8_0.gguf": self.gguf + b"\0"})
        _, client = self.serve("--pull", "on-demand")
        for name in ("org/m:Q8_0", "org/m"):
            self.assertEqual(client.pull(name).status, "success")
        answer = self.text(client, "org/m:Q8_0")
        self.assertEqual(client.delete("org/m").status, "success")
        client.generate("org/m:Q8_0", "", keep_alive=0)
        eventually(lambda: [model.model for model in client.ps().models] == [MODEL + ":latest"])
        self.assertEqual(self.text(client, "org/m:Q8_0"), answer)  # loaded again, from its files

    def test_what_the_files_are_is_shown(self):
        self.add("org/folder", folder_files())
        _, client = self.serve("--pull", "on-demand")
        client.pull("org/folder")
        eventually(lambda: all(model.size for model in client.list().models))  # headers are read in the background
        shown = {model.model: model for model in client.list().models}
        real, folder = shown[MODEL + ":latest"], shown["org/folder:latest"]
        self.assertEqual((real.details.format, folder.details.format), ("gguf", "safetensors"))
        self.assertEqual(real.size, os.path.getsize(default_model()))
        self.assertEqual(folder.size, len(folder_files()["model.safetensors"]))
        self.assertEqual(folder.details.quantization_level, "BF16")
        self.assertRegex(real.details.parameter_size, r"^[0-9.]+M$")
        count = client.show("org/folder").modelinfo["general.parameter_count"]
        weights = folder_files()["model.safetensors"]
        header = json.loads(weights[8:8 + int.from_bytes(weights[:8], "little")])
        elements = 0
        for tensor in header.values():
            size = 1
            for extent in tensor["shape"]:
                size *= extent
            elements += size
        self.assertEqual(count, elements)
        self.assertEqual(round(real.modified_at.timestamp()), int(os.path.getmtime(default_model())))
        self.assertTrue(all(model.details.family for model in shown.values()))

    def test_refusals_name_the_reason(self):
        self.add("org/m", {"m-Q8_0.gguf": self.gguf})
        self.add("org/private", folder_files(), token="hf_secret")
        server, client = self.serve("--pull", "on-demand")
        for status, name, words in ((400, "llama3.2:1b", "ORG/NAME"), (400, "https://example.org/m.gguf", "ORG/NAME"),
                                    (404, "org/m:Q4_K_M", "Q8_0"), (403, "org/private", "HF_TOKEN"), (403, "org/nothing", "org/nothing"),
                                    (404, "org/m@v9", "no such revision"), (400, "org/" + "m" * 90 + ":" + "q" * 60, "128")):
            self.assertIn(words, self.error(status, client.pull, name), name)
        self.assertIn("Q8_0", self.error(None, lambda: list(client.pull("org/m:Q4_K_M", stream=True))))
        self.assertIn("password", json.loads(server.post("/api/pull", {"model": "org/m", "password": "x"})[2])["error"])
        self.hub.faults.other_bytes = True
        self.assertIn("hash", self.error(503, client.pull, "org/m"))
        self.hub.faults.other_bytes = False
        self.assertEqual(self.listed(client), [MODEL + ":latest"])
        self.assertEqual(self.names(), [])
        log = server.log()
        self.assertRegex(log, r"model\.pull_failed.*code=hub_checksum")
        self.assertNotIn("hf_secret", log)
        for path in ("/api/create", "/api/push"):
            self.assertEqual(server.post(path, {"model": "x"})[0], 501)

    def test_connections_need_the_operators_word(self):
        self.add("org/m", {"m-Q8_0.gguf": self.gguf})
        _, client = self.serve()
        self.assertIn("--pull on-demand", self.error(403, client.pull, "org/m"))
        self.assertEqual(client.pull(MODEL).status, "success")  # it is here
        self.assertEqual(client.copy(MODEL, "mine").status, "success")
        self.assertEqual(client.delete("mine").status, "success")
        self.assertEqual(self.hub.requests, [])

    def test_a_client_that_leaves_ends_its_pull(self):
        self.add("org/m", {"m-Q8_0.gguf": self.gguf})
        self.hub.faults.pause_s = 0.02
        server, client = self.serve("--pull", "on-demand")

        def leave():
            for part in client.pull("org/m:Q8_0", stream=True):
                if part.completed:
                    return
        leave()
        eventually(lambda: "tutti_model_pulls_running 0" in server.get("/metrics")[2])
        self.assertEqual(self.listed(client), [MODEL + ":latest"])
        self.hub.faults.pause_s = 0
        self.assertEqual(client.pull("org/m:Q8_0").status, "success")  # from where it was cut

    def test_pulls_run_side_by_side_up_to_a_limit(self):
        for i in range(5):
            self.add(f"org/m{i}", {"m-Q8_0.gguf": self.gguf + bytes([i])})
        self.hub.faults.pause_s = 0.02
        server, client = self.serve("--pull", "on-demand")
        with concurrent.futures.ThreadPoolExecutor(5) as pool:
            # Two clients that want the same model share its file.
            running = [pool.submit(client.pull, f"org/m{min(i, 2)}:Q8_0") for i in range(4)]
            eventually(lambda: "tutti_model_pulls_running 4" in server.get("/metrics")[2])
            self.assertIn("4 pulls run", self.error(503, client.pull, "org/m3:Q8_0"))
            self.assertEqual([done.result().status for done in running], ["success"] * 4)
        self.assertEqual(self.hub.sent["m-Q8_0.gguf"], 3 * (len(self.gguf) + 1))
        self.hub.faults.pause_s = 0
        self.assertEqual(client.pull("org/m3:Q8_0").status, "success")

    def test_a_stop_ends_pulls_and_says_so(self):
        self.add("org/m", {"m-Q8_0.gguf": self.gguf})
        self.hub.faults.pause_s = 0.05
        server, client = self.serve("--pull", "on-demand", stops=False)
        errors = []

        def pull():
            try:
                list(client.pull("org/m:Q8_0", stream=True))
            except ollama.ResponseError as error:
                errors.append(error.error)
        thread = threading.Thread(target=pull)
        thread.start()
        eventually(lambda: "tutti_model_pulls_running 1" in server.get("/metrics")[2])
        self.assertEqual(server.stop(), 0)
        thread.join(STEP_S)
        self.assertEqual(len(errors), 1, errors)


if __name__ == "__main__":
    unittest.main()
