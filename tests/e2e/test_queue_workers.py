"""A frontend and workers connected by a broker, as on several machines: real RabbitMQ and Redis, killed, emptied, paused and
started again under load (rows U52, N65, N66; docs/workers.md)."""
import concurrent.futures
import os
import pathlib
import random
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import openai

import test_mixed_kills
import test_workers
from harness import MODEL, STEP_S, Server, amount, default_model, eventually, figure
from queue_servers import RabbitMq, Redis
from test_jobs import chat, ended, look, submit
from test_mqtt_broker import make_certificates
from test_workers import Stream, Worker, ask

TUTTI = os.environ["E2E_BINARY"]


class World(test_workers.World):
    """A broker, the store's folder of a frontend, the frontend, and some workers who know nothing of that folder."""

    def __init__(self, broker, workers=1, worker=("--max-num-seqs", "16"), frontend=(), url=None):
        self.broker = broker
        self.queue = ("--broker-backend", broker.backend, "--broker-url", url or broker.url)
        super().__init__(workers, (*self.queue, *frontend), (*self.queue, *worker))

    def worker_folder(self):
        return self.folder.name + "/elsewhere"


class Cases:
    """Requirements that hold with either broker."""
    KIND = None

    @classmethod
    def setUpClass(cls):
        cls.broker = cls.KIND().start()

    @classmethod
    def tearDownClass(cls):
        cls.broker.close()

    def test_workers_elsewhere_answer_as_one_process_does(self):
        with World(self.broker) as world:
            one = Server("--threads", "1")
            try:
                for text in ("Name three colours.", "日本語で"):
                    self.assertEqual(ask(world.frontend, text), ask(one, text))
                answers = [server.post_json("/tokenize", {"model": MODEL, "prompt": "Hello <|im_end|>"}) for server in (world.frontend, one)]
                self.assertEqual(answers[0], answers[1])
            finally:
                one.stop()
            client = openai.OpenAI(base_url=world.frontend.url + "/v1", api_key="none", timeout=STEP_S)
            chunks = list(client.chat.completions.create(**chat("Count.", 24), stream=True))
            self.assertGreater(len(chunks), 4)
            streams = [Stream(world.frontend, f"Tell story {i}.", 48) for i in range(16)]
            self.assertEqual([stream.join().error for stream in streams], [None] * 16)

    def test_a_broker_killed_and_emptied_loses_and_doubles_no_job(self):
        """Row N65: accepted jobs lost 0, doubled 0, local servers go on, streams that it interrupts go on where they were."""
        with World(self.broker, workers=2, worker=("--max-num-seqs", "8")) as world:
            alone = ask(world.frontend, "List facts about seven.", 300, ignore_eos=True)
            jobs, stop = [], threading.Event()

            def submits(client):
                number = 0
                while not stop.is_set():
                    jobs.append(submit(world.frontend, chat(f"Job {number} of {client}", 24, ignore_eos=True))["id"])
                    number += 1
                    time.sleep(amount(0.4, 0.4, 0.1))

            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                clients = [pool.submit(submits, client) for client in range(2)]
                try:
                    for _ in range(amount(short=1, normal=2, full=10)):
                        stream = Stream(world.frontend, "List facts about seven.", 300)
                        self.assertTrue(stream.begun.wait(STEP_S))
                        world.broker.kill()
                        world.broker.wipe()
                        self.assertEqual(world.frontend.get("/livez")[0], 200)
                        accepted = submit(world.frontend, chat("Meanwhile", 8))  # the record is the store
                        self.assertIn(look(world.frontend, accepted["id"])["status"], ("queued", "running"))
                        world.broker.start()
                        stream.join()
                        self.assertIsNone(stream.error)
                        self.assertEqual(stream.text, alone)
                        self.assertEqual(ended(world.frontend, accepted["id"])["status"], "completed")
                finally:
                    stop.set()  # or the pool would wait for ever for clients
                for client in clients:
                    client.result(timeout=STEP_S)
            done = [ended(world.frontend, job) for job in jobs]
            self.assertEqual({job["status"] for job in done}, {"completed"})
            self.assertEqual({job["attempt"] for job in done}, {1})  # no attempt is the broker's
            self.assertEqual(world.frontend.metric("tutti_workers_lost_total"), 0)
            counted = sum(world.frontend.metric("tutti_job_attempts_total", outcome=outcome) for outcome in ("failed", "dead", "retried"))
            self.assertEqual(counted, 0)
            figure(f"{self.broker.backend}: {len(jobs)} jobs over a broker that was killed and emptied, each at its first attempt")

    def test_jobs_batches_and_cancels_end_once_despite_broker_kills(self):
        """Killed under load, every other time emptied, with the clients of test_mixed_kills."""
        # A broker takes seconds to start: what is submitted meanwhile has to be answered afterwards.
        chance, told = random.Random(73), test_mixed_kills.Told(pause_s=amount(0.2, 0.2, 0.02))
        with World(self.broker, workers=2, worker=("--max-num-seqs", "8")) as world:
            for number in range(amount(short=1, normal=2, full=10)):
                with told.clients(world.frontend, chance, jobs=2, batches=1):
                    time.sleep(chance.uniform(0.5, 2))
                    world.broker.kill()
                    if number % 2:
                        world.broker.wipe()
                    time.sleep(chance.uniform(0, 1))
                    world.broker.start()
            self.assertEqual(told.faults, [])
            self.assertTrue(told.jobs and told.batches)
            ends = test_mixed_kills.check_jobs(self, world.frontend, told)
            states, lines = test_mixed_kills.check_batches(self, world.frontend, told, world.store)
            self.assertEqual(world.frontend.metric("tutti_workers_lost_total"), 0)
            figure(f"{self.broker.backend}: {len(told.jobs)} jobs {dict(ends)}; {len(told.batches)} batches of {lines} lines: "
                   f"{dict(states)}")

    def test_a_broker_that_stands_still_for_a_while_is_waited_for(self):
        with World(self.broker) as world:
            stream = Stream(world.frontend, "Tell a story.", 200)
            self.assertTrue(stream.begun.wait(STEP_S))
            self.broker.signal(signal.SIGSTOP)
            try:
                time.sleep(3)
                self.assertEqual(world.frontend.get("/livez")[0], 200)
            finally:
                self.broker.signal(signal.SIGCONT)
            self.assertIsNone(stream.join().error)
            self.assertEqual(world.frontend.metric("tutti_workers_lost_total"), 0)

    def test_a_killed_worker_is_detected_and_its_jobs_are_moved(self):
        with World(self.broker, workers=2, worker=("--max-num-seqs", "4", "--no-restart")) as world:
            jobs = [submit(world.frontend, chat(f"Job {i}", 600, ignore_eos=True))["id"] for i in range(8)]
            # More than the other worker can run. Workers tell their load once a second, which is too seldom to ask for it.
            eventually(lambda: [look(world.frontend, job)["status"] for job in jobs].count("running") > 4)
            os.kill(world.workers[0].process.pid, signal.SIGKILL)
            done = [ended(world.frontend, job) for job in jobs]
            self.assertEqual({job["status"] for job in done}, {"completed"})
            self.assertLessEqual(max(job["attempt"] for job in done), 2)
            eventually(lambda: world.attached() == 1, world.frontend.log)
            world.workers.pop(0).stop()

    def test_a_front_that_is_killed_finds_its_workers_and_jobs_again(self):
        with World(self.broker) as world:
            jobs = [submit(world.frontend, chat(f"Job {i}", 600, ignore_eos=True))["id"] for i in range(8)]
            eventually(lambda: any(look(world.frontend, job)["status"] == "running" for job in jobs))
            world.frontend.process.kill()
            world.frontend.stop()
            begun = time.monotonic()
            world.frontend = world.start_frontend()
            eventually(lambda: world.attached() == 1, world.frontend.log)
            figure(f"{self.broker.backend}: a worker was back {time.monotonic() - begun:.1f} s after its frontend had been started again")
            done = [ended(world.frontend, job) for job in jobs]
            self.assertEqual({job["status"] for job in done}, {"completed"})

    def test_a_worker_that_is_stopped_hands_in_what_it_has(self):
        with World(self.broker, workers=2, worker=("--max-num-seqs", "8")) as world:
            streams = [Stream(world.frontend, f"Tell story {i}.", 64) for i in range(12)]
            for stream in streams[:4]:
                self.assertTrue(stream.begun.wait(STEP_S))
            self.assertEqual(world.workers.pop(0).stop(), 0)
            self.assertEqual([stream.join().error for stream in streams], [None] * 12)
            self.assertEqual(world.frontend.metric("tutti_workers_lost_total"), 0)


class OverRabbitMq(Cases, unittest.TestCase):
    KIND = RabbitMq


class OverRedis(Cases, unittest.TestCase):
    KIND = Redis


class Credentials(unittest.TestCase):
    """How clients log in to a broker, and how they verify its certificate."""

    def meets(self, broker, url, *options):
        """Whether a worker came to the frontend, and what was logged."""
        world = World(broker, workers=0, frontend=options, url=url)
        with world:
            world.workers.append(Worker(world.folder.name + "/elsewhere", *world.queue, *options))
            eventually(lambda: world.attached() == 1 or "broker.lost" in world.frontend.log(), world.frontend.log)
            return world.attached() == 1, world.frontend.log() + world.workers[0].log()

    def test_a_rabbitmq_with_tls_and_a_password(self):
        with tempfile.TemporaryDirectory() as folder:
            make_certificates(folder)
            secret = pathlib.Path(folder, "password")
            secret.write_text("hunter2\n")
            secret.chmod(0o600)
            with RabbitMq(tls=folder, login=("tutti", "hunter2")) as broker:
                broker.start()
                url = f"amqps://tutti@localhost:{broker.tls_port}"  # librabbitmq compares names, no addresses
                met, log = self.meets(broker, url, "--broker-password-file", str(secret), "--broker-ca-file", folder + "/ca.crt")
                self.assertTrue(met, log)
                # No trusted authority signed the broker's certificate.
                met, log = self.meets(broker, url, "--broker-password-file", str(secret))
                self.assertFalse(met, log)
                self.assertNotIn("hunter2", log)
                # A wrong password.
                secret.write_text("hunter3\n")
                met, log = self.meets(broker, url, "--broker-password-file", str(secret), "--broker-ca-file", folder + "/ca.crt")
                self.assertFalse(met, log)
                self.assertNotIn("hunter3", log)

    def test_a_redis_with_a_password(self):
        with tempfile.TemporaryDirectory() as folder, Redis(password="hunter2") as broker:
            broker.start()
            secret = pathlib.Path(folder, "password")
            for password, met in (("hunter2", True), ("hunter3", False)):
                secret.write_text(password + "\n")
                secret.chmod(0o600)
                result, log = self.meets(broker, broker.url, "--broker-password-file", str(secret))
                self.assertEqual(result, met, log)
                self.assertNotIn(password, log)
            self.assertFalse(self.meets(broker, broker.url)[0])


class Start(unittest.TestCase):
    def test_what_is_wrong_is_said_before_a_port_opens(self):
        def fails(*options, command=("serve", "--role", "frontend", "--port", "0")):
            run = subprocess.run([TUTTI, *command, "--store", "memory", "--workers-socket", "/nowhere/s", *options], capture_output=True,
                                 text=True, timeout=STEP_S)
            self.assertEqual(run.returncode, 78, run.stderr)
            return run.stderr

        self.assertIn("broker.url", fails("--broker-backend", "rabbitmq"))
        self.assertIn("broker.backend", fails("--broker-url", "amqp://127.0.0.1"))
        self.assertIn("broker.backend = redis", fails("--broker-backend", "rabbitmq", "--broker-url", "redis://127.0.0.1"))
        self.assertIn("into a file", fails("--broker-backend", "redis", "--broker-url", "redis://me:secret@127.0.0.1"))
        self.assertNotIn("secret", fails("--broker-backend", "redis", "--broker-url", "redis://me:secret@127.0.0.1"))
        self.assertIn("broker.plain", fails("--broker-backend", "rabbitmq", "--broker-url", "amqp://broker.example"))
        self.assertIn("broker.name", fails("--broker-backend", "redis", "--broker-url", "redis://127.0.0.1", "--broker-name", "a b"))
        self.assertIn("--role frontend", fails("--broker-backend", "redis", "--broker-url", "redis://127.0.0.1",
                                            command=("serve", default_model(), "--port", "0")))
        with tempfile.TemporaryDirectory() as folder:
            secret = pathlib.Path(folder, "password")
            secret.write_text("hunter2\n")
            secret.chmod(0o644)
            text = fails("--broker-backend", "redis", "--broker-url", "redis://127.0.0.1", "--broker-password-file", str(secret))
            self.assertIn("chmod 600", text)
            self.assertNotIn("hunter2", text)


if __name__ == "__main__":
    unittest.main()
