"""Files and batches by the stock OpenAI client, as docs/batches.md describes them; a process that is killed while it runs a batch (N38)."""
import collections
import contextlib
import http.client
import io
import json
import os
import random
import signal
import socket
import sqlite3
import tempfile
import threading
import time
import unittest

import openai

from harness import MODEL, STEP_S, Server, ServerCase, amount, eventually, figure, judged, make_key

ENDED = ("completed", "failed", "expired", "cancelled")
CHAT, TEXT, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
MIB = 1 << 20


def line(custom_id, text="Name a colour.", tokens=4, url=CHAT, **fields):
    body = {"model": MODEL, "max_tokens": tokens, "temperature": 0, **fields}
    if url == CHAT:
        body["messages"] = [{"role": "user", "content": text}]
    else:
        body["prompt"] = text
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": url, "body": body}) + "\n"


def asked(custom_id, text, tokens=16, **fields):
    body = {"model": MODEL, "temperature": 0, "max_output_tokens": tokens, "input": text, **fields}
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": RESPONSES, "body": body}) + "\n"


def client_of(server, key="none"):
    return openai.OpenAI(base_url=server.url + "/v1", api_key=key, timeout=STEP_S, max_retries=0)


def upload(client, text):
    return client.files.create(file=("in.jsonl", text.encode()), purpose="batch")


def begin(client, text, endpoint=CHAT, **fields):
    return client.batches.create(input_file_id=upload(client, text).id, endpoint=endpoint, completion_window="24h", **fields)


def ended(client, batch_id, limit_s=STEP_S):
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        batch = client.batches.retrieve(batch_id)
        if batch.status in ENDED:
            return batch
        time.sleep(0.05)
    raise AssertionError(batch)


def lines_of(client, file_id):
    return [json.loads(text) for text in client.files.content(file_id).text.splitlines()] if file_id else []


class Batches(ServerCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.client = client_of(cls.server)

    def test_create_poll_list_download_and_delete(self):
        client = self.client
        # The first is longer than the others together: however fast the machine, the counts are seen between their ends.
        said = {f"r-{i}": line(f"r-{i}", f"Say {i}.", *([] if i else [400]), ignore_eos=i == 0) for i in range(12)}
        text = "".join(said.values()) + line("bad", "x", 100000)
        batch = begin(client, text, metadata={"of": "test"}, output_expires_after={"anchor": "created_at", "seconds": 3600})
        self.assertEqual((batch.object, batch.status, batch.endpoint), ("batch", "validating", CHAT))
        seen = set()
        while batch.status not in ENDED:
            batch = client.batches.retrieve(batch.id)
            seen.add((batch.request_counts.completed, batch.request_counts.total))
        self.assertEqual(batch.status, "completed", batch)
        self.assertEqual((batch.request_counts.total, batch.request_counts.completed, batch.request_counts.failed), (13, 12, 1))
        self.assertTrue(any(0 < completed < total == 13 for completed, total in seen), f"counts move while it runs: {seen}")
        self.assertEqual((batch.metadata, batch.model), ({"of": "test"}, MODEL))
        output, errors = lines_of(client, batch.output_file_id), lines_of(client, batch.error_file_id)
        self.assertEqual({each["custom_id"] for each in output}, {f"r-{i}" for i in range(12)})
        self.assertEqual(len({each["id"] for each in output + errors}), 13)
        for each in output:
            self.assertEqual((each["response"]["status_code"], each["error"]), (200, None))
            at_once = self.server.post_json(CHAT, json.loads(said[each["custom_id"]])["body"])
            self.assertEqual(each["response"]["body"]["choices"], at_once["choices"])
        self.assertEqual([each["custom_id"] for each in errors], ["bad"])
        self.assertEqual(errors[0]["response"]["status_code"], 400)
        self.assertEqual(errors[0]["response"]["body"]["error"]["code"], "context_length_exceeded")
        usages = [each["response"]["body"]["usage"] for each in output]
        self.assertEqual(batch.usage.output_tokens, sum(usage["completion_tokens"] for usage in usages))
        self.assertEqual(batch.usage.input_tokens, sum(usage["prompt_tokens"] for usage in usages))
        self.assertIn(batch.id, [each.id for each in client.batches.list(limit=100)])
        files = {each.id: each for each in client.files.list(purpose="batch_output")}
        self.assertEqual(files[batch.output_file_id].expires_at - files[batch.output_file_id].created_at, 3600)
        for file_id in (batch.input_file_id, batch.output_file_id, batch.error_file_id):
            self.assertTrue(client.files.delete(file_id).deleted)
            with self.assertRaises(openai.NotFoundError):
                client.files.retrieve(file_id)
        with self.assertRaises(openai.ConflictError):
            client.batches.cancel(batch.id)

    def test_responses_are_answered_and_kept_as_by_their_route(self):
        client = self.client
        begun = client.responses.create(model=MODEL, temperature=0, max_output_tokens=16, input="My name is Ada.")
        fields = {"one": {"metadata": {"of": "test"}, "instructions": "Be brief."}, "two": {"store": False}, "three": {},
                  "next": {"previous_response_id": begun.id}, "lost": {"previous_response_id": "resp_0"}, "bad": {"tokens": 100000}}
        batch = begin(client, "".join(asked(each, f"Say {each}.", **more) for each, more in fields.items()), RESPONSES)
        batch = ended(client, batch.id)
        self.assertEqual((batch.status, batch.endpoint, batch.request_counts.completed), ("completed", RESPONSES, 4), batch)
        bodies = {each["custom_id"]: each["response"]["body"] for each in lines_of(client, batch.output_file_id)}
        responses = {each: openai.types.responses.Response.model_validate(body, strict=True) for each, body in bodies.items()}
        self.assertEqual(set(responses), {"one", "two", "three", "next"})
        self.assertEqual(batch.usage.output_tokens, sum(each.usage.output_tokens for each in responses.values()))
        for custom_id, response in responses.items():
            more = {"store": True, **fields[custom_id]}
            at_once = client.responses.create(model=MODEL, temperature=0, max_output_tokens=16, input=f"Say {custom_id}.", **more)
            self.assertEqual((response.output_text, response.status), (at_once.output_text, at_once.status))
            self.assertEqual(set(bodies[custom_id]), set(at_once.to_dict(mode="json", exclude_unset=True)))
            if not more["store"]:
                with self.assertRaises(openai.NotFoundError):
                    client.responses.retrieve(response.id)
                continue
            self.assertEqual(client.responses.retrieve(response.id).to_dict(), response.to_dict())
            self.assertEqual([each.content[0].text for each in client.responses.input_items.list(response.id)], [f"Say {custom_id}."])
        self.assertEqual((responses["one"].metadata, responses["next"].previous_response_id), ({"of": "test"}, begun.id))
        later = client.responses.create(model=MODEL, max_output_tokens=16, input="And?", previous_response_id=responses["next"].id)
        self.assertGreater(later.usage.input_tokens, responses["next"].usage.input_tokens)
        errors = {each["custom_id"]: each["response"] for each in lines_of(client, batch.error_file_id)}
        self.assertEqual({each: (it["status_code"], it["body"]["error"]["code"]) for each, it in errors.items()},
                         {"lost": (404, "not_found"), "bad": (400, "context_length_exceeded")})
        client.responses.delete(responses["one"].id)
        text = asked("a", "x", stream=True) + asked("b", "x", background=True) + asked("c", "x", conversation="conv_1")
        batch = ended(client, begin(client, text, RESPONSES).id)
        self.assertEqual({(each.line, each.code, each.param) for each in batch.errors.data},
                         {(number, "unsupported_parameter", f"body.{field}")
                          for number, field in enumerate(("stream", "background", "conversation"), 1)})

    def test_pages_of_a_list(self):
        batches = [begin(self.client, line("a", tokens=1)).id for _ in range(3)]
        page = self.client.batches.list(limit=2)
        self.assertEqual([each.id for each in page.data], batches[:0:-1])
        self.assertTrue(page.has_more)
        self.assertEqual(self.client.batches.list(limit=2, after=batches[1]).data[0].id, batches[0])

    def test_what_is_wrong_with_the_input_is_told_by_its_lines(self):
        text = ("{\n" + line("a") + line("a") + line("b", url=TEXT) + line("c", stream=True) + line("d").replace("POST", "GET")
                + line("e", model="no such") + line("f", "x" * (MIB + 1)) + json.dumps({"custom_id": "g"}) + "\n")
        batch = ended(self.client, begin(self.client, text).id)
        self.assertEqual(batch.status, "failed")
        self.assertEqual({(each.line, each.code) for each in batch.errors.data},
                         {(1, "invalid_json_line"), (3, "duplicate_custom_id"), (4, "invalid_url"), (5, "unsupported_parameter"),
                          (6, "invalid_method"), (7, "model_not_found"), (8, "line_too_long"), (9, "missing_required_parameter")})
        self.assertEqual((batch.output_file_id, batch.error_file_id), (None, None))
        for text, code in (("", "empty_file"), ("\n \r\n", "empty_file"),
                           ("".join(line(str(i)) for i in range(50_001)), "too_many_lines")):
            batch = ended(self.client, begin(self.client, text).id)
            self.assertEqual((batch.status, batch.errors.data[0].code), ("failed", code))

    def test_a_cancel_keeps_what_there_is(self):
        count = 60
        text = line("short", tokens=1) + "".join(line(f"r-{i}", tokens=400, ignore_eos=True) for i in range(count))
        batch = begin(self.client, text)
        eventually(lambda: self.client.batches.retrieve(batch.id).request_counts.completed > 0)
        self.assertIn(self.client.batches.cancel(batch.id).status, ("cancelling", "cancelled"))
        self.client.files.delete(batch.input_file_id)
        batch = ended(self.client, batch.id)
        self.assertEqual(batch.status, "cancelled")
        output, errors = lines_of(self.client, batch.output_file_id), lines_of(self.client, batch.error_file_id)
        self.assertIn("short", [each["custom_id"] for each in output])
        self.assertEqual(sorted(each["custom_id"] for each in output + errors), sorted(["short"] + [f"r-{i}" for i in range(count)]))
        self.assertEqual({each["error"]["code"] for each in errors}, {"batch_cancelled"})
        self.assertEqual(self.client.batches.cancel(batch.id).status, "cancelled", "once more changes nothing")
        self.server.wait_idle()

    def test_what_a_batch_may_not_be_is_refused_at_once(self):
        file_id = upload(self.client, line("a")).id
        for fields, param in (({"endpoint": "/v1/moderations"}, "endpoint"),
                              ({"completion_window": "1h"}, "completion_window"), ({"input_file_id": 7}, "input_file_id")):
            body = {"input_file_id": file_id, "endpoint": CHAT, "completion_window": "24h", **fields}
            status, _, text = self.server.post("/v1/batches", body)
            self.assertEqual((status, json.loads(text)["error"]["param"]), (400, param), text)
        with self.assertRaises(openai.NotFoundError):
            self.client.batches.create(input_file_id="file-0", endpoint=CHAT, completion_window="24h")
        for purpose in ("assistants", "fine-tune", "vision"):
            with self.assertRaises(openai.BadRequestError):
                self.client.files.create(file=io.BytesIO(b"x"), purpose=purpose)
        for path in ("/v1/batches/batch_0", "/v1/files/file-0", "/v1/files/file-0/content"):
            self.assertEqual(self.server.get(path)[0], 404)

    def test_an_upload_that_is_cut_leaves_nothing(self):
        before = {each.id for each in self.client.files.list()}
        for size in (10, 100_000, 3 * MIB):
            with socket.create_connection(("127.0.0.1", self.server.port)) as connection:
                connection.sendall(b"POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\n"
                                   b"Content-Length: 104857600\r\n\r\n--b\r\nContent-Disposition: form-data; name=file; "
                                   b"filename=f\r\n\r\n" + b"x" * size)
        self.assertEqual({each.id for each in self.client.files.list()}, before)
        self.server.wait_idle()


class Large(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tutti-batches-")
        self.addCleanup(self.folder.cleanup)
        self.server = None
        self.addCleanup(lambda: self.server and self.server.stop())

    def start(self, *options):
        self.server = Server("--store", self.folder.name, "--batches-max-attempts", "100", *options)
        return client_of(self.server)

    def left(self):
        return sorted(os.listdir(os.path.join(self.folder.name, "files")))

    def test_many_lines_take_little_memory(self):
        """E2E_BATCH_LINES: how many, 50,000 at most."""
        count = int(os.environ.get("E2E_BATCH_LINES", 0)) or amount(300, 300, 50_000)
        # The KV memory is the system's to give as it is used: here all of it is before the batch begins.
        client = self.start("--batches-slots", "64", "--kv-cache-bytes", "64MiB")
        warm = ended(client, begin(client, "".join(line(str(i), f"{i} warm" * 20, 1, TEXT) for i in range(200)), TEXT).id)
        self.assertEqual(warm.status, "completed", warm)
        before, most, stop = self.server.resident_kib(), [0], threading.Event()

        def watch():
            while not stop.wait(0.05):
                most[0] = max(most[0], self.server.resident_kib())
        watcher = threading.Thread(target=watch)
        watcher.start()
        start = time.monotonic()
        batch = begin(client, "".join(line(f"request number {i}", f"{i}:", 1, TEXT) for i in range(count)), TEXT)
        batch = ended(client, batch.id, limit_s=3600)
        took = time.monotonic() - start
        output = client.files.content(batch.output_file_id).text.splitlines()
        stop.set()
        watcher.join()
        self.assertEqual((batch.status, batch.request_counts.completed), ("completed", count), batch)
        self.assertEqual({json.loads(each)["custom_id"] for each in output}, {f"request number {i}" for i in range(count)})
        self.assertEqual(len(output), count)
        figure(f"{count} lines in {took:.1f} s; the process grew by {(most[0] - before) / 1024:.1f} MiB")
        self.assertLess(most[0] - before, 64 * 1024)

    def test_a_large_file_takes_little_memory(self):
        """E2E_FILE_MIB: how large."""
        size = int(os.environ.get("E2E_FILE_MIB", 0)) or amount(24, 32, 199)
        client = self.start()
        upload(client, "warm")
        before, most, stop = self.server.resident_kib(), [0], threading.Event()

        def watch():
            while not stop.wait(0.01):
                most[0] = max(most[0], self.server.resident_kib())
        watcher = threading.Thread(target=watch)
        watcher.start()
        content = os.urandom(MIB) * size
        made = client.files.create(file=("big", content), purpose="batch")
        self.assertEqual(made.bytes, len(content))
        self.assertEqual(client.files.content(made.id).content, content)
        stop.set()
        watcher.join()
        figure(f"a file of {size} MiB up and down; the process grew by {(most[0] - before) / 1024:.1f} MiB")
        if judged("resident memory of a large file", "a sanitizer keeps freed memory"):
            self.assertLess(most[0] - before, 32 * 1024)
        with self.assertRaises(openai.APIStatusError) as refused:
            client.files.create(file=("big", b"x" * (201 * MIB)), purpose="batch") if size > 100 else self.server_refuses(client)
        self.assertEqual(refused.exception.status_code, 413)
        eventually(lambda: len(self.left()) == 2, lambda: str(self.left()))

    def server_refuses(self, client):
        """Announced only: a small test sends no 200 MiB."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=STEP_S)
        connection.request("POST", "/v1/files", headers={"Content-Length": str(300 * MIB),
                                                         "Content-Type": "multipart/form-data; boundary=b"})
        response = connection.getresponse()
        status = response.status
        connection.close()
        raise openai.APIStatusError("", response=type("R", (), {"status_code": status, "request": None, "headers": {}})(), body=None)

    def kill(self):
        self.server.process.send_signal(signal.SIGKILL)
        self.server.process.wait(STEP_S)
        self.server.reader.join(STEP_S)
        self.server.process.stdout.close()
        self.server.errors.close()
        self.server = None

    def test_killed_at_random_every_line_has_one_end(self):
        """E2E_BATCH_KILLS: how often."""
        kills = int(os.environ.get("E2E_BATCH_KILLS", 0)) or amount(2, 2, 10)
        chance = random.Random(38)
        count = 60 * (kills + 1)
        client = self.start()
        batch = begin(client, "".join(line(f"r-{i}", f"{i}", chance.choice((1, 4, 16))) for i in range(count)))
        responses = begin(client, "".join(asked(f"s-{i}", f"{i}", store=i % 3 > 0) for i in range(count // 4)),
                          RESPONSES)
        counts, told = [], collections.Counter()
        for _ in range(kills):
            time.sleep(chance.uniform(0.05, 1.0))
            now = client.batches.retrieve(batch.id)
            told[now.status] += 1
            counts.append(now.request_counts.completed)
            self.kill()
            with contextlib.closing(sqlite3.connect(os.path.join(self.folder.name, "tutti.db"))) as database:
                self.assertEqual(database.execute("PRAGMA integrity_check").fetchone()[0], "ok")
            client = self.start()
            self.assertGreaterEqual(client.batches.retrieve(batch.id).request_counts.completed, counts[-1], "what has ended stays so")
        batch = ended(client, batch.id)
        self.assertEqual((batch.status, batch.request_counts.completed, batch.request_counts.failed), ("completed", count, 0), batch)
        output = lines_of(client, batch.output_file_id)
        self.assertEqual(collections.Counter(each["custom_id"] for each in output), collections.Counter(f"r-{i}" for i in range(count)))
        self.assertEqual(batch.usage.output_tokens, sum(each["response"]["body"]["usage"]["completion_tokens"] for each in output),
                         "no line was counted twice")
        self.assertIsNone(batch.error_file_id)
        responses = ended(client, responses.id)
        bodies = {each["custom_id"]: each["response"]["body"] for each in lines_of(client, responses.output_file_id)}
        self.assertEqual((responses.request_counts.completed, set(bodies)), (count // 4, {f"s-{i}" for i in range(count // 4)}))
        kept = {body["id"]: body["output"] for body in bodies.values() if body["store"]}
        self.assertEqual({each: client.responses.retrieve(each).to_dict()["output"] for each in kept}, kept)
        files = sorted(each for made in (batch, responses) for each in (made.input_file_id, made.output_file_id))
        eventually(lambda: self.left() == files, lambda: str(self.left()))
        self.assertEqual(self.server.stop(), 0)
        self.server = None
        with contextlib.closing(sqlite3.connect(os.path.join(self.folder.name, "tutti.db"))) as database:
            self.assertEqual(sorted(each for each, in database.execute("SELECT id FROM response")), sorted(kept),
                             "of a line that ran again there is no other response")
        figure(f"{kills} kills at {counts} of {count} lines ({dict(told)}): each has one end")

    def test_a_stop_leaves_a_batch_to_the_next_process(self):
        client = self.start()
        batch = begin(client, "".join(line(f"r-{i}", tokens=60, ignore_eos=True) for i in range(40)))
        eventually(lambda: client.batches.retrieve(batch.id).request_counts.completed > 0)
        self.assertEqual(self.server.stop(), 0)
        self.server = None
        client = self.start()
        batch = ended(client, batch.id)
        self.assertEqual((batch.status, batch.request_counts.completed), ("completed", 40), batch)

    def test_a_batch_that_is_too_old_expires_with_what_it_has(self):
        client = self.start("--batches-window-s", "2")
        batch = begin(client, line("short", tokens=1) + "".join(line(f"r-{i}", tokens=1000, ignore_eos=True) for i in range(40)))
        batch = ended(client, batch.id)
        self.assertEqual(batch.status, "expired", batch)
        output, errors = lines_of(client, batch.output_file_id), lines_of(client, batch.error_file_id)
        self.assertIn("short", [each["custom_id"] for each in output])
        self.assertEqual(len(output) + len(errors), 41)
        self.assertEqual({each["error"]["code"] for each in errors}, {"batch_expired"})


class Owners(ServerCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tutti-batches-")
        cls.keys = [make_key(cls.folder.name, tenant, "--tenant", tenant) for tenant in ("red", "blue")]
        cls.OPTIONS = ("--store", cls.folder.name, "--batches-lines", "60")
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()

    def test_a_batch_and_its_files_are_their_owners(self):
        red, blue = (client_of(self.server, key) for key in self.keys)
        batch = ended(red, begin(red, line("a")).id)
        self.assertEqual(batch.status, "completed", batch)
        for file_id in (batch.input_file_id, batch.output_file_id):
            for call in (blue.files.retrieve, blue.files.content, blue.files.delete):
                with self.assertRaises(openai.NotFoundError):
                    call(file_id)
        for call in (blue.batches.retrieve, blue.batches.cancel):
            with self.assertRaises(openai.NotFoundError):
                call(batch.id)
        with self.assertRaises(openai.NotFoundError):
            blue.batches.create(input_file_id=batch.input_file_id, endpoint=CHAT, completion_window="24h")
        self.assertEqual((blue.batches.list().data, blue.files.list().data), ([], []))
        with self.assertRaises(openai.AuthenticationError):
            client_of(self.server).files.list()

    def test_owners_take_turns_and_what_may_wait_is_told(self):
        red, blue = (client_of(self.server, key) for key in self.keys)
        many = begin(red, "".join(line(f"r-{i}", tokens=400, ignore_eos=True) for i in range(50)))
        with self.assertRaises(openai.RateLimitError) as refused:
            begin(red, "".join(line(f"r-{i}") for i in range(11)))
        self.assertEqual(refused.exception.code, "tenant_queue_full")
        self.assertIn("lines: 50", str(refused.exception))
        eventually(lambda: red.batches.retrieve(many.id).status == "in_progress")
        one = ended(blue, begin(blue, line("one")).id)
        self.assertEqual(one.status, "completed")
        many = red.batches.retrieve(many.id)
        self.assertLess(many.request_counts.completed, 40, "it did not wait for all of the other's")
        red.batches.cancel(many.id)
        ended(red, many.id)


if __name__ == "__main__":
    unittest.main()
