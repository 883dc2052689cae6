"""One server with jobs, batches, their files and cancels of several clients at once, killed with -9 at random moments, also while it
starts: accepted work ends exactly once, and ended work stays unchanged (U48, N38, N40, N71 together)."""
import collections
import contextlib
import http.client
import json
import os
import random
import signal
import sqlite3
import tempfile
import threading
import time
import unittest

import openai

import test_batches as batches
import test_jobs as jobs
from harness import STEP_S, Server, amount, eventually, figure, stand_in

LOST = (OSError, http.client.HTTPException, openai.OpenAIError, ValueError)  # the server was killed meanwhile


class Told:
    """Answers that clients have received so far. Each field belongs to one thread, except the dictionaries, whose operations are
    atomic."""

    def __init__(self, pause_s=0.02):
        self.pause_s = pause_s                     # of a client between two requests
        self.jobs, self.job_ends = {}, {}          # id -> prompt; id -> the job as it was first seen to have ended
        self.batches, self.batch_ends = {}, {}     # id -> custom ids; id -> (batch, output, errors) as first seen to have ended
        self.cancels, self.faults = set(), []

    def ask_jobs(self, server, stop, chance):
        while not stop.is_set():
            try:
                prompt = f"{chance.randrange(10**9)}"
                status, _, text = server.post("/v1/chat/completions", jobs.chat(prompt, chance.choice((1, 8, 40))), headers=jobs.ASYNC)
                if status == 202:
                    self.jobs[json.loads(text)["id"]] = prompt
                elif status not in (429, 503):
                    self.faults.append((status, text))
                known = list(self.jobs)
                if known and chance.random() < 0.3:
                    one = chance.choice(known[-3:])  # which may not have ended
                    status, _, text = server.post(f"/v1/jobs/{one}/cancel", "")
                    if status == 200 and json.loads(text)["status"] == "cancelled":
                        self.cancels.add(one)
                if known and chance.random() < 0.5:
                    status, _, text = server.get(f"/v1/jobs/{chance.choice(known)}")
                    job = json.loads(text)
                    if status == 200 and job["status"] in jobs.ENDED:
                        self.job_ends.setdefault(job["id"], job)
                    elif status not in (200, 503):
                        self.faults.append((status, text))
            except LOST:
                pass
            time.sleep(self.pause_s)

    def ask_batches(self, server, stop, chance):
        client = batches.client_of(server)
        while not stop.is_set():
            try:
                names = [f"{chance.randrange(10**12)}" for _ in range(chance.choice((1, 6, 25)))]
                text = "".join(batches.line(name, name, chance.choice((1, 4, 16))) for name in names)
                self.batches[batches.begin(client, text).id] = names
                one = chance.choice(list(self.batches)[-2:])
                if chance.random() < 0.3:
                    client.batches.cancel(one)
                batch = client.batches.retrieve(chance.choice(list(self.batches)))
                if batch.status in batches.ENDED and batch.id not in self.batch_ends:
                    self.batch_ends[batch.id] = self.all_of(client, batch)
            except openai.APIStatusError as error:
                if error.status_code not in (409, 429, 503):  # it has ended; too many wait; it is being loaded
                    self.faults.append((error.status_code, str(error)))
            except LOST:
                pass
            time.sleep(2.5 * self.pause_s)

    @contextlib.contextmanager
    def clients(self, server, chance, jobs=3, batches=2):
        """So many of each, until the block is left."""
        stop = threading.Event()
        threads = [threading.Thread(target=ask, args=(server, stop, random.Random(chance.random())), daemon=True)
                   for ask in (self.ask_jobs,) * jobs + (self.ask_batches,) * batches]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    @staticmethod
    def all_of(client, batch):
        return (batch.model_dump(), batches.lines_of(client, batch.output_file_id), batches.lines_of(client, batch.error_file_id))


def check_jobs(case, server, told):
    states, results = collections.Counter(), set()
    for job_id in told.jobs:
        job = jobs.ended(server, job_id)
        states[job["status"]] += 1
        if job["status"] == "completed":
            case.assertIsNone(job["error"])
            results.add(job["result"]["id"])
        else:
            case.assertEqual(job["status"], "cancelled", job)
        if job_id in told.cancels:
            case.assertEqual(job["status"], "cancelled", "a cancel that was told")
        if job_id in told.job_ends:
            case.assertEqual(job, told.job_ends[job_id], "an end that was told does not change")
    case.assertEqual(len(results), states["completed"], "one result each")
    return states


def check_batches(case, server, told, folder):
    client, states, lines = batches.client_of(server), collections.Counter(), 0
    for batch_id, names in told.batches.items():
        batch = batches.ended(client, batch_id)
        states[batch.status] += 1
        case.assertIn(batch.status, ("completed", "cancelled"), batch)
        everything = Told.all_of(client, batch)
        _, output, errors = everything
        lines += len(names)
        case.assertEqual(sorted(each["custom_id"] for each in output + errors), sorted(names), batch)
        case.assertEqual((batch.request_counts.completed, batch.request_counts.failed), (len(output), 0), batch)
        case.assertEqual({each["error"]["code"] for each in errors}, {"batch_cancelled"} if errors else set())
        case.assertEqual(batch.usage.output_tokens if batch.usage else 0,
                         sum(each["response"]["body"]["usage"]["completion_tokens"] for each in output), "no line was counted twice")
        if batch_id in told.batch_ends:
            case.assertEqual(everything, told.batch_ends[batch_id], "an end that was told does not change")
    files = os.path.join(folder, "files")
    eventually(lambda: sorted(os.listdir(files)) == sorted(each.id for each in client.files.list(limit=10000)),
               lambda: f"{len(os.listdir(files))} files lie there")
    return states, lines


class MixedKills(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tutti-mixed-")
        self.addCleanup(self.folder.cleanup)
        self.server = None
        self.addCleanup(lambda: self.server and self.server.stop())
        self.recorded = {"job": {}, "line": {}}

    def start(self, wait=True):
        self.server = Server("--store", self.folder.name, "--jobs-max-attempts", "100", "--batches-max-attempts", "100",
                             model=stand_in(), wait=wait)

    def kill(self):
        self.server.process.send_signal(signal.SIGKILL)
        self.server.process.wait(STEP_S)
        self.server.reader.join(STEP_S)
        self.server.process.stdout.close()
        self.server.errors.close()
        self.server = None

    def check_store(self):
        """The store is intact, and every job and line that had ended before has the same end, under the same claim."""
        path = os.path.join(self.folder.name, "tutti.db")
        with contextlib.closing(sqlite3.connect(path)) as database:
            self.assertEqual(database.execute("PRAGMA integrity_check").fetchone()[0], "ok")
            if not database.execute("SELECT count(*) FROM sqlite_master WHERE name='batch_line'").fetchone()[0]:
                return
            ends = {row[0]: row[1:] for row in database.execute(
                "SELECT id, state, version, attempt, epoch, finished_ms, result, error FROM job WHERE state>=2")}
            lines = {row[:2]: row[2:] for row in database.execute(
                "SELECT batch, line, state, attempt, status_code, body FROM batch_line WHERE state>=2")}
            open_batches = {row[0] for row in database.execute("SELECT number FROM batch WHERE state<4")}
        for job_id, end in self.recorded["job"].items():
            self.assertEqual(ends.get(job_id), end, job_id)
        for place, end in self.recorded["line"].items():
            if place in lines or place[0] in open_batches:  # the rows of a batch that has ended are dropped: files have them
                self.assertEqual(lines.get(place), end, place)
        self.recorded = {"job": ends, "line": lines}

    def test_killed_at_random_everything_accepted_ends_once(self):
        """E2E_MIXED_KILLS: how often."""
        kills = int(os.environ.get("E2E_MIXED_KILLS", 0)) or amount(2, 3, 20)
        chance, told, starting = random.Random(71), Told(), 0
        for round_number in range(kills):
            if round_number % 4 == 3:
                self.start(wait=False)
                time.sleep(chance.uniform(0, 1.0))
                starting += 1
                self.kill()
                self.check_store()
                continue
            self.start()
            with told.clients(self.server, chance):
                time.sleep(chance.uniform(0.05, 1.5))
                self.kill()
            self.check_store()
        self.assertEqual(told.faults, [])
        self.assertGreater(len(told.jobs), kills)
        self.assertTrue(told.batches)
        self.start()
        ends = check_jobs(self, self.server, told)
        states, lines = check_batches(self, self.server, told, self.folder.name)
        self.assertEqual(self.server.stop(), 0)
        self.server = None
        self.check_store()
        figure(f"{kills} kills, {starting} of them while it started; {len(told.jobs)} jobs: {dict(ends)}; {len(told.batches)} batches "
               f"of {lines} lines: {dict(states)}; {len(told.job_ends)} and {len(told.batch_ends)} ends had been told before a kill")

if __name__ == "__main__":
    unittest.main()
