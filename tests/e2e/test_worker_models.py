"""Models that workers load and unload (R21, N12): their list and placement at the frontend, admin routes, and jobs for more models
than the workers have room for, while workers are killed; over the socket, RabbitMQ and Redis (docs/workers.md)."""
import atexit
import concurrent.futures
import functools
import itertools
import json
import os
import re
import subprocess
import tempfile
import unittest

import test_queue_workers
import test_workers
from harness import STEP_S, Server, amount, eventually, figure, stand_in
from queue_servers import RabbitMq, Redis
from test_jobs import ended, submit
from test_model_management import QUESTION, chat, status_of

NAMES = ("one", "two", "three")
SEEDS = itertools.count()
OPTIONS = ("--kv-cache-bytes", "16MiB", "--context", "512", "--max-num-seqs", "4")


def states(server):
    return {name: status_of(server, name)["value"] for name in NAMES}


@functools.cache
def folder_of_models():
    """A folder with three models of different answers; what one process that has them all answers; and the memory of one."""
    held = tempfile.TemporaryDirectory()
    atexit.register(held.cleanup)
    for seed, name in enumerate(NAMES):
        os.symlink(stand_in(seed + 1), os.path.join(held.name, name + ".gguf"))
    server = Server("--models", held.name, *OPTIONS, "--grpc-port", "0", "--store", "memory", "--threads", "1", model="")
    try:
        expected = {name: chat(server, name, 8)[1] for name in NAMES}
        size = max(status_of(server, name)["memory_bytes"] for name in NAMES)
    finally:
        server.stop()
    assert len(set(expected.values())) == len(NAMES), expected
    return held.name, expected, size


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder, self.expected, self.bytes = folder_of_models()

    def worker_options(self, models, *options):
        """Of a worker that has room for so many models."""
        return ("--models", self.folder, "--memory-budget", str(int((models + 0.5) * self.bytes)), *OPTIONS, *options)

    def check_jobs(self, world, count, disturb):
        """Submits jobs for all models, and calls `disturb` in the middle; each is answered once, by its own model."""
        jobs = []
        for number in range(count):
            if number == count // 2:
                disturb()
            for name in NAMES:
                # A request that a killed worker computed is known again by its content, so each job has a seed of its own.
                body = {"model": name, "messages": QUESTION, "max_tokens": 8, "temperature": 0, "seed": next(SEEDS)}
                jobs.append((name, submit(world.frontend, body)["id"]))
        self.assertEqual(len({job for _, job in jobs}), count * len(NAMES))
        attempts = []
        for name, job in jobs:
            state = ended(world.frontend, job)
            self.assertEqual(state["status"], "completed", state)
            self.assertEqual(state["result"]["choices"][0]["message"]["content"], self.expected[name], name)
            attempts.append(state["attempt"])
        self.assertLessEqual(max(attempts), 3)
        return attempts


class OnThisMachine(Folder):
    def test_a_frontend_places_models_on_workers(self):
        with test_workers.World(2, worker=self.worker_options(1), model="") as world:
            eventually(lambda: len(world.frontend.models()) == 3, world.frontend.log)
            # Models are placed by their memory, which is known once their headers have been read.
            eventually(lambda: all(model["max_model_len"] for model in json.loads(world.frontend.get("/v1/models")[2])["data"]),
                       world.frontend.log)
            self.assertEqual(states(world.frontend), dict.fromkeys(NAMES, "unloaded"))
            self.assertEqual(world.frontend.get("/readyz")[0], 200)
            self.assertEqual(chat(world.frontend, "one", 8), (200, self.expected["one"]))
            eventually(lambda: states(world.frontend)["one"] == "loaded", world.frontend.log)
            # The other worker has free memory.
            self.assertEqual(chat(world.frontend, "two", 8), (200, self.expected["two"]))
            eventually(lambda: states(world.frontend) == {"one": "loaded", "two": "loaded", "three": "unloaded"}, world.frontend.log)
            for worker in world.workers:
                self.assertEqual(len(re.findall("model.loaded", worker.log())), 1, worker.log())
            for _ in range(3):
                for name in ("one", "two"):
                    self.assertEqual(chat(world.frontend, name, 8), (200, self.expected[name]))
            self.assertEqual(sum(worker.log().count("model.loaded") for worker in world.workers), 2, "each is where it was")
            # No worker has room: one unloads its model.
            self.assertEqual(chat(world.frontend, "three", 8), (200, self.expected["three"]))
            eventually(lambda: world.frontend.metric("tutti_models", state="loaded") == 2, world.frontend.log)
            self.assertEqual(sum(worker.log().count("why=evicted") for worker in world.workers), 2, "begun, ended")
            self.assertEqual(chat(world.frontend, "none"), (404, "model_not_found"))
            self.assertLessEqual(world.frontend.metric("tutti_models_memory_bytes"), world.frontend.metric("tutti_models_memory_budget_bytes"))
            world.frontend.expect_log(r"model\.placed model=one .*evicts=no", r"model\.placed model=three .*evicts=yes")

    def test_operators_load_and_unload_at_workers(self):
        with test_workers.World(2, worker=self.worker_options(2), model="") as world:
            server = world.frontend
            eventually(lambda: len(server.models()) == 3, server.log)
            self.assertEqual(server.post("/v1/models/load", {"model": "one"})[0], 200)
            eventually(lambda: states(server)["one"] == "loaded", server.log)
            self.assertEqual(server.post("/v1/models/load", {"model": "one"})[0], 200, "again")
            self.assertEqual(sum(worker.log().count("model.loaded") for worker in world.workers), 1)
            self.assertEqual(server.post("/v1/models/unload", {"model": "one"})[0], 200)
            eventually(lambda: states(server)["one"] == "unloaded", server.log)
            self.assertEqual(server.post_json("/models/load", {"model": "two"}), {"success": True})
            eventually(lambda: states(server)["two"] == "loaded", server.log)
            self.assertEqual(server.post_json("/tokenize", {"model": "two", "prompt": "Hello"})["tokens"],
                             server.post_json("/tokenize", {"model": "three", "prompt": "Hello"})["tokens"])
            status, _, text = server.post("/api/generate", {"model": "two", "prompt": "Hi", "stream": False, "keep_alive": 0})
            self.assertEqual(status, 200, text)
            eventually(lambda: states(server)["two"] == "unloaded", server.log)
            for path in ("/v1/models/load", "/v1/models/unload"):
                self.assertEqual(server.post(path, {"model": "none"})[0], 404, path)
            os.symlink(stand_in(), os.path.join(self.folder, "later.gguf"))
            self.addCleanup(os.unlink, os.path.join(self.folder, "later.gguf"))
            self.assertEqual(chat(server, "later"), (404, "model_not_found"))
            server.get("/models?reload=1")
            eventually(lambda: "later" in server.models(), server.log)
            self.assertEqual(chat(server, "later", 8), (200, self.expected["one"]))

    def test_a_model_that_fits_nowhere_is_refused(self):
        with test_workers.World(1, worker=("--models", self.folder, "--memory-budget", "4MiB", *OPTIONS), model="") as world:
            eventually(lambda: len(world.frontend.models()) == 3, world.frontend.log)
            self.assertEqual(chat(world.frontend, "one"), (409, "model_too_large"))
            status, _, text = world.frontend.post("/v1/models/load", {"model": "one"})
            self.assertEqual(status, 409, text)
            self.assertIn("memory budget 4 MiB", json.loads(text)["error"]["message"])

    def test_pinned_models_stay_and_loads_may_be_refused(self):
        with test_workers.World(1, worker=self.worker_options(2, "--pin", "one", "--load-on-demand", "refuse"), model="") as world:
            eventually(lambda: len(world.frontend.models()) == 3 and states(world.frontend)["one"] == "loaded", world.frontend.log)
            for name in ("two", "three", "two"):
                self.assertEqual(chat(world.frontend, name), (503, "model_loading"))
                eventually(lambda: states(world.frontend)[name] == "loaded", world.frontend.log)
                self.assertEqual(chat(world.frontend, name, 8), (200, self.expected[name]))
            self.assertEqual(states(world.frontend), {"one": "loaded", "two": "loaded", "three": "unloaded"})
            self.assertTrue(status_of(world.frontend, "one")["pinned"])

    def test_jobs_survive_killed_engines(self):
        with test_workers.World(2, worker=self.worker_options(1), model="") as world:
            eventually(lambda: len(world.frontend.models()) == 3, world.frontend.log)
            attempts = []
            for number in range(amount(1, 2, 20)):
                worker = world.workers[number % 2]
                eventually(lambda: worker.engine() != 0 and world.attached() == 2, world.frontend.log)
                attempts += self.check_jobs(world, amount(4, 6, 10), worker.kill_engine)
            figure(f"{len(attempts)} jobs while engines were killed, {sum(each > 1 for each in attempts)} tried again")

    def test_flags_of_workers_are_refused_at_a_frontend(self):
        run = subprocess.run([os.environ["E2E_BINARY"], "serve", "--role", "frontend", "--port", "0", "--store", "memory", "--models", self.folder],
                             capture_output=True, text=True, timeout=STEP_S)
        self.assertEqual(run.returncode, 78, run.stderr)
        self.assertIn("--models means nothing to a frontend: give it to tutti worker", run.stderr)


class OverBrokers(Folder):
    def jobs_over(self, kind):
        """One worker has room for one of three models, the other for two, and is killed."""
        with kind() as broker:
            broker.start()
            with test_queue_workers.World(broker, workers=0) as world:
                world.model = ""
                for models in (1, 2):
                    world.worker_options = (*world.queue, *self.worker_options(models, "--no-restart"))
                    world.add()
                eventually(lambda: len(world.frontend.models()) == 3, world.frontend.log)
                attempts = []
                for number in range(amount(1, 1, 10)):
                    if number > 0:
                        world.add()
                    worker = world.workers.pop(1)
                    attempts += self.check_jobs(world, amount(4, 8, 20), worker.process.kill)
                    worker.stop()
                self.assertEqual(chat(world.frontend, "none"), (404, "model_not_found"))
                figure(f"{broker.backend}: {len(attempts)} jobs while workers were killed, {sum(each > 1 for each in attempts)} tried again")

    def test_jobs_for_more_models_than_fit(self):
        # Both at once: a killed worker is noticed after 15 s.
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(self.jobs_over, kind) for kind in (RabbitMq, Redis)]:
                done.result()


if __name__ == "__main__":
    unittest.main()
