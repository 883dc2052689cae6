"""`tutti embed` and the benches of encoders, on the real all-MiniLM-L6-v2."""
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
import unittest
import xml.dom.minidom

import encoder_models
from encoder_models import EMBEDDER, cosine
from harness import STEP_S, Server, amount, free_port, grpc_streams, judged


def tutti(*arguments, text=None):
    """The ended process; its standard input is `text`, or nothing."""
    return subprocess.run([os.environ["E2E_BINARY"], *arguments], input=text, capture_output=True, timeout=5 * STEP_S,
                          **({} if text is not None else {"stdin": subprocess.DEVNULL}))


class Embed(unittest.TestCase):
    def vectors(self, *arguments, text=None):
        done = tutti("embed", EMBEDDER, *arguments, text=text)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([line["index"] for line in lines], list(range(len(lines))))
        return [line["embedding"] for line in lines]

    def test_lines_and_arguments_give_the_same_vectors_of_length_one(self):
        texts = ["A cat sits on the mat.", "Dogs bark; naïve façades — 東京.", "x"]
        given = self.vectors(*texts)
        self.assertEqual(self.vectors(text="\n".join(texts).encode()), given)
        self.assertEqual([self.vectors(text)[0] for text in texts], given)  # alone, the same bits
        for vector in given:
            self.assertEqual(len(vector), 384)
            self.assertAlmostEqual(sum(x * x for x in vector), 1, places=5)

    def test_vectors_are_those_of_the_reference(self):
        lines = [(text, vector) for text, _, vector in encoder_models.vectors() if len(text.splitlines()) == 1]
        texts, wanted = zip(*lines[:100])
        for dtype, least in (("f32", 0.9999), ("bf16", 0.999), ("int8", 0.99)):
            got = self.vectors("--dtype", dtype, "--truncate", text="\n".join(texts).encode())
            self.assertGreaterEqual(min(map(cosine, got, wanted)), least, dtype)

    def test_a_decoder_gives_vectors_too(self):
        texts = ["A cat sits on the mat.", "The dog barks at the gate."]
        done = tutti("embed", "smollm2-135m-instruct", *texts)
        self.assertEqual(done.returncode, 0, done.stderr)
        both = [json.loads(line)["embedding"] for line in done.stdout.splitlines()]
        alone = json.loads(tutti("embed", "smollm2-135m-instruct", texts[1]).stdout)["embedding"]
        self.assertEqual(both[1], alone)
        self.assertEqual([len(vector) for vector in both], [576, 576])
        self.assertAlmostEqual(sum(x * x for x in alone), 1, places=5)

    def test_writing_line_by_line_gets_each_vector_before_the_next(self):
        texts = ["A cat sits on the mat.", "Dogs bark.", "x"]
        process = subprocess.Popen([os.environ["E2E_BINARY"], "embed", EMBEDDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        stuck = threading.Timer(5 * STEP_S, process.kill)
        stuck.start()
        got = []
        for text in texts:
            process.stdin.write(text + "\n")
            process.stdin.flush()
            got.append(json.loads(process.stdout.readline()))
        process.stdin.close()
        self.assertEqual(process.stdout.read(), "")
        self.assertEqual(process.wait(), 0)
        stuck.cancel()
        process.stdout.close()
        self.assertEqual([line["index"] for line in got], [0, 1, 2])
        self.assertEqual([line["embedding"] for line in got], self.vectors(text="\n".join(texts).encode()))

    def test_texts_before_a_refused_one_are_answered_and_it_is_named(self):
        count = 700  # more than a group
        for bad, said in (("", "text 700 (line 701 of standard input) is empty"),
                          ("word " * 400, "text 700 (line 701 of standard input) has 402 tokens, and the model reads at most 256; --truncate")):
            done = tutti("embed", EMBEDDER, text=("word\n" * count + bad + "\nnever\n").encode())
            self.assertEqual(len(done.stdout.splitlines()), count)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(said, done.stderr.decode())
        self.assertIn(b"text 1 is empty", tutti("embed", EMBEDDER, "a", "").stderr)

    def test_the_nearest_texts_come_first(self):
        done = tutti("embed", EMBEDDER, "--like", "where do cats sit?", "--top", "2",
                     text=b"The stock market fell\nCats like mats\nA dog barks\nKittens sleep on rugs\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.decode().splitlines()
        self.assertEqual({line.split(None, 1)[1] for line in lines}, {"Cats like mats", "Kittens sleep on rugs"})
        self.assertGreater(float(lines[0].split()[0]), float(lines[1].split()[0]))

    def test_what_cannot_be_is_refused_in_one_line(self):
        for arguments, text, said in (([""], None, "empty"), (["word " * 400], None, "256"), ([], b"a\n\nb\n", "line 2"),
                                      (["--dimensions", "7", "a"], None, "384"), (["--prompt-name", "query", "a"], None, "query")):
            done = tutti("embed", EMBEDDER, *arguments, text=text)
            self.assertIn(done.returncode, (1, 78), arguments)
            self.assertIn(said, done.stderr.decode())
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertEqual(len(self.vectors("--truncate", "word " * 400)), 1)
        self.assertIn(b"generates text", tutti("embed", "smollm2-135m-instruct", "--encode-decoders", "off", "a").stderr)
        self.assertIn(b"generates no text", tutti("run", EMBEDDER, "-p", "a").stderr)


class Benches(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write_grid(self, requests, more=""):
        with open(self.path("grid.toml"), "w") as file:
            file.write(f"model = '{EMBEDDER}'\nbatch = [1, 8]\nconcurrency = [1, 4]\nrequests = {requests}\nwarmup = 5\n{more}")

    def grid(self):
        return [os.environ["E2E_BINARY"], "bench", "grid", self.path("grid.toml"), "--out", self.path("out")]

    def cells(self):
        with open(self.path("out.json")) as file:
            return json.load(file)["cells"]

    def check_table(self, cells):
        """The table once showed values that were read from a copy's freed memory."""
        with open(self.path("out.md")) as file:
            rows = [[field.strip() for field in line.split("|")[2:5]] for line in file if line.startswith("| batch ")]
        self.assertCountEqual(rows, [[f"{cell['texts_s']:.0f}", f"{cell['latency_ms']['p50']:.2f}", f"{cell['latency_ms']['p95']:.2f}"]
                                     for cell in cells])

    def test_a_grid_that_was_killed_goes_on_with_the_next_cell(self):
        self.write_grid(amount(20, 50, 300))
        process = subprocess.Popen(self.grid(), stdout=subprocess.DEVNULL)
        limit = time.monotonic() + 2 * STEP_S
        while not (os.path.exists(self.path("out.json")) and self.cells()) and time.monotonic() < limit:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        before = self.cells()
        self.assertIn(len(before), (1, 2, 3))
        done = subprocess.run(self.grid(), capture_output=True, timeout=5 * STEP_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count(b"measured before"), len(before))
        after = {cell["key"]: cell for cell in self.cells()}
        self.assertEqual(len(after), 4)
        for cell in before:
            self.assertAlmostEqual(after[cell["key"]]["seconds"], cell["seconds"], places=9, msg="a cell that was done is not measured again")
        for cell in after.values():
            self.assertEqual(cell["failures"], 0)
            self.assertLessEqual(cell["max_in_flight"], cell["concurrency"])
            self.assertGreater(cell["texts_s"], 0)
        self.check_table(after.values())
        xml.dom.minidom.parse(self.path("out.svg"))

    def test_more_clients_fill_batches_and_keep_the_device_busier(self):
        done = tutti("bench", "encode", EMBEDDER, "--concurrency", "1,8", "--requests", str(amount(40, 100, 500)), "--json", self.path("r.json"))
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("r.json")) as file:
            one, eight = json.load(file)["rows"]
        self.assertEqual(one["forward_batch"], 1)
        if judged("batches of several callers", "the callers share the threads with a model that takes seconds", by=("thread",)):
            self.assertGreater(eight["forward_batch"], 1.2)
        self.assertGreaterEqual(eight["busy"], 0.8 * one["busy"])  # other tests use the cores too
        self.assertGreater(eight["stages_ms"]["queue"], 0)  # how long depends on what else the cores do

    def test_cells_of_other_amounts_are_remeasured_with_a_notice(self):
        self.write_grid(10)
        self.assertEqual(subprocess.run(self.grid(), capture_output=True, timeout=5 * STEP_S).returncode, 0)
        self.write_grid(12)
        done = subprocess.run(self.grid(), capture_output=True, timeout=5 * STEP_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"4 of 4 cells are measured again", done.stdout)
        self.assertEqual(done.stdout.count(b"measured again, before with 10 requests after 5, seed 1"), 4)
        self.assertEqual(sorted(cell["requests"] for cell in self.cells()), [10] * 4 + [12] * 4)
        done = subprocess.run(self.grid(), capture_output=True, timeout=5 * STEP_S)
        self.assertNotIn(b"measured again", done.stdout)
        self.assertEqual(done.stdout.count(b"measured before"), 4)

    @grpc_streams()
    def test_texts_that_the_model_cuts_are_reported_before_measuring(self):
        for kind in ("encode", "grpc"):
            done = tutti("bench", kind, EMBEDDER, "--concurrency", "1", "--requests", "3", "--warmup", "0", "--tokens", "300", "--json", self.path("r.json"))
            self.assertEqual(done.returncode, 0, done.stderr)
            lines = done.stdout.decode().splitlines()
            told = next(i for i, line in enumerate(lines) if "about 300 tokens are asked for" in line)
            self.assertIn("reads 256 of each", lines[told])
            self.assertIn("p99", "".join(lines[told + 1:]))
            with open(self.path("r.json")) as file:
                self.assertEqual(json.load(file)["rows"][0]["tokens_read"], 256)
            done = tutti("bench", kind, EMBEDDER, "--concurrency", "1", "--requests", "3", "--warmup", "0", "--tokens", "256")
            self.assertNotIn(b"is cut", done.stdout)

    def test_a_decoder_is_measured_too(self):
        done = tutti("bench", "encode", "smollm2-135m-instruct", "--concurrency", "1", "--requests", "3", "--warmup", "0")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = tutti("bench", "encode", "smollm2-135m-instruct", "--encode-decoders", "off")
        self.assertEqual(done.returncode, 78, done.stderr)
        self.assertIn(b"--encode-decoders on", done.stderr)

    def test_files_that_are_no_grid_are_refused(self):
        self.write_grid(10, "colour = 3\n")
        done = subprocess.run(self.grid(), capture_output=True, timeout=STEP_S)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b"colour", done.stderr)
        self.write_grid(10)
        with open(self.path("out.json"), "w") as file:
            file.write("{}")
        done = subprocess.run(self.grid(), capture_output=True, timeout=STEP_S)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b"move it away", done.stderr)


class BenchesOfAServer(unittest.TestCase):
    KEY = "a-key-of-sixteen-bytes-or-more"

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--grpc-port", "0", model=EMBEDDER)
        cls.addClassCleanup(cls.server.stop)

    def refused(self, *arguments):
        done = tutti("bench", *arguments)
        self.assertIn(done.returncode, (1, 2, 78), done.stdout)
        self.assertEqual(done.stdout.count(b"FAILED"), 0, done.stdout)
        return done.stderr.decode()

    def test_options_of_a_model_in_here_are_refused_by_name(self):
        for option in (("--dtype", "f32"), ("--threads", "1"), ("--encode-batch-items", "4")):
            for kind in ("encode", "knee", "grpc"):
                said = self.refused(kind, "--url", self.server.url, *option)
                self.assertIn(option[0], said)
                self.assertIn("--url", said)

    def test_a_model_that_is_not_there_is_told_with_those_that_are(self):
        for kind in ("encode", "knee"):
            said = self.refused(kind, "other", "--url", self.server.url)
            self.assertIn(f'"other"; it has {EMBEDDER} (embed)', said)
        self.assertIn(f"no model for generate; it has {EMBEDDER} (embed)", self.refused("serve", "--url", self.server.url))
        self.assertIn(f'"other"; it has {EMBEDDER} (embed)', self.refused("serve", "--url", self.server.url, "--model", "other"))

    def test_texts_that_the_server_refuses_are_refused_at_once(self):
        said = self.refused("encode", "--url", self.server.url, "--tokens", "300")
        self.assertIn("at most 256", said)
        done = tutti("bench", "encode", "--url", self.server.url, "--concurrency", "2", "--requests", "10", "--warmup", "0")
        self.assertEqual(done.returncode, 0, done.stderr)

    @grpc_streams()
    def test_a_key_that_is_missing_is_told_by_its_place(self):
        server = Server("--grpc-port", str(free_port()), model=EMBEDDER, environment={"TUTTI_API_KEY": self.KEY})
        self.addCleanup(server.stop)
        grpc_url = re.search(r"grpc://[0-9.:]+", server.log() + "".join(server.output)).group()
        for arguments in (("encode", "--url", server.url), ("encode", EMBEDDER, "--url", server.url),
                          ("grpc", "--url", grpc_url), ("serve", "--url", server.url)):
            self.assertIn("no key was sent; one is taken from TUTTI_API_KEY", self.refused(*arguments))


if __name__ == "__main__":
    unittest.main()
