"""A frontend and its workers over the real socket and model: kills, drains, restarts on either side, and a request that kills each
worker that computes it (rows U52, N72)."""
import concurrent.futures
import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import openai

from harness import MODEL, SLOWER, STEP_S, Server, default_model, eventually, events, figure, judged, grpc_streams
from test_jobs import ASYNC, chat, ended, submit

TUTTI = os.environ["E2E_BINARY"]
STREAMS = 64


class Worker:
    """`tutti worker` with a store folder's socket; its engine is a child of the process that is started. `model` "": none, for
    `--models`."""

    def __init__(self, folder, *options, model=None):
        self.errors = tempfile.TemporaryFile()
        models = [] if model == "" else [model or default_model()]
        self.process = subprocess.Popen([TUTTI, "worker", *models, "--store", folder, "--threads", "1", *options],
                                        stdout=subprocess.DEVNULL, stderr=self.errors)

    def log(self):
        return os.pread(self.errors.fileno(), 1 << 24, 0).decode(errors="replace")

    def engine(self):
        """The process that computes; 0 while there is none."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0]) if children else 0

    def kill_engine(self):
        os.kill(self.engine(), signal.SIGKILL)

    def stop(self):
        """The exit status after SIGTERM."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=STEP_S)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.errors.close()


class World:
    """A store's folder, its frontend and some workers."""

    def __init__(self, workers=1, frontend=(), worker=("--max-num-seqs", "16"), model=None):
        self.folder = tempfile.TemporaryDirectory()
        self.store = self.folder.name + "/store"
        self.front_options, self.worker_options, self.model = frontend, worker, model
        self.frontend = self.start_frontend()
        self.workers = []
        for _ in range(workers):
            self.add()

    def start_frontend(self):
        server = Server("--store", self.store, *self.front_options, model="--role=frontend", wait=False)
        server.wait_listening()
        return server

    def add(self):
        before = self.attached()
        self.workers.append(Worker(self.worker_folder(), *self.worker_options, model=self.model))
        eventually(lambda: self.attached() == before + 1, self.frontend.log)
        return self.workers[-1]

    def worker_folder(self):
        return self.store

    def attached(self):
        return int(self.frontend.metric("tutti_workers", state="serving"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for worker in self.workers:
            worker.stop()
        self.frontend.stop()
        self.folder.cleanup()


class Stream:
    """One streamed chat, read by a thread of its own."""

    def __init__(self, server, text, tokens, **fields):
        self.text, self.error, self.status, self.ended_at, self.failure = "", None, None, None, None
        self.begun = threading.Event()
        body = chat(text, tokens, stream=True, ignore_eos=True, **fields)
        self.thread = threading.Thread(target=self.read, args=(server.port, body), daemon=True)
        self.thread.start()

    def read(self, port, body):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=3 * STEP_S)
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            self.status = response.status
            if self.status != 200:
                self.error = json.loads(response.read())["error"]
            while line := response.readline():
                if not line.startswith(b"data: {"):
                    continue
                event = json.loads(line[6:])
                if "error" in event:
                    self.error = event["error"]
                elif event["choices"] and event["choices"][0]["delta"].get("content"):
                    self.text += event["choices"][0]["delta"]["content"]
                    self.begun.set()
        except (OSError, http.client.HTTPException) as failure:
            self.failure = failure
        self.ended_at = time.monotonic()
        self.begun.set()
        connection.close()

    def join(self):
        self.thread.join(3 * STEP_S)
        assert not self.thread.is_alive()
        return self


def ask(server, text, tokens=16, **fields):
    return server.post_json("/v1/chat/completions", chat(text, tokens, **fields))["choices"][0]["message"]["content"]


@grpc_streams()
class Workers(unittest.TestCase):
    def test_a_front_answers_as_one_process_does(self):
        with World(worker=("--max-num-seqs", "16", "--cache-exact", "on")) as world:
            one = Server("--threads", "1")
            try:
                for text in ("Name three colours.", "Bonjour", "日本語で"):
                    self.assertEqual(ask(world.frontend, text), ask(one, text))
                for path, body in (("/v1/completions", {"model": MODEL, "prompt": ["One,", "Two,"], "max_tokens": 8, "temperature": 0,
                                                        "logprobs": 2, "echo": True}),
                                   ("/tokenize", {"model": MODEL, "prompt": "Hello <|im_end|>"}),
                                   ("/detokenize", {"model": MODEL, "tokens": [19556, 905]})):
                    answers = [server.post_json(path, body) for server in (world.frontend, one)]
                    for answer in answers:
                        answer.pop("id", None), answer.pop("created", None)
                    self.assertEqual(answers[0], answers[1])
                refused = [server.post("/v1/chat/completions", chat("x", 100000)) for server in (world.frontend, one)]
                self.assertEqual((refused[0][0], refused[0][2]), (refused[1][0], refused[1][2]))
            finally:
                one.stop()
            client = openai.OpenAI(base_url=world.frontend.url + "/v1", api_key="none", timeout=STEP_S)
            response = client.responses.create(model=MODEL, input="Say hello.", max_output_tokens=16, temperature=0)
            again = client.responses.create(model=MODEL, input="And again.", previous_response_id=response.id, max_output_tokens=16)
            self.assertEqual(again.previous_response_id, response.id)
            outcomes = [world.frontend.post("/v1/chat/completions", chat("Cache me."))[1]["x-cache"] for _ in range(2)]
            self.assertEqual(outcomes, ["miss", "hit"])
            flushed = subprocess.run([TUTTI, "cache", "flush", "--store", world.store], capture_output=True, text=True, timeout=STEP_S)
            self.assertEqual(flushed.returncode, 0, flushed.stderr)
            self.assertEqual(world.frontend.post("/v1/chat/completions", chat("Cache me."))[1]["x-cache"], "miss")
            # Only this user may open the socket.
            self.assertEqual(os.stat(world.store + "/workers.sock").st_mode & 0o077, 0)

    def test_a_killed_worker_ends_64_streams_within_1_s_and_restarts(self):
        """Row N72: the servers stay up, what was in flight ends with 503, the model is loaded again by itself."""
        with World(worker=("--max-num-seqs", str(STREAMS))) as world:
            streams = [Stream(world.frontend, f"Tell story {i}.", 4000) for i in range(STREAMS)]
            for stream in streams[:8]:
                self.assertTrue(stream.begun.wait(STEP_S))
            eventually(lambda: world.frontend.load()["running"] > STREAMS // 2)
            first = world.workers[0].engine()
            slowest, stop = [0.0], threading.Event()

            def probe():
                while not stop.is_set():
                    begin = time.monotonic()
                    assert world.frontend.get("/livez")[0] == 200
                    slowest[0] = max(slowest[0], time.monotonic() - begin)

            prober = threading.Thread(target=probe)
            prober.start()
            begun = [stream for stream in streams if stream.begun.is_set()]
            killed = time.monotonic()
            world.workers[0].kill_engine()
            for stream in streams:
                stream.join()
                self.assertIsNone(stream.failure)
                # A request that comes while there is no worker is told so.
                self.assertIn(stream.error["code"], ("worker_lost",) if stream in begun else ("worker_lost", "model_loading"))
            last = max(stream.ended_at for stream in streams) - killed
            figure(f"frontend: 64 streams ended {last * 1000:.0f} ms after their worker was killed; slowest probe {slowest[0] * 1000:.1f} ms")
            self.assertLess(last, 1.0 * SLOWER)
            eventually(lambda: world.attached() == 1, world.frontend.log)
            stop.set()
            prober.join()
            self.assertNotEqual(world.workers[0].engine(), first)
            self.assertIn("killed by signal 9", world.workers[0].log())
            self.assertTrue(ask(world.frontend, "Are you back?"))
            self.assertEqual(world.workers[0].stop(), 0)

    def test_another_worker_goes_on_with_what_a_killed_one_had(self):
        """Row U52, one removed under load, the hard way: 0 errors, and the texts are those of an undisturbed run."""
        texts = [f"List facts about the number {i}." for i in range(8)]
        with World(workers=2, worker=("--max-num-seqs", "8"), model=MODEL) as world:  # whose answers last long enough
            whole = [ask(world.frontend, text, 160, ignore_eos=True) for text in texts]
            streams = [Stream(world.frontend, text, 160) for text in texts]
            for stream in streams[:6]:
                self.assertTrue(stream.begun.wait(STEP_S))
            world.workers[0].kill_engine()
            for stream, text in zip(streams, whole):
                stream.join()
                self.assertIsNone(stream.error)
                self.assertEqual(stream.text, text)
            self.assertGreater(world.frontend.metric("tutti_lost_requests_total", outcome="resumed"), 0)

    def test_a_worker_that_is_stopped_under_load_loses_nothing(self):
        """Row U52, one removed under load: 0 errors, 0 duplicates."""
        with World(workers=2, worker=("--max-num-seqs", "8")) as world:
            counted = chats_answered(world.frontend)
            stop = threading.Event()

            def client(number):
                done = 0
                while not stop.is_set():
                    answer = world.frontend.post_json("/v1/chat/completions", chat(f"{number}: count", 12, ignore_eos=True))
                    assert answer["usage"]["completion_tokens"] == 12
                    done += 1
                return done

            with concurrent.futures.ThreadPoolExecutor(12) as pool:
                clients = [pool.submit(client, number) for number in range(12)]
                time.sleep(1)
                self.assertEqual(world.workers[0].stop(), 0)
                world.workers.pop(0)
                time.sleep(1)
                world.add()
                time.sleep(1)
                stop.set()
                answers = sum(future.result(timeout=STEP_S) for future in clients)
            self.assertEqual(chats_answered(world.frontend) - counted, answers)
            self.assertEqual(world.frontend.metric("tutti_workers_lost_total"), 0)

    def test_with_a_stopped_worker_other_requests_are_answered(self):
        with World(frontend=("--http-io-threads", "1")) as world:
            server, engine = world.frontend, world.workers[0].engine()
            short, long = ({"model": MODEL, "prompt": text} for text in ("Hello", "Hello " * 1500))
            server.post_json("/tokenize", short)
            os.kill(engine, signal.SIGSTOP)
            try:
                with concurrent.futures.ThreadPoolExecutor(24) as pool:
                    begun = time.monotonic()
                    asked = [pool.submit(server.post, "/tokenize", body) for body in [short, long] * 12]
                    slowest = 0
                    while not all(question.done() for question in asked):
                        before = time.monotonic()
                        self.assertEqual(server.get("/livez")[0], 200)
                        self.assertEqual(server.get("/v1/models")[0], 200)
                        slowest = max(slowest, time.monotonic() - before)
                        time.sleep(0.02)
                    took = time.monotonic() - begun
                self.assertEqual({question.result()[0] for question in asked}, {503})
                self.assertLess(slowest, 1.5 * SLOWER)
                self.assertLess(took, 4 * SLOWER)
                # The worker is now known to be silent, so that new requests fail without a wait.
                time.sleep(max(0.0, 3.5 - took))
                before = time.monotonic()
                self.assertEqual(server.post("/tokenize", short)[0], 503)
                self.assertLess(time.monotonic() - before, 1.5 * SLOWER)
            finally:
                os.kill(engine, signal.SIGCONT)
            eventually(lambda: server.post("/tokenize", short)[0] == 200, server.log)

    def test_a_request_that_kills_its_worker_is_set_aside(self):
        """Row N72: the worker that computes the poison request is killed as soon as the request's first words are seen. After two
        deaths the request is refused, and the other 31 are answered, each after one more try at most."""
        with World(worker=("--max-num-seqs", "32")) as world:
            poison = "This text kills."
            others = [Stream(world.frontend, f"Harmless {i}.", 600) for i in range(31)]
            for death in range(2):
                bad = Stream(world.frontend, poison, 600)
                self.assertTrue(bad.begun.wait(STEP_S))
                world.workers[0].kill_engine()
                bad.join()
                self.assertEqual(bad.error["code"], ["worker_lost", "request_quarantined"][death], (death, bad.error))
                eventually(lambda: world.attached() == 1, world.frontend.log)
            for other in others:
                self.assertEqual(other.join().error["code"], "worker_lost")
            again = [Stream(world.frontend, f"Harmless {i}.", 8) for i in range(31)]
            status, _, text = world.frontend.post("/v1/chat/completions", chat(poison, 600, ignore_eos=True))
            self.assertEqual((status, json.loads(text)["error"]["code"]), (422, "request_quarantined"))
            for stream in again:
                stream.join()
                self.assertIsNone(stream.error)
                self.assertTrue(stream.text)
            self.assertEqual(world.frontend.metric("tutti_workers_lost_total"), 2)

    def test_jobs_outlive_their_worker_and_their_front(self):
        with World(model=MODEL) as world:  # whose jobs last long enough
            jobs = [submit(world.frontend, chat(f"Job {i}", 128, ignore_eos=True))["id"] for i in range(8)]
            eventually(lambda: world.frontend.load()["running"] > 0)
            world.workers[0].kill_engine()
            done = [ended(world.frontend, job) for job in jobs]
            self.assertEqual({job["status"] for job in done}, {"completed"})
            self.assertEqual(max(job["attempt"] for job in done), 2)
            # The frontend is killed: the worker keeps its model, and what was accepted is answered.
            engine = world.workers[0].engine()
            jobs = [submit(world.frontend, chat(f"More {i}", 32, ignore_eos=True))["id"] for i in range(8)]
            world.frontend.process.kill()
            world.frontend.stop()
            world.frontend = world.start_frontend()
            done = [ended(world.frontend, job) for job in jobs]
            self.assertEqual({job["status"] for job in done}, {"completed"})
            self.assertEqual(world.workers[0].engine(), engine)

    def test_what_is_wrong_at_start_is_said(self):
        def fails(*arguments):
            run = subprocess.run([TUTTI, *arguments], capture_output=True, text=True, timeout=STEP_S)
            return run.returncode, run.stderr

        with tempfile.TemporaryDirectory() as folder:
            code, text = fails("serve", "--role", "frontend", "some-model", "--store", folder)
            self.assertEqual(code, 78)
            self.assertIn("tutti worker", text)
            code, text = fails("serve", "--role", "frontend", "--max-num-seqs", "4", "--store", folder)
            self.assertEqual(code, 78)
            self.assertIn("--max-num-seqs means nothing to a frontend", text)
            code, text = fails("serve", "--role", "frontend", "--store", "memory", "--port", "0")
            self.assertEqual(code, 78)
            self.assertIn("--workers-socket", text)
            code, text = fails("worker", "no-such-model", "--store", folder)
            self.assertEqual(code, 1)
            code, text = fails("worker", default_model(), "--store", folder, "--workers-socket", folder + "/" + "x" * 120)
            self.assertNotEqual(code, 0)
            self.assertIn("107", text)
            code, text = fails("worker", default_model(), "--max-num-seqs", "0", "--store", folder)
            self.assertEqual(code, 78)

    def test_a_worker_waits_for_its_front(self):
        with tempfile.TemporaryDirectory() as folder:
            worker = Worker(folder + "/store")
            try:
                eventually(lambda: "frontend.absent" in worker.log(), worker.log)
                self.assertEqual(worker.stop(), 0)
                worker = Worker(folder + "/store")
                world = World(workers=0)
                with world:
                    world.workers.append(Worker(world.store))
                    eventually(lambda: world.attached() == 1, world.frontend.log)
                    self.assertTrue(ask(world.frontend, "Hello"))
            finally:
                worker.stop()


def chats_answered(server):
    """Chats that were answered with 200, as the frontend's own metrics count them."""
    text = server.get("/metrics")[2]
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
               if re.match(r'tutti_requests_total\{code="200",.*chat', line))
