"""Durable jobs over HTTP, as docs/jobs.md describes them: accepted, polled, pushed, cancelled, replayed; and a process that is killed
while it has them (U46 to U50, N37, N40)."""
import contextlib
import http.client
import json
import os
import random
import signal
import sqlite3
import subprocess
import tempfile
import threading
import time
import unittest

import openai

from harness import LONGER, MODEL, STEP_S, Server, ServerCase, amount, eventually, events, figure, free_port, judged, make_key
from test_mqtt import Chat, mqtt_port

TUTTI = os.environ["E2E_BINARY"]
ASYNC = {"Prefer": "respond-async"}
ENDED = ("completed", "failed", "cancelled", "expired")


def chat(text, tokens=16, **fields):
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], "max_tokens": tokens, "temperature": 0, **fields}


def submit(server, body, path="/v1/chat/completions", **headers):
    """The job as it was accepted."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    status, fields, text = server.post(path, body, headers={**ASYNC, **names})
    assert status == 202, (status, text)
    job = json.loads(text)
    assert fields["Location"] == f"/v1/jobs/{job['id']}", fields
    assert int(fields["Retry-After"]) >= 1 and fields["Preference-Applied"] == "respond-async"
    return job


def look(server, job_id, wait=0, **headers):
    status, fields, text = server.get(f"/v1/jobs/{job_id}" + (f"?wait={wait}" if wait else ""), headers=headers)
    assert status == 200, (status, text)
    return json.loads(text)


def ended(server, job_id):
    """The job once it has ended, by waiting in the request."""
    end = time.monotonic() + STEP_S
    while time.monotonic() < end:
        job = look(server, job_id, wait=10)
        if job["status"] in ENDED:
            return job
    raise AssertionError(job)


def without_ids(answer):
    answer = dict(answer)
    for name in ("id", "created"):
        answer.pop(name, None)
    return answer


class Jobs(ServerCase):
    def test_a_job_has_the_answer_that_its_route_gives(self):
        for path, body in (("/v1/chat/completions", chat("Name three colours.")),
                           ("/v1/completions", {"model": MODEL, "prompt": ["One,", "Two,"], "max_tokens": 8, "temperature": 0}),
                           ("/generate", {"prompt": "Once", "max_tokens": 8, "temperature": 0, "stream": False})):
            job = submit(self.server, body, path)
            done = ended(self.server, job["id"])
            self.assertEqual(done["status"], "completed", done)
            at_once = self.server.post_json(path, body)
            for answer in (done["result"], at_once):
                answer.get("usage", {}).pop("prompt_tokens_details", None)
            self.assertEqual(without_ids(done["result"]), without_ids(at_once))
            self.assertGreater(done["expires_at"], done["finished_at"])

    def test_what_ends_within_the_wait_is_a_plain_answer(self):
        body = chat("Hello", 4)
        status, fields, text = self.server.post("/v1/chat/completions", body, headers={"Prefer": "respond-async, wait=30"})
        self.assertEqual((status, json.loads(text)["object"]), (200, "chat.completion"))
        self.assertIn("/v1/jobs/job_", fields["Location"])
        status, fields, _ = self.server.post("/v1/chat/completions", body)
        self.assertEqual((status, fields["Location"]), (200, None))
        status, _, text = self.server.post("/v1/chat/completions", chat("x", 100000), headers={"Prefer": "respond-async, wait=30"})
        self.assertEqual(status, 400, text)
        self.assertEqual(json.loads(text)["error"]["code"], "context_length_exceeded")

    def test_what_the_route_refuses_is_no_job(self):
        before = len(json.loads(self.server.get("/v1/jobs?limit=100")[2])["data"])
        for body, code, status in (("{", "invalid_json", 400), ({"model": MODEL}, "missing_required_parameter", 400),
                                   (chat("x", stream=True), "unsupported_parameter", 400),
                                   (dict(chat("x"), model="no such"), "model_not_found", 404)):
            got, _, text = self.server.post("/v1/chat/completions", body, headers=ASYNC)
            self.assertEqual((got, json.loads(text)["error"]["code"]), (status, code))
        for name, value in (("Idempotency-Key", "x" * 256), ("Idempotency-Key", "two words"), ("X-Tutti-Run-At", "tomorrow"),
                            ("X-Tutti-Deadline", "1")):
            got, _, text = self.server.post("/v1/chat/completions", chat("x"), headers={**ASYNC, name: value})
            self.assertEqual((got, json.loads(text)["error"]["code"]), (400, "invalid_value"), text)
        self.assertEqual(len(json.loads(self.server.get("/v1/jobs?limit=100")[2])["data"]), before)

    def test_the_same_key_is_the_same_job(self):
        first = submit(self.server, chat("key"), Idempotency_Key="k-1")
        again = submit(self.server, json.dumps(chat("key"), indent=3), Idempotency_Key="k-1")
        self.assertEqual(again["id"], first["id"], "whatever the blanks")
        status, _, text = self.server.post("/v1/chat/completions", chat("another"),
                                           headers={**ASYNC, "Idempotency-Key": "k-1"})
        self.assertEqual((status, json.loads(text)["error"]["code"]), (422, "idempotency_key_mismatch"))
        client = openai.OpenAI(base_url=self.server.url + "/v1", api_key="none", timeout=STEP_S)
        raw = client.chat.completions.with_raw_response.create(
            model=MODEL, messages=[{"role": "user", "content": "key"}], max_tokens=16, temperature=0,
            extra_headers={**ASYNC, "Idempotency-Key": "k-1"})
        self.assertEqual((raw.status_code, json.loads(raw.text)["id"]), (202, first["id"]))
        ended(self.server, first["id"])

    def test_events_end_as_polled_also_for_late_subscribers(self):
        job = submit(self.server, chat("events"))
        streamed = events(self.server.get(f"/v1/jobs/{job['id']}/events")[2])
        polled = look(self.server, job["id"])
        numbers = []
        for event in streamed:
            fields = dict(line.split(": ", 1) for line in event.splitlines())
            data = json.loads(fields["data"])
            self.assertEqual((fields["event"], int(fields["id"])), (data["type"], data["sequence_number"]))
            numbers.append(data["sequence_number"])
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertEqual(data["job"], polled)
        late = events(self.server.get(f"/v1/jobs/{job['id']}/events")[2])
        self.assertEqual(len(late), 1)
        self.assertEqual(json.loads(late[0].split("data: ")[1])["job"], polled)
        none = self.server.get(f"/v1/jobs/{job['id']}/events", headers={"Last-Event-ID": str(numbers[-1])})
        self.assertEqual((none[0], events(none[2])), (200, []))

    def test_a_tag_that_is_known_needs_no_body(self):
        job = submit(self.server, chat("tag", 4))
        ended(self.server, job["id"])
        _, fields, _ = self.server.get(f"/v1/jobs/{job['id']}")
        status, _, text = self.server.get(f"/v1/jobs/{job['id']}", headers={"If-None-Match": fields["ETag"]})
        self.assertEqual((status, text), (304, ""))

    def test_a_cancel_keeps_what_there_is(self):
        job = submit(self.server, chat("Tell a long story.", 2000, ignore_eos=True))
        eventually(lambda: look(self.server, job["id"])["progress"]["tokens"] > 3)
        status, _, text = self.server.post(f"/v1/jobs/{job['id']}/cancel", "")
        cancelled = json.loads(text)
        self.assertEqual((status, cancelled["status"]), (200, "cancelled"))
        self.assertTrue(cancelled["result"]["partial"][0]["text"])
        self.server.wait_idle()
        self.assertEqual(self.server.post(f"/v1/jobs/{job['id']}/cancel", "")[0], 200, "once more changes nothing")
        done = submit(self.server, chat("x", 2))
        ended(self.server, done["id"])
        status, _, text = self.server.post(f"/v1/jobs/{done['id']}/cancel", "")
        self.assertEqual((status, json.loads(text)["error"]["code"]), (409, "already_finished"))
        self.assertEqual(self.server.post(f"/v1/jobs/{done['id']}/replay", "")[0], 409)

    def test_a_queue_that_is_paused_starts_nothing_and_loses_nothing(self):
        self.assertEqual(json.loads(self.server.post("/v1/jobs/pause", "")[2]), {"object": "job_queue", "paused": True})
        try:
            jobs = [submit(self.server, chat(f"paused {i}", 2)) for i in range(5)]
            time.sleep(1.5)
            self.assertEqual({look(self.server, job["id"])["status"] for job in jobs}, {"queued"})
            self.assertEqual([look(self.server, job["id"])["position"] for job in jobs], [0, 1, 2, 3, 4])
        finally:
            self.assertEqual(self.server.post("/v1/jobs/resume", "")[0], 200)
        for job in jobs:
            self.assertEqual(ended(self.server, job["id"])["status"], "completed")

    def test_lists_go_by_pages_and_states(self):
        jobs = [submit(self.server, chat(f"list {i}", 2))["id"] for i in range(3)]
        for job in jobs:
            ended(self.server, job)
        page = json.loads(self.server.get("/v1/jobs?limit=2")[2])
        self.assertEqual(([job["id"] for job in page["data"]], page["has_more"]), (jobs[:0:-1], True))
        page = json.loads(self.server.get(f"/v1/jobs?limit=1&after={page['last_id']}&status=completed")[2])
        self.assertEqual([job["id"] for job in page["data"]], jobs[:1])
        self.assertEqual(self.server.get("/v1/jobs?status=dead")[0], 400)
        self.assertEqual(self.server.get("/v1/jobs/job_00")[0], 404)
        self.assertEqual(self.server.get("/v1/jobs/job_00?wait=61")[0], 400)

    def test_one_is_accepted_at_once_while_others_are_computed(self):
        running = [submit(self.server, chat(f"busy {i}", 500, ignore_eos=True)) for i in range(4)]
        times = []
        for i in range(amount(20, 60, 200)):
            begin = time.monotonic()
            submit(self.server, chat(f"quick {i}", 1))
            times.append(time.monotonic() - begin)
        times.sort()
        figure(f"accepted in {1e3 * times[len(times) // 2]:.1f} ms, p99 {1e3 * times[int(len(times) * 0.99)]:.1f} ms of {len(times)}")
        if judged("the time to accept a job", "latencies"):
            self.assertLess(times[int(len(times) * 0.99)], 0.2)  # ten times the row's 20 ms
        for job in running:
            self.server.post(f"/v1/jobs/{job['id']}/cancel", "")
        eventually(lambda: not json.loads(self.server.get("/v1/jobs?status=queued&limit=1")[2])["data"])


class Owners(ServerCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tutti-jobs-")
        cls.keys = [make_key(cls.folder.name, tenant, "--tenant", tenant) for tenant in ("red", "blue")]
        cls.OPTIONS = ("--store", cls.folder.name)
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()

    def test_a_job_is_its_owners(self):
        red, blue = ({"Authorization": f"Bearer {key}"} for key in self.keys)
        job = submit(self.server, chat("mine", 4), **red)
        for method, path in (("GET", ""), ("GET", "/events"), ("POST", "/cancel"), ("POST", "/replay")):
            status, _, text = self.server.request(method, f"/v1/jobs/{job['id']}{path}", headers=blue)
            self.assertEqual((status, json.loads(text)["error"]["code"]), (404, "not_found"), path)
            self.assertEqual(self.server.request(method, f"/v1/jobs/{job['id']}{path}")[0], 401, "nobody at all")
        self.assertEqual(json.loads(self.server.get("/v1/jobs", headers=blue)[2])["data"], [])
        self.assertEqual(len(json.loads(self.server.get("/v1/jobs", headers=red)[2])["data"]), 1)

    def test_the_operator_sees_and_ends_all(self):
        red = {"Authorization": f"Bearer {self.keys[0]}"}

        def tutti(*words):
            done = subprocess.run([TUTTI, "jobs", *words, "--store", self.folder.name, "--json"], capture_output=True, text=True,
                                  timeout=STEP_S)
            return done.returncode, json.loads(done.stdout) if done.returncode == 0 else done.stderr
        self.assertEqual(tutti("pause", "red")[0], 0)
        job = submit(self.server, chat("of red", 4), **red)
        code, listed = tutti("list", "--status", "queued")
        self.assertEqual((code, [(each["id"], each["tenant"]) for each in listed["jobs"]], listed["paused"]),
                         (0, [(job["id"], "red")], ["red"]))
        self.assertEqual(tutti("cancel", job["id"])[1]["job"]["status"], "cancelled")
        self.assertEqual(tutti("resume", "red")[0], 0)
        code, error = tutti("replay", job["id"])
        self.assertNotEqual(code, 0)
        self.assertIn("cancelled", error)
        self.assertEqual(tutti("show", "job_0")[0], 1)


class OverMqtt(unittest.TestCase):
    """States of jobs as a stock MQTT client receives them from the server's own listener; test_mqtt_broker has a broker
    between."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tutti-jobs-")
        self.addCleanup(folder.cleanup)
        self.keys = {tenant: make_key(folder.name, tenant, "--tenant", tenant) for tenant in ("red", "blue")}
        self.options = ("--store", folder.name, "--mqtt-port", str(free_port()))
        self.server = Server(*self.options)
        self.addCleanup(lambda: self.server.stop())

    def client(self, user):
        """A client that logs in with a key under its user's name, and keeps received messages as text."""
        chat = Chat(mqtt_port(self.server), user, password=self.keys[user])
        self.addCleanup(chat.close)
        self.assertIsNone(chat.refused)
        chat.client.on_message = lambda c, u, message: chat.out.put(message.payload.decode())
        return chat

    def follow(self, chat, job_id, **fields):
        """The events until the job has ended, or the error."""
        chat.control(type="subscribe", id="q", job_id=job_id, **fields)
        told = []
        while not told or json.loads(told[-1])["type"] not in (*(f"job.{state}" for state in ENDED), "error"):
            told.append(chat.out.get(timeout=STEP_S))
        return told

    def test_what_is_pushed_is_as_polled_also_for_late_subscribers(self):
        red = {"Authorization": f"Bearer {self.keys['red']}"}
        chat_of_red = self.client("red")
        job = submit(self.server, chat("pushed", 40), **red)
        told = self.follow(chat_of_red, job["id"])
        polled = self.server.get(f"/v1/jobs/{job['id']}", headers=red)[2]
        numbers = [json.loads(each)["sequence_number"] for each in told]
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertEqual(told[-1], f'{{"type":"job.completed","sequence_number":{numbers[-1]},"job":{polled}}}')
        by_sse = events(self.server.get(f"/v1/jobs/{job['id']}/events", headers=red)[2])
        self.assertEqual(by_sse[-1].split("data: ", 1)[1], told[-1])
        self.assertEqual(self.follow(chat_of_red, job["id"]), told[-1:], "who comes late")
        self.assertEqual(self.follow(chat_of_red, job["id"], starting_after=numbers[-1] - 1), told[-1:])

    def test_a_job_is_told_to_its_owner_alone(self):
        job = submit(self.server, chat("of red", 4), Authorization=f"Bearer {self.keys['red']}")
        refused = json.loads(self.follow(self.client("blue"), job["id"])[0])
        self.assertEqual((refused["code"], refused["id"]), ("not_found", "q"))
        self.assertEqual(json.loads(self.follow(self.client("red"), job["id"])[-1])["type"], "job.completed")

    def test_a_stop_is_told_and_the_next_process_tells_the_end(self):
        red = {"Authorization": f"Bearer {self.keys['red']}"}
        job = submit(self.server, chat("Tell a story.", 200 * LONGER, ignore_eos=True), **red)
        chat_of_red = self.client("red")
        told = []
        follower = threading.Thread(target=lambda: told.extend(self.follow(chat_of_red, job["id"])))
        follower.start()
        eventually(lambda: look(self.server, job["id"], **red)["progress"]["tokens"] > 0)
        self.server.process.send_signal(signal.SIGTERM)
        follower.join(STEP_S)
        self.assertEqual(self.server.stop(), 0)
        self.assertEqual(json.loads(told[-1])["code"], "draining", told)
        seen = max(json.loads(each).get("sequence_number", 0) for each in told)
        chat_of_red.close()
        self.server = Server(*self.options)
        last = json.loads(self.follow(self.client("red"), job["id"], starting_after=seen)[-1])
        self.assertEqual((last["type"], last["job"]["attempt"]), ("job.completed", 1))


class Kills(unittest.TestCase):
    """A process that is killed with jobs, at any moment."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tutti-jobs-")
        self.addCleanup(self.folder.cleanup)
        self.server = None
        self.addCleanup(lambda: self.server and self.server.stop())

    def start(self):
        self.server = Server("--store", self.folder.name, "--jobs-max-attempts", "100")

    def kill(self):
        self.server.process.send_signal(signal.SIGKILL)
        self.server.process.wait(STEP_S)
        self.server.reader.join(STEP_S)
        self.server.process.stdout.close()
        self.server.errors.close()

    def test_a_hundred_that_wait_all_finish_once(self):
        self.start()
        count = amount(20, 20, 100)
        jobs = [submit(self.server, chat(f"number {i}", 8), Idempotency_Key=f"n{i}")["id"] for i in range(count)]
        self.kill()
        self.start()
        results = [ended(self.server, job) for job in jobs]
        self.assertEqual({job["status"] for job in results}, {"completed"})
        self.assertEqual(len({job["result"]["id"] for job in results}), count)
        again = [submit(self.server, chat(f"number {i}", 8), Idempotency_Key=f"n{i}")["id"] for i in range(count)]
        self.assertEqual(again, jobs)
        self.assertEqual(len(json.loads(self.server.get("/v1/jobs?limit=100")[2])["data"]), min(count, 100))

    def test_killed_at_random_every_accepted_job_has_one_end(self):
        kills = int(os.environ.get("E2E_JOB_KILLS", 0)) or amount(3, 3, 20)
        chance = random.Random(46)
        accepted, seen = {}, {}
        for round_number in range(kills):
            self.start()
            stop = threading.Event()

            def client(number, server=self.server, stop=stop, seed=chance.random()):
                mine = random.Random(seed)
                while not stop.is_set():
                    text = f"{number}-{mine.randrange(10**9)}"
                    try:
                        status, _, body = server.post("/v1/chat/completions", chat(text, mine.choice((1, 8, 40))), headers=ASYNC)
                        if status == 202:
                            accepted[json.loads(body)["id"]] = text
                        if accepted and mine.random() < 0.3:
                            server.post(f"/v1/jobs/{mine.choice(list(accepted))}/cancel", "")
                        if accepted and mine.random() < 0.5:
                            job_id = mine.choice(list(accepted))
                            job = json.loads(server.get(f"/v1/jobs/{job_id}")[2])
                            if job["status"] in ENDED:
                                seen.setdefault(job_id, job)
                    except (OSError, http.client.HTTPException, json.JSONDecodeError):
                        pass  # it was killed meanwhile
                    time.sleep(0.02)
            clients = [threading.Thread(target=client, args=(number,)) for number in range(4)]
            for thread in clients:
                thread.start()
            time.sleep(chance.uniform(0.1, 1.5))
            self.kill()
            stop.set()
            for thread in clients:
                thread.join()
        self.server = None
        with contextlib.closing(sqlite3.connect(os.path.join(self.folder.name, "tutti.db"))) as database:
            self.assertEqual(database.execute("PRAGMA integrity_check").fetchone()[0], "ok")
        self.start()
        states = {}
        for job_id in accepted:
            job = ended(self.server, job_id)
            states[job["status"]] = states.get(job["status"], 0) + 1
            self.assertIn(job["status"], ("completed", "cancelled"), job)
            if job_id in seen:
                self.assertEqual(job, seen[job_id], "an end that was told does not change")
        figure(f"{kills} kills, {len(accepted)} jobs accepted: {states}; {len(seen)} ends told before a kill")
        self.assertGreater(len(accepted), kills)

    def test_a_stop_spends_no_attempt(self):
        self.start()
        job = submit(self.server, chat("Tell a long story.", 1500, ignore_eos=True))
        for _ in range(2):
            eventually(lambda: look(self.server, job["id"])["progress"]["tokens"] > 0)
            begin = time.monotonic()
            self.assertEqual(self.server.stop(), 0)
            figure(f"stopped in {time.monotonic() - begin:.2f} s")
            self.server = None
            self.start()
        self.assertLessEqual(look(self.server, job["id"])["attempt"], 1)
        self.server.post(f"/v1/jobs/{job['id']}/cancel", "")


if __name__ == "__main__":
    unittest.main()
