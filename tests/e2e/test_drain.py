"""Row U40: SIGTERM under 64 streams of every kind and 100 durable jobs on the real model: each stream completes or ends with a typed
error by the deadline, what was acknowledged is answered by the next process, and no job is lost or has spent an attempt. Life has the
same with a few, and the probes."""
import collections
import http.client
import json
import os
import signal
import tempfile
import threading
import time
import unittest

from harness import MODEL, SLOWER, STAND_IN, STEP_S, Server, amount, eventually, figure, free_port
from test_jobs import ASYNC, ended
from test_mqtt import Chat, text_of

STORED_TOKENS = amount(48, 24, 48) if not STAND_IN else 400  # of what the next process may have to answer again
STORY = "Tell me a long story about a river."
JOBS, JOB_TOKENS = amount(100, 36, 100), 12 if not STAND_IN else 100
MARGIN_S = 2 * SLOWER  # beyond the deadline: one step of all sequences, and the sockets
AT_ONCE_S = 1 * SLOWER


class Stream:
    """One stream of server-sent events over a connection of its own, read by a thread."""

    def __init__(self, server, path, body):
        self.path, self.body, self.events, self.ended_at, self.failure = path, body, [], None, None
        self.begun = threading.Event()
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=3 * STEP_S)
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        try:
            self.connection.request("POST", self.path, json.dumps({"model": MODEL, "temperature": 0, "ignore_eos": True, "stream": True,
                                                                   **self.body}), {"Content-Type": "application/json"})
            response = self.connection.getresponse()
            self.status = response.status
            while line := response.readline():
                if line.startswith(b"data: "):
                    self.events.append(line[6:].decode().strip())
                    self.begun.set()
        except (OSError, http.client.HTTPException) as failure:
            self.failure = failure
        self.ended_at = time.monotonic()
        self.begun.set()
        self.connection.close()

    def response_id(self):
        return json.loads(self.events[0])["response"]["id"]

    def completed(self):
        if self.path == "/v1/responses":
            last = json.loads(self.events[-1])
            return last["type"] == "response.incomplete" and last["response"]["usage"]["output_tokens"] == self.body["max_output_tokens"]
        return self.events[-1] == "[DONE]" and '"finish_reason":"length"' in "".join(self.events[-3:])

    def refused(self):
        """Ended by an event with the code of a drain."""
        last = [event for event in self.events if event != "[DONE]"][-1]
        return json.loads(last).get("type", "error") in ("error", "response.failed") and '"code":"draining"' in last


class Crowd:
    """64 streams, half of them chats, along with background answers and turns that wait for earlier turns. `responses` and `messages`
    hold what the server acknowledged."""
    CHATS, COMPLETIONS, STORED, FLEETING, BACKGROUND, SESSIONS = 30, 8, 8, 4, 4, 8
    OPTIONS = ("--max-num-seqs", "72")

    def __init__(self, server, mqtt_port, tokens):
        chat = {"messages": [{"role": "user", "content": STORY}], "max_tokens": tokens}
        kept = {"input": STORY, "max_output_tokens": STORED_TOKENS}
        conversation = server.post_json("/v1/conversations", {})["id"]
        kinds = [("/v1/chat/completions", chat, self.CHATS), ("/v1/completions", {"prompt": STORY, "max_tokens": tokens}, self.COMPLETIONS),
                 ("/v1/responses", kept, self.STORED),
                 ("/v1/responses", {**kept, "max_output_tokens": tokens, "store": False}, self.FLEETING),
                 ("/v1/responses", {**kept, "background": True}, self.BACKGROUND)]
        self.streams = [Stream(server, path, body) for path, body, count in kinds for _ in range(count)]
        self.responses = [server.post_json("/v1/responses", {"model": MODEL, "background": True, "temperature": 0, "ignore_eos": True, **kept})["id"]
                          for _ in range(8)]
        self.chats = {f"user{i}": Chat(mqtt_port, f"user{i}") for i in range(self.SESSIONS)}
        self.heard, self.messages = collections.defaultdict(list), set()
        for user, one in self.chats.items():
            for number in range(2):  # the second waits behind the first
                one.say(f"Message {number}", f"m-{number}", max_output_tokens=STORED_TOKENS, ignore_eos=True)
        for _ in range(2):  # turns of a dialog: here too the second waits for the first
            self.streams.append(Stream(server, "/v1/responses", {**kept, "conversation": conversation}))
            self.streams[-1].begun.wait(STEP_S)
        for stream in self.streams:
            stream.begun.wait(3 * STEP_S)
        eventually(self.all_begun, lambda: f"{self.heard}")
        self.jobs = self.submit(server)
        self.responses += [stream.response_id() for stream in self.streams if stream.path == "/v1/responses" and stream.body.get("store", True)]

    @staticmethod
    def submit(server):
        """The ids of jobs that were accepted, with the streams in the middle."""
        ids = []

        def some():
            for _ in range(JOBS // 4):
                status, _, text = server.post("/v1/chat/completions", {
                    "model": MODEL, "messages": [{"role": "user", "content": STORY}], "max_tokens": JOB_TOKENS, "temperature": 0,
                    "ignore_eos": True}, headers=ASYNC)
                if status == 202:
                    ids.append(json.loads(text)["id"])
        threads = [threading.Thread(target=some) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return ids

    def __len__(self):
        return len(self.streams) + self.SESSIONS

    def hear(self):
        for user, chat in self.chats.items():
            while not chat.out.empty():
                event = chat.out.get()
                self.heard[user].append(event)
                if event["type"] == "accepted":
                    self.messages.add((user, event["id"]))

    def all_begun(self):
        self.hear()
        said = all(any(event["type"] == "response.output_text.delta" for event in self.heard[user]) for user in self.chats)
        return said and len(self.messages) == 2 * self.SESSIONS

    def running(self):
        self.hear()
        turns = sum(all(event["type"] != "response.incomplete" for event in self.heard[user]) for user in self.chats)
        return turns + sum(stream.ended_at is None for stream in self.streams)

    def wait(self):
        for stream in self.streams:
            stream.thread.join(3 * STEP_S)

    def close(self):
        for chat in self.chats.values():
            chat.close()


class Drain(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.environment = {"TUTTI_STORE": os.path.join(folder.name, "store")}

    def start(self, *options):
        self.mqtt_port = free_port()
        server = Server("--mqtt-port", str(self.mqtt_port), *Crowd.OPTIONS, *options, environment=self.environment)
        self.addCleanup(lambda: server.process.poll() is None and server.process.kill())
        return server

    def crowd(self, server, tokens):
        crowd = Crowd(server, self.mqtt_port, tokens)
        self.addCleanup(crowd.close)
        self.assertEqual(len(crowd), 64)
        self.assertEqual(crowd.running(), 64, "all are in the middle")
        self.assertEqual((len(crowd.responses), len(crowd.messages)), (8 + 2 + Crowd.STORED + Crowd.BACKGROUND, 16))
        self.assertEqual(len(set(crowd.jobs)), JOBS)
        waiting = len(json.loads(server.get("/v1/jobs?status=queued&limit=100")[2])["data"])
        self.assertGreater(waiting, JOBS / 2)
        eventually(lambda: json.loads(server.get("/v1/jobs?status=running&limit=1")[2])["data"], server.log)
        return crowd

    def check_acknowledged(self, crowd):
        """On the same store: every response that has a name and every message that was accepted is answered, once and whole, and every
        job is done in its first attempt."""
        server = self.start()
        begin, states = time.monotonic(), {}

        def answered():
            for name in crowd.responses:
                if states.get(name, {}).get("status") not in ("incomplete", "failed", "cancelled"):
                    status, _, text = server.get(f"/v1/responses/{name}")
                    states[name] = json.loads(text)
                    if status != 200:  # never "not found"
                        self.assertEqual((status, states[name]["error"]["code"]), (503, "model_loading"), name)
            return all(state.get("status") == "incomplete" for state in states.values())
        eventually(answered, lambda: f"{[(name, state.get('status', state)) for name, state in states.items()]}; {server.log()[-3000:]}")
        for state in states.values():
            self.assertEqual(state["usage"]["output_tokens"], STORED_TOKENS)
            self.assertTrue(state["output"][0]["content"][0]["text"])
        for user in crowd.chats:
            chat = Chat(self.mqtt_port, user)
            self.addCleanup(chat.close)
            items = []

            def history():
                chat.control(type="history", id="h", limit=100)
                while True:
                    event = chat.out.get(timeout=STEP_S)
                    if event["type"] == "history":
                        items[:] = event["items"]
                        return len(items) >= 4
            eventually(history, lambda: f"{user}: {items}")
            self.assertEqual([(i["role"], i["turn"]) for i in items], [(r, t) for t in (1, 2) for r in ("user", "assistant")])
            self.assertEqual([i["content"] for i in items if i["role"] == "user"], ["Message 0", "Message 1"])
            told = [text_of(event) for event in crowd.heard[user] if event["type"] == "response.incomplete"]
            self.assertEqual([i["content"] for i in items if i["role"] == "assistant"][:len(told)], told, "what was told stands")
        jobs = [ended(server, job_id) for job_id in crowd.jobs]
        self.assertEqual(collections.Counter((job["status"], job["attempt"]) for job in jobs), {("completed", 1): JOBS})
        self.assertEqual(len({job["result"]["id"] for job in jobs}), JOBS)
        self.assertEqual({job["result"]["usage"]["completion_tokens"] for job in jobs}, {JOB_TOKENS})
        self.assertEqual(len({job["result"]["choices"][0]["message"]["content"] for job in jobs}), 1)
        figure(f"{len(crowd.responses)} responses, {len(crowd.messages)} messages and {len(jobs)} jobs were acknowledged, all are answered "
               f"after {time.monotonic() - begin:.1f} s")
        self.assertEqual(server.stop(), 0)

    def test_with_enough_time_streams_end_and_new_ones_are_refused(self):
        server = self.start("--drain-s", "120")
        crowd = self.crowd(server, 60 if not STAND_IN else 600)
        server.process.send_signal(signal.SIGTERM)
        begin = time.monotonic()
        eventually(lambda: server.get("/readyz")[0] == 503)
        self.assertEqual(server.get("/livez")[0], 200)
        for path, body in (("/v1/chat/completions", {"messages": [{"role": "user", "content": STORY}]}),
                           ("/v1/responses", {"input": STORY, "background": True}), ("/v1/responses", {"input": STORY, "stream": True})):
            status, headers, text = server.post(path, {"model": MODEL, **body})
            self.assertEqual((status, json.loads(text)["error"]["code"]), (503, "draining"), text)
            self.assertGreaterEqual(int(headers["Retry-After"]), 1)
        status, _, text = server.post("/v1/chat/completions", {"model": MODEL, "messages": [{"role": "user", "content": STORY}]},
                                      headers=ASYNC)
        self.assertEqual((status, json.loads(text)["error"]["code"]), (503, "draining"), "a job that nobody here would run")
        self.assertGreater(crowd.running(), 0, "it drains still")
        crowd.wait()
        self.assertEqual(server.process.wait(STEP_S), 0)
        took = time.monotonic() - begin
        crowd.hear()
        self.assertIn("drain.end clean=yes", server.log())
        server.stop()
        waited, streams = crowd.streams[-1], crowd.streams[:-1]
        for stream in streams:
            self.assertIsNone(stream.failure, (stream.path, stream.body))
            self.assertTrue(stream.completed(), (stream.path, stream.body, stream.events[-2:]))
        # The waiting turn is left to the next process, because another turn began before the signal.
        self.assertTrue(waited.refused(), waited.events[-2:])
        for user, events in crowd.heard.items():
            self.assertEqual([event["type"] for event in events if event["type"] in ("response.incomplete", "error")], ["response.incomplete"], user)
        figure(f"64 streams drained in {took:.1f} s")
        self.check_acknowledged(crowd)

    def test_at_the_deadline_streams_end_typed_and_no_ack_is_lost(self):
        limit_s = 1
        server = self.start("--drain-s", str(limit_s))
        crowd = self.crowd(server, 4000)
        server.process.send_signal(signal.SIGTERM)
        begin = time.monotonic()
        crowd.wait()
        self.assertEqual(server.process.wait(STEP_S), 0)
        took = time.monotonic() - begin
        crowd.hear()
        self.assertIn("drain.end clean=no", server.log())
        server.stop()
        ends = collections.Counter()
        for stream in crowd.streams:
            self.assertIsNone(stream.failure, (stream.path, stream.body))
            self.assertTrue(stream.refused() or stream.completed(), (stream.path, stream.body, stream.events[-2:]))
            ends["completed" if stream.completed() else "draining"] += 1
            self.assertLess(stream.ended_at - begin, limit_s + MARGIN_S, (stream.path, stream.body))
        self.assertGreaterEqual(ends["draining"], Crowd.CHATS + Crowd.COMPLETIONS + Crowd.FLEETING)
        self.assertLess(took, limit_s + 2 * MARGIN_S)
        last = max(stream.ended_at for stream in crowd.streams) - begin
        figure(f"64 streams and {limit_s} s: {dict(ends)}, the last after {last:.2f} s, the process after {took:.2f} s")
        self.check_acknowledged(crowd)

    def test_a_second_signal_ends_at_once_and_loses_no_acknowledged(self):
        server = self.start()
        crowd = self.crowd(server, 4000)
        server.process.send_signal(signal.SIGTERM)
        eventually(lambda: "drain.begin" in server.log())
        time.sleep(0.3)  # what comes sooner is the first one's still
        self.assertGreater(crowd.running(), 0)
        begin = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(STEP_S), 128 + signal.SIGTERM)
        took = time.monotonic() - begin
        crowd.wait()
        crowd.hear()
        server.stop()
        figure(f"a second signal during 64 streams: {took:.3f} s")
        self.assertLess(took, AT_ONCE_S)
        self.check_acknowledged(crowd)


if __name__ == "__main__":
    unittest.main()
