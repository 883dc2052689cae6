"""The live state for operators: what the engines do, why requests wait, and the stages of one request."""
import contextlib
import http.client
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import grpc
from grpc_tools import protoc

from encoder_models import EMBEDDER
from harness import MODEL, STEP_S, Server, ServerCase, amount, default_model, eventually, free_port, grpc_streams, make_key, stand_in
from test_mqtt import Chat, mqtt_port, serve
from test_workers import World

ROOT = pathlib.Path(__file__).resolve().parents[2]


def generate(server, tokens=4, prompt="Hi", **more):
    return server.post("/v1/completions", {"model": MODEL, "prompt": prompt, "max_tokens": tokens, "ignore_eos": True}, **more)


@contextlib.contextmanager
def tutti_messages():
    """The modules that protoc makes of Tutti's own service: (messages, stubs)."""
    with tempfile.TemporaryDirectory() as folder:
        status = protoc.main(["protoc", f"-I{ROOT / 'proto'}", f"--python_out={folder}", f"--grpc_python_out={folder}",
                              "tutti/v1/tutti.proto"])
        assert status == 0, status
        sys.path.insert(0, folder)
        try:
            from tutti.v1 import tutti_pb2, tutti_pb2_grpc
            yield tutti_pb2, tutti_pb2_grpc
        finally:
            sys.path.remove(folder)


class Busy:
    """Clients that send one request after the other."""

    def __init__(self, server, clients):
        self.server, self.stopped, self.failures = server, threading.Event(), []
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(clients)]

    def run(self, i):
        while not self.stopped.is_set():
            status, _, text = generate(self.server, 1000, f"Story {i} of many")
            if status != 200:
                self.failures.append(text)
                return

    def __enter__(self):
        for thread in self.threads:
            thread.start()

    def __exit__(self, *_):
        self.stopped.set()
        for thread in self.threads:
            thread.join()
        assert not self.failures, self.failures[0]


class Watcher:
    """One stream of /admin/events."""

    def __init__(self, server, query="", key=None):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=STEP_S)
        self.connection.request("GET", "/admin/events" + query, headers={"Authorization": f"Bearer {key}"} if key else {})
        self.response = self.connection.getresponse()

    def next(self, name="state"):
        event = None
        while True:
            line = self.response.readline().decode()
            if not line:
                raise AssertionError("the stream has ended")
            if line.startswith("event: "):
                event = line[7:].strip()
            if line.startswith("data: ") and event == name:
                return json.loads(line[6:])

    def close(self):
        self.connection.close()


def figures(text):
    """The values of /metrics by name and labels."""
    values = {}
    for line in text.splitlines():
        if line and line[0] != "#":
            name, value = line.rsplit(" ", 1)
            values[name] = float(value)
    return values


class LiveState(ServerCase):
    OPTIONS = ("--max-num-seqs", "2", "--metrics-vllm", "off")

    def state(self):
        status, _, text = self.server.get("/admin/state")
        self.assertEqual(status, 200, text)
        return json.loads(text)

    def decoder(self, state):
        return next(engine for engine in state["engines"] if engine["kind"] == "decoder")

    def test_sequences_and_the_queue_with_reasons(self):
        with Busy(self.server, 5):
            seen = []

            def full():
                seen[:] = [self.decoder(self.state())]
                return seen[0]["running"] == 2 and seen[0]["waits"].get("max_num_seqs", 0) >= 2
            eventually(full, lambda: str(seen)[:500])
        engine = seen[0]
        phases = [row["phase"] for row in engine["sequences"]]
        self.assertEqual(phases, sorted(phases, key=lambda phase: phase == "waiting"))
        for row in engine["sequences"]:
            self.assertEqual(row["waits_for"] is not None, row["phase"] == "waiting")
            self.assertTrue(row["request"].startswith("req-"))
            self.assertGreater(row["age_ms"], 0)
        kv = engine["kv"]
        self.assertEqual(kv["free"] + kv["used"] + kv["shared"] + kv["cached"], kv["blocks"])
        self.assertEqual(len(kv["map"]), -(-kv["blocks"] // kv["cell_blocks"]))
        self.assertGreater(kv["used"] + kv["shared"], 0)
        self.assertGreater(engine["output_tokens_per_s"], 0)
        self.assertGreater(engine["busy_share"], 0)
        for step in engine["steps"]:
            self.assertGreaterEqual(step["launch_ms"], step["forward_ms"] * 0.5)

    def test_figures_equal_those_of_metrics(self):
        for i in range(3):
            generate(self.server, 5, f"Number {i}")
        self.server.wait_idle()
        state, metrics = self.state(), figures(self.server.get("/metrics")[2])
        compared = 0
        for name, series in state["metrics"].items():
            for one in series:
                labels = ",".join(f'{key}="{value}"' for key, value in sorted(one["labels"].items()))
                if "value" in one:
                    key = f"{name}{{{labels}}}" if labels else name
                    self.assertIn(key, metrics)
                    # These two requests count themselves, the process lives on between them.
                    if name not in ("tutti_memory_resident_bytes", "tutti_engine_heartbeat_age_seconds", "tutti_requests_in_flight"):
                        # The text of a number in one of them may have a digit less.
                        self.assertTrue(math.isclose(one["value"], metrics[key], rel_tol=1e-12), (key, one["value"], metrics[key]))
                        compared += 1
                else:
                    self.assertEqual(one["count"], metrics[f"{name}_count{{{labels}}}"], name)
                    for bound, count in zip(one["le"], one["at_most"]):
                        shown = metrics[f'{name}_bucket{{{labels},le="{bound:g}"}}']
                        self.assertEqual(count, shown, (name, bound))
                        compared += 1
        self.assertGreater(compared, 100)
        engine = self.decoder(state)
        gauges = {"running": "tutti_running_sequences", "waiting": "tutti_waiting_sequences"}
        for field, name in gauges.items():
            self.assertEqual(engine[field], sum(value for key, value in metrics.items() if key.startswith(name)), field)
        for field, states in (("free", ("free",)), ("cached", ("cached",))):
            for each in states:
                self.assertEqual(engine["kv"][field], metrics[f'tutti_kv_blocks{{model="{MODEL}",state="{each}"}}'], field)
        active = metrics[f'tutti_kv_blocks{{model="{MODEL}",state="active"}}']
        self.assertEqual(engine["kv"]["used"] + engine["kv"]["shared"], active)

    def test_events_follow_the_engine(self):
        watcher = Watcher(self.server, "?interval_ms=250")
        self.addCleanup(watcher.close)
        self.assertEqual(watcher.next()["version"], 1)
        numbers, phases, ages = [], set(), []
        with Busy(self.server, 3):
            for _ in range(amount(4, 8, 40)):
                engine = self.decoder(watcher.next())
                numbers += [step["step"] for step in engine["steps"]]
                phases |= {row["phase"] for row in engine["sequences"]}
                ages.append(engine["age_ms"])
        self.assertEqual(numbers, sorted(set(numbers)), "no step twice")
        self.assertGreater(len(numbers), 10)
        self.assertIn("decode", phases)
        self.assertLess(sorted(ages)[len(ages) // 2], 250, "the median snapshot is a fresh one")

    def test_a_request_has_a_time_line(self):
        status, headers, _ = generate(self.server, 20, "A prompt that is long enough to be seen " * 30)
        self.assertEqual(status, 200)
        trace = json.loads(self.server.get(f"/admin/requests/{headers['x-request-id']}")[2])["traces"][0]
        names = [event["event"] for event in trace["events"]]
        for name in ("received", "parsed", "accepted", "submitted", "runs", "prefill", "first_token", "ended", "written"):
            self.assertIn(name, names)
        times = [event["at_ms"] for event in trace["events"]]
        self.assertEqual(times, sorted(times))
        self.assertEqual(trace["end"], "ok")
        self.assertEqual(trace["model"], MODEL)
        self.assertEqual(trace["route"], "completions")
        stages = trace["stages"]
        self.assertAlmostEqual(sum(took for name, took in stages.items() if name != "total_ms"), stages["total_ms"], delta=0.01)
        prefill = sum(event["tokens"] for event in trace["events"] if event["event"] == "prefill")
        submitted = next(event["tokens"] for event in trace["events"] if event["event"] == "submitted")
        cached = next(event["cached_tokens"] for event in trace["events"] if event["event"] == "runs")
        self.assertEqual(prefill + cached, submitted)
        self.assertGreaterEqual(trace["steps"]["count"], 2)
        self.assertEqual(self.server.get("/admin/requests/req-unknown")[0], 404)

    def test_a_running_request_is_cancelled_by_its_id(self):
        answers = {}

        def ask(name):
            answers[name] = generate(self.server, 3000 if name == "runaway" else 50, "Much", headers={"X-Request-Id": name})
        threads = [threading.Thread(target=ask, args=(name,), daemon=True) for name in ("runaway", "bystander")]
        for thread in threads:
            thread.start()

        def runs():
            status, _, text = self.server.get("/admin/requests/runaway")
            return status == 200 and "first_token" in [event["event"] for event in json.loads(text)["traces"][0]["events"]]
        eventually(runs)
        status, _, body = self.server.post("/admin/requests/runaway/cancel", {})
        self.assertEqual((status, json.loads(body)), (200, {"object": "request.cancel", "id": "runaway", "cancelled": 1}))
        for thread in threads:
            thread.join(STEP_S)
        self.assertEqual(json.loads(answers["runaway"][2])["error"]["code"], "cancelled")
        self.assertEqual(answers["bystander"][0], 200)
        trace = json.loads(self.server.get("/admin/requests/runaway")[2])["traces"][0]
        self.assertEqual((trace["state"], trace["end"]), ("ended", "cancelled"))
        for name, expected in (("runaway", 409), ("bystander", 409), ("nobody", 404)):
            self.assertEqual(self.server.post(f"/admin/requests/{name}/cancel", {})[0], expected, name)

    def test_a_request_that_waits_or_runs_has_one_too(self):
        with Busy(self.server, 5):
            threading.Thread(target=generate, args=(self.server, 1000, "Slow"),
                             kwargs={"headers": {"X-Request-Id": "my-slow-request"}}, daemon=True).start()
            seen = []

            def waits():
                status, _, text = self.server.get("/admin/requests/my-slow-request")
                if status == 200:
                    seen[:] = [json.loads(text)["traces"][0]]
                return seen and seen[0]["waits"]
            eventually(waits)
            self.assertIn(seen[0]["waits"][0]["reason"], ("next_step", "max_num_seqs"))
            if seen[0]["state"] == "running":
                self.assertNotIn("written", [event["event"] for event in seen[0]["events"]])

            def ended():
                waits()
                return seen[0]["state"] == "ended" and seen[0]["stages"].get("write_ms") is not None
            eventually(ended)
        total = sum(wait["ms"] for wait in seen[0]["waits"])
        self.assertAlmostEqual(total, seen[0]["stages"]["queue_ms"], delta=1)

    def test_errors_are_shown_without_their_text(self):
        self.server.post("/v1/completions", {"model": "a-secret-name", "prompt": "x"}, headers={"X-Request-Id": "wrong-1"})
        errors = self.state()["errors"]
        mine = next(error for error in errors if error["request"] == "wrong-1")
        self.assertEqual((mine["code"], mine["status"], mine["route"]), ("model_not_found", 404, "/v1/completions"))
        self.assertNotIn("a-secret-name", json.dumps(errors))

    def test_a_stalled_watcher_holds_nothing_up(self):
        stalled = Watcher(self.server, "?interval_ms=100")  # reads the head alone
        self.addCleanup(stalled.close)
        for i in range(amount(3, 10, 50)):
            begin = time.monotonic()
            self.assertEqual(generate(self.server, 5, f"Again {i}")[0], 200)
            self.assertLess(time.monotonic() - begin, STEP_S / 4)
        total = self.decoder(self.state())["steps_total"]
        first = stalled.next()
        self.assertLessEqual(self.decoder(first)["steps_total"], total)
        eventually(lambda: self.decoder(stalled.next())["steps_total"] >= total)


class LiveScopes(unittest.TestCase):
    def test_only_admins_see_it_until_their_key_ends(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        store = os.path.join(folder.name, "store")
        admin = make_key(store, "operator", "--routes", "admin")
        others = [make_key(store, scope, "--routes", scope) for scope in ("generate", "embed", "tokenize", "models", "metrics")]
        server = Server("--store", store)
        self.addCleanup(server.stop)
        for path in ("/admin/state", "/admin/events", "/admin/requests/x"):
            self.assertEqual(server.get(path)[0], 401)
            for key in others:
                status, _, text = server.get(path, headers={"Authorization": f"Bearer {key}"})
                self.assertEqual(status, 403, path)
                self.assertNotIn("engines", text)
        watcher = Watcher(server, "?interval_ms=10000", key=admin)
        self.addCleanup(watcher.close)
        self.assertEqual(watcher.next()["watchers"], 1)
        subprocess.run([os.environ["E2E_BINARY"], "keys", "revoke", "operator", "--store", store], check=True, capture_output=True,
                       timeout=STEP_S)
        begin = time.monotonic()
        self.assertEqual(watcher.next("end"), {"reason": "key_revoked"})
        self.assertLess(time.monotonic() - begin, 2)

    def test_a_drain_ends_the_stream(self):
        server = Server()
        watcher = Watcher(server, "?interval_ms=10000")
        self.addCleanup(watcher.close)
        watcher.next()
        begin = time.monotonic()
        self.assertEqual(server.stop(), 0)
        self.assertLess(time.monotonic() - begin, 10)
        self.assertEqual(watcher.next("end"), {"reason": "draining"})


class SeveralModels(unittest.TestCase):
    def test_each_engine_is_shown(self):
        server = Server(f"second={stand_in()}", model=default_model())
        self.addCleanup(server.stop)
        server.wait_models(2)
        state = json.loads(server.get("/admin/state")[2])
        self.assertEqual(sorted(engine["model"] for engine in state["engines"]), sorted([MODEL, "second"]))
        self.assertEqual({model["id"]: model["state"] for model in state["models"]}, {MODEL: "loaded", "second": "loaded"})


class Encoder(ServerCase):
    OPTIONS = (EMBEDDER,)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server.wait_models(2)

    def test_batches_and_requests_are_shown(self):
        texts = [f"Text number {i} of a larger request" for i in range(300)]

        def embed():
            return self.server.post("/v1/embeddings", {"model": EMBEDDER, "input": texts}, headers={"X-Request-Id": "many-texts"})

        seen = {}
        thread = threading.Thread(target=embed)
        thread.start()

        def shown():
            for engine in json.loads(self.server.get("/admin/state")[2])["engines"]:
                seen[engine["kind"]] = engine
            return seen["encoder"]["steps_total"] > 3
        eventually(shown, lambda: str(seen)[:500])
        thread.join()
        self.assertEqual(set(seen), {"decoder", "encoder"})
        encoder = seen["encoder"]
        self.assertEqual(encoder["model"], EMBEDDER)
        self.assertGreater(max(step["prefill_rows"] for step in encoder["steps"]), 1)
        trace = json.loads(self.server.get("/admin/requests/many-texts")[2])["traces"][0]
        names = [event["event"] for event in trace["events"]]
        self.assertEqual(names, ["received", "parsed", "accepted", "submitted", "waits", "runs", "ended", "written"])
        self.assertGreater(trace["steps"]["count"], 3)
        self.assertEqual(trace["end"], "ok")


@grpc_streams()
class OtherServers(unittest.TestCase):
    def test_requests_over_grpc_and_mqtt_are_traced(self):
        server = serve(options=("--grpc-port", str(free_port())))
        self.addCleanup(server.stop)

        def trace_of(request_id):
            status, _, text = server.get(f"/admin/requests/{request_id}")
            self.assertEqual(status, 200, text)
            trace = json.loads(text)["traces"][0]
            self.assertTrue(trace["in_engine"])
            self.assertEqual(trace["end"], "ok")
            return [event["event"] for event in trace["events"]]

        address = re.search(r"grpc://([0-9.:]+)", "".join(server.output) + server.log()).group(1)
        with grpc.insecure_channel(address) as channel, tutti_messages() as (messages, services):
            stub = services.TuttiStub(channel)

            def ask(model, request_id):
                request = messages.GenerateRequest(model=model, max_tokens=4, conversation={"messages": [{"role": "user", "content": "Hi"}]})
                return list(stub.Generate(request, timeout=STEP_S, metadata=(("x-request-id", request_id),)))
            ask(MODEL, "over-grpc")
            with self.assertRaises(grpc.RpcError):
                ask("a-secret-name", "wrong-over-grpc")
        self.assertEqual(trace_of("over-grpc")[0], "accepted")
        errors = json.loads(server.get("/admin/state")[2])["errors"]
        mine = next(error for error in errors if error["request"] == "wrong-over-grpc")
        self.assertEqual((mine["code"], mine["status"]), ("model_not_found", 404))
        self.assertNotIn("a-secret-name", json.dumps(errors))

        chat = Chat(mqtt_port(server), "anna")
        self.addCleanup(chat.close)
        eventually(lambda: server.metric("tutti_mqtt_clients") == 1)
        chat.say("Hi", "m-1")
        self.assertIn("first_token", trace_of(chat.turn()[-1]["response"]["id"]))


class Frontend(unittest.TestCase):
    def test_says_that_its_workers_have_the_engines(self):
        with World() as world:
            frontend = world.frontend
            eventually(lambda: MODEL in frontend.models())
            status, headers, text = generate(frontend, 4)
            self.assertEqual(status, 200, text)
            state = json.loads(frontend.get("/admin/state")[2])
            self.assertTrue(state["engines_elsewhere"])
            self.assertEqual(state["engines"], [])
            self.assertEqual(sum(series["value"] for series in state["metrics"]["tutti_workers"]), 1)
            trace = json.loads(frontend.get(f"/admin/requests/{headers['x-request-id']}")[2])["traces"][0]
            self.assertFalse(trace["in_engine"])
            self.assertEqual([event["event"] for event in trace["events"]], ["received", "parsed", "sent", "replied", "written"])
            self.assertRegex(trace["worker"], r".+:\d+$")


if __name__ == "__main__":
    unittest.main()
