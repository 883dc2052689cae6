"""`tutti pull`, `tutti models` and MODEL as ORG/NAME[:QUANT], against a hub on this machine (row R20).

The cache is the one of the huggingface_hub package: each side finds what the other fetched.
"""
import concurrent.futures
import hashlib
import json
import os
import pty
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import folder_model
import tiny_model
from harness import STEP_S, Server, amount, figure, judged, stopped_at_call
from hub_server import HubServer, Repository, blob_hash

JUNK = {"README.md": b"# A model\n", "pytorch_model.bin": b"\x80\x02pickle" * 99, "onnx/model.onnx": b"onnx" * 99,
        "tf_model.h5": b"hdf", "model.fp16.safetensors": b"variant", ".gitattributes": b"*.bin filter=lfs\n",
        "original/consolidated.00.pth": b"pth"}


def read(path):
    with open(path, "rb") as file:
        return file.read()


def folder_files(shards=1):
    with tempfile.TemporaryDirectory() as folder:
        folder_model.write(folder, layers=1, feed_forward=64, shards=shards)
        return {name: read(os.path.join(folder, name)) for name in os.listdir(folder)}


def gguf_file():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.gguf")
        tiny_model.write(path)
        return read(path)


def blob(size, seed):
    return b"GGUF" + random.Random(seed).randbytes(size - 4)


class WithHub(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tutti-pull-")
        self.addCleanup(folder.cleanup)
        self.home = folder.name
        self.cache = os.path.join(self.home, "hub")
        self.hub = HubServer()
        self.addCleanup(self.hub.stop)
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("HF_", "HUGGING", "TRANSFORMERS_", "SSL_CERT", "CURL_CA", "REQUESTS_CA"))}
        self.environment.update(HF_HOME=self.home, HF_ENDPOINT=self.hub.url, TUTTI_CACHE=os.path.join(self.home, "tutti"),
                                HF_HUB_DISABLE_XET="1", HF_HUB_DISABLE_TELEMETRY="1", NO_PROXY="127.0.0.1")

    def add(self, name, files, **more):
        self.hub.repositories[name] = Repository(files, **more)
        return self.hub.repositories[name]

    def tutti(self, *arguments, status=0, stdin=None, **environment):
        done = subprocess.run([os.environ["E2E_BINARY"], *arguments], capture_output=True, timeout=5 * STEP_S, text=True,
                              env={**self.environment, **environment}, input=stdin if stdin is not None else "")
        self.assertEqual(done.returncode, status, (arguments, done.stdout, done.stderr))
        return done.stdout if status == 0 else done.stderr

    def refused(self, code, *arguments, **environment):
        """The pull ends with this error, and the cache has no new name and no blob."""
        text = self.tutti("pull", *arguments, status=1, **environment)
        self.assertIn(f"tutti: {code}: ", text)
        self.assertEqual(self.names(), [], text)
        return text

    def names(self):
        """Everything below snapshots, refs and blobs that is no unfinished file."""
        found = []
        for folder, _, files in os.walk(self.cache):
            kind = os.path.relpath(folder, self.cache).split(os.sep)
            if ".locks" in kind or ".no_exist" in kind:
                continue
            found += [os.path.join(folder, name) for name in files if not name.endswith(".incomplete")]
        return found

    def snapshot(self, name, commit):
        return os.path.join(self.cache, "models--" + name.replace("/", "--"), "snapshots", commit)

    def files_of(self, folder):
        found = {}
        for place, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(place, name)
                found[os.path.relpath(path, folder)] = read(path)
        return found

    def python(self, code):
        """Runs code with the stock huggingface_hub package; what it prints, as JSON."""
        done = subprocess.run([os.sys.executable, "-c", "import json, huggingface_hub as hub\n" + code], capture_output=True, text=True,
                              env=self.environment, timeout=5 * STEP_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)


class Folders(WithHub):
    def test_a_folder_is_pulled_and_found_by_both_programs(self):
        wanted = folder_files(shards=2)
        wanted["1_Pooling/config.json"] = b'{"pooling_mode_mean_tokens": true}'
        commit = self.add("org/small", {**wanted, **JUNK}).refs["main"]
        path = self.tutti("pull", "org/small").splitlines()[-1]
        self.assertEqual(path, self.snapshot("org/small", commit))
        self.assertEqual(self.files_of(path), wanted)
        for name, data in wanted.items():
            link = os.readlink(os.path.join(path, name))
            self.assertEqual(link, "../" * (2 + name.count("/")) + "blobs/" + blob_hash(data, name.endswith(".safetensors")))
        self.assertTrue(any(request.server == "Cdn" for request in self.hub.requests))
        # The package finds each file without a connection, and knows which ones do not exist.
        self.environment["HF_ENDPOINT"] = "http://127.0.0.1:9"
        found = self.python("print(json.dumps([hub.hf_hub_download('org/small', 'model-00002-of-00002.safetensors', local_files_only=True),"
                            " hub.snapshot_download('org/small', local_files_only=True),"
                            " hub.try_to_load_from_cache('org/small', 'vocab.txt') is hub._CACHED_NO_EXIST,"
                            " len(list(hub.scan_cache_dir().repos)), len(hub.scan_cache_dir().warnings)]))")
        self.assertEqual(found, [os.path.join(path, "model-00002-of-00002.safetensors"), path, True, 1, 0])
        # So does Tutti, under the name that was pulled.
        asked = ("-p", "the hens", "-n", "8", "--temperature", "0", "--threads", "1")
        answer = self.tutti("run", "org/small", *asked)
        self.assertEqual(answer, self.tutti("run", path, *asked))
        self.assertEqual(answer, self.tutti("run", "org/small:int8", *asked))
        self.assertEqual(answer, self.tutti("run", "org/small@" + commit, *asked))
        listed = json.loads(self.tutti("models", "--json"))["models"]
        self.assertEqual([(model["name"], model["revision"], model["path"]) for model in listed], [("org/small", commit, path)])
        self.assertIn("org/small", self.tutti("models"))

    def test_a_second_pull_fetches_nothing(self):
        self.add("org/small", folder_files())
        self.assertIn("fetched", self.tutti("pull", "org/small"))
        before = len(self.hub.asked_for_files())
        self.assertIn("already here", self.tutti("pull", "org/small"))
        self.assertEqual(len(self.hub.asked_for_files()), before)
        self.assertEqual(self.hub.sent["model.safetensors"], len(self.hub.repositories["org/small"].find("main")[1]["model.safetensors"]))

    def test_what_the_package_fetched_is_found_and_not_fetched_again(self):
        files = folder_files()
        commit = self.add("org/small", files).refs["main"]
        path = self.python("print(json.dumps(hub.snapshot_download('org/small')))")
        self.assertEqual(path, self.snapshot("org/small", commit))
        sent = dict(self.hub.sent)
        self.assertIn("already here", self.tutti("pull", "org/small"))
        self.assertEqual(dict(self.hub.sent), sent)
        self.assertIn("org/small", self.tutti("models", HF_ENDPOINT="http://127.0.0.1:9"))
        self.tutti("run", "org/small", "-p", "x", "-n", "2", "--threads", "1", HF_ENDPOINT="http://127.0.0.1:9")

    def test_a_new_commit_fetches_only_what_changed(self):
        files = folder_files()
        repository = self.add("org/small", files)
        old = repository.refs["main"]
        self.tutti("pull", "org/small")
        sent = self.hub.sent["model.safetensors"]
        new = repository.commit({**files, "generation_config.json": b'{"temperature": 0.5}'})
        self.assertEqual(self.tutti("pull", "org/small").splitlines()[-1], self.snapshot("org/small", new))
        self.assertEqual(self.hub.sent["model.safetensors"], sent)
        self.assertTrue(os.path.exists(self.snapshot("org/small", old) + "/config.json"))
        repository.commit(files, ref="v1")
        self.assertEqual(self.tutti("pull", "org/small@v1").splitlines()[-1], self.snapshot("org/small", old))
        self.assertIn("no such revision", self.tutti("pull", "org/small@v9", status=1))


class Ggufs(WithHub):
    def setUp(self):
        super().setUp()
        self.whole = gguf_file()
        self.files = {"m-Q4_K_M.gguf": self.whole, "m-Q8_0.gguf": blob(5000, 1), "UD/m-UD-Q4_K_XL.gguf": blob(3000, 2),
                      "big/m-BF16-00001-of-00002.gguf": blob(40000, 3), "big/m-BF16-00002-of-00002.gguf": blob(30000, 4),
                      "mmproj-m-F16.gguf": blob(999, 5), "m.imatrix.gguf": blob(999, 6), "config.json": b"{}"}
        self.commit = self.add("org/m-GGUF", self.files).refs["main"]

    def test_a_quant_is_chosen_by_its_name_or_by_default(self):
        path = self.tutti("pull", "org/m-GGUF").splitlines()[-1]
        self.assertEqual(path, self.snapshot("org/m-GGUF", self.commit) + "/m-Q4_K_M.gguf")
        self.assertEqual(self.files_of(os.path.dirname(path)), {"m-Q4_K_M.gguf": self.whole})
        for quant, names in (("q8_0", ["m-Q8_0.gguf"]), ("Q4_K_XL", ["UD/m-UD-Q4_K_XL.gguf"]),
                             ("BF16", ["big/m-BF16-00001-of-00002.gguf", "big/m-BF16-00002-of-00002.gguf"])):
            path = self.tutti("pull", "org/m-GGUF:" + quant).splitlines()[-1]
            self.assertTrue(path.endswith(names[0]), path)
            for name in names:
                self.assertEqual(read(os.path.join(self.snapshot("org/m-GGUF", self.commit), name)), self.files[name])
        text = self.tutti("pull", "org/m-GGUF:Q5_K_M", status=1)
        self.assertIn("quant_not_found", text)
        self.assertIn("Q8_0", text)
        self.assertNotIn("imatrix", text.lower())

    def test_models_lists_shows_and_removes(self):
        self.tutti("pull", "org/m-GGUF:Q8_0", "org/m-GGUF", "org/m-GGUF:BF16")
        names = [model["name"] for model in json.loads(self.tutti("models", "list", "--json"))["models"]]
        self.assertEqual(names, ["org/m-GGUF:BF16", "org/m-GGUF:Q4_K_M", "org/m-GGUF:Q8_0"])
        shown = json.loads(self.tutti("models", "show", "org/m-GGUF:BF16", "--json"))
        self.assertEqual([file["bytes"] for file in shown["files"]], [40000, 30000])
        self.assertEqual(shown["revision"], self.commit)
        self.assertIn(blob_hash(self.whole, True), self.tutti("models", "show", "org/m-GGUF:Q4_K_M"))
        self.tutti("models", "rm", "org/m-GGUF:BF16")
        self.assertIn("model_not_pulled", self.tutti("models", "rm", "org/m-GGUF:BF16", status=1))
        blobs = os.listdir(os.path.join(self.cache, "models--org--m-GGUF", "blobs"))
        self.assertEqual(sorted(blobs), sorted(blob_hash(self.files[name], True) for name in ("m-Q8_0.gguf", "m-Q4_K_M.gguf")))
        self.tutti("models", "rm", "org/m-GGUF")
        self.assertEqual(self.names(), [])

    def test_a_model_is_served_by_its_name_without_a_network(self):
        self.tutti("pull", "org/m-GGUF:Q4_K_M")
        self.environment.update(HF_ENDPOINT="http://127.0.0.1:9", HF_HUB_OFFLINE="1")
        server = Server(model="org/m-GGUF:Q4_K_M", environment=self.environment)
        try:
            self.assertEqual(server.models(), ["org/m-GGUF:Q4_K_M"])
        finally:
            self.assertEqual(server.stop(), 0)
        self.assertIn("already here", self.tutti("pull", "org/m-GGUF:Q4_K_M"))
        self.refused_offline("org/m-GGUF:Q8_0")
        self.assertIn("which has Q4_K_M of it", self.tutti("run", "org/m-GGUF:Q8_0", "-p", "x", status=1))
        for command in (("run", "org/m-GGUF:Q8_0", "-p", "x"), ("serve", "org/other"), ("tokenize", "org/other"), ("inspect", "org/other"),
                        ("embed", "org/other", "x"), ("bench", "engine", "org/other")):
            text = self.tutti(*command, status=1)
            self.assertIn("model_not_pulled", text)
            self.assertIn("run: tutti pull org/", text)

    def refused_offline(self, name):
        self.assertIn("hub_offline", self.tutti("pull", name, status=1))

    def test_a_server_pulls_on_demand_only_if_told_so(self):
        self.assertIn("model_not_pulled", self.tutti("serve", "org/m-GGUF", "--port", "0", status=1))
        self.assertEqual(self.hub.requests, [])
        server = Server("--pull", "on-demand", model="tiny=org/m-GGUF:Q4_K_M", environment=self.environment)
        try:
            self.assertEqual(server.models(), ["tiny"])
        finally:
            self.assertEqual(server.stop(), 0)
        self.assertEqual(self.hub.sent["m-Q4_K_M.gguf"], len(self.whole))


class Connections(WithHub):
    """The bytes are right, or there is no file, whatever the network does."""
    SIZE = 700_000

    def setUp(self):
        super().setUp()
        self.data = blob(self.SIZE, 8)
        self.commit = self.add("org/m", {"m-Q8_0.gguf": self.data, "README.md": b"x"}).refs["main"]

    def check(self):
        self.assertEqual(self.files_of(self.snapshot("org/m", self.commit)), {"m-Q8_0.gguf": self.data})
        blobs = os.path.join(self.cache, "models--org--m", "blobs")
        self.assertEqual(os.listdir(blobs), [blob_hash(self.data, True)])

    def test_resumes_when_cut_at_every_64_kib(self):
        self.hub.faults.cut_every = 64 << 10
        self.tutti("pull", "org/m")
        self.check()
        self.assertEqual(self.hub.sent["m-Q8_0.gguf"], self.SIZE, "no byte is sent twice")

    def test_a_server_that_cuts_after_each_byte_is_given_up(self):
        self.hub.faults.cut_every = 1
        self.refused("hub_unreachable", "org/m")
        self.assertLess(len(self.hub.asked_for_files()), 20)
        self.hub.faults.cut_every = 0
        self.tutti("pull", "org/m")
        self.check()

    def test_a_server_without_ranges_is_asked_for_the_whole_file(self):
        self.hub.faults.cut_every = 300_000
        self.hub.faults.cuts_left = 2
        self.hub.faults.ignore_range = True
        self.tutti("pull", "org/m")
        self.check()

    def test_waits_as_the_hub_asks_and_tries_again(self):
        self.hub.faults.listing_statuses = [(429, {"Retry-After": "1"}), (503, {})]
        self.hub.faults.statuses = [(500, {}), (429, {"Retry-After": "0"})]
        start = time.monotonic()
        self.tutti("pull", "org/m")
        self.assertGreater(time.monotonic() - start, 1)
        self.check()

    def test_a_hub_that_stays_busy_is_given_up_with_advice(self):
        self.hub.faults.listing_statuses = [(429, {"Retry-After": "900"})]
        self.refused("hub_busy", "org/m")
        self.hub.faults.statuses = [(503, {})] * 9
        with concurrent.futures.ThreadPoolExecutor() as pool:  # each waits between its tries
            busy = pool.submit(self.refused, "hub_unreachable", "org/m")
            dead = pool.submit(self.refused, "hub_unreachable", "org/m", HF_ENDPOINT="http://127.0.0.1:9")
        self.assertIn("503", busy.result())
        self.assertIn("127.0.0.1:9", dead.result())

    def test_a_stalled_connection_is_replaced(self):
        self.hub.faults.stall_at = 300_000
        waiting = threading.Timer(0.5, lambda: setattr(self.hub.faults, "stall_at", None))
        waiting.start()
        self.addCleanup(waiting.cancel)
        self.tutti("pull", "org/m", HF_HUB_DOWNLOAD_TIMEOUT="1")
        self.check()

    def test_killed_pulls_resume_to_the_right_bytes(self):
        self.hub.faults.pause_s = 0.004
        rng = random.Random(5)
        kills, finished = amount(3, 6, 50), 0
        for _ in range(kills):
            process = subprocess.Popen([os.environ["E2E_BINARY"], "pull", "org/m"], env=self.environment, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            time.sleep(rng.uniform(0.02, 0.25))
            process.kill()
            process.wait()
            blobs = [path for path in self.names() if "blobs" in path.split(os.sep)]
            self.assertEqual([read(path) for path in blobs], [self.data] * len(blobs))
            if len(self.names()) > len(blobs):  # it may have got to its end
                self.check()
                self.tutti("models", "rm", "org/m")
                finished += 1
        self.assertLess(finished, kills, "no kill came in time")
        self.hub.faults.pause_s = 0
        self.tutti("pull", "org/m")
        self.check()

    def test_progress_shows_rate_and_time_left(self):
        self.hub.faults.pause_s = 0.02
        ours, theirs = pty.openpty()
        process = subprocess.Popen([os.environ["E2E_BINARY"], "pull", "org/m"], env=self.environment, stdout=subprocess.DEVNULL, stderr=theirs)
        os.close(theirs)
        text = b""
        while True:
            try:
                text += os.read(ours, 4096)
            except OSError:  # its other end is closed
                break
        os.close(ours)
        self.assertEqual(process.wait(), 0)
        self.assertRegex(text, rb"pulling org/m at [0-9a-f]{12}: 1 file, 700.0 kB to ")
        self.assertRegex(text, rb"\r\x1b\[Ktutti: [\d.]+ kB of 700.0 kB \(\d+ %\), [\d.]+ [kM]B/s, \d+ s left")
        self.tutti("models", "rm", "org/m")
        self.hub.faults.pause_s = 0
        done = subprocess.run([os.environ["E2E_BINARY"], "pull", "org/m"], env=self.environment, capture_output=True, text=True)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_two_pulls_share_one_download(self):
        self.hub.faults.pause_s = 0.01
        processes = [subprocess.Popen([os.environ["E2E_BINARY"], "pull", "org/m"], env=self.environment, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True) for _ in range(3)]
        outputs = [process.communicate(timeout=STEP_S) for process in processes]
        self.assertEqual([process.returncode for process in processes], [0, 0, 0], outputs)
        self.check()
        self.assertEqual(self.hub.sent["m-Q8_0.gguf"], self.SIZE)
        self.assertEqual(sum("already here" in out for out, _ in outputs), 2, outputs)
        self.assertTrue(any("waiting for it" in errors for _, errors in outputs), outputs)

    def test_a_file_that_is_being_pulled_is_not_removed(self):
        self.hub.faults.pause_s = 0.05
        process = subprocess.Popen([os.environ["E2E_BINARY"], "pull", "org/m"], env=self.environment, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        blobs = os.path.join(self.cache, "models--org--m", "blobs")
        deadline = time.monotonic() + STEP_S
        while not (os.path.isdir(blobs) and os.listdir(blobs)) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertIn("cache_busy", self.tutti("models", "rm", "org/m", status=1))
        process.send_signal(signal.SIGINT)
        process.wait()
        unfinished = json.loads(self.tutti("models", "--json"))["unfinished"]
        self.assertEqual([(model["name"], model["bytes"] > 0) for model in unfinished], [("org/m", True)])
        self.assertIn("unfinished: org/m, ", self.tutti("models"))
        self.tutti("models", "rm", "--unfinished", "org/m")
        self.assertEqual(json.loads(self.tutti("models", "--json"))["unfinished"], [])
        self.assertEqual(self.names(), [])

    def test_a_foreign_beginning_of_a_file_is_replaced(self):
        blobs = os.path.join(self.cache, "models--org--m", "blobs")
        os.makedirs(blobs)
        with open(os.path.join(blobs, blob_hash(self.data, True) + ".incomplete"), "wb") as file:
            file.write(bytes(200_000))
        self.tutti("pull", "org/m")
        self.check()


@unittest.skipUnless(judged("a pull that ends at a system call", "a sanitizer must be loaded before other libraries"), "sanitized")
class StoppedAtACall(WithHub):
    """At each call that changes a file the program is killed, or the disk is full from then on: what is there is right."""

    def setUp(self):
        super().setUp()
        self.files = {**folder_files(shards=2), "1_Pooling/config.json": b"{}"}
        repository = self.add("org/m", {**self.files, "config.json": self.files["config.json"] + b" "})
        self.tutti("pull", "org/m")  # an older commit
        self.old = repository.refs["main"]
        self.kept = os.path.join(self.home, "kept")
        os.rename(self.cache, self.kept)
        repository.commit(self.files)
        self.new = repository.refs["main"]
        self.hub.faults.cut_every = 100_000

    def restore(self):
        shutil.rmtree(self.cache, ignore_errors=True)
        shutil.copytree(self.kept, self.cache, symlinks=True)
        blobs = os.path.join(self.cache, "models--org--m", "blobs")
        os.unlink(os.path.join(blobs, blob_hash(self.files["model-00002-of-00002.safetensors"], True)))  # to be fetched again
        os.unlink(os.path.join(self.snapshot("org/m", self.old), "model-00002-of-00002.safetensors"))

    def run_stopped(self, call, kind):
        self.restore()
        return subprocess.run([os.environ["E2E_BINARY"], "pull", "org/m"], capture_output=True, text=True, timeout=STEP_S,
                              env={**self.environment, **stopped_at_call(self.home, call, kind)})

    def check(self):
        """Each name that is there has the right content, and the new commit can be found only if all of it is there."""
        right = {blob_hash(data, name.endswith(".safetensors")): data for name, data in self.files.items()}
        blobs = os.path.join(self.cache, "models--org--m", "blobs")
        for name in os.listdir(blobs):
            if name in right:
                self.assertEqual(read(os.path.join(blobs, name)), right[name])
        new = self.files_of(self.snapshot("org/m", self.new))
        for name, data in new.items():
            self.assertEqual(data, self.files[name])
        found = json.loads(self.tutti("models", "--json"))["models"]
        for model in found:
            self.assertEqual((model["revision"], new), (self.new, self.files))
        return len(found)

    def test_any_call_may_be_the_last(self):
        whole = self.run_stopped(0, "kill")
        self.assertEqual((whole.returncode, self.check()), (0, 1), whole.stderr)
        calls = int(read(os.path.join(self.home, "count")))
        self.assertGreater(calls, 30)
        figure(f"calls that change a file: {calls}")
        found = []
        for kind, step in (("kill", amount(31, 23, 1)), ("full", amount(43, 41, 1))):
            for call in sorted({*range(1, calls + 1, step), calls}):
                with self.subTest(kind=kind, call=call, of=calls):
                    done = self.run_stopped(call, kind)
                    found.append(self.check())
                    if kind == "full" and done.returncode != 0:
                        self.assertEqual((done.returncode, done.stderr.count("tutti: disk_full: ")), (1, 1), done.stderr)
                    self.tutti("pull", "org/m")
                    self.assertEqual(self.check(), 1)
                    left = [name for _, _, names in os.walk(self.cache) for name in names if "tmp" in name or name.endswith(".incomplete")]
                    self.assertEqual(left, [])
        self.assertIn(0, found)
        self.assertIn(1, found)


class Tokens(WithHub):
    def test_the_token_goes_to_the_hub_and_nowhere_else(self):
        self.add("org/private", folder_files(), token="hf_secret")
        text = self.refused("hub_denied", "org/private")
        self.assertIn("HF_TOKEN", text)
        self.refused("hub_denied", "org/private", HF_TOKEN="hf_wrong")
        with open(os.path.join(self.home, "token"), "w") as file:
            file.write("hf_secret\n")
        self.tutti("pull", "org/private")
        for request in self.hub.requests:
            self.assertEqual("authorization" in request.headers and request.server == "Cdn", False, request)
        self.assertNotIn("hf_secret", self.tutti("pull", "org/none", status=1, HF_TOKEN="hf_secret"))

    def test_a_gated_model_is_refused_with_its_page(self):
        self.add("org/gated", folder_files(), token="gated")
        self.assertIn(self.hub.url + "/org/gated", self.refused("hub_denied", "org/gated", HF_TOKEN="hf_mine"))


class Lies(WithHub):
    """A hub, or what stands in between, that sends what it should not."""

    def setUp(self):
        super().setUp()
        self.data = blob(200_000, 8)
        self.add("org/m", {"m-Q8_0.gguf": self.data, "extra.txt": b"x"})
        self.faults = self.hub.faults

    def test_other_lengths_and_contents_leave_nothing(self):
        self.faults.short = 10
        self.refused("hub_length", "org/m")
        self.faults.short = 0
        self.faults.extra = b"more"
        self.refused("hub_length", "org/m")
        self.faults.extra = b""
        self.faults.other_bytes = True
        self.refused("hub_checksum", "org/m")
        self.faults.other_bytes = False
        self.assertEqual([name for _, _, files in os.walk(self.cache) for name in files if name.endswith(".incomplete")], [])
        self.tutti("pull", "org/m")

    def test_a_web_page_and_a_compressed_body_are_no_models(self):
        self.faults.html = True
        self.assertIn("web page", self.refused("hub_reply", "org/m"))
        self.faults.html = False
        self.faults.content_encoding = "gzip"
        self.assertIn("compressed", self.refused("hub_reply", "org/m"))

    def test_redirects_end(self):
        self.faults.loop = True
        self.refused("hub_redirect", "org/m")

    def test_names_that_lead_out_of_the_folder_are_refused(self):
        for path in ("../m-Q8_0.gguf", "/tmp/m-Q8_0.gguf", "a/../../m-Q8_0.gguf", "a//m-Q8_0.gguf", "a\\..\\m.gguf", "a\nb.gguf", "", ".",
                     "./m.gguf", "a/"):
            self.faults.listing = lambda entries, path=path: entries[0].update(path=path)
            self.refused("hub_reply", "org/m")
        for change in ({"size": -1}, {"size": "9"}, {"lfs": {"oid": "../../x", "size": 9}}, {"lfs": {"oid": "a" * 64}},
                       {"oid": "z" * 40, "lfs": None}, {"path": 7}):
            self.faults.listing = lambda entries, change=change: entries[-1].update(change)
            self.refused("hub_reply", "org/m")
        self.faults.listing = lambda entries: entries.append(dict(entries[-1]))
        self.assertIn("twice", self.refused("hub_reply", "org/m"))
        self.assertEqual(os.listdir(self.home), sorted(os.listdir(self.home), key=lambda name: name != "hub"))

    def test_lists_that_are_no_lists_are_refused(self):
        for body in (b"", b"<html>", b"{}", b"[" * 5000, b"[1]", b'[{"type":"file"}]', b"\xff\xfe[]", b"[" + b"0," * 3_000_000 + b"0]"):
            self.faults.listing_body = body
            self.refused("hub_reply", "org/m")
        self.faults.listing_body = None
        self.add("org/none", {"README.md": b"x", "pytorch_model.bin": b"y"})
        self.refused("quant_not_found", "org/none")
        self.add("org/part", {"m-00001-of-00003.gguf": b"GGUF", "m-00002-of-00003.gguf": b"GGUF"})
        self.refused("model_incomplete", "org/part")
        self.refused("hub_denied", "org/absent")
        self.assertIn("make models", self.tutti("pull", "smollm2-135m-instruct", status=1))
        for name in ("org", "org/", "/m", "org/m/x", "org/..", "org/m:", "org/m@", "org/m@../x", "org/a--b", "org/m:a/b"):
            self.assertIn("invalid_value", self.tutti("pull", name, status=78))

    def test_a_full_disk_is_named_before_and_while_it_fills(self):
        def huge(entries):
            entries[0]["lfs"]["size"] = 1 << 46
        self.faults.listing = huge
        self.assertIn("MB free", self.refused("disk_full", "org/m"))
        self.assertEqual(self.hub.asked_for_files(), [])
        self.faults.listing = None
        not_a_folder = os.path.join(self.home, "file")
        with open(not_a_folder, "w"):
            pass
        self.assertIn("HF_HUB_CACHE", self.refused("cache_error", "org/m", HF_HUB_CACHE=not_a_folder))
        # A limit of file sizes fails as a full disk does.
        done = subprocess.run(["bash", "-c", 'ulimit -f 100; exec "$0" pull org/m', os.environ["E2E_BINARY"]], env=self.environment,
                              capture_output=True, text=True, timeout=STEP_S)
        self.assertEqual((done.returncode, self.names()), (1, []), done.stderr)
        self.assertIn("tutti: disk_full: ", done.stderr)
        self.tutti("pull", "org/m")

    def test_links_out_of_the_cache_are_neither_read_nor_written(self):
        self.tutti("pull", "org/m")
        repository = os.path.join(self.cache, "models--org--m")
        commit = os.listdir(os.path.join(repository, "snapshots"))[0]
        link = os.path.join(repository, "snapshots", commit, "m-Q8_0.gguf")
        outside = os.path.join(self.home, "outside.gguf")
        with open(outside, "wb") as file:
            file.write(self.data)
        os.unlink(link)
        os.symlink(outside, link)
        self.assertIn("cache_link", self.tutti("inspect", "org/m", status=1))
        self.tutti("pull", "org/m")  # puts the right link there
        self.assertTrue(os.readlink(link).startswith("../../blobs/"))
        # An unfinished file that is a link is not written through.
        self.tutti("models", "rm", "org/m")
        os.makedirs(os.path.join(repository, "blobs"))
        os.symlink(outside, os.path.join(repository, "blobs", blob_hash(self.data, True) + ".incomplete"))
        os.truncate(outside, 0)
        self.refused_by_link()
        self.assertEqual(os.path.getsize(outside), 0)
        os.unlink(os.path.join(repository, "blobs", blob_hash(self.data, True) + ".incomplete"))
        # Neither is a folder of the snapshot.
        self.add("org/deep", {"sub/m-Q8_0.gguf": self.data})
        commit = self.hub.repositories["org/deep"].refs["main"]
        os.makedirs(self.snapshot("org/deep", commit))
        os.symlink(self.home, os.path.join(self.snapshot("org/deep", commit), "sub"))
        self.assertIn("cache_link", self.tutti("pull", "org/deep", status=1))
        self.assertFalse(os.path.lexists(os.path.join(self.home, "m-Q8_0.gguf")))

    def refused_by_link(self):
        self.assertIn("cache_error", self.tutti("pull", "org/m", status=1))


class Https(WithHub):
    def certificate(self):
        paths = [os.path.join(self.home, name) for name in ("cert.pem", "key.pem")]
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                        "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", paths[1], "-out", paths[0]],
                       check=True, capture_output=True)
        return paths

    def test_certificates_are_checked_and_redirects_stay_on_https(self):
        paths = self.certificate()
        hub = HubServer(certificate=paths)
        self.addCleanup(hub.stop)
        data = blob(100_000, 3)
        hub.repositories["org/m"] = Repository({"m-Q8_0.gguf": data})
        self.environment["HF_ENDPOINT"] = hub.url
        self.refused("hub_certificate", "org/m")
        hub.faults.plain_redirect = True
        self.refused("hub_redirect", "org/m", SSL_CERT_FILE=paths[0])
        hub.faults.plain_redirect = False
        hub.faults.cut_every = 64 << 10
        path = self.tutti("pull", "org/m", SSL_CERT_FILE=paths[0]).splitlines()[-1]
        self.assertEqual(read(path), data)


class Urls(WithHub):
    def setUp(self):
        super().setUp()
        self.data = gguf_file()
        self.hub.repositories["plain"] = self.data
        self.url = self.hub.url + "/plain/model.gguf"
        self.digest = hashlib.sha256(self.data).hexdigest()

    def test_a_url_is_pulled_checked_listed_served_and_removed(self):
        self.assertIn("hub_checksum", self.tutti("pull", self.url, "--sha256", "0" * 64, status=1))
        self.assertEqual(json.loads(self.tutti("models", "--json"))["models"], [])
        self.hub.faults.cut_every = 64 << 10
        path = self.tutti("pull", self.url + "?signature=secret", "--sha256", self.digest.upper()).splitlines()[-1]
        self.assertEqual(read(path), self.data)
        self.assertIn("already here", self.tutti("pull", self.url))
        self.assertIn("already_different", self.tutti("pull", self.url, "--sha256", "1" * 64, status=1))
        listed = json.loads(self.tutti("models", "--json"))["models"]
        self.assertEqual([(model["name"], model["files"][0]["hash"]) for model in listed], [(self.url, self.digest)])
        self.tutti("run", self.url, "-p", "x", "-n", "2", "--threads", "1", HF_ENDPOINT="http://127.0.0.1:9")
        self.tutti("models", "rm", self.url)
        self.assertIn("model_not_pulled", self.tutti("run", self.url, "-p", "x", status=1))

    def test_a_url_without_a_hash_resumes_only_equal_content(self):
        self.hub.faults.cut_every = 64 << 10
        self.hub.faults.cuts_left = 1
        self.hub.faults.pause_s = 0.01
        self.hub.faults.statuses = []
        process = subprocess.Popen([os.environ["E2E_BINARY"], "pull", self.url], env=self.environment, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        while self.hub.sent["plain"] < 100_000 and process.poll() is None:
            time.sleep(0.005)
        process.kill()
        process.wait()
        self.hub.faults.pause_s = 0
        other = self.data[:-1] + bytes([self.data[-1] ^ 1])
        self.hub.repositories["plain"] = other
        path = self.tutti("pull", self.url).splitlines()[-1]
        self.assertEqual(read(path), other)

    def test_a_url_that_announces_more_than_the_disk_has_is_refused(self):
        self.hub.faults.announced = 1 << 49
        self.assertIn("disk_full", self.tutti("pull", self.url, status=1))
        self.assertLess(self.hub.sent["plain"], 1 << 20)
        self.hub.faults.announced = None
        self.assertEqual(read(self.tutti("pull", self.url).splitlines()[-1]), self.data)

    def test_what_is_no_gguf_url_is_refused(self):
        for url in ("http://192.0.2.1/m.gguf", "https://example.org/", "https://example.org/m.bin", "https://u:p@example.org/m.gguf",
                    "https://example.org/%2e%2e%2fm.gguf", "https://exa mple.org/m.gguf", "https:///m.gguf"):
            self.assertIn("invalid_value", self.tutti("pull", url, status=78))
        self.hub.repositories["plain"] = b"<html>not found</html>"
        self.assertIn("not a GGUF file", self.tutti("pull", self.url, status=1))
        self.assertIn("invalid_value", self.tutti("pull", "org/m", "--sha256", self.digest, status=78))


if __name__ == "__main__":
    unittest.main()
